#include "jail/inside/init_command.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "jail/inside/setup.h"
#include "jail/wire/init.h"
#include "jail/wire/oom_tag.h"
#include "jail/wire/wire.h"

#define OOM_SCORE_COMMAND "500"
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* How a child fared that shares our memory until it execs; it writes, we read. */
static volatile struct {
    int stage, code;
} outcome;

static void failed(enum init_stage stage, int code)
{
    outcome.stage = stage;
    outcome.code = code;
}

static bool read_words(const char **words, struct wire_in *in)
{
    uint32_t count = wire_get_u32(in);
    if (in->bad || count > JAIL_ARGS_MAX)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        words[i] = wire_get_cstr(in);
        if (words[i] == NULL)
            return false;
    }
    words[count] = NULL;
    return true;
}

bool init_command_read(struct init_command *command, struct wire_in *in, const int fds[3])
{
    uint32_t flags = wire_get_u32(in);
    command->rows = (uint16_t)wire_get_u32(in);
    command->cols = (uint16_t)wire_get_u32(in);
    command->cwd = wire_get_cstr(in);
    if (in->bad || !read_words(command->argv, in) || !read_words(command->env, in) ||
        !wire_ended(in))
        return false;
    command->tty = (flags & INIT_FLAG_TTY) != 0;
    command->fds = fds;
    bool has_fds = fds[0] >= 0 && fds[1] >= 0 && fds[2] >= 0;
    return command->argv[0] != NULL && command->cwd != NULL && (command->tty || has_fds);
}

/* The terminal lives in the jail's own devpts, so that its name means something inside. */
static bool open_terminal(const struct init_command *command, int *ret_master, int *ret_slave)
{
    AUTO_CLOSE int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    int unlock = 0;
    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
        return false;
    AUTO_CLOSE int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    struct winsize size = {.ws_row = command->rows == 0 ? 24 : command->rows,
                           .ws_col = command->cols == 0 ? 80 : command->cols};
    if (slave < 0 || ioctl(master, TIOCSWINSZ, &size) < 0)
        return false;
    *ret_master = fd_take(&master);
    *ret_slave = fd_take(&slave);
    return true;
}

/* Opened in here, so beneath this root; links of proc to other trees are not followed. */
static int enter_cwd(const char *path)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_NO_MAGICLINKS};
    AUTO_CLOSE int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    if (fd < 0 || fchdir(fd) < 0)
        return errno;
    return 0;
}

static const char *path_of(const char *const *env)
{
    for (size_t i = 0; env[i] != NULL; i++)
        if (strncmp(env[i], "PATH=", 5) == 0)
            return env[i] + 5;
    return DEFAULT_PATH;
}

static void run_file(const char *file, const struct init_command *command)
{
    (void)execve(file, (char *const *)(uintptr_t)command->argv,
                 (char *const *)(uintptr_t)command->env);
    int code = errno;
    bool is_there = code == ENOENT && access(file, F_OK) == 0;
    failed(is_there ? INIT_STAGE_INTERPRETER : INIT_STAGE_PROGRAM, code);
}

static void run_program(const struct init_command *command)
{
    static char file[JAIL_PATH_MAX + 256];
    if (strchr(command->argv[0], '/') != NULL) {
        run_file(command->argv[0], command);
        return;
    }
    struct str path = str_of(path_of(command->env)), dir;
    while (str_split(&path, ':', &dir)) {
        int len = snprintf(file, sizeof file, "%.*s/%s", STR_ARG(dir), command->argv[0]);
        if (dir.len == 0 || len < 0 || (size_t)len >= sizeof file || access(file, X_OK) < 0)
            continue;
        run_file(file, command);
        return;
    }
    failed(INIT_STAGE_PROGRAM, ENOENT);
}

static void init_command_become(const struct init_command *command, const int fds[3])
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setsid();
    int code = enter_cwd(command->cwd);
    if (code != 0) {
        failed(INIT_STAGE_CWD, code);
        return;
    }
    /* Ours are all above 2, and CLOEXEC; dup2 gives copies without that flag. */
    for (int i = 0; i < 3; i++)
        if (dup2(fds[i], i) < 0) {
            failed(INIT_STAGE_LIMIT, errno);
            return;
        }
    if (command->tty)
        (void)ioctl(0, TIOCSCTTY, 0);
    run_program(command);
}

void init_oom_score(bool first)
{
    const char *score = first ? OOM_SCORE_COMMAND : "0";
    (void)!pwrite(SETUP_OOM_FD, score, strlen(score), 0);
}

/* As above, and each command's own: all of its descendants are known by it. */
static void mark(uint32_t id)
{
    char score[16];
    size_t len = (size_t)snprintf(score, sizeof score, "%d", oom_tag_of(id));
    (void)!pwrite(SETUP_OOM_FD, score, len, 0);
}

bool init_command_start(const struct init_command *command, uint32_t id,
                        struct init_started *ret_started)
{
    AUTO_CLOSE int master = -1, slave = -1;
    int fds[3];
    *ret_started = (struct init_started){.master_fd = -1, .since_ns = clock_now_ns()};
    if (command->tty && !open_terminal(command, &master, &slave)) {
        ret_started->stage = INIT_STAGE_LIMIT;
        ret_started->code = errno;
        return false;
    }
    for (int i = 0; i < 3; i++)
        fds[i] = command->tty ? slave : command->fds[i];
    failed(INIT_STAGE_MESSAGE, 0);
    mark(id);
    pid_t pid = vfork();
    if (pid == 0) {
        init_command_become(command, fds);
        _exit(127);
    }
    if (pid < 0)
        failed(INIT_STAGE_LIMIT, errno);
    init_oom_score(false);
    ret_started->pid = pid;
    ret_started->stage = outcome.stage;
    ret_started->code = outcome.code;
    if (outcome.code != 0)
        return false; /* the child, if there was one, is reaped like an orphan */
    ret_started->master_fd = fd_take(&master);
    return true;
}
