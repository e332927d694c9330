#pragma once

/* Only for vm*.c, the only files that use the translated module. */

#include "engine.h" /* made by tools/engine */

#include "base/str.h"
#include "isolate/vm/vm.h"

/* wabt's names for the instance's parts are macros of engine.h. */
typedef engine_instance engine_t;

enum { VM_CLASS_IDS = 128, VM_SEED_POOL = 512 };

struct vm {
    engine_t engine;
    struct rt_frame frame;
    wasm_rt_memory_t *memory;
    uint32_t *stack_pointer;
    uint32_t context, runtime;     /* JSContext, JSRuntime */
    uint32_t random_at;            /* where the context keeps the state of Math.random */
    uint64_t lexical;              /* the object that holds top-level let, const and class */
    uint8_t classes[VM_CLASS_IDS]; /* engine's class ids to enum vm_class */
    int64_t soft_ns;
    int64_t fixed_clock_ns; /* while booting: a template knows no date */
    const struct vm_hooks *hooks;
    void *user;
    struct arena *arena;
    enum rt_trap trap; /* not RT_OK: the memory is not to be trusted until the next load */
    uint32_t seeds_left;
    uint64_t seeds[VM_SEED_POOL];
};

/* Engine tags: the upper half of a value. */
enum {
    TAG_BIGINT = -9,
    TAG_SYMBOL = -8,
    TAG_STRING = -7,
    TAG_ROPE = -6,
    TAG_OBJECT = -1,
    TAG_INT = 0,
    TAG_BOOL = 1,
    TAG_NULL = 2,
    TAG_UNDEFINED = 3,
    TAG_EXCEPTION = 6,
    TAG_SHORT_BIGINT = 7,
    TAG_FLOAT = 8,
};

static inline int32_t value_tag(vm_value value)
{
    return (int32_t)(value >> 32);
}
static inline vm_value value_make(int32_t tag, uint32_t payload)
{
    return (uint64_t)(uint32_t)tag << 32 | payload;
}

/* Every call of translated code goes through one of these: the fault handler may leave translated
 * code by a jump, but never our own. */
static inline void engine_enter(struct vm *vm)
{
    if (vm->frame.expired)
        rt_throw(RT_TRAP_DEADLINE);
    vm->frame.engine = 1;
}
#define ENGINE(vm, call)                                                                           \
    ({                                                                                             \
        engine_enter(vm);                                                                          \
        __typeof__(call) engine_result_ = (call);                                                  \
        (vm)->frame.engine = 0;                                                                    \
        engine_result_;                                                                            \
    })
#define ENGINE_VOID(vm, call)                                                                      \
    do {                                                                                           \
        engine_enter(vm);                                                                          \
        (call);                                                                                    \
        (vm)->frame.engine = 0;                                                                    \
    } while (0)

/* `size` bytes of linear memory at `at`, or a trap when they are not all inside. */
static inline uint8_t *vm_at(struct vm *vm, uint32_t at, uint64_t size)
{
    if ((uint64_t)at + size > vm->memory->size)
        rt_throw(RT_TRAP_MEMORY);
    return vm->memory->data + at;
}
uint32_t vm_load32(struct vm *vm, uint32_t at);
uint64_t vm_load64(struct vm *vm, uint32_t at);
void vm_store32(struct vm *vm, uint32_t at, uint32_t n);
void vm_store64(struct vm *vm, uint32_t at, uint64_t n);
/* malloc inside; a trap when out of memory. */
uint32_t vm_alloc(struct vm *vm, uint32_t size);
void vm_release(struct vm *vm, uint32_t at);
/* Copies `text` in, with a NUL behind it; vm_release frees it. */
uint32_t vm_put_text(struct vm *vm, struct str text);

void vm_forget_exception(struct vm *vm);
uint32_t vm_new_atom(struct vm *vm, struct str name);
enum vm_slot vm_slot_atom(struct vm *vm, vm_value object, uint32_t atom, vm_value *ret_value);

/* Fills `classes`, `lexical`, `random_at`: what differs between versions is looked up, not assumed.
 * Under vm_try. */
bool vm_learn(struct vm *vm);
uint64_t vm_seed(struct vm *vm);
