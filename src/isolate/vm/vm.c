#include "isolate/vm/vm.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "isolate/vm/vm_engine.h"

#if RT_ASAN
#include <sanitizer/asan_interface.h>
#endif

enum { WASI_OK = 0, WASI_BADF = 8, WASI_INVAL = 28, CSTR_MAX = 64 << 10 };
/* 2000-01-01: what the initialiser sees as now, so that a template is the same every time. */
#define BOOT_CLOCK_NS 946684800000000000LL

/* --- Linear memory --- */

uint32_t vm_load32(struct vm *vm, uint32_t at)
{
    uint32_t n;
    memcpy(&n, vm_at(vm, at, sizeof n), sizeof n);
    return n;
}

uint64_t vm_load64(struct vm *vm, uint32_t at)
{
    uint64_t n;
    memcpy(&n, vm_at(vm, at, sizeof n), sizeof n);
    return n;
}

void vm_store32(struct vm *vm, uint32_t at, uint32_t n)
{
    memcpy(vm_at(vm, at, sizeof n), &n, sizeof n);
}

void vm_store64(struct vm *vm, uint32_t at, uint64_t n)
{
    memcpy(vm_at(vm, at, sizeof n), &n, sizeof n);
}

uint32_t vm_alloc(struct vm *vm, uint32_t size)
{
    uint32_t at = ENGINE(vm, engine_wasm_malloc(&vm->engine, size));
    if (at == 0)
        rt_throw(RT_TRAP_UNREACHABLE);
    (void)vm_at(vm, at, size);
    return at;
}

void vm_release(struct vm *vm, uint32_t at)
{
    ENGINE_VOID(vm, engine_wasm_free(&vm->engine, at));
}

uint32_t vm_put_text(struct vm *vm, struct str text)
{
    uint32_t at = vm_alloc(vm, (uint32_t)text.len + 1);
    uint8_t *to = vm_at(vm, at, text.len + 1);
    if (text.len > 0)
        memcpy(to, text.ptr, text.len);
    to[text.len] = 0;
    return at;
}

/* A NUL-terminated text of the engine, copied to the run's arena. */
static struct str copy_cstr(struct vm *vm, uint32_t at)
{
    const char *text = (const char *)vm_at(vm, at, 1);
    size_t room = (size_t)MIN(vm->memory->size - at, (uint64_t)CSTR_MAX);
    return arena_dup(vm->arena, str_n(text, strnlen(text, room)));
}

/* --- What the engine may ask: all twelve imports --- */

static struct vm *vm_of(void *instance)
{
    struct vm *vm = instance;
    vm->frame.engine = 0; /* our own code runs until we return */
    return vm;
}

u32 engine_import_clock_time_get(struct engine_host_wasi_snapshot_preview1 *host, u32 clock,
                                 UNUSED u64 precision, u32 result)
{
    struct vm *vm = vm_of(host);
    u32 code = WASI_OK;
    int64_t now = clock == 0 ? clock_date_ms() * 1000000 : clock_now_ns();
    if (clock > 1)
        code = WASI_INVAL;
    else
        vm_store64(vm, result, (uint64_t)(vm->fixed_clock_ns != 0 ? vm->fixed_clock_ns : now));
    vm->frame.engine = 1;
    return code;
}

u32 engine_import_random_get(struct engine_host_wasi_snapshot_preview1 *host, u32 at, u32 size)
{
    struct vm *vm = vm_of(host);
    uint8_t *to = vm_at(vm, at, size);
    if (vm->fixed_clock_ns != 0)
        memset(to, 0, size); /* booting: what is drawn here would be the same in every copy */
    else
        id_random(to, size);
    vm->frame.engine = 1;
    return WASI_OK;
}

/* The engine writes only to say why it gives up; the trap that follows says enough. */
u32 engine_import_fd_write(struct engine_host_wasi_snapshot_preview1 *host, u32 fd, u32 vectors,
                           u32 count, u32 written)
{
    struct vm *vm = vm_of(host);
    uint32_t total = 0;
    for (uint32_t i = 0; i < MIN(count, 64u); i++)
        total += vm_load32(vm, vectors + i * 8 + 4);
    vm_store32(vm, written, total);
    vm->frame.engine = 1;
    return fd == 1 || fd == 2 ? WASI_OK : WASI_BADF;
}

u32 engine_import_fd_close(UNUSED struct engine_host_wasi_snapshot_preview1 *host, UNUSED u32 fd)
{
    return WASI_BADF;
}

u32 engine_import_fd_fdstat_get(UNUSED struct engine_host_wasi_snapshot_preview1 *host,
                                UNUSED u32 fd, UNUSED u32 at)
{
    return WASI_BADF;
}

u32 engine_import_fd_seek(UNUSED struct engine_host_wasi_snapshot_preview1 *host, UNUSED u32 fd,
                          UNUSED u64 offset, UNUSED u32 whence, UNUSED u32 at)
{
    return WASI_BADF;
}

u32 engine_import_host_get_timezone_offset(UNUSED struct engine_host_env *host, UNUSED u32 high,
                                           UNUSED u32 low)
{
    return 0; /* isolates live in UTC */
}

u32 engine_import_host_interrupt(struct engine_host_env *host)
{
    struct vm *vm = vm_of(host);
    u32 stop = vm_is_expired(vm);
    vm->frame.engine = 1;
    return stop;
}

void engine_import_host_promise_rejection(struct engine_host_env *host, u32 promise, u32 reason,
                                          u32 handled)
{
    struct vm *vm = vm_of(host);
    if (vm->hooks != NULL && vm->hooks->rejected != NULL)
        vm->hooks->rejected(vm, vm->user, vm_load64(vm, promise), vm_load64(vm, reason),
                            handled != 0);
    ENGINE_VOID(vm, engine_qjs_free_value(&vm->engine, promise));
    ENGINE_VOID(vm, engine_qjs_free_value(&vm->engine, reason));
    vm->frame.engine = 1;
}

/* A text for the engine, or an Error thrown with it. */
static u32 answer_text(struct vm *vm, bool ok, struct str text)
{
    u32 at = 0;
    if (ok)
        at = vm_put_text(vm, text);
    else
        (void)vm_throw_error(vm, "Error", text);
    return at;
}

u32 engine_import_host_module_normalize(struct engine_host_env *host, u32 base, u32 name)
{
    struct vm *vm = vm_of(host);
    struct str found = STR("modules are not available here");
    bool ok = vm->hooks != NULL && vm->hooks->resolve != NULL &&
              vm->hooks->resolve(vm, vm->user, copy_cstr(vm, base), copy_cstr(vm, name), &found);
    u32 at = answer_text(vm, ok, found);
    vm->frame.engine = 1;
    return at;
}

u32 engine_import_host_module_load(struct engine_host_env *host, u32 name, u32 length)
{
    struct vm *vm = vm_of(host);
    struct str source = STR("modules are not available here");
    bool ok = vm->hooks != NULL && vm->hooks->load != NULL &&
              vm->hooks->load(vm, vm->user, copy_cstr(vm, name), &source);
    u32 at = answer_text(vm, ok, source);
    if (ok)
        vm_store32(vm, length, (u32)source.len);
    vm->frame.engine = 1;
    return at;
}

/* host(op, ...args): arguments and result are boxes, pointers to values. */
u32 engine_import_host_call(struct engine_host_env *host, UNUSED u32 name, UNUSED u32 name_len,
                            UNUSED u32 self, u32 count, u32 boxes)
{
    struct vm *vm = vm_of(host);
    vm_value args[8] = {0};
    size_t given = MIN(count, (u32)countof(args));
    for (size_t i = 0; i < given; i++)
        args[i] = vm_load64(vm, vm_load32(vm, boxes + (u32)i * 4));
    vm_value result = vm_undefined();
    if (given > 0 && value_tag(args[0]) == TAG_INT && vm->hooks != NULL)
        result = vm->hooks->call(vm, vm->user, (int)(uint32_t)args[0], args + 1, given - 1);
    u32 box = 0;
    if (vm_kind_of(result) != VM_EXCEPTION) {
        box = vm_alloc(vm, 8);
        vm_store64(vm, box, result);
    }
    vm->frame.engine = 1;
    return box;
}

/* --- Life --- */

static void instantiate(struct vm *vm, UNUSED void *arg)
{
#ifdef engine_init_module
    static bool ready;
    if (!ready)
        engine_init_module();
    ready = true;
#endif
    engine_instantiate(&vm->engine, (struct engine_host_env *)vm,
                       (struct engine_host_wasi_snapshot_preview1 *)vm);
}

int vm_new(struct vm **ret_vm, struct err *err)
{
    static bool started; /* a locked worker may make instances, but no more handlers */
    if (!started && rt_start(err) < 0)
        return -1;
    started = true;
    AUTO_VM struct vm *vm = mem_alloc(sizeof *vm);
    vm->memory = engine_memory(&vm->engine);
    vm->stack_pointer = engine___stack_pointer(&vm->engine);
    if (vm_try(vm, 0, 0, instantiate, NULL) != RT_OK)
        return err_set(err, ERR_UNAVAILABLE,
                       "reserve 8 GB of address space for an isolate: is `ulimit -v` set?");
    vm->frame.base = vm->memory->data;
    vm->frame.stack_top = *vm->stack_pointer;
    if (vm->frame.stack_top % RT_PAGE != 0 || vm->frame.stack_top < RT_STACK_STEP)
        return err_set(err, ERR_INTERNAL, "unexpected stack address of the engine");
    vm->frame.stack_low = vm->frame.stack_top - RT_STACK_HOT;
    rt_revoke(vm->frame.base, 0, vm->frame.stack_low);
    vm->trap = RT_TRAP_UNREACHABLE; /* until booted or loaded */
    *ret_vm = vm;
    vm = NULL;
    return 0;
}

struct vm *vm_free(struct vm *vm)
{
    if (vm == NULL)
        return NULL;
    wasm_rt_free_memory(vm->memory);
    wasm_rt_free_funcref_table(engine___indirect_function_table(&vm->engine));
    free(vm);
    return NULL;
}

struct boot {
    bool ok;
};

static void boot(struct vm *vm, void *arg)
{
    struct boot *job = arg;
    vm->fixed_clock_ns = BOOT_CLOCK_NS;
    ENGINE_VOID(vm, engine__initialize(&vm->engine));
    if (ENGINE(vm, engine_qjs_init(&vm->engine)) != 0)
        return;
    vm->context = ENGINE(vm, engine_qjs_get_context_ptr(&vm->engine));
    vm->runtime = ENGINE(vm, engine_qjs_get_runtime_ptr(&vm->engine));
    ENGINE_VOID(vm, engine_qjs_set_max_stack_size(&vm->engine, VM_STACK_MAX));
    ENGINE_VOID(vm, engine_qjs_set_interrupt_handler(&vm->engine, 1));
    ENGINE_VOID(vm, engine_qjs_set_promise_rejection_handler(&vm->engine, 1));
    ENGINE_VOID(vm, engine_qjs_set_module_loader(&vm->engine, 1));
    job->ok = vm_learn(vm);
    vm->fixed_clock_ns = 0;
}

int vm_boot(struct vm *vm, struct err *err)
{
    struct boot job = {0};
    enum rt_trap trap = vm_try(vm, 0, 0, boot, &job);
    if (trap != RT_OK || !job.ok)
        return err_set(err, ERR_INTERNAL, "start the engine: %s",
                       trap != RT_OK ? rt_trap_text(trap) : "it is not the expected build");
    return 0;
}

void vm_set_hooks(struct vm *vm, const struct vm_hooks *hooks, void *user)
{
    vm->hooks = hooks;
    vm->user = user;
}

void vm_set_arena(struct vm *vm, struct arena *arena)
{
    vm->arena = arena;
}

/* The sanitizer marks the frames of running functions and cannot follow a jump out of a signal
 * handler over them; what lies below our own frame is free again. */
#if RT_ASAN
static void forget_frames(void)
{
    enum { DEEP = 32 << 20 };
    char *here = __builtin_frame_address(0);
    __asan_unpoison_memory_region(here - DEEP, DEEP);
}
#else
static void forget_frames(void)
{
}
#endif

enum rt_trap vm_try(struct vm *vm, int64_t soft_ns, int64_t hard_ns,
                    void (*work)(struct vm *vm, void *arg), void *arg)
{
    vm->soft_ns = soft_ns;
    vm->frame.deadline_ns = hard_ns;
    vm->frame.expired = 0;
    vm->frame.interrupted = 0;
    vm->frame.engine = 0;
    vm->frame.outer = rt_set_frame(&vm->frame);
    int trap = sigsetjmp(vm->frame.jump, 0);
    if (trap == 0)
        work(vm, arg);
    else
        forget_frames();
    vm->frame.engine = 0;
    vm->frame.deadline_ns = 0;
    (void)rt_set_frame(vm->frame.outer);
    vm->trap = (enum rt_trap)trap;
    return vm->trap;
}

bool vm_is_expired(struct vm *vm)
{
    return vm->soft_ns != 0 && (vm->frame.interrupted || clock_now_ns() >= vm->soft_ns);
}

bool vm_is_interrupted(const struct vm *vm)
{
    return vm->frame.interrupted != 0;
}

uint64_t vm_memory_size(const struct vm *vm)
{
    return vm->memory->size;
}

const char *vm_engine_key(void)
{
    return ENGINE_KEY;
}

uint64_t vm_seed(struct vm *vm)
{
    if (vm->seeds_left == 0) {
        id_random(vm->seeds, sizeof vm->seeds);
        vm->seeds_left = countof(vm->seeds);
    }
    uint64_t *slot = &vm->seeds[--vm->seeds_left];
    uint64_t seed = *slot | 1; /* the generator's state must not be zero */
    *slot = 0;
    return seed;
}

void vm_forget_seeds(struct vm *vm)
{
    explicit_bzero(vm->seeds, sizeof vm->seeds);
    vm->seeds_left = 0;
}

void vm_poke(struct vm *vm, uint32_t address)
{
    uint32_t text = vm_put_text(vm, STR("x"));
    (void)ENGINE(vm, engine_strcpy(&vm->engine, address, text));
}
