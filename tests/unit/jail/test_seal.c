/* Sealing the layer in memory of a jail that runs: the sealed one stands still, the jail goes on.
 */

#include "layers_kit.h"

#include <dirent.h>

enum { PLENTY = 64 << 20 };

struct stage {
    struct jail_plan plan;
    struct jail *jail;
    int sealed[4];
    size_t count;
};

static void stage_done(struct stage *stage)
{
    for (size_t i = 0; i < stage->count; i++)
        fd_close(&stage->sealed[i]);
    stage->jail = jail_free(stage->jail);
}
#define AUTO_STAGE AUTO(stage_done)

static void stage_up(struct stage *stage)
{
    struct err err = {0};
    kit_plan(&stage->plan);
    stage->plan.overlay = true;
    CHECK_OK(jail_make(kit_warden(), &stage->plan, &stage->jail, &err));
}

static int seal(struct stage *stage, size_t kept)
{
    struct err err = {0};
    int fd = jail_seal(stage->jail, &stage->plan, kept, PLENTY, &err);
    CHECK_OK(fd);
    CHECK(stage->count < countof(stage->sealed));
    stage->sealed[stage->count++] = fd;
    return fd;
}

static const char *text_of(int layer_fd, const char *path)
{
    static char text[256];
    AUTO_CLOSE int fd = openat(layer_fd, path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[len > 0 ? len : 0] = '\0';
    return len < 0 ? NULL : text;
}

TEST(a_sealed_layer_stands_still_and_the_jail_goes_on)
{
    AUTO_STAGE struct stage stage = {0};
    stage_up(&stage);
    (void)kit_run(stage.jail, "echo one >/workspace/f; mkdir /workspace/d; echo in >/workspace/d/g;"
                              "echo tmp >/tmp/t; chmod 711 /");
    int first = seal(&stage, 0);
    CHECK_CSTR(text_of(first, "workspace/f"), "one\n");
    CHECK_CSTR(kit_run(stage.jail, "cat /workspace/f /workspace/d/g /tmp/t; stat -c %a /;"
                                   "echo two >/workspace/f; rm -r /workspace/d;"
                                   "ls /workspace; echo x >/dev/null; ls /proc/self/fd"),
               "one\nin\ntmp\n711\nf\n0\n1\n2\n3\n");
    CHECK_CSTR(text_of(first, "workspace/f"), "one\n");
    CHECK_CSTR(text_of(first, "workspace/d/g"), "in\n");
    /* The second holds what came since, and the first is still part of the root. */
    int second = seal(&stage, 1);
    CHECK_CSTR(text_of(second, "workspace/f"), "two\n");
    CHECK_CSTR(kit_run(stage.jail, "cat /workspace/f; ls /workspace"), "two\nf\n");
    /* The same mounts as before, one of each: nothing of the exchange is left. */
    CHECK_CSTR(kit_run(stage.jail, "awk '{print $5}' /proc/self/mountinfo | sort | uniq -d"), "");
    CHECK_CSTR(kit_run(stage.jail, "ls -d /w /r /s /../w 2>/dev/null"), "");
}

/* Once it is part of a layer on disk. */
TEST(what_no_root_needs_can_be_emptied)
{
    struct err err = {0};
    AUTO_STAGE struct stage stage = {0};
    char layer[PATH_MAX];
    stage_up(&stage);
    (void)kit_run(stage.jail, "echo one >/workspace/f; echo old >/workspace/g");
    int first = seal(&stage, 0);
    (void)snprintf(layer, sizeof layer, "%s", kit_path("copy"));
    CHECK_INT(mkdir(layer, 0755), 0);
    CHECK_INT(mkdir(kit_path("copy/workspace"), 0755), 0);
    test_write(layer, "workspace/f", "one\n");
    test_write(layer, "workspace/g", "old\n");
    (void)kit_run(stage.jail, "echo new >/workspace/g");
    stage.plan.layers[0] = layer;
    stage.plan.layer_count = 1;
    (void)seal(&stage, 0);
    CHECK_OK(tree_reclaim(first, &err));
    CHECK_CSTR(kit_run(stage.jail, "cat /workspace/f /workspace/g; echo more >/workspace/h;"
                                   "cat /workspace/h"),
               "one\nnew\nmore\n");
}

TEST(space_comes_back_with_what_is_emptied)
{
    struct err err = {0};
    AUTO_STAGE struct stage stage = {0};
    stage.plan.limits.disk_bytes = 8 << 20;
    stage_up(&stage);
    (void)kit_run(stage.jail, "head -c 6M /dev/zero >/workspace/f");
    int first = seal(&stage, 0);
    CHECK_CSTR(kit_run(stage.jail, "head -c 6M /dev/zero >/workspace/g 2>/dev/null; echo $?"),
               "1\n");
    (void)kit_run(stage.jail, "rm /workspace/f /workspace/g");
    (void)seal(&stage, 0); /* the first is dropped: its file was deleted */
    CHECK_OK(tree_reclaim(first, &err));
    CHECK_CSTR(kit_run(stage.jail, "head -c 6M /dev/zero >/workspace/g; echo $?"), "0\n");
}

TEST(whoever_runs_keeps_it_from_being_sealed_and_notices_nothing)
{
    struct err err = {0};
    AUTO_STAGE struct stage stage = {0};
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const char *argv[] = {"sh", "-c",
                          "exec 9>>open; while ! test -e /tmp/go; do sleep 0.02; done;"
                          "echo late >&9; echo here >here; touch /tmp/went",
                          NULL};
    uint32_t id;
    stage_up(&stage);
    CHECK_OK(jail_start(stage.jail, &(struct jail_command){.argv = argv, .cwd = "/workspace"},
                        (int[]){null, null, null}, &id, NULL, &err));
    CHECK_ERR(jail_seal(stage.jail, &stage.plan, 0, PLENTY, &err), ERR_BUSY);
    CHECK_CSTR(kit_run(stage.jail, "touch /tmp/go; while ! test -e /tmp/went; do sleep 0.02; done;"
                                   "cat /workspace/open /workspace/here"),
               "late\nhere\n");
}

TEST(what_cannot_be_sealed_is_refused_and_nothing_has_changed)
{
    struct err err = {0};
    AUTO_STAGE struct stage stage = {0};
    stage_up(&stage);
    (void)kit_run(stage.jail, "head -c 1M /dev/zero >/workspace/f");
    CHECK_ERR(jail_seal(stage.jail, &stage.plan, 0, 4096, &err), ERR_LIMIT);
    CHECK_ERR(jail_seal(stage.jail, &stage.plan, 1, PLENTY, &err),
              ERR_LIMIT); /* none was sealed before */
    stage.plan.layers[0] = "/nonexistent";
    stage.plan.layer_count = 1;
    CHECK_INT(jail_seal(stage.jail, &stage.plan, 0, PLENTY, &err), -1);
    stage.plan.layer_count = 0;
    CHECK_CSTR(
        kit_run(stage.jail, "stat -c %s /workspace/f; echo y >/workspace/y; cat /workspace/y"),
        "1048576\ny\n");
    CHECK_CSTR(text_of(seal(&stage, 0), "workspace/y"), "y\n");
}

TEST(a_jail_without_such_a_layer_says_so)
{
    struct err err = {0};
    AUTO_STAGE struct stage stage = {0};
    kit_plan(&stage.plan);
    CHECK_OK(jail_make(kit_warden(), &stage.plan, &stage.jail, &err));
    CHECK_ERR(jail_seal(stage.jail, &stage.plan, 0, PLENTY, &err), ERR_UNSUPPORTED);
}

/* Many times: mounts, descriptors and memory stay as they were. */
TEST(many_seals_leave_nothing)
{
    struct err err = {0};
    AUTO_STAGE struct stage stage = {0};
    char script[64];
    int last = -1;
    stage_up(&stage);
    for (int i = 0; i < 40; i++) {
        (void)snprintf(script, sizeof script, "echo %d >/workspace/f", i);
        (void)kit_run(stage.jail, script);
        int fd = jail_seal(stage.jail, &stage.plan, 0, PLENTY, &err);
        CHECK_OK(fd);
        (void)snprintf(script, sizeof script, "%d\n", i);
        CHECK_CSTR(text_of(fd, "workspace/f"), script);
        if (last >= 0)
            CHECK_OK(tree_reclaim(last, &err));
        fd_close(&last);
        last = fd;
    }
    CHECK_CSTR(kit_run(stage.jail, "cat /workspace/f; wc -l </proc/self/mountinfo"
                                   " | awk '{print $1 < 60}'"),
               "39\n1\n");
    fd_close(&last);
}
