/* Disks: a jail's files on a file system of limited size, which outlive the jail. */

#include "layers_kit.h"

#include <sys/vfs.h>

#include "base/map.h"
#include "jail/disk/disks.h"

enum { MIB = 1 << 20, DISK_BYTES = 64 * MIB };

struct stage {
    struct disks *disks;
    struct jail *jail;
    struct jail_plan plan;
    char path[PATH_MAX];
};

static void stage_done(struct stage *stage)
{
    stage->jail = jail_free(stage->jail);
    if (stage->disks != NULL) {
        struct err err = {0};
        CHECK_OK(disks_remove(stage->disks, "disk-one", &err));
        CHECK_OK(disks_reclaim(stage->disks, &err));
    }
    stage->disks = disks_free(stage->disks);
}
#define AUTO_STAGE AUTO(stage_done)

/* False when this user cannot limit a directory on disk, which is refused by name. */
static bool begin(struct stage *stage, const char *name, int64_t bytes)
{
    struct err err = {0};
    CHECK_OK(disks_open(kit_path(name), &stage->disks, &err));
    if (disks_make(stage->disks, "disk-one", bytes, &err) < 0) {
        CHECK_INT(err.code, ERR_UNSUPPORTED);
        CHECK_MSG("doctor");
        print_message("# not here: %s\n", err.msg);
        return false;
    }
    return true;
}

/* A jail on the disk as it is now. */
static void start(struct stage *stage)
{
    struct err err = {0};
    kit_plan(&stage->plan);
    CHECK_OK(disks_attach(stage->disks, "disk-one", -1, -1, &stage->plan, &err));
    CHECK_OK(disks_path(stage->disks, "disk-one", stage->path, sizeof stage->path, &err));
    stage->plan.disk = stage->path;
    CHECK_OK(jail_make(kit_warden(), &stage->plan, &stage->jail, &err));
}

static void restart(struct stage *stage)
{
    stage->jail = jail_free(stage->jail);
    start(stage);
}

TEST(files_outlive_the_jail_and_the_mount)
{
    struct err err = {0};
    AUTO_STAGE struct stage stage = {0};
    if (!begin(&stage, "outlive", DISK_BYTES))
        return;
    start(&stage);
    CHECK_CSTR(kit_run(stage.jail,
                       "echo one >/workspace/f; mkdir /workspace/d; chmod 0 /workspace/d;"
                       "touch /workspace/none; chmod 0 /workspace/none;"
                       "truncate -s 1T /workspace/sparse;"
                       "echo tmp >/tmp/t; chmod 711 /; sync; echo $?"),
               "0\n");
    restart(&stage);
    CHECK_CSTR(kit_run(stage.jail,
                       "cat /workspace/f /tmp/t; stat -c '%a %s' /workspace/none /workspace/d/ "
                       "/workspace/sparse / | cut -d' ' -f1;"
                       "stat -c %s /workspace/sparse;"),
               "one\ntmp\n0\n0\n644\n711\n1099511627776\n");
    stage.jail = jail_free(stage.jail);
    CHECK_OK(disks_rest(stage.disks, "disk-one", &err));
    start(&stage);
    CHECK_CSTR(kit_run(stage.jail, "cat /workspace/f /tmp/t"), "one\ntmp\n");
}

TEST(df_tells_the_size_and_a_full_disk_says_so)
{
    AUTO_STAGE struct stage stage = {0};
    if (!begin(&stage, "full", DISK_BYTES))
        return;
    start(&stage);
    const char *sizes =
        kit_run(stage.jail, "df -m --output=size /workspace /tmp | tail -n 2 | tr -d ' '");
    int first = 0, second = 0;
    CHECK_INT(sscanf(sizes, "%d\n%d", &first, &second), 2);
    CHECK(first >= 62 && first <= 70);
    CHECK_INT(first, second);
    CHECK_CSTR(kit_run(stage.jail, "head -c 40M /dev/zero >/tmp/a && echo fits;"
                                   "head -c 40M /dev/zero 2>&1 >/workspace/b | grep -c 'No space';"
                                   "rm /tmp/a; head -c 40M /dev/zero >/workspace/b && echo fits"),
               "fits\n1\nfits\n");
    /* A full one can still be started, to delete something. */
    (void)kit_run(stage.jail,
                  "cat /dev/zero >/workspace/c 2>/dev/null; i=0; while mkdir /workspace/m$i "
                  "2>/dev/null; do i=$((i+1)); done");
    restart(&stage);
    CHECK_CSTR(kit_run(stage.jail, "rm /workspace/c; echo free >/workspace/f; cat /workspace/f"),
               "free\n");
}

TEST(sealed_layers_are_found_again_by_their_numbers)
{
    struct err err = {0};
    AUTO_STAGE struct stage stage = {0};
    if (!begin(&stage, "sealed", DISK_BYTES))
        return;
    start(&stage);
    (void)kit_run(stage.jail,
                  "echo one >/workspace/f; echo gone >/workspace/g; chmod 700 /workspace");
    AUTO_CLOSE int sealed = jail_seal(stage.jail, &stage.plan, 0, DISK_BYTES, &err);
    CHECK_OK(sealed);
    (void)kit_run(stage.jail, "echo two >>/workspace/f; rm /workspace/g; echo t >/tmp/t");
    restart(&stage);
    CHECK_INT((int)stage.plan.disk_layer_count, 2);
    CHECK_INT((int)stage.plan.disk_layers[0], 1);
    CHECK_INT((int)stage.plan.disk_layers[1], 0);
    CHECK_CSTR(kit_run(stage.jail, "cat /workspace/* /tmp/t; stat -c %a /workspace"),
               "one\ntwo\nt\n700\n");
    /* And it goes on being sealed from there. */
    AUTO_CLOSE int next = jail_seal(stage.jail, &stage.plan, 1, DISK_BYTES, &err);
    CHECK_OK(next);
    CHECK_CSTR(kit_run(stage.jail, "echo three >>/workspace/f; cat /workspace/f"),
               "one\ntwo\nthree\n");
    restart(&stage);
    CHECK_INT((int)stage.plan.disk_layer_count, 3);
    CHECK_CSTR(kit_run(stage.jail, "cat /workspace/f"), "one\ntwo\nthree\n");
}

/* Whether disks_trim left the layer. */
static bool has_layer(const struct stage *stage, uint32_t number)
{
    char path[PATH_MAX + 32];
    (void)snprintf(path, sizeof path, "%s/%u/upper", stage->path, number);
    return access(path, F_OK) == 0;
}

TEST(layers_that_an_image_names_are_not_the_jails_own)
{
    struct err err = {0};
    AUTO_STAGE struct stage stage = {0};
    AUTO_MAP struct map kept = {0};
    struct jail_plan plan = {0};
    if (!begin(&stage, "named", DISK_BYTES))
        return;
    start(&stage);
    for (int i = 0; i < 3; i++) {
        AUTO_CLOSE int sealed = jail_seal(stage.jail, &stage.plan, (size_t)i, DISK_BYTES, &err);
        CHECK_OK(sealed);
    }
    CHECK_OK(disks_attach(stage.disks, "disk-one", 1, 1, &plan, &err));
    CHECK_INT((int)plan.disk_layer_count, 2);
    CHECK_INT((int)plan.disk_layers[0], 3);
    CHECK_INT((int)plan.disk_layers[1], 2);
    /* A layer that is in use takes no writes, also when the one above it was lost. */
    CHECK_OK(disks_attach(stage.disks, "disk-one", 1, 3, &plan, &err));
    CHECK_INT((int)plan.disk_layer_count, 3);
    CHECK_INT((int)plan.disk_layers[0], 4);
    CHECK_OK(disks_attach(stage.disks, "disk-one", 7, -1, &plan, &err));
    CHECK_INT((int)plan.disk_layer_count, 1);
    CHECK_INT((int)plan.disk_layers[0], 8);
    (void)map_put(&kept, STR("1"), &kept);
    CHECK_OK(disks_trim(stage.disks, "disk-one", 2, &kept, &err));
    CHECK(!has_layer(&stage, 0) && has_layer(&stage, 1) && !has_layer(&stage, 2));
    CHECK(has_layer(&stage, 3));
    stage.jail = jail_free(stage.jail);
    CHECK_OK(disks_trim(stage.disks, "disk-one", DISKS_TRIM_ALL, &kept, &err));
    CHECK(has_layer(&stage, 1) && !has_layer(&stage, 3));
    CHECK_OK(disks_trim(stage.disks, "disk-two", DISKS_TRIM_ALL, &kept, &err));
}

TEST(a_root_can_be_exchanged_for_one_without_what_was_written)
{
    struct err err = {0};
    AUTO_STAGE struct stage stage = {0};
    char layer[PATH_MAX + 32];
    if (!begin(&stage, "exchanged", DISK_BYTES))
        return;
    start(&stage);
    (void)kit_run(stage.jail, "echo one >/workspace/f; chmod 700 /workspace; chmod 711 /");
    AUTO_CLOSE int sealed = jail_seal(stage.jail, &stage.plan, 0, DISK_BYTES, &err);
    CHECK_OK(sealed);
    (void)kit_run(stage.jail, "echo two >/workspace/f; echo g >/workspace/g; rm -r /home; sync");
    struct jail_plan plan = stage.plan;
    (void)snprintf(layer, sizeof layer, "%s/0/upper", stage.path);
    plan.layers[plan.layer_count++] = layer;
    AUTO_CLOSE int left = jail_seal(stage.jail, &plan, JAIL_SEAL_NONE, INT64_MAX, &err);
    CHECK_OK(left);
    CHECK_CSTR(kit_run(stage.jail,
                       "cat /workspace/f; ls /workspace; stat -c %a /workspace; ls -d /home/*;"
                       "echo three >/workspace/f && cat /workspace/f"),
               "one\nf\n700\n/home/sandbox\nthree\n");
    /* Without any layer it is an empty one; and it can be sealed as before. */
    AUTO_CLOSE int all = jail_seal(stage.jail, &stage.plan, JAIL_SEAL_NONE, INT64_MAX, &err);
    CHECK_OK(all);
    CHECK_CSTR(kit_run(stage.jail, "ls /workspace; echo four >/workspace/f"), "");
    AUTO_CLOSE int next = jail_seal(stage.jail, &stage.plan, 0, DISK_BYTES, &err);
    CHECK_OK(next);
    CHECK_CSTR(kit_run(stage.jail, "cat /workspace/f"), "four\n");
}

TEST(what_is_in_tmp_can_be_removed_under_a_jail)
{
    struct err err = {0};
    AUTO_STAGE struct stage stage = {0};
    if (!begin(&stage, "tmp", DISK_BYTES))
        return;
    start(&stage);
    (void)kit_run(stage.jail, "mkdir -p /tmp/d/e /tmp/shut; echo t >/tmp/t; chmod 0 /tmp/shut");
    CHECK_OK(disks_clear_tmp(stage.disks, "disk-one", &err));
    CHECK_CSTR(kit_run(stage.jail, "ls -A /tmp; echo again >/tmp/t; cat /tmp/t"), "again\n");
}

TEST(a_disk_can_be_renamed_under_a_jail)
{
    struct err err = {0};
    AUTO_STAGE struct stage stage = {0};
    if (!begin(&stage, "renamed", DISK_BYTES))
        return;
    start(&stage);
    (void)kit_run(stage.jail, "echo one >/workspace/f");
    CHECK_OK(disks_rename(stage.disks, "disk-one", "disk-two", &err));
    CHECK_CSTR(kit_run(stage.jail, "cat /workspace/f; echo two >/workspace/g"), "one\n");
    CHECK_OK(disks_sync(stage.disks, "disk-two", &err));
    CHECK_OK(disks_rename(stage.disks, "disk-two", "disk-one", &err));
    restart(&stage);
    CHECK_CSTR(kit_run(stage.jail, "cat /workspace/f /workspace/g"), "one\ntwo\n");
}

TEST(nothing_is_left_of_a_disk_that_was_removed)
{
    struct err err = {0};
    AUTO_STAGE struct stage stage = {0};
    if (!begin(&stage, "nothing-left", DISK_BYTES))
        return;
    start(&stage);
    (void)kit_run(stage.jail, "head -c 10M /dev/zero >/workspace/f");
    disks_abandon(stage.disks, "disk-one");
    stage.jail = jail_free(stage.jail);
    CHECK_OK(disks_remove(stage.disks, "disk-one", &err));
    CHECK_OK(disks_reclaim(stage.disks, &err));
    for (int i = 0; i < 6000 && kit_has_loop_on("nothing-left"); i++)
        (void)usleep(10000);
    CHECK(!kit_has_loop_on("nothing-left"));
    CHECK_ERR(disks_attach(stage.disks, "disk-one", -1, -1, &stage.plan, &err), ERR_NOT_FOUND);
}

TEST(more_than_memory_can_be_written)
{
    AUTO_STAGE struct stage stage = {0};
    if (!begin(&stage, "large", 256 * MIB))
        return;
    if (warden_host(kit_warden())->no_memory[0] != '\0')
        return; /* without a limit of memory there is nothing to see */
    stage.plan.limits.memory_bytes = 32 * MIB;
    start(&stage);
    CHECK_CSTR(kit_run(stage.jail,
                       "head -c 200M /dev/zero >/workspace/f; echo $?; stat -c %s /workspace/f"),
               "0\n209715200\n");
}

/* What tenants write belongs to nobody of the host. */
TEST(files_on_disk_are_not_roots)
{
    struct stat st;
    char path[PATH_MAX + 32];
    AUTO_STAGE struct stage stage = {0};
    if (!begin(&stage, "owner", DISK_BYTES))
        return;
    start(&stage);
    (void)kit_run(stage.jail, "> /workspace/f; chmod 4755 /workspace/f");
    (void)snprintf(path, sizeof path, "%s/0/upper/workspace/f", stage.path);
    CHECK_INT(stat(path, &st), 0);
    CHECK_INT(st.st_mode & 07777, 04755);
    CHECK(geteuid() != 0 ? st.st_uid == geteuid() : st.st_uid != 0);
}

TEST(a_sandbox_that_deleted_its_places_starts_again)
{
    struct err err = {0};
    AUTO_STAGE struct stage stage = {0};
    if (!begin(&stage, "places", DISK_BYTES))
        return;
    start(&stage);
    (void)kit_run(stage.jail, "> /workspace/old");
    AUTO_CLOSE int sealed = jail_seal(stage.jail, &stage.plan, 0, DISK_BYTES, &err);
    CHECK_OK(sealed);
    CHECK_CSTR(kit_run(stage.jail, "rm -r /workspace /home; ls -d /workspace 2>/dev/null"), "");
    restart(&stage);
    CHECK_CSTR(kit_run(stage.jail, "ls /workspace; cd /home/sandbox; > f; ls"), "f\n");
    (void)kit_run(stage.jail, "rmdir /workspace; ln -s /etc /workspace");
    stage.jail = jail_free(stage.jail);
    CHECK_OK(disks_attach(stage.disks, "disk-one", -1, -1, &stage.plan, &err));
    CHECK_ERR(jail_make(kit_warden(), &stage.plan, &stage.jail, &err), ERR_INVALID);
    CHECK_MSG("bad_rootfs");
}
