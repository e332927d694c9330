#pragma once

/* Words for probes: programs that run inside a jail and try to get out or to exhaust the host.
 *
 * A probe prints what it found as lines `name=value`, one write each, so that nothing is lost when
 * it is killed. It judges nothing and never crashes: the test outside compares. A refused call is
 * named by its errno ("EPERM"), an accepted one is "ok", a call that ended the process that made it
 * is "signal N". Probes are static, so that they need nothing of the jail's root. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The tool changes its mind about such a list on every pass. */
/* clang-format off */
#define PROBE_ERRNOS(X) \
    X(EPERM) X(ENOENT) X(ESRCH) X(EINTR) X(EIO) X(ENXIO) X(E2BIG) X(ENOEXEC) X(EBADF) \
    X(ECHILD) X(EAGAIN) X(ENOMEM) X(EACCES) X(EFAULT) X(EBUSY) X(EEXIST) X(EXDEV) X(ENODEV) \
    X(ENOTDIR) X(EISDIR) X(EINVAL) X(ENFILE) X(EMFILE) X(ENOTTY) X(ETXTBSY) X(EFBIG) X(ENOSPC) \
    X(ESPIPE) X(EROFS) X(EMLINK) X(EPIPE) X(ERANGE) X(ENAMETOOLONG) X(ENOSYS) X(ENOTEMPTY) \
    X(ELOOP) X(EOVERFLOW) X(EUSERS) X(ENOTSOCK) X(EPROTOTYPE) X(ENOPROTOOPT) \
    X(EPROTONOSUPPORT) X(ESOCKTNOSUPPORT) X(EOPNOTSUPP) X(EPFNOSUPPORT) X(EAFNOSUPPORT) \
    X(EADDRINUSE) X(EADDRNOTAVAIL) X(ENETDOWN) X(ENETUNREACH) X(ECONNREFUSED) X(ETIMEDOUT) \
    X(EHOSTUNREACH) X(EDQUOT) X(ETOOMANYREFS)
/* clang-format on */

static inline const char *errno_name(int e)
{
#define X(name)                                                                                    \
    if (e == name)                                                                                 \
        return #name;
    PROBE_ERRNOS(X)
#undef X
    static char other[24];
    (void)snprintf(other, sizeof other, "E%d", e);
    return other;
}

__attribute__((format(printf, 2, 3))) static inline void say(const char *name, const char *fmt, ...)
{
    char line[8192];
    int n = snprintf(line, sizeof line, "%s=", name);
    va_list args;
    va_start(args, fmt);
    n += vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, args);
    va_end(args);
    if (n > (int)sizeof line - 2)
        n = (int)sizeof line - 2;
    line[n++] = '\n';
    for (ssize_t done = 0, wrote; done < n; done += wrote) {
        wrote = write(1, line + done, (size_t)(n - done));
        if (wrote < 0)
            _exit(3); /* nobody listens */
    }
}

/* Says how a call that returned `rc` went; to be used while errno is still its. */
static inline void say_result(const char *name, long rc)
{
    say(name, "%s", rc < 0 ? errno_name(errno) : "ok");
}

/* Makes a system call in a child, so that its success changes nothing for the next attempt. */
static inline void attempt_call(const char *name, long nr, long a, long b, long c, long d, long e,
                                long f)
{
    pid_t child = fork();
    if (child == 0) {
        long rc = syscall(nr, a, b, c, d, e, f);
        _exit(rc < 0 ? errno : 0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0)
        say(name, "no-fork");
    else if (WIFSIGNALED(status))
        say(name, "signal %d", WTERMSIG(status));
    else
        say(name, "%s", WEXITSTATUS(status) == 0 ? "ok" : errno_name(WEXITSTATUS(status)));
}

#define P(pointer) ((long)(uintptr_t)(pointer))
#define ATTEMPT(name, ...) ATTEMPT_(name, __VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define ATTEMPT_(name, nr, a, b, c, d, e, f, ...)                                                  \
    attempt_call(name, (long)(nr), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* What /proc and friends hold, cut to the buffer and NUL-terminated; -1 with errno. */
static inline ssize_t slurp(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t len = 0;
    for (ssize_t got; len < size - 1; len += (size_t)got) {
        got = read(fd, buf + len, size - 1 - len);
        if (got < 0 && len == 0) {
            int e = errno;
            (void)close(fd);
            errno = e;
            return -1;
        }
        if (got <= 0)
            break;
    }
    buf[len] = '\0';
    (void)close(fd);
    return (ssize_t)len;
}

static inline long number(const char *text, long otherwise)
{
    return text != NULL ? strtol(text, NULL, 0) : otherwise;
}
