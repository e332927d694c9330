/* The shell interpreter as a program of a jail: kernel-bash serves cells on its standard input,
 * which is a socket. One bash lives behind it, so that the working directory, variables and
 * functions stay.
 *
 * The shell is interactive but has no terminal: only an interactive shell returns to its prompt
 * when it is interrupted in a loop. For each cell it sources a file in memory and then reports its
 * status. The file contains the cell as the argument of an eval, because bash 5.2 corrupts its heap
 * if a sourced file has an unterminated `$(`. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "kernel/frame.h"

enum { LINE = 20, STATUS_OUT = 8, CODE_FILE = 9, STATUS_TEXT = 64 };

static const char welcome[] = "set +m +H +o history; PS1= PS2= PROMPT_COMMAND=; exec 2>&7 7>&-\n";
static const char step[] = ". /proc/self/fd/9 </dev/null\nprintf '%s\\n' \"$?\" >&8\n";
/* Runs before a cell, so that the cell finds the status of the one before. The left side of a list
 * triggers neither `set -e` nor a trap. */
static const char status_before[] = "(exit %d) && :\n";

struct shell {
    pid_t pid;
    int in;     /* its standard input */
    int status; /* where it says how a cell ended */
    int last;   /* how the one before did */
};

static int code_file = -1;
static struct buf answer;

static void kernel_bash_say(uint32_t type, uint32_t id, const struct str *texts, size_t count)
{
    struct err err;
    buf_clear(&answer);
    frame_write(&answer, type, id, texts, count);
    if (fd_write_all(LINE, buf_str(&answer), &err) < 0)
        _exit(0); /* the server has closed the connection */
}

static void NORETURN become_shell(const int in[2], const int status[2])
{
    char *argv[] = {(char[]){"bash"},        (char[]){"--norc"}, (char[]){"--noprofile"},
                    (char[]){"--noediting"}, (char[]){"-i"},     NULL};
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int told = fcntl(status[1], F_DUPFD_CLOEXEC, LINE),
        code = fcntl(code_file, F_DUPFD_CLOEXEC, LINE);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGINT, SIG_DFL);
    /* Until it is set up, messages of an interactive shell about its missing terminal are dropped.
     */
    if (null >= 0 && dup2(in[0], STDIN_FILENO) >= 0 && dup2(STDERR_FILENO, 7) >= 0 &&
        dup2(null, STDERR_FILENO) >= 0 && dup2(told, STATUS_OUT) >= 0 && dup2(code, CODE_FILE) >= 0)
        (void)execv("/bin/bash", argv);
    _exit(127);
}

static int shell_start(struct shell *shell, struct err *err)
{
    int in[2], status[2];
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(status, O_CLOEXEC) < 0)
        return err_sys(err, errno, "start the shell");
    shell->pid = fork();
    if (shell->pid == 0)
        become_shell(in, status);
    if (shell->pid < 0)
        return err_sys(err, errno, "start the shell");
    (void)close(in[0]);
    (void)close(status[1]);
    shell->in = in[1];
    shell->status = status[0];
    shell->last = 0;
    return fd_write_all(shell->in, str_of(welcome), err);
}

/* The shell has ended; what was its last word? */
static int shell_bury(struct shell *shell)
{
    int status = 0;
    (void)waitpid(shell->pid, &status, 0);
    fd_close(&shell->in);
    fd_close(&shell->status);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void put_quoted(struct str text, struct buf *out)
{
    buf_put_char(out, '\'');
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] == '\'')
            buf_put_cstr(out, "'\\''");
        else
            buf_put_char(out, text.ptr[i]);
    buf_put_char(out, '\'');
}

/* Before the code and on its first line, so that lines keep their numbers. Names were checked. */
static void put_variables(struct str variables, struct buf *out)
{
    struct str variable;
    while (str_split(&variables, '\0', &variable)) {
        size_t at = str_find_char(variable, '=');
        if (at == variable.len)
            continue;
        buf_printf(out, "export %.*s=", (int)at, variable.ptr);
        put_quoted(str_slice(variable, at + 1, variable.len), out);
        buf_put_cstr(out, "; ");
    }
}

static int put_code(struct str code, struct str variables, struct err *err)
{
    AUTO_BUF struct buf text = buf_with_limit((size_t)5 * FRAME_MAX); /* a quote becomes four */
    put_variables(variables, &text);
    buf_put_cstr(&text, "eval ");
    put_quoted(code, &text);
    if (ftruncate(code_file, 0) < 0 || lseek(code_file, 0, SEEK_SET) < 0)
        return err_sys(err, errno, "hand over the code");
    return fd_write_all(code_file, buf_str(&text), err);
}

/* The cell is in its file: has the shell run it. */
static int put_step(const struct shell *shell, struct err *err)
{
    AUTO_BUF struct buf text = {0};
    if (shell->last != 0)
        buf_printf(&text, status_before, shell->last);
    buf_put_cstr(&text, step);
    return fd_write_all(shell->in, buf_str(&text), err);
}

/* -1 when the shell ended instead. */
static int read_status(const struct shell *shell)
{
    char text[STATUS_TEXT];
    size_t len = 0;
    while (len < sizeof text - 1) {
        ssize_t got = read(shell->status, text + len, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        if (text[len] == '\n')
            break;
        len++;
    }
    text[len] = '\0';
    return (int)strtol(text, NULL, 10);
}

static int kernel_bash_run(struct shell *shell, struct str code, struct str variables,
                           struct err *err)
{
    if (put_code(code, variables, err) < 0 || put_step(shell, err) < 0)
        return -1;
    int status = read_status(shell);
    shell->last = status;
    if (status >= 0)
        return status;
    status = shell_bury(shell);
    if (shell_start(shell, err) < 0)
        return -1;
    (void)dprintf(STDERR_FILENO, "the shell ended; its variables are gone\n");
    return status;
}

static void kernel_bash_finish(uint32_t id, uint32_t count, int status, bool is_lost)
{
    char number[16];
    AUTO_BUF struct buf out = {0};
    (void)snprintf(number, sizeof number, "%d", status);
    if (status != 0) {
        struct str texts[] = {STR("ExitStatus"), str_of(number), STR(""), STR("")};
        kernel_bash_say(FRAME_ERROR, id, texts, countof(texts));
    }
    frame_write_numbers(&out, FRAME_DONE, id, (uint32_t[]){count, status == 0, is_lost}, 3);
    struct err err;
    if (fd_write_all(LINE, buf_str(&out), &err) < 0)
        _exit(0);
}

/* Reads the line until `in` begins with a whole frame. */
static ssize_t next_frame(struct buf *in, struct frame *frame, struct err *err)
{
    for (;;) {
        ssize_t size = frame_read(buf_str(in), frame, err);
        char *space;
        if (size != 0)
            return size;
        if (buf_reserve(in, 64 << 10, &space, err) < 0)
            return -1;
        ssize_t got = read(LINE, space, 64 << 10);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return err_set(err, ERR_GONE, "the server closed the connection");
        buf_commit(in, (size_t)got);
    }
}

static int kernel_bash_serve(struct err *err)
{
    AUTO_BUF struct buf in = buf_with_limit(FRAME_MAX + FRAME_HEAD + (64 << 10));
    struct shell shell;
    struct frame frame;
    uint32_t count = 0;
    ssize_t size;
    if (shell_start(&shell, err) < 0)
        return -1;
    kernel_bash_say(FRAME_READY, 0, (struct str[]){STR("bash")}, 1);
    while ((size = next_frame(&in, &frame, err)) > 0) {
        struct str code, language, variables;
        if (frame.type == FRAME_RUN && frame_bytes(&frame, &code) &&
            frame_bytes(&frame, &language) && frame_bytes(&frame, &variables)) {
            pid_t before = shell.pid;
            int status = kernel_bash_run(&shell, code, variables, err);
            if (status < 0)
                return -1;
            kernel_bash_finish(frame.id, ++count, status, shell.pid != before);
        }
        buf_consume(&in, (size_t)size);
    }
    return err->code == ERR_GONE ? 0 : -1;
}

int main(void)
{
    struct err err = {0};
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    code_file = memfd_create("cell", MFD_CLOEXEC);
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
    if (null >= 0 && code_file >= 0 && dup3(STDIN_FILENO, LINE, O_CLOEXEC) == LINE &&
        dup2(null, STDIN_FILENO) >= 0 && kernel_bash_serve(&err) == 0)
        return 0;
    (void)fprintf(stderr, "kernel-bash: %s\n", err.msg[0] != '\0' ? err.msg : strerror(errno));
    return 1;
}
