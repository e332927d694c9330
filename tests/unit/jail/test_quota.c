/* Limits that the kernel keeps: every way to fill a directory ends at them. */

#include "layers_kit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include "base/tree.h"

enum { MIB = 1 << 20, LIMIT_BYTES = 16 * MIB, LIMIT_INODES = 500 };

static const enum quota_method methods[] = {QUOTA_PROJECT, QUOTA_IMAGE, QUOTA_MEMORY};

/* False when the host cannot; says so once. */
static bool create(struct layers *layers, const char *id, enum quota_method method, bool ephemeral)
{
    struct err err = {0};
    struct quota_limit limit = {
        .bytes = LIMIT_BYTES, .inodes = LIMIT_INODES, .ephemeral = ephemeral, .method = method};
    if (layers_create(layers, id, NULL, &limit, &err) == 0)
        return true;
    CHECK_INT(err.code, ERR_UNSUPPORTED);
    print_message("# not here: %s: %s\n", quota_method_name(method), err.msg);
    return false;
}

/* How to fill, and what must come out: kibibytes or files that fitted. */
static const struct {
    const char *name, *script;
    long min, max;
} fills[] = {
    {"one big file",
     "cd /workspace; dd if=/dev/zero of=big bs=64k 2>/tmp/e; grep -c 'No space\\|quota' /tmp/e;"
     "stat -c %s big",
     LIMIT_BYTES * 8L / 10, LIMIT_BYTES * 11L / 10},
    {"empty files",
     "cd /workspace; i=0; while (: > f$i) 2>/dev/null; do i=$((i+1)); done; echo 1; echo $i",
     LIMIT_INODES / 2, LIMIT_INODES + 1},
    {"fallocate",
     "cd /workspace; e=$(fallocate -l 1G a 2>&1); rm -f a; echo $e | grep -c 'No space\\|quota';"
     "i=0; while fallocate -l 1M b$i 2>/dev/null; do i=$((i+1)); done; echo $((i*1048576))",
     LIMIT_BYTES * 7L / 10, LIMIT_BYTES * 11L / 10},
    {"sparse, then touched",
     "cd /workspace; truncate -s 1G s; dd if=/dev/zero of=s bs=64k conv=notrunc 2>/tmp/e;"
     "grep -c 'No space\\|quota' /tmp/e; echo $(($(stat -c %b s)*512))",
     LIMIT_BYTES * 8L / 10, LIMIT_BYTES * 11L / 10},
    {"long links",
     "cd /workspace; t=$(printf %03000d 0); i=0; while ln -s $t l$i 2>/dev/null; do i=$((i+1)); "
     "done;"
     "echo 1; echo $i",
     LIMIT_INODES / 2, LIMIT_INODES + 1},
};

static void fill_each(struct layers *layers, const char *id)
{
    struct err err = {0};
    uint32_t base;
    CHECK_OK(layers_checkpoint(layers, id, &base, &err));
    for (size_t i = 0; i < countof(fills); i++) {
        long got = -1, refused = 0;
        const char *out = kit_shell(layers, id, fills[i].script);
        if (sscanf(out, "%ld\n%ld", &refused, &got) != 2 || refused < 1 || got < fills[i].min ||
            got > fills[i].max) {
            print_error("%s: refused %ld, got %ld, wanted %ld to %ld: %s\n", fills[i].name, refused,
                        got, fills[i].min, fills[i].max, out);
            fail();
        }
        /* Full as it is, it starts again. */
        CHECK_CSTR(kit_shell(layers, id, "echo on"), "on\n");
        /* Dropping it frees it: the next one has as much room. */
        CHECK_OK(layers_rollback(layers, id, base, &err));
        CHECK_OK(layers_reclaim(layers, id, &err));
    }
    CHECK_CSTR(kit_shell(layers, id, "echo room > /workspace/f; cat /workspace/f"), "room\n");
}

TEST(every_way_to_fill_ends_at_the_limit)
{
    int worked = 0;
    for (size_t m = 0; m < countof(methods); m++) {
        struct err err = {0};
        AUTO_LAYERS struct layers *layers = kit_layers("fill");
        if (!create(layers, "sandbox-1", methods[m], methods[m] == QUOTA_MEMORY))
            continue;
        worked++;
        fill_each(layers, "sandbox-1");
        CHECK_OK(layers_destroy(layers, "sandbox-1", &err));
        CHECK_OK(layers_reclaim(layers, NULL, &err));
        kit_check_clean("/fill/");
        CHECK_INT(rmdir(kit_path("fill/sandboxes")), 0);
        CHECK_INT(rmdir(kit_path("fill/trash")), 0);
    }
    if (worked == 0)
        SKIP("this user cannot limit a directory's size");
}

/* A neighbour and the store still write when one sandbox is full. */
TEST(the_neighbour_still_writes)
{
    struct err err = {0};
    AUTO_LAYERS struct layers *layers = kit_layers("neighbour");
    if (!create(layers, "sandbox-1", QUOTA_AUTO, true))
        KIT_SKIP(layers = layers_free(layers), "this user cannot limit a directory's size");
    CHECK(create(layers, "sandbox-2", QUOTA_AUTO, true));
    (void)kit_shell(layers, "sandbox-1", "cat /dev/zero > /workspace/big");
    CHECK_CSTR(kit_shell(layers, "sandbox-2", "echo fine > /workspace/f; cat /workspace/f"),
               "fine\n");
    test_write(test_tmpdir(), "neighbour/store", "committed");
    CHECK_OK(layers_destroy(layers, "sandbox-1", &err));
    CHECK_OK(layers_destroy(layers, "sandbox-2", &err));
    kit_check_clean("/neighbour/");
}

TEST(forks_have_limits_of_their_own)
{
    struct err err = {0};
    uint32_t number;
    struct quota_limit limit = {.bytes = LIMIT_BYTES, .inodes = LIMIT_INODES, .ephemeral = true};
    AUTO_LAYERS struct layers *layers = kit_layers("limfork");
    if (!create(layers, "sandbox-1", QUOTA_AUTO, true))
        KIT_SKIP(layers = layers_free(layers), "this user cannot limit a directory's size");
    (void)kit_shell(layers, "sandbox-1",
                    "dd if=/dev/zero of=/workspace/half bs=1M count=10 2>/dev/null");
    CHECK_OK(layers_checkpoint(layers, "sandbox-1", &number, &err));
    CHECK_OK(layers_fork(layers, "sandbox-1", number, "sandbox-2", &limit, &err));
    /* The parent's 10 MiB do not count here. */
    CHECK_CSTR(
        kit_shell(layers, "sandbox-2",
                  "dd if=/dev/zero of=/workspace/mine bs=1M count=12 2>/dev/null && echo ok"),
        "ok\n");
    CHECK_OK(layers_destroy(layers, "sandbox-1", &err));
    CHECK_CSTR(kit_shell(layers, "sandbox-2", "stat -c %s /workspace/half"), "10485760\n");
    CHECK_OK(layers_destroy(layers, "sandbox-2", &err));
    CHECK_OK(layers_reclaim(layers, NULL, &err));
    kit_check_clean("/limfork/");
    CHECK_INT(rmdir(kit_path("limfork/sandboxes")), 0);
}

TEST(an_image_comes_back_after_a_reboot)
{
    struct err err = {0};
    char path[PATH_MAX];
    AUTO_LAYERS struct layers *layers = kit_layers("reboot");
    if (!create(layers, "sandbox-1", QUOTA_IMAGE, false))
        KIT_SKIP(layers = layers_free(layers), "no image here");
    (void)kit_shell(layers, "sandbox-1", "echo kept > /workspace/f");
    /* What a reboot does. */
    (void)snprintf(path, sizeof path, "%s", kit_path("reboot/sandboxes/sandbox-1/layers"));
    CHECK_INT(umount2(path, MNT_DETACH), 0);
    CHECK_OK(layers_recover(layers, &err));
    CHECK_OK(layers_recover(layers, &err));
    CHECK_CSTR(kit_shell(layers, "sandbox-1", "cat /workspace/f"), "kept\n");
    CHECK_OK(layers_destroy(layers, "sandbox-1", &err));
    kit_check_clean("/reboot/");
}

/* RES-04 for a volume: the same limit on a plain directory, bind-mounted at /workspace. */
TEST(a_volume_is_limited_too)
{
    struct err err = {0};
    char box[PATH_MAX], volume[PATH_MAX];
    enum quota_method method;
    struct quota_limit limit = {.bytes = LIMIT_BYTES, .inodes = LIMIT_INODES};
    AUTO_JAIL struct jail *jail = NULL;
    (void)snprintf(box, sizeof box, "%s", kit_path("qvolume"));
    (void)snprintf(volume, sizeof volume, "%s", kit_path("qvolume/data"));
    CHECK_INT(mkdir(box, 0700), 0);
    CHECK_INT(mkdir(volume, 0755), 0);
    AUTO_CLOSE int fd = open(box, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (quota_attach(fd, "data", fd, &limit, &method, &err) < 0) {
        CHECK_INT(err.code, ERR_UNSUPPORTED);
        CHECK_MSG("doctor");
        KIT_SKIP(fd_close(&fd), "this user cannot limit a volume's size");
    }
    struct jail_plan plan = {.workspace = volume};
    kit_plan(&plan);
    CHECK_OK(jail_make(kit_warden(), &plan, &jail, &err));
    CHECK_CSTR(kit_run(jail,
                       "cd /workspace; cat /dev/zero > big 2>/tmp/e; grep -c 'No space' /tmp/e;"
                       "rm big; echo again > f; cat f"),
               "1\nagain\n");
    jail = jail_free(jail);
    CHECK_OK(quota_detach(fd, "data", &err));
    CHECK_OK(quota_detach(fd, "data", &err));
    kit_check_clean("/qvolume/");
}

TEST(what_makes_no_sense_is_refused)
{
    struct err err = {0};
    struct quota_limit limit = {.bytes = 1, .inodes = 1};
    AUTO_LAYERS struct layers *layers = kit_layers("nonsense");
    CHECK_ERR(layers_create(layers, "sandbox-1", NULL, &limit, &err), ERR_INVALID);
    limit = (struct quota_limit){.bytes = LIMIT_BYTES, .inodes = 500, .method = QUOTA_MEMORY};
    CHECK_ERR(layers_create(layers, "sandbox-1", NULL, &limit, &err), ERR_UNSUPPORTED);
    CHECK_INT(rmdir(kit_path("nonsense/sandboxes")), 0);
}

#ifdef SG_FAULTS
TEST(every_failure_leaves_no_mount_and_no_loop)
{
    for (size_t m = 1; m < countof(methods); m++)
        for (int64_t nth = 1; nth < 200; nth++) {
            struct err err = {0};
            AUTO_LAYERS struct layers *layers = kit_layers("qfault");
            struct quota_limit limit = {.bytes = LIMIT_BYTES,
                                        .inodes = LIMIT_INODES,
                                        .ephemeral = true,
                                        .method = methods[m]};
            int fds = test_open_fds();
            (void)sys_fail_at(nth);
            int done = layers_create(layers, "sandbox-1", NULL, &limit, &err);
            int64_t made = sys_fail_at(0);
            CHECK_INT(test_open_fds(), fds);
            if (done == 0)
                CHECK_OK(layers_destroy(layers, "sandbox-1", &err));
            CHECK_OK(layers_recover(layers, &err));
            CHECK_OK(layers_reclaim(layers, NULL, &err));
            CHECK_INT(rmdir(kit_path("qfault/sandboxes")), 0);
            if (made < nth)
                break;
        }
    kit_check_clean("/qfault/");
}
#endif
