/* Evaluation: calls, code, jobs, exceptions, names of the top level. */

#include "base/arena.h"
#include "base/buf.h"
#include "isolate/vm/vm_engine.h"

enum { EVAL_MODULE = 1 << 0, EVAL_ASYNC = 1 << 7, ARGS_MAX = 8 };

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
    vm_release(vm, box); /* only the box: its value is ours now */
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

vm_value vm_global(struct vm *vm)
{
    return ENGINE(vm, engine_JS_GetGlobalObject(&vm->engine, vm->context));
}

vm_value vm_host_function(struct vm *vm)
{
    uint32_t name = vm_put_text(vm, STR("host"));
    uint32_t box = ENGINE(vm, engine_qjs_new_host_function(&vm->engine, name, 4, 0));
    vm_value value = vm_load64(vm, box);
    vm_release(vm, box); /* only the box: its value is ours now */
    vm_release(vm, name);
    return value;
}

static bool delete_property(struct vm *vm, vm_value object, uint32_t atom)
{
    uint32_t done = ENGINE(vm, engine_JS_DeleteProperty(&vm->engine, vm->context, object, atom, 0));
    if ((int32_t)done < 0)
        vm_forget_exception(vm);
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
    uint32_t atom = vm_new_atom(vm, name);
    vm_value value = vm_undefined(), global = vm_global(vm);
    bool is_global = vm_slot_atom(vm, global, atom, &value) == VM_SLOT_DATA;
    if (is_global)
        vm_drop(vm, value);
    vm_drop(vm, global);
    /* A name whose first value was never computed does not show here, but is lexical too. */
    bool is_lexical = vm_slot_atom(vm, vm->lexical, atom, &value) == VM_SLOT_DATA;
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
