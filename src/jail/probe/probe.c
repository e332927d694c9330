#include "jail/probe/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/sys.h"
#include "jail/probe/probe_internal.h"

void probe_say(struct probe_result *result, enum probe_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(result->detail, sizeof result->detail, fmt, args);
    va_end(args);
    result->status = status;
}

int probe_fail(struct probe_result *result, int sys, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int used = vsnprintf(result->detail, sizeof result->detail, fmt, args);
    va_end(args);
    size_t at = used < 0 ? 0 : MIN((size_t)used, sizeof result->detail - 1);
    if (sys != 0)
        (void)snprintf(result->detail + at, sizeof result->detail - at, ": %s", strerror(sys));
    result->status = PROBE_MISSING;
    result->sys = sys;
    return -1;
}

void probe_fix(struct probe_result *result, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(result->fix, sizeof result->fix, fmt, args);
    va_end(args);
}

int probe_read(const char *path, char *out, size_t out_size)
{
    AUTO_CLOSE int fd = SYS(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd < 0)
        return -1;
    size_t len = 0;
    while (len < out_size - 1) {
        ssize_t got = SYS(read(fd, out + len, out_size - 1 - len));
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        len += (size_t)got;
    }
    while (len > 0 && (out[len - 1] == '\n' || out[len - 1] == ' '))
        len--;
    out[len] = '\0';
    return 0;
}

int probe_write(const char *path, const char *text)
{
    AUTO_CLOSE int fd = SYS(open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd < 0)
        return -1;
    ssize_t put = SYS(write(fd, text, strlen(text)));
    return put == (ssize_t)strlen(text) ? 0 : -1;
}

int64_t probe_read_number(const char *path, int64_t absent)
{
    char text[64];
    int64_t number;
    if (probe_read(path, text, sizeof text) < 0)
        return absent;
    return str_to_i64(str_of(text), INT64_MIN, INT64_MAX, &number) ? number : absent;
}

bool probe_has_word(struct str list, struct str word)
{
    size_t start = 0;
    for (size_t i = 0; i <= list.len; i++) {
        if (i < list.len && list.ptr[i] != ' ' && list.ptr[i] != ',')
            continue;
        if (str_eq(str_slice(list, start, i), word))
            return true;
        start = i + 1;
    }
    return false;
}

int probe_wait(pid_t pid)
{
    int status;
    pid_t got;
    do
        got = waitpid(pid, &status, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

const char *probe_status_name(enum probe_status status)
{
    static const char *const names[] = {
        [PROBE_OK] = "ok",
        [PROBE_PARTIAL] = "partial",
        [PROBE_MISSING] = "missing",
        [PROBE_INFO] = "info",
    };
    assert((size_t)status < countof(names));
    return names[status];
}

void probe_env_init(struct probe_env *env, const char *data_dir)
{
    *env = (struct probe_env){0};
    (void)snprintf(env->data_dir, sizeof env->data_dir, "%s", data_dir);
    while (access(env->data_dir, F_OK) < 0) {
        char *slash = strrchr(env->data_dir, '/');
        if (slash == NULL || slash == env->data_dir) {
            (void)snprintf(env->data_dir, sizeof env->data_dir, "/");
            break;
        }
        *slash = '\0';
    }
    (void)snprintf(env->group, sizeof env->group, "sandglass-probe-%d", (int)getpid());
    probe_cgroups_read(&env->cgroups);
}

NORETURN static void be_child(const struct probe *probe, const struct probe_env *env, pid_t parent,
                              const sigset_t *mask, int out)
{
    /* Its own group lets the parent end everything that came of it in one call. */
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    struct rlimit no_core = {0};
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)sigprocmask(SIG_SETMASK, mask, NULL);

    struct probe_result result = {.status = PROBE_MISSING};
    probe->run(probe, env, &result);
    ssize_t put = write(out, &result, sizeof result); /* below PIPE_BUF: all or nothing */
    _exit(put == (ssize_t)sizeof result ? 0 : 1);
}

static bool hear(int in, struct probe_result *result)
{
    int64_t deadline = clock_now_ms() + PROBE_TIME_MS;
    for (;;) {
        int64_t left = deadline - clock_now_ms();
        struct pollfd wait = {.fd = in, .events = POLLIN};
        int ready = poll(&wait, 1, (int)MAX(left, (int64_t)0));
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0) {
            (void)probe_fail(result, ETIMEDOUT, "no answer within %d ms", PROBE_TIME_MS);
            return true;
        }
        struct probe_result heard;
        if (read(in, &heard, sizeof heard) != (ssize_t)sizeof heard)
            return false;
        *result = heard;
        return true;
    }
}

/* Ends and reaps the whole group; gives how the child itself ended. The caller is a subreaper, so
 * orphans of the group arrive here one generation at a time. */
static int end_group(pid_t child)
{
    (void)kill(-child, SIGKILL);
    (void)kill(child, SIGKILL);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    for (int64_t deadline = clock_now_ms() + 500; clock_now_ms() < deadline;) {
        pid_t got = waitpid(-child, NULL, WNOHANG);
        if (got < 0 && errno != EINTR)
            break;
        if (got == 0)
            (void)nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    return status;
}

static void run_child(const struct probe *probe, const struct probe_env *env, const sigset_t *mask,
                      struct probe_result *result)
{
    int ends[2] = {-1, -1};
    if (SYS(pipe2(ends, O_CLOEXEC)) < 0) {
        (void)probe_fail(result, errno, "open a pipe");
        return;
    }
    AUTO_CLOSE int in = ends[0];
    AUTO_CLOSE int out = ends[1];
    pid_t parent = getpid();
    pid_t child = SYS(fork());
    if (child < 0) {
        (void)probe_fail(result, errno, "start a child");
        probe_fix(result, "ulimit -u unlimited");
        return;
    }
    if (child == 0)
        be_child(probe, env, parent, mask, out);
    fd_close(&out);
    (void)setpgid(child, child);
    bool heard = hear(in, result);
    int status = end_group(child);
    if (!heard && WIFSIGNALED(status))
        (void)probe_fail(result, 0, "the attempt was ended by signal %d (%s)", WTERMSIG(status),
                         strsignal(WTERMSIG(status)));
    else if (!heard)
        (void)probe_fail(result, 0, "the attempt ended without an answer");
}

void probe_run(const struct probe *probe, const struct probe_env *env, struct probe_result *result)
{
    *result = (struct probe_result){.status = PROBE_MISSING};

    /* An interrupt waits until everything is removed. */
    sigset_t hold, mask;
    sigemptyset(&hold);
    sigaddset(&hold, SIGINT);
    sigaddset(&hold, SIGTERM);
    sigaddset(&hold, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &hold, &mask);
    int was_subreaper = 0;
    (void)prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);

    run_child(probe, env, &mask, result);
    if (probe->tidy != NULL && !probe->tidy(env) && result->status == PROBE_OK)
        probe_say(result, PROBE_PARTIAL, "works, but control group '%s' could not be removed",
                  env->group);

    (void)prctl(PR_SET_CHILD_SUBREAPER, was_subreaper);
    (void)sigprocmask(SIG_SETMASK, &mask, NULL);
}

void probe_run_all(const struct probe_env *env, struct probe_result *results)
{
    for (size_t i = 0; i < probe_count; i++)
        probe_run(&probes[i], env, &results[i]);
}
