#include "isolate/vm/rt.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/sys.h"

#include "engine.h" /* made by tools/engine; here only for wabt's runtime interface */

enum { SIGNAL_STACK = 64 << 10, FUNC_TYPES_MAX = 256, FUNC_ARGS_MAX = 32 };

static __thread struct rt_frame *current;

struct rt_frame *rt_set_frame(struct rt_frame *frame)
{
    struct rt_frame *before = current;
    current = frame;
    return before;
}

void rt_throw(enum rt_trap trap)
{
    struct rt_frame *frame = current;
    assert(frame != NULL); /* translated code runs under a frame only */
    frame->engine = 0;
    siglongjmp(frame->jump, (int)trap);
}

const char *rt_trap_text(enum rt_trap trap)
{
    static const char *const texts[] = {
        [RT_OK] = "no trap",
        [RT_TRAP_MEMORY] = "the engine reached outside its memory",
        [RT_TRAP_STACK] = "the engine's stack is used up",
        [RT_TRAP_UNREACHABLE] = "the engine stopped itself",
        [RT_TRAP_CALL] = "the engine called a function of another type",
        [RT_TRAP_ARITHMETIC] = "the engine made an impossible conversion or division",
        [RT_TRAP_DEADLINE] = "time is up",
    };
    return (size_t)trap < countof(texts) ? texts[trap] : "unknown trap";
}

/* --- Faults --- */

/* A touch of the engine's stack below what was granted: grant more and go on. */
static bool stack_grows(struct rt_frame *frame, uint64_t address)
{
    if (address >= frame->stack_low || address >= frame->stack_top)
        return false;
    uint32_t low = (uint32_t)(address & ~(uint64_t)(RT_STACK_STEP - 1));
    if (rt_grant(frame->base, low, frame->stack_low) < 0)
        return false;
    frame->stack_low = low;
    return true;
}

static void on_fault(int sig, siginfo_t *info, UNUSED void *context)
{
    struct rt_frame *frame = current;
    uintptr_t at = (uintptr_t)info->si_addr, base = frame == NULL ? 0 : (uintptr_t)frame->base;
    bool inside = frame != NULL && at >= base && at - base < RT_RESERVED;
    if (inside && stack_grows(frame, at - base))
        return;
    if (frame == NULL || !frame->engine) {
        /* Our own bug, not the engine's: die of it, with a core that shows where. */
        (void)signal(sig, SIG_DFL);
        (void)raise(sig);
        return;
    }
    rt_throw(inside ? RT_TRAP_MEMORY : RT_TRAP_STACK);
}

static void on_alarm(UNUSED int sig)
{
    struct rt_frame *frame = current;
    if (frame == NULL || frame->deadline_ns == 0 || clock_now_ns() < frame->deadline_ns)
        return;
    if (frame->engine)
        rt_throw(RT_TRAP_DEADLINE);
    frame->expired = 1; /* our own code runs: it looks when it calls the engine next */
}

/* What runs ends at its next look at the clock; what does not look has a moment until the trap. */
static void on_interrupt(UNUSED int sig)
{
    enum { GRACE_MS = 500 };
    struct rt_frame *frame = current;
    if (frame == NULL || frame->deadline_ns == 0)
        return;
    frame->interrupted = 1;
    frame->deadline_ns = MIN(frame->deadline_ns, clock_now_ns() + GRACE_MS * 1000000LL);
    rt_alarm(GRACE_MS + 1);
}

int rt_start(struct err *err)
{
    static uint8_t memory[SIGNAL_STACK];
    stack_t stack = {.ss_sp = memory, .ss_size = SIGNAL_STACK};
    /* NODEFER: leaving by a jump must not leave the signal blocked, and costs no system call. */
    struct sigaction fault = {.sa_sigaction = on_fault,
                              .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    struct sigaction tick = {.sa_handler = on_alarm,
                             .sa_flags = SA_ONSTACK | SA_NODEFER | SA_RESTART};
    struct sigaction interrupt = {.sa_handler = on_interrupt, .sa_flags = SA_ONSTACK | SA_NODEFER};
    if (SYS(sigaltstack(&stack, NULL)) < 0 || SYS(sigaction(SIGSEGV, &fault, NULL)) < 0 ||
        SYS(sigaction(SIGBUS, &fault, NULL)) < 0 || SYS(sigaction(SIGALRM, &tick, NULL)) < 0 ||
        SYS(sigaction(SIGUSR1, &interrupt, NULL)) < 0)
        return err_sys(err, errno, "install fault handlers");
    return 0;
}

void rt_alarm(int64_t ms)
{
    /* Rings again: a first ring may fall into our own code, which the handler must not leave. */
    struct itimerval timer = {
        .it_value = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000},
        .it_interval = {.tv_usec = ms == 0 ? 0 : 20000},
    };
    (void)setitimer(ITIMER_REAL, &timer, NULL);
}

/* --- Memories --- */

void rt_withdraw(uint8_t *base, uint64_t from, uint64_t to)
{
    (void)mprotect(base + from, to - from, PROT_NONE);
}

void rt_revoke(uint8_t *base, uint64_t from, uint64_t to)
{
    if (from >= to)
        return;
    (void)madvise(base + from, to - from, MADV_DONTNEED);
    (void)mprotect(base + from, to - from, PROT_NONE);
}

int rt_grant(uint8_t *base, uint64_t from, uint64_t to)
{
    return from >= to ? 0 : mprotect(base + from, to - from, PROT_READ | PROT_WRITE);
}

#if ENGINE_WABT >= 10033
typedef uint64_t pages_t;
void wasm_rt_allocate_memory(wasm_rt_memory_t *memory, uint64_t initial, uint64_t max,
                             UNUSED bool is64)
#else
typedef uint32_t pages_t;
void wasm_rt_allocate_memory(wasm_rt_memory_t *memory, uint32_t initial, uint32_t max)
#endif
{
    pages_t bytes = initial * RT_PAGE;
    uint8_t *base =
        SYS(mmap(NULL, RT_RESERVED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (base == MAP_FAILED) {
        memory->data = NULL; /* vm_new looks at it */
        rt_throw(RT_TRAP_MEMORY);
    }
    if (rt_grant(base, 0, bytes) < 0) {
        (void)munmap(base, RT_RESERVED);
        memory->data = NULL;
        rt_throw(RT_TRAP_MEMORY);
    }
    memory->data = base;
    memory->size = bytes;
    memory->pages = initial;
    memory->max_pages = max;
}

/* The ceiling is max_pages, which vm.c sets: growth past it fails and the engine reports it as out
 * of memory. */
pages_t wasm_rt_grow_memory(wasm_rt_memory_t *memory, pages_t delta)
{
    pages_t before = memory->pages;
    if (delta > memory->max_pages - MIN(before, memory->max_pages))
        return (pages_t)-1;
    if (rt_grant(memory->data, (uint64_t)before * RT_PAGE, (uint64_t)(before + delta) * RT_PAGE) <
        0)
        return (pages_t)-1;
    memory->pages = before + delta;
    memory->size = memory->pages * RT_PAGE;
    return before;
}

void wasm_rt_free_memory(wasm_rt_memory_t *memory)
{
    if (memory->data != NULL)
        (void)munmap(memory->data, RT_RESERVED);
    memory->data = NULL;
}

/* --- Tables, types, traps: what else the translated code asks for --- */

void wasm_rt_allocate_funcref_table(wasm_rt_funcref_table_t *table, uint32_t elements,
                                    uint32_t max_elements)
{
    table->data = mem_alloc(MAX(elements, 1u) * sizeof *table->data);
    table->size = elements;
    table->max_size = max_elements;
}

void wasm_rt_free_funcref_table(wasm_rt_funcref_table_t *table)
{
    free(table->data);
    table->data = NULL;
}

#if ENGINE_WABT < 10033
/* Numbers for signatures: equal for equal ones. */
uint32_t wasm_rt_register_func_type(uint32_t params, uint32_t results, ...)
{
    static struct {
        uint32_t params, results;
        wasm_rt_type_t types[FUNC_ARGS_MAX];
    } known[FUNC_TYPES_MAX];
    static uint32_t count;
    assert(params + results <= FUNC_ARGS_MAX && count < FUNC_TYPES_MAX);

    va_list args;
    va_start(args, results);
    known[count].params = params;
    known[count].results = results;
    memset(known[count].types, 0, sizeof known[count].types);
    for (uint32_t i = 0; i < params + results; i++)
        known[count].types[i] = va_arg(args, wasm_rt_type_t);
    va_end(args);
    for (uint32_t i = 0; i < count; i++)
        if (memcmp(&known[i], &known[count], sizeof known[0]) == 0)
            return i + 1;
    return ++count;
}
#endif

bool wasm_rt_is_initialized(void)
{
    return true;
}

void wasm_rt_trap(wasm_rt_trap_t trap)
{
    switch (trap) {
    case WASM_RT_TRAP_OOB:
        rt_throw(RT_TRAP_MEMORY);
    case WASM_RT_TRAP_EXHAUSTION:
        rt_throw(RT_TRAP_STACK);
    case WASM_RT_TRAP_CALL_INDIRECT:
        rt_throw(RT_TRAP_CALL);
    case WASM_RT_TRAP_INT_OVERFLOW:
    case WASM_RT_TRAP_DIV_BY_ZERO:
    case WASM_RT_TRAP_INVALID_CONVERSION:
        rt_throw(RT_TRAP_ARITHMETIC);
    default:
        rt_throw(RT_TRAP_UNREACHABLE);
    }
}
