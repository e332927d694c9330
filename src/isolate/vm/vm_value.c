/* Values and properties: thin, checked steps over the engine's own interface. */

#include "base/arena.h"
#include "base/buf.h"
#include "isolate/vm/vm_engine.h"

enum {
    KEYS_STRINGS = 1 << 0,
    KEYS_SYMBOLS = 1 << 1,
    KEYS_ENUMERABLE = 1 << 4,
    KEY_SIZE = 8, /* of a JSPropertyEnum: flag, atom */
    DESCRIPTOR_SIZE = 32,
    SLOT_GETSET = 1 << 4,
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

void vm_forget_exception(struct vm *vm)
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
        vm_forget_exception(vm);
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
        vm_forget_exception(vm);
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
        vm_forget_exception(vm);
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
        vm_forget_exception(vm);
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
        vm_forget_exception(vm);
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

enum vm_slot vm_slot_atom(struct vm *vm, vm_value object, uint32_t atom, vm_value *ret_value)
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
            vm_forget_exception(vm);
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
    return vm_slot_atom(vm, object, key_atom(vm, keys, index), ret_value);
}

uint32_t vm_new_atom(struct vm *vm, struct str name)
{
    uint32_t at = vm_put_text(vm, name);
    uint32_t atom = ENGINE(vm, engine_JS_NewAtomLen(&vm->engine, vm->context, at, (u32)name.len));
    vm_release(vm, at);
    return atom;
}

enum vm_slot vm_slot_of(struct vm *vm, vm_value object, const char *name, vm_value *ret_value)
{
    uint32_t atom = vm_new_atom(vm, str_of(name));
    enum vm_slot found = vm_slot_atom(vm, object, atom, ret_value);
    ENGINE_VOID(vm, engine_JS_FreeAtom(&vm->engine, vm->context, atom));
    return found;
}

enum vm_slot vm_slot_index(struct vm *vm, vm_value object, uint32_t index, vm_value *ret_value)
{
    uint32_t atom = ENGINE(vm, engine_JS_NewAtomUInt32(&vm->engine, vm->context, index));
    enum vm_slot found = vm_slot_atom(vm, object, atom, ret_value);
    ENGINE_VOID(vm, engine_JS_FreeAtom(&vm->engine, vm->context, atom));
    return found;
}

vm_value vm_prototype(struct vm *vm, vm_value object)
{
    vm_value value = ENGINE(vm, engine_JS_GetPrototype(&vm->engine, vm->context, object));
    if (vm_kind_of(value) == VM_EXCEPTION) {
        vm_forget_exception(vm);
        return vm_null();
    }
    return value;
}

vm_value vm_proxy_target(struct vm *vm, vm_value proxy)
{
    vm_value value = ENGINE(vm, engine_JS_GetProxyTarget(&vm->engine, vm->context, proxy));
    if (vm_kind_of(value) == VM_EXCEPTION) {
        vm_forget_exception(vm);
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

bool vm_is_instance(struct vm *vm, vm_value value, vm_value constructor)
{
    uint32_t is = ENGINE(vm, engine_JS_IsInstanceOf(&vm->engine, vm->context, value, constructor));
    if ((int32_t)is < 0)
        vm_forget_exception(vm);
    return is == 1;
}
