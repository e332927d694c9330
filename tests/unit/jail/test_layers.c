/* Checkpoints, going back and forks, seen from jails that run on them. */

#include "test.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "jail/jail.h"
#include "jail/layers.h"

static struct warden_link *warden(void)
{
    static struct warden_link *one;
    struct err err = {0};
    if (one == NULL)
        CHECK_OK(warden_start(&one, &err));
    return one;
}

/* Runs a script in a jail on the store and gives what it wrote. */
static const char *shell(const struct layers *layers, const char *script)
{
    static char text[4096];
    struct err err = {0};
    AUTO_JAIL struct jail *jail = NULL;
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct jail_plan plan = {0};
    const char *argv[] = {"sh", "-c", script, NULL};
    struct jail_exit exit;
    int out[2];
    uint32_t id;
    if (warden_host(warden())->no_memory[0] != '\0')
        plan.limits.memory_bytes = plan.limits.cpu_milli = JAIL_UNLIMITED;
    layers_use(layers, &plan);
    CHECK_OK(jail_make(warden(), &plan, &jail, &err));
    CHECK_INT(pipe2(out, O_CLOEXEC), 0);
    AUTO_CLOSE int reader = out[0];
    CHECK_OK(jail_start(jail, &(struct jail_command){.argv = argv}, (int[]){null, out[1], out[1]},
                        &id, NULL, &err));
    CHECK_INT(close(out[1]), 0);
    AUTO_BUF struct buf all = buf_with_limit(sizeof text - 1);
    CHECK_OK(buf_read_all(&all, reader, &err));
    (void)snprintf(text, sizeof text, "%s", buf_cstr(&all));
    CHECK_OK(jail_wait(jail, 10000, &exit, &err));
    return text;
}

static void store_path(char out[256], const char *name)
{
    (void)snprintf(out, 256, "%s/%s", test_tmpdir(), name);
}

TEST(writes_stay_from_jail_to_jail)
{
    struct err err = {0};
    char dir[256];
    store_path(dir, "stay");
    AUTO_LAYERS struct layers layers = {0};
    CHECK_OK(layers_open(&layers, dir, &err));
    CHECK_CSTR(shell(&layers, "echo one > /workspace/a; echo two > /home/sandbox/b; cat a"),
               "one\n");
    CHECK_CSTR(shell(&layers, "cat /workspace/a; rm /workspace/a"), "one\n");
    CHECK_CSTR(shell(&layers, "ls /workspace"), "");
}

TEST(a_checkpoint_can_be_returned_to)
{
    struct err err = {0};
    char dir[256], first[LAYERS_NAME_SIZE], second[LAYERS_NAME_SIZE];
    store_path(dir, "back");
    AUTO_LAYERS struct layers layers = {0};
    CHECK_OK(layers_open(&layers, dir, &err));
    (void)shell(&layers, "echo 1 > f; echo keep > g");
    CHECK_OK(layers_checkpoint(&layers, first, &err));
    (void)shell(&layers, "echo 2 > f; rm g");
    CHECK_OK(layers_checkpoint(&layers, second, &err));
    CHECK_CSTR(shell(&layers, "cat f; ls; echo 3 > f"), "2\nf\n");
    CHECK_OK(layers_rollback(&layers, second, &err));
    CHECK_CSTR(shell(&layers, "cat f"), "2\n");
    CHECK_OK(layers_rollback(&layers, first, &err));
    CHECK_CSTR(shell(&layers, "cat f g"), "1\nkeep\n");
    CHECK_ERR(layers_rollback(&layers, second, &err), ERR_NOT_FOUND);
    CHECK_MSG(second);
}

TEST(a_store_opens_as_it_was_left)
{
    struct err err = {0};
    char dir[256], name[LAYERS_NAME_SIZE];
    store_path(dir, "again");
    AUTO_LAYERS struct layers layers = {0}, again = {0};
    CHECK_OK(layers_open(&layers, dir, &err));
    (void)shell(&layers, "echo 1 > f");
    CHECK_OK(layers_checkpoint(&layers, name, &err));
    (void)shell(&layers, "echo 2 > g");
    CHECK_OK(layers_open(&again, dir, &err));
    CHECK_INT(again.count, 1);
    CHECK_CSTR(shell(&again, "cat f g"), "1\n2\n");
}

TEST(forks_go_their_own_ways)
{
    struct err err = {0};
    char dir[256], twin_dir[256], name[LAYERS_NAME_SIZE];
    store_path(dir, "one");
    store_path(twin_dir, "twin");
    AUTO_LAYERS struct layers layers = {0}, twin = {0};
    CHECK_OK(layers_open(&layers, dir, &err));
    (void)shell(&layers, "echo shared > f");
    CHECK_OK(layers_checkpoint(&layers, name, &err));
    CHECK_OK(layers_fork(&layers, name, twin_dir, &err));
    CHECK_OK(layers_open(&twin, twin_dir, &err));
    CHECK_CSTR(shell(&twin, "cat f; echo mine > f; cat f"), "shared\nmine\n");
    CHECK_CSTR(shell(&layers, "cat f; echo other > f"), "shared\n");
    CHECK_CSTR(shell(&twin, "cat f"), "mine\n");
    CHECK_ERR(layers_fork(&layers, name, twin_dir, &err), ERR_CONFLICT);
    CHECK_ERR(layers_fork(&layers, "nonesuch", "/nowhere", &err), ERR_NOT_FOUND);
}

TEST(layers_have_a_number)
{
    struct err err = {0};
    char dir[256], name[LAYERS_NAME_SIZE];
    store_path(dir, "many");
    AUTO_LAYERS struct layers layers = {0};
    CHECK_OK(layers_open(&layers, dir, &err));
    for (int i = 0; i < JAIL_LAYERS_MAX; i++)
        CHECK_OK(layers_checkpoint(&layers, name, &err));
    CHECK_CSTR(shell(&layers, "echo deep"), "deep\n");
    CHECK_ERR(layers_checkpoint(&layers, name, &err), ERR_LIMIT);
}
