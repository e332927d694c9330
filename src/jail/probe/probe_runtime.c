/* Languages found below /usr, which a jail sees by default: each is asked for its version. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "jail/probe/probe_internal.h"

enum { ANSWER_MAX = 256, VERSION_MAX = 60, PROGRAM_MAX = 64 };

static bool find_program(const char *name, char *out, size_t size)
{
    static const char *const dirs[] = {"/usr/local/bin", "/usr/bin"};
    for (size_t i = 0; i < countof(dirs); i++) {
        (void)snprintf(out, size, "%s/%s", dirs[i], name);
        if (access(out, X_OK) == 0)
            return true;
    }
    return false;
}

NORETURN static void be_program(const char *path, int out)
{
    char *const argv[] = {mem_dup_cstr(path), mem_dup_cstr("--version"), NULL};
    char *const envp[] = {mem_dup_cstr("PATH=/usr/local/bin:/usr/bin:/bin"),
                          mem_dup_cstr("LC_ALL=C"), mem_dup_cstr("HOME=/nonexistent"), NULL};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 2) < 0 || dup2(out, 1) < 0)
        _exit(126);
    (void)execve(path, argv, envp);
    _exit(127);
}

/* The first line, cut short, with nothing in it that a terminal could take for a command. */
static void take_version(const char *answer, char *out, size_t size)
{
    size_t len = 0;
    for (; answer[len] >= ' ' && answer[len] < 0x7f && len + 1 < size; len++)
        out[len] = answer[len];
    out[len] = '\0';
}

static void probe_runtime_read_answer(int in, char *out, size_t size)
{
    size_t len = 0;
    ssize_t got;
    while (len < size - 1 && (got = read(in, out + len, size - 1 - len)) > 0)
        len += (size_t)got;
    out[len] = '\0';
}

PROBE_RUN(probe_runtime)
{
    (void)env;
    char path[PROGRAM_MAX], answer[ANSWER_MAX], version[VERSION_MAX];
    int ends[2];
    if (!find_program(probe->word, path, sizeof path)) {
        (void)probe_fail(result, 0, "no %s in /usr", probe->word);
        return;
    }
    if (SYS(pipe2(ends, O_CLOEXEC)) < 0) {
        (void)probe_fail(result, errno, "open a pipe");
        return;
    }
    AUTO_CLOSE int in = ends[0];
    AUTO_CLOSE int out = ends[1];
    pid_t pid = SYS(fork());
    if (pid < 0) {
        (void)probe_fail(result, errno, "fork");
        return;
    }
    if (pid == 0)
        be_program(path, out);
    fd_close(&out);
    probe_runtime_read_answer(in, answer, sizeof answer);
    fd_close(&in);
    int code = probe_wait(pid);
    take_version(answer, version, sizeof version);
    if (version[0] == '\0' || (code != 0 && code != 128 + SIGPIPE))
        (void)probe_fail(result, 0, "'%s --version' ended with %d", path, code);
    else
        probe_say(result, PROBE_OK, "%s, %s", version, path);
}
