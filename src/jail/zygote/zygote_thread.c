#include "jail/zygote/zygote_thread.h"

#include <pthread.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TID_WORDS = 512, RSEQ_BYTES = 32 };

static uint16_t found[64]; /* words of the thread's data that may be its number */
static size_t count;
static pid_t *tid_word; /* the one that is */

static pid_t *words(void)
{
    return (pid_t *)(uintptr_t)pthread_self();
}

void zygote_thread_before(void)
{
    pid_t tid = (pid_t)syscall(SYS_gettid);
    count = 0;
    for (uint16_t i = 0; i < TID_WORDS && count < countof(found); i++)
        if (words()[i] == tid)
            found[count++] = i;
}

void zygote_thread_after(void)
{
    pid_t tid = (pid_t)syscall(SYS_gettid);
    tid_word = NULL;
    for (size_t i = 0; i < count; i++)
        if (words()[found[i]] == tid)
            tid_word = &words()[found[i]];
}

/* Its own frame would not survive the check at its end. */
__attribute__((no_stack_protector)) void zygote_thread_renew(void)
{
    enum { AT_RANDOM_BYTES = 16 };
    struct {
        uint64_t guard;
        unsigned char bytes[AT_RANDOM_BYTES];
    } fresh;
    if (getrandom(&fresh, sizeof fresh, 0) != (ssize_t)sizeof fresh)
        _exit(1);
    void *bytes = (void *)(uintptr_t)getauxval(AT_RANDOM);
    if (bytes != NULL)
        memcpy(bytes, fresh.bytes, sizeof fresh.bytes);
#if defined(__x86_64__)
    /* As the C library makes it: the first byte ends a string that runs into it. */
    __asm__ volatile("mov %0, %%fs:0x28" : : "r"(fresh.guard & ~(uint64_t)0xff) : "memory");
#endif
    explicit_bzero(&fresh, sizeof fresh);
}

void zygote_thread_renumber(void)
{
    if (tid_word != NULL)
        *tid_word = (pid_t)syscall(SYS_gettid);
}

static struct {
    void *head;
    size_t size;
} robust; /* mutexes that are given free when the thread ends */

void zygote_thread_leave(void)
{
    if (syscall(SYS_get_robust_list, 0, &robust.head, &robust.size) < 0)
        robust.head = NULL;
}

void zygote_thread_take_over(void)
{
    zygote_thread_renumber();
    if (robust.head != NULL)
        (void)syscall(SYS_set_robust_list, robust.head, robust.size);
    /* Which processor it runs on is written there by the Linux kernel. */
    if (__rseq_size != 0)
        (void)syscall(SYS_rseq, (char *)__builtin_thread_pointer() + __rseq_offset, RSEQ_BYTES, 0,
                      RSEQ_SIG);
}
