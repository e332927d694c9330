#pragma once

/* The runtime under the translated engine: reserved memories, traps, faults.
 *
 * Each linear memory reserves 8 GB of address space: an index of 32 bits plus an offset of 32 bits
 * cannot leave it, so a wild access of the engine hits a page without rights and becomes a trap.
 * Traps and faults jump back to the frame of the running call; whatever the engine was doing is
 * abandoned and its memory must be thrown away.
 *
 * The lower part of the memory is the engine's own stack. Its cold pages have no rights either; the
 * first touch is noted and granted, so that a wipe knows exactly what was used.
 *
 * One thread runs engines: the frame is a thread-local of that thread. */

#include <setjmp.h>

#include "base/base.h"

struct err;

/* gcc and clang have different attributes for this. */
#if defined(__SANITIZE_ADDRESS__)
#define RT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RT_ASAN 1
#endif
#endif
#ifndef RT_ASAN
#define RT_ASAN 0
#endif

enum rt_trap {
    RT_OK,
    RT_TRAP_MEMORY,      /* access outside the linear memory */
    RT_TRAP_STACK,       /* the native stack or the engine's own is used up */
    RT_TRAP_UNREACHABLE, /* the engine gave up: an assertion of its own */
    RT_TRAP_CALL,        /* indirect call of a function of another type */
    RT_TRAP_ARITHMETIC,  /* division by zero, conversion out of range */
    RT_TRAP_DEADLINE,    /* time is up and the engine does not listen */
};

#define RT_RESERVED (8ULL << 30)
enum {
    RT_PAGE = 65536,
    RT_STACK_HOT = 16 << 10,  /* of the engine's stack: always granted, always wiped */
    RT_STACK_STEP = 64 << 10, /* granted at once by a touch below */
};

/* Where a running call goes back to. */
struct rt_frame {
    sigjmp_buf jump;
    struct rt_frame *outer;
    uint8_t *base;        /* the linear memory */
    uint32_t stack_low;   /* lowest granted address of the engine's stack */
    uint32_t stack_top;   /* the stack is in [0, stack_top) */
    int64_t deadline_ns;  /* monotonic; 0 for none: then a tick stops nothing */
    volatile int engine;  /* translated code is running, so that a jump out leaks nothing of ours */
    volatile int expired; /* the deadline passed while our own code ran */
    volatile int interrupted; /* SIGUSR1 arrived: the running code must end */
};

/* Installs the handlers of SIGSEGV, SIGBUS, SIGALRM and SIGUSR1 with their own stack, again when
 * other code has replaced them. */
int rt_start(struct err *err) MUST_USE;

/* The frame that traps go to; NULL for none. Gives the one before. */
struct rt_frame *rt_set_frame(struct rt_frame *frame);
NORETURN void rt_throw(enum rt_trap trap);
const char *rt_trap_text(enum rt_trap trap);

/* Rings SIGALRM in `ms`; the handler ends what runs past its frame's deadline. 0 disarms. */
void rt_alarm(int64_t ms);

/* Pages [from, to) of a memory lose their rights. */
void rt_withdraw(uint8_t *base, uint64_t from, uint64_t to);
/* Their contents too. */
void rt_revoke(uint8_t *base, uint64_t from, uint64_t to);
int rt_grant(uint8_t *base, uint64_t from, uint64_t to);
