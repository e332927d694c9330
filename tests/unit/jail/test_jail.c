/* Jails, alive. */

#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "jail/jail.h"

static struct warden_link *warden(void)
{
    static struct warden_link *one;
    struct err err = {0};
    if (one == NULL)
        CHECK_OK(warden_start(&one, &err));
    return one;
}

/* What one command wrote, and how it ended. */
struct ran {
    struct jail_exit exit;
    char text[65536];
};

static int run_in(struct jail *jail, const struct jail_command *command, struct ran *ran,
                  struct err *err)
{
    int out[2];
    uint32_t id;
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK_INT(pipe2(out, O_CLOEXEC), 0);
    AUTO_CLOSE int reader = out[0];
    int done = jail_start(jail, command, (int[]){null, out[1], out[1]}, &id, NULL, err);
    CHECK_INT(close(out[1]), 0);
    if (done < 0)
        return -1;
    AUTO_BUF struct buf text = buf_with_limit(sizeof ran->text - 1);
    if (buf_read_all(&text, reader, err) < 0)
        return -1;
    (void)snprintf(ran->text, sizeof ran->text, "%s", buf_cstr(&text));
    return jail_wait(jail, 20000, &ran->exit, err);
}

static int shell(const struct jail_plan *plan, const char *script, struct ran *ran, struct err *err)
{
    AUTO_JAIL struct jail *jail = NULL;
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    if (jail_make(warden(), plan, &jail, err) < 0)
        return -1;
    return run_in(jail, &(struct jail_command){.argv = argv}, ran, err);
}

TEST(a_command_runs_and_its_output_comes)
{
    struct err err = {0};
    static struct ran ran;
    CHECK_OK(shell(&(struct jail_plan){0}, "echo hello; id -u; pwd; exit 7", &ran, &err));
    CHECK_CSTR(ran.text, "hello\n1000\n/workspace\n");
    CHECK_INT(ran.exit.code, 7);
    CHECK_INT(ran.exit.signal, 0);
    CHECK(ran.exit.wall_ns > 0);
}
