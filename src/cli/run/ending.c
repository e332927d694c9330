#include "cli/run/ending.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/cli.h"

enum { ECHO_MS = 15, ECHO_WAITING_MS = 150 };

static int pipe_fds[2] = {-1, -1};
static const struct termios *volatile to_restore;
static volatile sig_atomic_t waiting; /* a signal that the program has not acted on */

/* Calls nothing that a signal handler may not. */
static void ending_leave(int signo, const char *text, size_t len)
{
    if (to_restore != NULL)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, (const struct termios *)to_restore);
    /* Standard error may be a pipe without a reader. */
    int flags = fcntl(STDERR_FILENO, F_GETFL);
    if (flags >= 0)
        (void)fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK);
    (void)!write(STDERR_FILENO, text, len);
    if (flags >= 0)
        (void)fcntl(STDERR_FILENO, F_SETFL, flags);
    _exit(EXIT_SIGNALED + signo);
}

/* timeout(1) signals its child and then the whole process group: a user does not ask twice so
 * quickly, before the first signal could have an effect. */
static bool is_echo(int signo)
{
    static volatile sig_atomic_t last;
    static volatile int64_t last_ms;
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    int64_t since_ms = now_ms - last_ms;
    bool same = last == signo && since_ms < (waiting == signo ? ECHO_WAITING_MS : ECHO_MS);
    last = signo;
    last_ms = now_ms;
    return same;
}

static void ending_on_signal(int signo)
{
    static const char twice[] = "\nsandglass: ended by the second signal\n";
    int saved = errno;
    char byte = (char)signo;
    if (is_echo(signo)) {
        errno = saved;
        return;
    }
    if (waiting != 0)
        ending_leave(signo, twice, sizeof twice - 1);
    waiting = signo;
    (void)alarm(ENDING_S);
    (void)!write(pipe_fds[1], &byte, 1);
    errno = saved;
}

static void on_alarm(UNUSED int signo)
{
    static const char late[] = "\n"
                               "sandglass: no response within 5 s from the server or the reader of "
                               "the output; code in the sandbox may still be running\n";
    if (waiting != 0)
        ending_leave((int)waiting, late, sizeof late - 1);
}

int ending_watch(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = ending_on_signal, .sa_flags = SA_RESTART};
    struct sigaction alarmed = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    if (pipe_fds[0] < 0 && pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0)
        return -1;
    (void)sigemptyset(&action.sa_mask);
    (void)sigemptyset(&alarmed.sa_mask);
    (void)sigaction(SIGALRM, &alarmed, NULL);
    for (size_t i = 0; i < countof(signals); i++)
        (void)sigaction(signals[i], &action, NULL);
    return pipe_fds[0];
}

void ending_restore(const struct termios *before)
{
    to_restore = before;
}

int ending_take(void)
{
    char byte = 0;
    return read(pipe_fds[0], &byte, 1) == 1 ? byte : 0;
}

void ending_done(void)
{
    waiting = 0;
    (void)alarm(0);
}

void ending_expect(int signo)
{
    waiting = signo;
    (void)alarm(ENDING_S);
}
