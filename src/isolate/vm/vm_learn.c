/* Learning what differs between builds of the engine. */

#include "isolate/vm/vm_engine.h"

enum { CONTEXT_SCAN = 2048 }; /* bytes of the context looked through */

static const struct {
    const char *code;
    enum vm_class class;
} probes[] = {
    {"[]", VM_CLASS_ARRAY},
    {"new Error", VM_CLASS_ERROR},
    {"new Date", VM_CLASS_DATE},
    {"/x/", VM_CLASS_REGEXP},
    {"new Map", VM_CLASS_MAP},
    {"new Set", VM_CLASS_SET},
    {"new WeakMap", VM_CLASS_WEAK_MAP},
    {"new WeakSet", VM_CLASS_WEAK_SET},
    {"new WeakRef({})", VM_CLASS_WEAK_REF},
    {"Promise.resolve()", VM_CLASS_PROMISE},
    {"new Proxy({}, {})", VM_CLASS_PROXY},
    {"new ArrayBuffer(1)", VM_CLASS_ARRAY_BUFFER},
    {"new Uint8ClampedArray(1)", VM_CLASS_TYPED_ARRAY},
    {"new Int8Array(1)", VM_CLASS_TYPED_ARRAY},
    {"new Uint8Array(1)", VM_CLASS_TYPED_ARRAY},
    {"new Int16Array(1)", VM_CLASS_TYPED_ARRAY},
    {"new Uint16Array(1)", VM_CLASS_TYPED_ARRAY},
    {"new Int32Array(1)", VM_CLASS_TYPED_ARRAY},
    {"new Uint32Array(1)", VM_CLASS_TYPED_ARRAY},
    {"new BigInt64Array(1)", VM_CLASS_TYPED_ARRAY},
    {"new BigUint64Array(1)", VM_CLASS_TYPED_ARRAY},
    {"new Float16Array(1)", VM_CLASS_TYPED_ARRAY},
    {"new Float32Array(1)", VM_CLASS_TYPED_ARRAY},
    {"new Float64Array(1)", VM_CLASS_TYPED_ARRAY},
    {"new DataView(new ArrayBuffer(1))", VM_CLASS_DATA_VIEW},
    {"Object(1)", VM_CLASS_BOXED},
    {"Object('')", VM_CLASS_BOXED},
    {"Object(true)", VM_CLASS_BOXED},
    {"Object(1n)", VM_CLASS_BOXED},
    {"Object(Symbol.iterator)", VM_CLASS_BOXED},
    {"(function () { return arguments })()", VM_CLASS_ARGUMENTS},
    {"(function () { 'use strict'; return arguments })()", VM_CLASS_ARGUMENTS},
    {"(function* () {})()", VM_CLASS_GENERATOR},
    {"(async function* () {})()", VM_CLASS_GENERATOR},
    {"new Map().entries()", VM_CLASS_MAP_ITERATOR},
    {"new Set().values()", VM_CLASS_SET_ITERATOR},
};

static bool learn_classes(struct vm *vm)
{
    for (size_t i = 0; i < countof(probes); i++) {
        vm_value value = vm_eval(vm, str_of(probes[i].code), "probe", 1, VM_EVAL_SCRIPT);
        uint32_t id = ENGINE(vm, engine_JS_GetClassID(&vm->engine, value));
        vm_drop(vm, value);
        if (vm_kind_of(value) != VM_OBJECT || id == 0 || id >= VM_CLASS_IDS)
            return false;
        vm->classes[id] = (uint8_t)probes[i].class;
    }
    return true;
}

/* xorshift64: the word of the context that moves like this when Math.random is called. */
static uint64_t random_step(uint64_t x)
{
    x ^= x >> 12;
    x ^= x << 25;
    return x ^ x >> 27;
}

static bool learn_random(struct vm *vm)
{
    uint8_t before[CONTEXT_SCAN];
    memcpy(before, vm_at(vm, vm->context, sizeof before), sizeof before);
    vm_drop(vm, vm_eval(vm, STR("Math.random()"), "probe", 1, VM_EVAL_SCRIPT));
    for (uint32_t at = 0; at + 8 <= sizeof before; at += 8) {
        uint64_t old;
        memcpy(&old, before + at, sizeof old);
        if (old != 0 && vm_load64(vm, vm->context + at) == random_step(old)) {
            vm->random_at = vm->context + at;
            return true;
        }
    }
    return false;
}

/* The lexical object stands right behind the global object in the context. */
static bool learn_lexical(struct vm *vm)
{
    vm_value global = vm_global(vm);
    vm_drop(vm, global); /* the context holds it on */
    for (uint32_t at = 0; at + 16 <= CONTEXT_SCAN; at += 8)
        if (vm_load64(vm, vm->context + at) == global) {
            vm->lexical = vm_load64(vm, vm->context + at + 8);
            return vm_kind_of(vm->lexical) == VM_OBJECT;
        }
    return false;
}

bool vm_learn(struct vm *vm)
{
    return learn_classes(vm) && learn_random(vm) && learn_lexical(vm);
}
