/* Values, properties, evaluation: thin, checked steps over the engine's own interface. */

#include "base/arena.h"
#include "base/buf.h"
#include "isolate/vm_engine.h"

enum {
    EVAL_MODULE = 1 << 0,
    EVAL_ASYNC = 1 << 7,
    KEYS_STRINGS = 1 << 0,
    KEYS_SYMBOLS = 1 << 1,
    KEYS_ENUMERABLE = 1 << 4,
    KEY_SIZE = 8, /* of a JSPropertyEnum: flag, atom */
    DESCRIPTOR_SIZE = 32,
    SLOT_GETSET = 1 << 4,
    ARGS_MAX = 8,
    CONTEXT_SCAN = 2048, /* bytes of the context looked through when learning */
};
#define FLOAT_ADDEND ((uint64_t)(0x7ff80000 + 9 + 1) << 32)

/* --- Making and reading --- */

enum vm_kind vm_kind_of(vm_value value)
{
    switch (value_tag(value)) {
    case TAG_BIGINT:
    case TAG_SHORT_BIGINT:
        return VM_BIGINT;
    case TAG_SYMBOL:
        return VM_SYMBOL;
    case TAG_STRING:
    case TAG_ROPE:
        return VM_STRING;
    case TAG_OBJECT:
        return VM_OBJECT;
    case TAG_BOOL:
        return VM_BOOL;
    case TAG_NULL:
        return VM_NULL;
    case TAG_UNDEFINED:
        return VM_UNDEFINED;
    case TAG_EXCEPTION:
        return VM_EXCEPTION;
    case TAG_INT:
        return VM_NUMBER;
    default:
        /* Between the named tags lie the engine's internal ones, which no script can hold. */
        return value_tag(value) > TAG_SHORT_BIGINT || value_tag(value) < TAG_BIGINT ? VM_NUMBER
                                                                                    : VM_UNDEFINED;
    }
}

vm_value vm_undefined(void)
{
    return value_make(TAG_UNDEFINED, 0);
}

vm_value vm_null(void)
{
    return value_make(TAG_NULL, 0);
}

vm_value vm_from_bool(bool flag)
{
    return value_make(TAG_BOOL, flag);
}

vm_value vm_from_number(struct vm *vm, double number)
{
    return ENGINE(vm, engine_JS_NewNumber(&vm->engine, vm->context, number));
}

vm_value vm_from_str(struct vm *vm, struct str text)
{
    uint32_t at = vm_put_text(vm, text);
    vm_value value =
        ENGINE(vm, engine_JS_NewStringLen(&vm->engine, vm->context, at, (u32)text.len));
    vm_release(vm, at);
    return value;
}

vm_value vm_from_bytes(struct vm *vm, struct str bytes)
{
    uint32_t at = vm_put_text(vm, bytes);
    vm_value value =
        ENGINE(vm, engine_JS_NewUint8ArrayCopy(&vm->engine, vm->context, at, (u32)bytes.len));
    vm_release(vm, at);
    return value;
}

vm_value vm_new_object(struct vm *vm)
{
    return ENGINE(vm, engine_JS_NewObject(&vm->engine, vm->context));
}

double vm_to_number(UNUSED struct vm *vm, vm_value value)
{
    if (value_tag(value) == TAG_INT)
        return (int32_t)(uint32_t)value;
    uint64_t bits = value + FLOAT_ADDEND;
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

bool vm_to_bool(vm_value value)
{
    return (uint32_t)value != 0;
}

vm_value vm_dup(struct vm *vm, vm_value value)
{
    return ENGINE(vm, engine_JS_DupValue(&vm->engine, vm->context, value));
}

void vm_drop(struct vm *vm, vm_value value)
{
    if (value_tag(value) < 0 && value_tag(value) >= TAG_BIGINT) /* the counted kinds */
        ENGINE_VOID(vm, engine_JS_FreeValue(&vm->engine, vm->context, value));
}

static void forget_exception(struct vm *vm)
{
    vm_drop(vm, vm_take_exception(vm));
}

bool vm_text(struct vm *vm, vm_value value, struct arena *arena, struct str *ret_text)
{
    uint32_t length_at = vm_alloc(vm, 4);
    uint32_t at =
        ENGINE(vm, engine_JS_ToCStringLen2(&vm->engine, vm->context, length_at, value, 0));
    uint32_t length = vm_load32(vm, length_at);
    vm_release(vm, length_at);
    if (at == 0) {
        forget_exception(vm);
        return false;
    }
    *ret_text = arena_dup(arena, str_n((const char *)vm_at(vm, at, length), length));
    ENGINE_VOID(vm, engine_JS_FreeCString(&vm->engine, vm->context, at));
    return true;
}

bool vm_symbol_text(struct vm *vm, vm_value value, struct arena *arena, struct str *ret_text)
{
    /* A symbol refuses to become a string; its description does not. */
    vm_value description = vm_get(vm, value, "description");
    struct str inner = {0};
    bool ok = vm_kind_of(description) == VM_UNDEFINED ||
              (vm_kind_of(description) == VM_STRING && vm_text(vm, description, arena, &inner));
    if (vm_kind_of(description) == VM_EXCEPTION)
        forget_exception(vm);
    else
        vm_drop(vm, description);
    *ret_text = ok ? arena_printf(arena, "Symbol(%.*s)", STR_ARG(inner)) : STR("Symbol()");
    return ok;
}

/* A typed array's view of its buffer. */
static bool view_bytes(struct vm *vm, vm_value value, struct str *ret_bytes)
{
    uint32_t out = vm_alloc(vm, 12);
    vm_value buffer = ENGINE(
        vm, engine_JS_GetTypedArrayBuffer(&vm->engine, vm->context, value, out, out + 4, out + 8));
    uint32_t offset = vm_load32(vm, out), length = vm_load32(vm, out + 4);
    vm_release(vm, out);
    if (vm_kind_of(buffer) == VM_EXCEPTION) {
        forget_exception(vm);
        return false;
    }
    struct str all = {0};
    bool ok = vm_bytes(vm, buffer, &all);
    vm_drop(vm, buffer);
    *ret_bytes = str_slice(all, offset, (size_t)offset + length);
    return ok;
}

bool vm_bytes(struct vm *vm, vm_value value, struct str *ret_bytes)
{
    enum vm_class class = vm_class_of(vm, value);
    if (class == VM_CLASS_TYPED_ARRAY)
        return view_bytes(vm, value, ret_bytes);
    if (class != VM_CLASS_ARRAY_BUFFER)
        return false;
    uint32_t size_at = vm_alloc(vm, 4);
    uint32_t at = ENGINE(vm, engine_JS_GetArrayBuffer(&vm->engine, vm->context, size_at, value));
    uint32_t size = vm_load32(vm, size_at);
    vm_release(vm, size_at);
    if (at == 0 && size != 0) {
        forget_exception(vm);
        return false;
    }
    *ret_bytes = str_n((const char *)vm_at(vm, at, size), size);
    return true;
}

/* --- Objects --- */

enum vm_class vm_class_of(struct vm *vm, vm_value object)
{
    uint32_t id = ENGINE(vm, engine_JS_GetClassID(&vm->engine, object));
    if (id < VM_CLASS_IDS && vm->classes[id] != VM_CLASS_OBJECT)
        return (enum vm_class)vm->classes[id];
    return ENGINE(vm, engine_JS_IsFunction(&vm->engine, vm->context, object)) ? VM_CLASS_FUNCTION
                                                                              : VM_CLASS_OBJECT;
}

vm_value vm_get(struct vm *vm, vm_value object, const char *name)
{
    uint32_t at = vm_put_text(vm, str_of(name));
    vm_value value = ENGINE(vm, engine_JS_GetPropertyStr(&vm->engine, vm->context, object, at));
    vm_release(vm, at);
    return value;
}

vm_value vm_get_index(struct vm *vm, vm_value object, uint32_t index)
{
    return ENGINE(vm, engine_JS_GetPropertyUint32(&vm->engine, vm->context, object, index));
}

bool vm_keys_get(struct vm *vm, vm_value object, enum vm_keys_of which, struct vm_keys *ret_keys)
{
    uint32_t flags =
        KEYS_STRINGS | KEYS_ENUMERABLE | (which == VM_KEYS_WITH_SYMBOLS ? KEYS_SYMBOLS : 0);
    uint32_t out = vm_alloc(vm, 8);
    uint32_t failed = ENGINE(
        vm, engine_JS_GetOwnPropertyNames(&vm->engine, vm->context, out, out + 4, object, flags));
    struct vm_keys keys = {vm_load32(vm, out), vm_load32(vm, out + 4)};
    vm_release(vm, out);
    if (failed != 0) {
        forget_exception(vm);
        return false;
    }
    *ret_keys = keys;
    return true;
}

void vm_keys_drop(struct vm *vm, struct vm_keys keys)
{
    ENGINE_VOID(vm, engine_JS_FreePropertyEnum(&vm->engine, vm->context, keys.list, keys.count));
}

static uint32_t key_atom(struct vm *vm, struct vm_keys keys, uint32_t index)
{
    if (index >= keys.count)
        rt_throw(RT_TRAP_MEMORY);
    return vm_load32(vm, keys.list + index * KEY_SIZE + 4);
}

vm_value vm_key_at(struct vm *vm, struct vm_keys keys, uint32_t index)
{
    uint32_t atom = key_atom(vm, keys, index);
    return ENGINE(vm, engine_JS_AtomToValue(&vm->engine, vm->context, atom));
}

vm_value vm_value_at(struct vm *vm, vm_value object, struct vm_keys keys, uint32_t index)
{
    uint32_t atom = key_atom(vm, keys, index);
    return ENGINE(vm, engine_JS_GetProperty(&vm->engine, vm->context, object, atom));
}

static enum vm_slot slot(struct vm *vm, vm_value object, uint32_t atom, vm_value *ret_value)
{
    uint32_t out = vm_alloc(vm, DESCRIPTOR_SIZE);
    uint32_t found =
        ENGINE(vm, engine_JS_GetOwnProperty(&vm->engine, vm->context, out, object, atom));
    uint32_t flags = vm_load32(vm, out);
    vm_value value = vm_load64(vm, out + 8), getter = vm_load64(vm, out + 16);
    vm_value setter = vm_load64(vm, out + 24);
    vm_release(vm, out);
    if (found != 1) {
        if ((int32_t)found < 0)
            forget_exception(vm);
        return VM_SLOT_NONE;
    }
    if ((flags & SLOT_GETSET) == 0) {
        vm_drop(vm, getter);
        vm_drop(vm, setter);
        *ret_value = value;
        return VM_SLOT_DATA;
    }
    bool gets = vm_kind_of(getter) == VM_OBJECT, sets = vm_kind_of(setter) == VM_OBJECT;
    vm_drop(vm, value);
    vm_drop(vm, getter);
    vm_drop(vm, setter);
    return gets && sets ? VM_SLOT_BOTH : gets ? VM_SLOT_GETTER : VM_SLOT_SETTER;
}

enum vm_slot vm_slot_at(struct vm *vm, vm_value object, struct vm_keys keys, uint32_t index,
                        vm_value *ret_value)
{
    return slot(vm, object, key_atom(vm, keys, index), ret_value);
}

static uint32_t new_atom(struct vm *vm, struct str name)
{
    uint32_t at = vm_put_text(vm, name);
    uint32_t atom = ENGINE(vm, engine_JS_NewAtomLen(&vm->engine, vm->context, at, (u32)name.len));
    vm_release(vm, at);
    return atom;
}

enum vm_slot vm_slot_of(struct vm *vm, vm_value object, const char *name, vm_value *ret_value)
{
    uint32_t atom = new_atom(vm, str_of(name));
    enum vm_slot found = slot(vm, object, atom, ret_value);
    ENGINE_VOID(vm, engine_JS_FreeAtom(&vm->engine, vm->context, atom));
    return found;
}

enum vm_slot vm_slot_index(struct vm *vm, vm_value object, uint32_t index, vm_value *ret_value)
{
    uint32_t atom = ENGINE(vm, engine_JS_NewAtomUInt32(&vm->engine, vm->context, index));
    enum vm_slot found = slot(vm, object, atom, ret_value);
    ENGINE_VOID(vm, engine_JS_FreeAtom(&vm->engine, vm->context, atom));
    return found;
}

vm_value vm_prototype(struct vm *vm, vm_value object)
{
    vm_value value = ENGINE(vm, engine_JS_GetPrototype(&vm->engine, vm->context, object));
    if (vm_kind_of(value) == VM_EXCEPTION) {
        forget_exception(vm);
        return vm_null();
    }
    return value;
}

vm_value vm_proxy_target(struct vm *vm, vm_value proxy)
{
    vm_value value = ENGINE(vm, engine_JS_GetProxyTarget(&vm->engine, vm->context, proxy));
    if (vm_kind_of(value) == VM_EXCEPTION) {
        forget_exception(vm);
        return vm_null();
    }
    return value;
}

enum vm_promise vm_promise_state(struct vm *vm, vm_value promise)
{
    uint32_t state = ENGINE(vm, engine_JS_PromiseState(&vm->engine, vm->context, promise));
    return state == 1   ? VM_PROMISE_FULFILLED
           : state == 2 ? VM_PROMISE_REJECTED
                        : VM_PROMISE_PENDING;
}

vm_value vm_promise_result(struct vm *vm, vm_value promise)
{
    return ENGINE(vm, engine_JS_PromiseResult(&vm->engine, vm->context, promise));
}

bool vm_is_same(struct vm *vm, vm_value a, vm_value b)
{
    return a == b || ENGINE(vm, engine_JS_IsSameValue(&vm->engine, vm->context, a, b)) == 1;
}

bool vm_is_instance(struct vm *vm, vm_value value, vm_value constructor)
{
    uint32_t is = ENGINE(vm, engine_JS_IsInstanceOf(&vm->engine, vm->context, value, constructor));
    if ((int32_t)is < 0)
        forget_exception(vm);
    return is == 1;
}

/* --- Running --- */

vm_value vm_call(struct vm *vm, vm_value function, vm_value self, const vm_value *args,
                 size_t count)
{
    assert(count <= ARGS_MAX);
    uint32_t at = vm_alloc(vm, ARGS_MAX * 8);
    for (size_t i = 0; i < count; i++)
        vm_store64(vm, at + (uint32_t)i * 8, args[i]);
    vm_value result =
        ENGINE(vm, engine_JS_Call(&vm->engine, vm->context, function, self, (u32)count, at));
    vm_release(vm, at);
    return result;
}

static vm_value eval_module(struct vm *vm, uint32_t code, size_t size, uint32_t file)
{
    uint32_t box = ENGINE(vm, engine_qjs_eval(&vm->engine, code, (u32)size, file, EVAL_MODULE));
    vm_value value = vm_load64(vm, box);
    vm_release(vm, box); /* the box alone: its value is ours now */
    return value;
}

vm_value vm_eval(struct vm *vm, struct str code, const char *file, int line, enum vm_eval how)
{
    enum { OPTIONS_SIZE = 16, OPTIONS_VERSION = 1 };
    uint32_t code_at = vm_put_text(vm, code), file_at = vm_put_text(vm, str_of(file));
    uint32_t options = vm_alloc(vm, OPTIONS_SIZE);
    vm_store32(vm, options, OPTIONS_VERSION);
    vm_store32(vm, options + 4, how == VM_EVAL_ASYNC ? EVAL_ASYNC : 0);
    vm_store32(vm, options + 8, file_at);
    vm_store32(vm, options + 12, (uint32_t)line);
    vm_value result = how == VM_EVAL_MODULE
                          ? eval_module(vm, code_at, code.len, file_at)
                          : ENGINE(vm, engine_JS_Eval2(&vm->engine, vm->context, code_at,
                                                       (u32)code.len, options));
    vm_release(vm, options);
    vm_release(vm, file_at);
    vm_release(vm, code_at);
    return result;
}

bool vm_compile(struct vm *vm, struct str code, const char *file, struct buf *out)
{
    uint32_t code_at = vm_put_text(vm, code), file_at = vm_put_text(vm, str_of(file));
    uint32_t size_at = vm_alloc(vm, 4);
    enum { STRIP_SOURCE = 1 << 4 };
    uint32_t at = ENGINE(vm, engine_qjs_compile(&vm->engine, code_at, (u32)code.len, file_at, 0,
                                                STRIP_SOURCE, size_at));
    uint32_t size = vm_load32(vm, size_at);
    vm_release(vm, size_at);
    vm_release(vm, file_at);
    vm_release(vm, code_at);
    if (at == 0)
        return false;
    buf_put(out, str_n((const char *)vm_at(vm, at, size), size));
    vm_release(vm, at);
    return true;
}

vm_value vm_eval_bytecode(struct vm *vm, struct str bytecode)
{
    enum { READ_BYTECODE = 1 };
    uint32_t at = vm_put_text(vm, bytecode);
    vm_value function = ENGINE(
        vm, engine_JS_ReadObject(&vm->engine, vm->context, at, (u32)bytecode.len, READ_BYTECODE));
    vm_release(vm, at);
    if (vm_kind_of(function) == VM_EXCEPTION)
        return function;
    return ENGINE(vm, engine_JS_EvalFunction(&vm->engine, vm->context, function));
}

bool vm_is_module(struct vm *vm, struct str code)
{
    uint32_t at = vm_put_text(vm, code);
    uint32_t is = ENGINE(vm, engine_JS_DetectModule(&vm->engine, at, (u32)code.len));
    vm_release(vm, at);
    return is != 0;
}

bool vm_has_job(struct vm *vm)
{
    return ENGINE(vm, engine_JS_IsJobPending(&vm->engine, vm->runtime)) != 0;
}

int vm_run_job(struct vm *vm)
{
    uint32_t out = vm_alloc(vm, 4);
    uint32_t ran = ENGINE(vm, engine_JS_ExecutePendingJob(&vm->engine, vm->runtime, out));
    vm_release(vm, out);
    return (int32_t)ran;
}

vm_value vm_parse_json(struct vm *vm, struct str text)
{
    uint32_t at = vm_put_text(vm, text), file = vm_put_text(vm, STR("<json>"));
    vm_value value =
        ENGINE(vm, engine_JS_ParseJSON(&vm->engine, vm->context, at, (u32)text.len, file));
    vm_release(vm, file);
    vm_release(vm, at);
    return value;
}

vm_value vm_take_exception(struct vm *vm)
{
    return ENGINE(vm, engine_JS_GetException(&vm->engine, vm->context));
}

vm_value vm_throw(struct vm *vm, vm_value error)
{
    return ENGINE(vm, engine_JS_Throw(&vm->engine, vm->context, error));
}

vm_value vm_throw_error(struct vm *vm, const char *type, struct str message)
{
    uint32_t format = vm_put_text(vm, STR("%s")), text = vm_put_text(vm, message);
    uint32_t args = vm_alloc(vm, 4);
    vm_store32(vm, args, text);
    vm_value error =
        strcmp(type, "TypeError") == 0
            ? ENGINE(vm, engine_JS_ThrowTypeError(&vm->engine, vm->context, format, args))
            : ENGINE(vm, engine_JS_ThrowPlainError(&vm->engine, vm->context, format, args));
    vm_release(vm, args);
    vm_release(vm, text);
    vm_release(vm, format);
    return error;
}

bool vm_is_uncatchable(struct vm *vm, vm_value error)
{
    return vm_kind_of(error) == VM_OBJECT &&
           ENGINE(vm, engine_JS_IsUncatchableError(&vm->engine, error)) != 0;
}

vm_value vm_global(struct vm *vm)
{
    return ENGINE(vm, engine_JS_GetGlobalObject(&vm->engine, vm->context));
}

vm_value vm_host_function(struct vm *vm)
{
    uint32_t name = vm_put_text(vm, STR("host"));
    uint32_t box = ENGINE(vm, engine_qjs_new_host_function(&vm->engine, name, 4, 0));
    vm_value value = vm_load64(vm, box);
    vm_release(vm, box); /* the box alone: its value is ours now */
    vm_release(vm, name);
    return value;
}

static bool delete_property(struct vm *vm, vm_value object, uint32_t atom)
{
    uint32_t done = ENGINE(vm, engine_JS_DeleteProperty(&vm->engine, vm->context, object, atom, 0));
    if ((int32_t)done < 0)
        forget_exception(vm);
    return done == 1;
}

/* What `var` and `function` declare is a property of the global object that nothing may delete. Its
 * shape holds pairs of words, flags above the name's atom; the one that answers to a changed flag
 * is found by trying. All of it is the isolate's own memory. */
static bool delete_global(struct vm *vm, uint32_t atom)
{
    enum { FLAGS_SHIFT = 26, WRITABLE_ENUMERABLE = 6, CONFIGURABLE = 1 << FLAGS_SHIFT };
    vm_value global = vm_global(vm);
    bool done = false;
    uint32_t end = (uint32_t)vm->memory->size;
    for (uint32_t at = vm->frame.stack_top; at + 8 <= end && !done; at += 4) {
        if (vm_load32(vm, at + 4) != atom ||
            vm_load32(vm, at) >> FLAGS_SHIFT != WRITABLE_ENUMERABLE)
            continue;
        uint32_t word = vm_load32(vm, at);
        vm_store32(vm, at, word | CONFIGURABLE);
        done = delete_property(vm, global, atom);
        if (!done)
            vm_store32(vm, at, word);
    }
    vm_drop(vm, global);
    return done;
}

bool vm_undeclare(struct vm *vm, struct str name)
{
    uint32_t atom = new_atom(vm, name);
    vm_value value = vm_undefined(), global = vm_global(vm);
    bool is_global = slot(vm, global, atom, &value) == VM_SLOT_DATA;
    if (is_global)
        vm_drop(vm, value);
    vm_drop(vm, global);
    /* A name whose first value was never computed does not show here, but is lexical too. */
    bool is_lexical = slot(vm, vm->lexical, atom, &value) == VM_SLOT_DATA;
    if (is_lexical)
        vm_drop(vm, value);
    bool done =
        is_lexical || !is_global ? delete_property(vm, vm->lexical, atom) : delete_global(vm, atom);
    ENGINE_VOID(vm, engine_JS_FreeAtom(&vm->engine, vm->context, atom));
    return done;
}

void vm_apply_limits(struct vm *vm, const struct vm_limits *limits)
{
    ENGINE_VOID(vm, engine_qjs_set_memory_limit(&vm->engine, (u32)limits->memory_bytes));
    ENGINE_VOID(vm, engine_qjs_set_max_stack_size(&vm->engine, limits->stack_bytes));
    /* A collection walks the whole heap: one that holds only our own globals is not worth it. */
    ENGINE_VOID(vm, engine_qjs_set_gc_threshold(&vm->engine, (u32)(limits->memory_bytes / 4)));
}

/* --- Learning what differs between builds of the engine --- */

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
