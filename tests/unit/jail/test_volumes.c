/* Volumes: what outlives sandboxes, how large it may become, and what a crash leaves of it. */

#include "layers_kit.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "jail/disk/volumes.h"

enum { MIB = 1 << 20, LIMIT_BYTES = 16 * MIB, LIMIT_INODES = 500 };

static const struct {
    enum disk_quota_method method;
    bool ephemeral;
} ways[] = {{DISK_QUOTA_PROJECT, false}, {DISK_QUOTA_IMAGE, false}, {DISK_QUOTA_MEMORY, true}};

static struct volumes *open_volumes(const char *name)
{
    struct err err = {0};
    struct volumes *volumes = NULL;
    CHECK_OK(volumes_open(kit_path(name), &volumes, &err));
    return volumes;
}

static struct disk_quota_limit limit_of(size_t way, int64_t bytes)
{
    return (struct disk_quota_limit){.bytes = bytes,
                                     .inodes = LIMIT_INODES,
                                     .method = ways[way].method,
                                     .ephemeral = ways[way].ephemeral};
}

/* False when this user cannot limit a directory that way, which is refused by name. */
static bool make_limited(struct volumes *volumes, size_t way)
{
    struct err err = {0};
    struct disk_quota_limit limit = limit_of(way, LIMIT_BYTES);
    if (volumes_make(volumes, "volume-1", &limit, &err) == 0)
        return true;
    CHECK_INT(err.code, ERR_UNSUPPORTED);
    CHECK_MSG("doctor");
    print_message("# not here: %s\n", err.msg);
    return false;
}

/* Its directory with `data`, where the limit stands. */
static int open_box(const char *home, struct err *err)
{
    char name[64];
    bool limited;
    (void)snprintf(name, sizeof name, "%s/volumes/volume-1", home);
    AUTO_CLOSE int fd = open(kit_path(name), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(fd >= 0);
    return disk_quota_resume(fd, "data", &limited, err) < 0 ? -1 : fd_take(&fd);
}

static int resize(const char *home, const struct disk_quota_limit *limit, struct err *err)
{
    AUTO_CLOSE int box = open_box(home, err);
    return box < 0 ? -1 : disk_quota_resize(box, "data", limit, err);
}

static struct disk_quota_use use_of(const char *home)
{
    struct err err = {0};
    struct disk_quota_use use = {0};
    AUTO_CLOSE int box = open_box(home, &err);
    CHECK_OK(box);
    CHECK_OK(disk_quota_stat(box, "data", &use, &err));
    return use;
}

/* Runs a script with the volume at /workspace, or at /data as one of several. */
static const char *shell(struct volumes *volumes, const char *place, const char *script)
{
    struct err err = {0};
    char path[PATH_MAX];
    AUTO_JAIL struct jail *jail = NULL;
    struct jail_plan plan = {0};
    kit_plan(&plan);
    CHECK_OK(volumes_attach(volumes, "volume-1", path, sizeof path, &err));
    if (strcmp(place, "/workspace") == 0) {
        plan.workspace = path;
    } else {
        plan.mounts[0] = (struct jail_mount){.src = path, .dst = place, .writable = true};
        plan.mount_count = 1;
    }
    CHECK_OK(jail_make(kit_warden(), &plan, &jail, &err));
    return kit_run(jail, script);
}

static bool is_empty(const char *name)
{
    DIR *dir = opendir(kit_path(name));
    int count = 0;
    CHECK(dir != NULL);
    while (readdir(dir) != NULL)
        count++;
    CHECK_INT(closedir(dir), 0);
    return count == 2; /* itself and its parent */
}

TEST(a_volume_outlives_its_sandboxes)
{
    struct err err = {0};
    AUTO_VOLUMES struct volumes *volumes = open_volumes("plain");
    CHECK_OK(volumes_make(volumes, "volume-1", NULL, &err));
    CHECK_ERR(volumes_make(volumes, "volume-1", NULL, &err), ERR_CONFLICT);
    CHECK_CSTR(shell(volumes, "/workspace", "echo kept > /workspace/f; stat -c %u /workspace/f"),
               "1000\n");
    CHECK_CSTR(shell(volumes, "/workspace", "cat /workspace/f"), "kept\n");
    CHECK_CSTR(shell(volumes, "/mnt/v", "cat /mnt/v/f"), "kept\n");
    CHECK_OK(volumes_sync(volumes, "volume-1", &err));
    struct disk_quota_use use = use_of("plain");
    CHECK_INT(use.method, DISK_QUOTA_AUTO);
    CHECK_INT(use.used_bytes, -1);
    CHECK_OK(volumes_detach(volumes, "volume-1", &err));
    CHECK_OK(volumes_remove(volumes, "volume-1", &err));
    CHECK_ERR(volumes_remove(volumes, "volume-1", &err), ERR_NOT_FOUND);
    CHECK_OK(volumes_reclaim(volumes, &err));
    CHECK(is_empty("plain/volumes"));
    CHECK(is_empty("plain/trash"));
}

TEST(names_that_lead_elsewhere_are_refused)
{
    struct err err = {0};
    static const char *const names[] = {"..", "", "a/b", ".new-volume", "../../etc"};
    char path[PATH_MAX];
    AUTO_VOLUMES struct volumes *volumes = open_volumes("names");
    for (size_t i = 0; i < countof(names); i++) {
        CHECK_ERR(volumes_make(volumes, names[i], NULL, &err), ERR_INVALID);
        CHECK_ERR(volumes_remove(volumes, names[i], &err), ERR_INVALID);
        CHECK_ERR(volumes_attach(volumes, names[i], path, sizeof path, &err), ERR_INVALID);
    }
    /* A link is no volume, wherever it leads. */
    test_symlink(test_tmpdir(), "/etc", "names/volumes/volume-1");
    CHECK(volumes_attach(volumes, "volume-1", path, sizeof path, &err) < 0);
    CHECK(volumes_remove(volumes, "volume-1", &err) < 0);
    CHECK_INT(unlink(kit_path("names/volumes/volume-1")), 0);
}

TEST(a_volume_ends_at_its_capacity)
{
    int worked = 0;
    for (size_t way = 0; way < countof(ways); way++) {
        struct err err = {0};
        long bytes = 0, files = 0;
        AUTO_VOLUMES struct volumes *volumes = open_volumes("capacity");
        if (!make_limited(volumes, way))
            continue;
        worked++;
        const char *out = shell(volumes, "/workspace",
                                "cd /workspace; cat /dev/zero > big 2>/tmp/e;"
                                "grep -c 'No space\\|quota' /tmp/e; stat -c %s big; rm big");
        CHECK_INT(sscanf(out, "1\n%ld", &bytes), 1);
        CHECK(bytes > LIMIT_BYTES * 8L / 10 && bytes < LIMIT_BYTES * 11L / 10);
        out = shell(volumes, "/mnt/v",
                    "cd /mnt/v; i=0; while (: > f$i) 2>/dev/null; do i=$((i+1)); done; echo $i");
        CHECK_INT(sscanf(out, "%ld", &files), 1);
        CHECK(files > LIMIT_INODES / 2 && files <= LIMIT_INODES * 11 / 10);
        struct disk_quota_use use = use_of("capacity");
        CHECK_INT(use.method, ways[way].method);
        CHECK_INT(use.bytes, LIMIT_BYTES);
        CHECK(use.used_inodes >= files);
        CHECK_OK(volumes_remove(volumes, "volume-1", &err));
        CHECK_OK(volumes_reclaim(volumes, &err));
        kit_check_clean("/capacity/");
        CHECK(is_empty("capacity/volumes"));
    }
    if (worked == 0)
        SKIP("this user cannot limit a volume's size");
}

TEST(a_volume_can_grow)
{
    int worked = 0;
    for (size_t way = 0; way < countof(ways); way++) {
        struct err err = {0};
        AUTO_VOLUMES struct volumes *volumes = open_volumes("grow");
        struct disk_quota_limit more = limit_of(way, 3 * LIMIT_BYTES),
                                less = limit_of(way, 4 * MIB);
        if (!make_limited(volumes, way))
            continue;
        worked++;
        (void)shell(volumes, "/workspace", "echo kept > /workspace/f");
        CHECK_CSTR(shell(volumes, "/workspace",
                         "cd /workspace; head -c 30M /dev/zero > big 2>/tmp/e || echo full"),
                   "full\n");
        if (resize("grow", &more, &err) < 0) {
            /* Only an image, for a root that was stripped. */
            CHECK_INT(err.code, ERR_UNSUPPORTED);
            CHECK_MSG("CAP_SYS_RESOURCE");
            print_message("# not here: %s\n", err.msg);
            CHECK_OK(volumes_remove(volumes, "volume-1", &err));
            continue;
        }
        CHECK_CSTR(shell(volumes, "/workspace",
                         "cd /workspace; head -c 30M /dev/zero > big && stat -c %s big; cat f"),
                   "31457280\nkept\n");
        CHECK_CSTR(shell(volumes, "/workspace",
                         "cd /workspace; head -c 60M /dev/zero > big 2>/tmp/e || echo full; cat f"),
                   "full\nkept\n");
        CHECK(resize("grow", &less, &err) < 0);
        CHECK_INT(err.code, ways[way].method == DISK_QUOTA_IMAGE ? ERR_UNSUPPORTED : ERR_CONFLICT);
        struct disk_quota_use use = use_of("grow");
        CHECK_INT(use.bytes, 3 * LIMIT_BYTES);
        CHECK_OK(volumes_remove(volumes, "volume-1", &err));
        CHECK_OK(volumes_reclaim(volumes, &err));
        kit_check_clean("/grow/");
    }
    if (worked == 0)
        SKIP("this user cannot limit a volume's size");
}

TEST(a_volume_without_a_limit_gets_none_later)
{
    struct err err = {0};
    AUTO_VOLUMES struct volumes *volumes = open_volumes("never");
    struct disk_quota_limit limit = {.bytes = LIMIT_BYTES, .inodes = LIMIT_INODES};
    CHECK_OK(volumes_make(volumes, "volume-1", NULL, &err));
    CHECK_ERR(resize("never", &limit, &err), ERR_NOT_FOUND);
}

/* A process whose mount namespace is a copy of ours, as a jail's is while it is being made. */
static pid_t hold_mounts(int *ret_fd)
{
    int ends[2];
    char byte = 0;
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWNS) == 0 && mount("", "/", "", MS_REC | MS_PRIVATE, "") == 0)
            (void)!write(ends[1], "y", 1);
        (void)close(ends[1]);
        for (;;)
            (void)pause();
    }
    (void)close(ends[1]);
    CHECK(read(ends[0], &byte, 1) == 1);
    *ret_fd = ends[0];
    return child;
}

/* Else the second mount would be a second filesystem over the same file. */
TEST(an_image_that_is_still_mounted_elsewhere_is_the_same_one)
{
    struct err err = {0};
    char path[PATH_MAX], file[PATH_MAX + 8], text[8] = "";
    int fd = -1;
    if (geteuid() != 0)
        SKIP("only root mounts images");
    struct volumes *volumes = open_volumes("elsewhere");
    if (!make_limited(volumes, 1)) {
        (void)volumes_free(volumes);
        return;
    }
    for (int round = 0; round < 5; round++) {
        CHECK_OK(volumes_attach(volumes, "volume-1", path, sizeof path, &err));
        (void)snprintf(file, sizeof file, "%s/kept%d", path, round);
        pid_t holder = hold_mounts(&fd);
        test_write(path, file + strlen(path) + 1, "kept");
        CHECK_OK(volumes_detach(volumes, "volume-1", &err));
        CHECK_OK(volumes_attach(volumes, "volume-1", path, sizeof path, &err));
        AUTO_CLOSE int kept = open(file, O_RDONLY | O_CLOEXEC);
        CHECK(kept >= 0);
        CHECK_INT(read(kept, text, sizeof text), 4);
        CHECK_INT(kill(holder, SIGKILL), 0);
        CHECK(waitpid(holder, NULL, 0) == holder);
        (void)close(fd);
        fd_close(&kept);
        CHECK_OK(volumes_detach(volumes, "volume-1", &err));
    }
    CHECK_OK(volumes_remove(volumes, "volume-1", &err));
    (void)volumes_free(volumes);
}

TEST(an_image_rests_while_nobody_uses_it)
{
    struct err err = {0};
    AUTO_VOLUMES struct volumes *volumes = open_volumes("rest");
    if (!make_limited(volumes, 1))
        KIT_SKIP(volumes = volumes_free(volumes), "no image here");
    (void)shell(volumes, "/workspace", "echo kept > /workspace/f");
    CHECK(kit_has_loop_on("/rest/"));
    CHECK_OK(volumes_detach(volumes, "volume-1", &err));
    kit_check_clean("/rest/");
    CHECK_CSTR(shell(volumes, "/workspace", "cat /workspace/f"), "kept\n");
    CHECK_OK(volumes_remove(volumes, "volume-1", &err));
    CHECK_OK(volumes_reclaim(volumes, &err));
    kit_check_clean("/rest/");
}

#ifdef SG_FAULTS
static int act(struct volumes *volumes, const char *name, int which, bool limited, struct err *err)
{
    struct disk_quota_limit limit = limit_of(1, LIMIT_BYTES), more = limit_of(1, 2 * LIMIT_BYTES);
    int done;
    switch (which) {
    case 0:
        return volumes_make(volumes, "volume-1", limited ? &limit : NULL, err);
    case 1:
        done = limited ? resize(name, &more, err) : 0;
        return done < 0 && err->code == ERR_UNSUPPORTED ? 0 : done;
    default:
        return volumes_remove(volumes, "volume-1", err);
    }
}

/* Whole or not there, usable, and nothing left of the way. */
static void check_state(const char *name, int which, int done)
{
    struct err err = {0};
    char path[PATH_MAX];
    AUTO_VOLUMES struct volumes *volumes = open_volumes(name);
    for (int round = 0; round < 2; round++) {
        CHECK_OK(volumes_recover(volumes, &err));
        CHECK_OK(volumes_reclaim(volumes, &err));
    }
    (void)snprintf(path, sizeof path, "%s/trash", name);
    CHECK(is_empty(path));
    (void)snprintf(path, sizeof path, "%s/volumes", name);
    bool there = volumes_attach(volumes, "volume-1", path, sizeof path, &err) == 0;
    if (done == 0)
        CHECK_INT(there, which != 2);
    if (there) {
        CHECK_CSTR(shell(volumes, "/workspace",
                         "echo x > /workspace/x; cat /workspace/f /workspace/x"
                         " 2>/dev/null"),
                   which == 0 ? "x\n" : "kept\nx\n");
        CHECK_OK(volumes_remove(volumes, "volume-1", &err));
        CHECK_OK(volumes_reclaim(volumes, &err));
    }
    (void)snprintf(path, sizeof path, "%s/volumes", name);
    CHECK(is_empty(path));
    (void)snprintf(path, sizeof path, "/%s/", name);
    kit_check_clean(path);
}

static struct volumes *prepare(const char *name, int which, bool limited)
{
    struct err err = {0};
    struct volumes *volumes = open_volumes(name);
    if (which != 0) {
        CHECK_OK(act(volumes, name, 0, limited, &err));
        (void)shell(volumes, "/workspace", "echo kept > /workspace/f");
    }
    return volumes;
}

static bool can_limit(void)
{
    struct err err = {0};
    AUTO_VOLUMES struct volumes *volumes = open_volumes("can");
    bool can = act(volumes, "can", 0, true, &err) == 0;
    if (can)
        CHECK_OK(volumes_remove(volumes, "volume-1", &err));
    return can;
}

TEST(every_failure_leaves_a_whole_volume_or_none)
{
    char name[64];
    int limits = can_limit() ? 2 : 1;
    for (int which = 0; which < 3; which++)
        for (int64_t nth = 1; nth < 200; nth += nth < 32 ? 1 : 5) {
            struct err err = {0};
            bool limited = limits == 2;
            (void)snprintf(name, sizeof name, "vfault-%d-%d", which, (int)nth);
            struct volumes *volumes = prepare(name, which, limited);
            int fds = test_open_fds();
            (void)sys_fail_at(nth);
            int done = act(volumes, name, which, limited, &err);
            int64_t made = sys_fail_at(0);
            CHECK_INT(test_open_fds(), fds);
            (void)volumes_free(volumes);
            check_state(name, which, done);
            if (made < nth)
                break;
        }
}

TEST(every_crash_leaves_a_whole_volume_or_none)
{
    static const char *const points[] = {"quota.attached",  "quota.grown",   "quota.resized",
                                         "volume.made",     "volume.placed", "volume.detached",
                                         "volume.discarded"};
    char name[64];
    int hits = 0, limits = can_limit() ? 2 : 1;
    for (int limited = 0; limited < limits; limited++)
        for (int which = 0; which < 3; which++)
            for (size_t i = 0; i < countof(points); i++) {
                struct err err = {0};
                (void)snprintf(name, sizeof name, "vcrash-%d-%d-%zu", limited, which, i);
                struct volumes *volumes = prepare(name, which, limited);
                pid_t pid = fork();
                if (pid == 0) {
                    sys_crash_at(points[i]);
                    _exit(act(volumes, name, which, limited, &err) < 0 ? 1 : 0);
                }
                int status = 0;
                CHECK_INT(waitpid(pid, &status, 0), pid);
                hits += WIFSIGNALED(status);
                (void)volumes_free(volumes);
                check_state(name, which, -1);
            }
    CHECK(hits >= (limits == 2 ? 9 : 4));
}
#endif
