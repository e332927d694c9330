/* The Python interpreter as a program of a jail: kernel-python [MODULE,...] serves cells on its
 * standard input, which is a socket. kernel-python --zygote MODULE,... is the warden's:
 * interpreters are forked from it. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "jail/zygote/zygote.h"
#include "jail/zygote/zygote_image.h"
#include "kernel/python.h"

extern const struct embed_file kernel_cells[];

/* The line moves out of the way: code that reads its standard input finds nothing there. */
static int kernel_python_take_line(struct err *err)
{
    int line = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (line < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0)
        return err_sys(err, errno, "take the line");
    (void)close(null);
    return line;
}

static char missing[256];

static int kernel_python_start(const char *modules, bool is_zygote, struct err *err)
{
    char library[512];
    if (python_find("", library, sizeof library, err) < 0 ||
        python_start(library, "/usr/bin/python3", kernel_cells, err) < 0)
        return -1;
    return python_prepare(modules, is_zygote, missing, sizeof missing, err);
}

static int kernel_python_serve(const char *modules, struct err *err)
{
    int line = kernel_python_take_line(err);
    if (line < 0 || kernel_python_start(modules, false, err) < 0)
        return -1;
    return python_serve(line, err);
}

static int copy(int fd, uint64_t limit, struct str *ret_env, struct err *err)
{
    AUTO_CLOSE int file = fd;
    int done = zygote_copy_interpreter(file, limit, err);
    if (done > 0) {
        (void)fd_take(&file); /* it is not open in here */
        *ret_env = zygote_image_env();
    }
    return done;
}

static int serve_zygote(const char *modules)
{
    static const struct zygote_hooks hooks = {.before = python_before_fork,
                                              .after = python_after_fork,
                                              .in_child = python_in_child,
                                              .rehearse = python_rehearse,
                                              .awake = python_awake,
                                              .serve = python_serve};
    struct err err = {0};
    python_set_copy(copy);
    if (kernel_python_start(modules, true, &err) == 0 && zygote_serve(missing, &hooks, &err) == 0)
        return 0;
    zygote_say_broken(&err);
    return 1;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    (void)setvbuf(stdout, NULL, _IONBF, 0); /* what C says comes at once, and in order */
    if (argc == 3 && strcmp(argv[1], "--zygote") == 0)
        return serve_zygote(argv[2]);
    if (argc <= 2 && kernel_python_serve(argc == 2 ? argv[1] : "", &err) == 0)
        return 0;
    (void)fprintf(stderr, "kernel-python: %s\n", argc > 2 ? "one argument at most" : err.msg);
    return 1;
}
