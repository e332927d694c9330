#include "cli/run/interrupts.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static int pipe_fds[2] = {-1, -1};
static volatile sig_atomic_t seen;
static void (*to_call)(void *ctx);
static void *call_ctx;
static sigjmp_buf *volatile prompt;

void interrupts_hold(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
}

/* Calls nothing that a signal handler may not. */
static void on_interrupt(int signo)
{
    int saved = errno;
    if (prompt != NULL) {
        sigjmp_buf *at = (sigjmp_buf *)prompt;
        prompt = NULL;
        siglongjmp(*at, 1);
    }
    if (seen) {
        (void)signal(signo, SIG_DFL);
        (void)raise(signo);
    }
    seen = 1;
    if (to_call != NULL)
        to_call(call_ctx);
    (void)!write(pipe_fds[1], "", 1);
    errno = saved;
}

int interrupts_watch(void (*call)(void *ctx), void *ctx)
{
    struct sigaction action = {.sa_handler = on_interrupt};
    sigset_t set;
    to_call = call;
    call_ctx = ctx;
    if (pipe_fds[0] < 0 && pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0)
        return -1;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
    return pipe_fds[0];
}

void interrupts_begin(void)
{
    char byte;
    seen = 0;
    while (pipe_fds[0] >= 0 && read(pipe_fds[0], &byte, 1) == 1)
        ;
}

int interrupts_seen(void)
{
    return seen;
}

void interrupts_at_prompt(void *at_prompt)
{
    prompt = at_prompt;
}
