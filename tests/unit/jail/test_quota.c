/* Limits that the kernel keeps: every way to fill a directory ends at them. */

#include "layers_kit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include "jail/disk/quota.h"

enum { MIB = 1 << 20, LIMIT_BYTES = 16 * MIB, LIMIT_INODES = 500 };

static const enum disk_quota_method methods[] = {DISK_QUOTA_PROJECT, DISK_QUOTA_IMAGE,
                                                 DISK_QUOTA_MEMORY};

/* A directory `data` of limited size, in a directory of its own. */
struct box {
    int fd;
    char data[PATH_MAX];
};

static void box_done(struct box *box)
{
    struct err err = {0};
    if (box->fd >= 0)
        CHECK_OK(disk_quota_detach(box->fd, "data", &err));
    fd_close(&box->fd);
}
#define AUTO_BOX AUTO(box_done)

static struct box open_box(const char *name)
{
    struct box box = {.fd = -1};
    (void)mkdir(kit_path(name), 0700);
    (void)snprintf(box.data, sizeof box.data, "%s/data", kit_path(name));
    (void)mkdir(box.data, 0755);
    box.fd = open(kit_path(name), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(box.fd >= 0);
    /* Of the round before: an owner throws the whole box away. */
    (void)unlinkat(box.fd, "disk.img", 0);
    (void)unlinkat(box.fd, "quota", 0);
    return box;
}

static int attach(struct box *box, const struct disk_quota_limit *limit, struct err *err)
{
    enum disk_quota_method method;
    return disk_quota_attach(box->fd, "data", box->fd, limit, &method, err);
}

/* False when the host cannot; says so once. */
static bool limit_box(struct box *box, enum disk_quota_method method, bool ephemeral)
{
    struct err err = {0};
    struct disk_quota_limit limit = {
        .bytes = LIMIT_BYTES, .inodes = LIMIT_INODES, .ephemeral = ephemeral, .method = method};
    if (attach(box, &limit, &err) == 0)
        return true;
    CHECK_INT(err.code, ERR_UNSUPPORTED);
    print_message("# not here: %s: %s\n", disk_quota_method_name(method), err.msg);
    return false;
}

static const char *shell(const struct box *box, const char *script)
{
    return kit_shell((struct jail_plan){.workspace = box->data}, script);
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
     LIMIT_INODES / 2, LIMIT_INODES * 11L / 10},
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
     LIMIT_INODES / 2, LIMIT_INODES * 11L / 10},
};

static void fill_each(const struct box *box)
{
    for (size_t i = 0; i < countof(fills); i++) {
        long got = -1, refused = 0;
        const char *out = shell(box, fills[i].script);
        if (sscanf(out, "%ld\n%ld", &refused, &got) != 2 || refused < 1 || got < fills[i].min ||
            got > fills[i].max) {
            print_error("%s: refused %ld, got %ld, wanted %ld to %ld: %s\n", fills[i].name, refused,
                        got, fills[i].min, fills[i].max, out);
            fail();
        }
        /* What is deleted is free again: the next one has as much room. */
        CHECK_CSTR(shell(box, "find /workspace -mindepth 1 -delete; echo on"), "on\n");
    }
    CHECK_CSTR(shell(box, "echo room > /workspace/f; cat /workspace/f"), "room\n");
}

TEST(every_way_to_fill_ends_at_the_limit)
{
    int worked = 0;
    for (size_t m = 0; m < countof(methods); m++) {
        AUTO_BOX struct box box = open_box("fill");
        if (!limit_box(&box, methods[m], methods[m] == DISK_QUOTA_MEMORY))
            continue;
        worked++;
        fill_each(&box);
        box_done(&box);
        kit_check_clean("/fill/");
    }
    if (worked == 0)
        SKIP("this user cannot limit a directory's size");
}

/* A neighbour and the store still write when one directory is full. */
TEST(the_neighbour_still_writes)
{
    struct box full = open_box("full"), other = open_box("neighbour");
    if (!limit_box(&full, DISK_QUOTA_AUTO, true)) {
        box_done(&full), box_done(&other);
        SKIP("this user cannot limit a directory's size");
    }
    CHECK(limit_box(&other, DISK_QUOTA_AUTO, true));
    (void)shell(&full, "cat /dev/zero > /workspace/big");
    CHECK_CSTR(shell(&other, "echo fine > /workspace/f; cat /workspace/f"), "fine\n");
    test_write(test_tmpdir(), "store", "committed");
    box_done(&full), box_done(&other);
    kit_check_clean("/full/");
    kit_check_clean("/neighbour/");
}

TEST(an_image_comes_back_after_a_reboot)
{
    struct err err = {0};
    bool limited = false;
    struct box box = open_box("reboot");
    if (!limit_box(&box, DISK_QUOTA_IMAGE, false)) {
        box_done(&box);
        SKIP("no image here");
    }
    (void)shell(&box, "echo kept > /workspace/f");
    /* What a reboot does. */
    CHECK_INT(umount2(box.data, MNT_DETACH), 0);
    for (int i = 0; i < 2; i++)
        CHECK_OK(disk_quota_resume(box.fd, "data", &limited, &err));
    CHECK(limited);
    CHECK_CSTR(shell(&box, "cat /workspace/f"), "kept\n");
    box_done(&box);
    kit_check_clean("/reboot/");
}

/* RES-04 for a volume: the same limit on a plain directory, bind-mounted at /workspace. */
TEST(a_volume_is_limited_too)
{
    struct err err = {0};
    char box[PATH_MAX], volume[PATH_MAX];
    enum disk_quota_method method;
    struct disk_quota_limit limit = {.bytes = LIMIT_BYTES, .inodes = LIMIT_INODES};
    AUTO_JAIL struct jail *jail = NULL;
    (void)snprintf(box, sizeof box, "%s", kit_path("qvolume"));
    (void)snprintf(volume, sizeof volume, "%s", kit_path("qvolume/data"));
    CHECK_INT(mkdir(box, 0700), 0);
    CHECK_INT(mkdir(volume, 0755), 0);
    AUTO_CLOSE int fd = open(box, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (disk_quota_attach(fd, "data", fd, &limit, &method, &err) < 0) {
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
    CHECK_OK(disk_quota_detach(fd, "data", &err));
    CHECK_OK(disk_quota_detach(fd, "data", &err));
    kit_check_clean("/qvolume/");
}

TEST(what_makes_no_sense_is_refused)
{
    struct err err = {0};
    struct disk_quota_limit limit = {.bytes = 1, .inodes = 1};
    AUTO_BOX struct box box = open_box("nonsense");
    CHECK_ERR(attach(&box, &limit, &err), ERR_INVALID);
    limit =
        (struct disk_quota_limit){.bytes = LIMIT_BYTES, .inodes = 500, .method = DISK_QUOTA_MEMORY};
    CHECK_ERR(attach(&box, &limit, &err), ERR_UNSUPPORTED);
}

#ifdef SG_FAULTS
TEST(every_failure_leaves_no_mount_and_no_loop)
{
    for (size_t m = 1; m < countof(methods); m++)
        for (int64_t nth = 1; nth < 200; nth++) {
            struct err err = {0};
            AUTO_BOX struct box box = open_box("qfault");
            struct disk_quota_limit limit = {.bytes = LIMIT_BYTES,
                                             .inodes = LIMIT_INODES,
                                             .ephemeral = true,
                                             .method = methods[m]};
            int fds = test_open_fds();
            (void)sys_fail_at(nth);
            int done = attach(&box, &limit, &err);
            int64_t made = sys_fail_at(0);
            CHECK_INT(test_open_fds(), fds);
            CHECK(made >= nth || done == 0 || err.code == ERR_UNSUPPORTED);
            if (made < nth)
                break;
        }
    kit_check_clean("/qfault/");
}
#endif
