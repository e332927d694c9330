/* Checkpoints and rollbacks under jails that run; trees that lie about where things are. */

#include "layers_kit.h"

#include <poll.h>
#include <sched.h>
#include <sys/mount.h>

#include "jail/ids.h"
#include "jail/overlay.h"

struct stage {
    struct layers *layers;
    struct arena arena;
    struct jail_plan plan;
    struct jail *jail;
};

static void stage_done(struct stage *stage)
{
    stage->jail = jail_free(stage->jail);
    stage->layers = layers_free(stage->layers);
    arena_done(&stage->arena);
}
#define AUTO_STAGE AUTO(stage_done)

static void stage_up(struct stage *stage, const char *name)
{
    struct err err = {0};
    stage->layers = kit_layers(name);
    CHECK_OK(layers_create(stage->layers, "sandbox-1", NULL, NULL, &err));
    CHECK_OK(kit_jail(stage->layers, "sandbox-1", &stage->arena, &stage->plan, &stage->jail, &err));
}

/* Commands that run on need a host that can freeze them. */
static bool can_freeze(void)
{
    return warden_host(kit_warden())->no_freeze[0] == '\0';
}

static void start_in_background(struct jail *jail, const char *script, const char *cwd)
{
    struct err err = {0};
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const char *argv[] = {"sh", "-c", script, NULL};
    uint32_t id;
    CHECK_OK(jail_start(jail, &(struct jail_command){.argv = argv, .cwd = cwd},
                        (int[]){null, null, null}, &id, NULL, &err));
}

TEST(a_running_jail_goes_on_after_a_checkpoint)
{
    struct err err = {0};
    uint32_t first, second;
    AUTO_STAGE struct stage stage = {0};
    stage_up(&stage, "live");
    (void)kit_run(stage.jail, "echo 1 > /workspace/f; echo kept > /tmp/t");
    CHECK_OK(
        layers_checkpoint_live(stage.layers, "sandbox-1", stage.jail, &stage.plan, &first, &err));
    CHECK_CSTR(kit_run(stage.jail,
                       "cat /workspace/f /tmp/t; echo 2 > /workspace/f; ls /proc/self/fd;"
                       "echo x > /dev/null; /usr/bin/env true; echo $?"),
               "1\nkept\n0\n1\n2\n3\n0\n");
    CHECK_OK(
        layers_checkpoint_live(stage.layers, "sandbox-1", stage.jail, &stage.plan, &second, &err));
    CHECK_CSTR(kit_run(stage.jail, "cat /workspace/f; rm /workspace/f; mkdir /workspace/d"), "2\n");
    CHECK_OK(
        layers_rollback_live(stage.layers, "sandbox-1", second, stage.jail, &stage.plan, &err));
    CHECK_CSTR(kit_run(stage.jail, "cat /workspace/f; ls /workspace"), "2\nf\n");
    CHECK_OK(layers_rollback_live(stage.layers, "sandbox-1", first, stage.jail, &stage.plan, &err));
    CHECK_CSTR(kit_run(stage.jail, "cat /workspace/f; cat /tmp/t"), "1\nkept\n");
    CHECK_OK(layers_rollback_live(stage.layers, "sandbox-1", 0, stage.jail, &stage.plan, &err));
    CHECK_CSTR(kit_run(stage.jail, "ls /workspace; echo still > /workspace/g; cat /workspace/g"),
               "still\n");
    /* The same mounts as before, one of each: nothing of the exchange is left. */
    CHECK_CSTR(kit_run(stage.jail, "awk '{print $5}' /proc/self/mountinfo | sort | uniq -d"), "");
    CHECK_OK(layers_reclaim(stage.layers, NULL, &err));
    CHECK_CSTR(kit_run(stage.jail, "cat /workspace/g"), "still\n");
}

/* The frozen layer is what a fork gets, whatever the running jail does next. */
TEST(a_fork_of_a_running_sandbox_is_its_own)
{
    struct err err = {0};
    uint32_t number;
    AUTO_STAGE struct stage stage = {0};
    stage_up(&stage, "livefork");
    (void)kit_run(stage.jail, "echo shared > /workspace/f");
    CHECK_OK(
        layers_checkpoint_live(stage.layers, "sandbox-1", stage.jail, &stage.plan, &number, &err));
    CHECK_OK(layers_fork(stage.layers, "sandbox-1", number, "sandbox-2", NULL, &err));
    (void)kit_run(stage.jail, "echo changed > /workspace/f");
    CHECK_CSTR(kit_shell(stage.layers, "sandbox-2", "cat /workspace/f; echo mine > /workspace/f"),
               "shared\n");
    CHECK_CSTR(kit_run(stage.jail, "cat /workspace/f"), "changed\n");
}

TEST(commands_at_the_root_move_along)
{
    struct err err = {0};
    uint32_t number;
    AUTO_STAGE struct stage stage = {0};
    if (!can_freeze())
        SKIP("this host cannot freeze commands");
    stage_up(&stage, "along");
    (void)kit_run(stage.jail, "mkfifo /tmp/go");
    start_in_background(stage.jail,
                        "read x < /tmp/go; echo late > /workspace/late; cat /etc/hostname "
                        "> /workspace/host; echo ok > /tmp/went",
                        "/");
    CHECK_OK(
        layers_checkpoint_live(stage.layers, "sandbox-1", stage.jail, &stage.plan, &number, &err));
    CHECK_CSTR(kit_run(stage.jail, "echo > /tmp/go; while ! test -e /tmp/went; do :; done;"
                                   "cat /workspace/late"),
               "late\n");
    /* What it wrote came after the checkpoint. */
    CHECK_OK(layers_fork(stage.layers, "sandbox-1", number, "sandbox-2", NULL, &err));
    CHECK_CSTR(kit_shell(stage.layers, "sandbox-2", "ls /workspace"), "");
}

static void check_busy(struct stage *stage, const char *word)
{
    struct err err = {0};
    uint32_t number, list[LAYERS_DEPTH_MAX];
    CHECK_ERR(layers_checkpoint_live(stage->layers, "sandbox-1", stage->jail, &stage->plan, &number,
                                     &err),
              ERR_BUSY);
    CHECK_MSG(word);
    /* Nothing has changed, on disk or in the jail. */
    CHECK_INT(layers_list(stage->layers, "sandbox-1", list, &err), 0);
    CHECK_CSTR(kit_run(stage->jail, "echo fine > /workspace/w; cat /workspace/w"), "fine\n");
}

TEST(what_cannot_move_is_named)
{
    struct err err = {0};
    uint32_t number;
    AUTO_STAGE struct stage stage = {0};
    if (!can_freeze())
        SKIP("this host cannot freeze commands");
    stage_up(&stage, "busy");
    (void)kit_run(stage.jail, "mkfifo /tmp/go /tmp/go2");
    start_in_background(stage.jail, "exec 5> /workspace/open; > /tmp/up; read x < /tmp/go", "/");
    (void)kit_run(stage.jail, "while ! test -e /tmp/up; do :; done");
    check_busy(&stage, "'sh' (process ");
    check_busy(&stage, "has a file of the layer open for writing; let it finish, end it, or");
    (void)kit_run(stage.jail, "rm /tmp/up; echo > /tmp/go");
    struct jail_exit exit;
    while (jail_wait(stage.jail, 200, &exit, &err) == 0)
        ;
    start_in_background(stage.jail, "> /tmp/up; read x < /tmp/go2", "/workspace");
    (void)kit_run(stage.jail, "while ! test -e /tmp/up; do :; done");
    check_busy(&stage, "'sh' (process ");
    check_busy(&stage, "works in a directory of the layer; end it, or");
    (void)kit_run(stage.jail, "echo > /tmp/go2");
    while (jail_wait(stage.jail, 200, &exit, &err) == 0)
        ;
    CHECK_OK(
        layers_checkpoint_live(stage.layers, "sandbox-1", stage.jail, &stage.plan, &number, &err));
}

/* Names are the tenant's; messages go to terminals and into JSON. */
TEST(a_process_is_named_in_plain_text)
{
    AUTO_STAGE struct stage stage = {0};
    if (!can_freeze())
        SKIP("this host cannot freeze commands");
    stage_up(&stage, "names");
    start_in_background(
        stage.jail, "f=/tmp/$(printf 'a\\t\\033\\377b'); cp /usr/bin/sleep \"$f\"; exec \"$f\" 60",
        "/workspace");
    (void)kit_run(stage.jail, "until cat /proc/[0-9]*/comm | grep -aq '^a.*b$'; do :; done");
    check_busy(&stage, "'a???b' (process");
}

/* Somebody who keeps a directory of the old root open can read there and nothing else. */
TEST(the_frozen_layer_cannot_be_written_through_old_descriptors)
{
    struct err err = {0};
    uint32_t number;
    AUTO_STAGE struct stage stage = {0};
    if (!can_freeze())
        SKIP("this host cannot freeze commands");
    stage_up(&stage, "olddir");
    (void)kit_run(stage.jail, "echo before > /workspace/f; mkfifo /tmp/go");
    start_in_background(stage.jail,
                        "exec 5< /workspace; > /tmp/up; read x < /tmp/go; cd /proc/self/fd/5;"
                        "cat f > /tmp/read; (echo after > f) 2> /tmp/wrote; > g; rm f; > /tmp/went",
                        "/");
    (void)kit_run(stage.jail, "while ! test -e /tmp/up; do :; done");
    CHECK_OK(
        layers_checkpoint_live(stage.layers, "sandbox-1", stage.jail, &stage.plan, &number, &err));
    CHECK_CSTR(kit_run(stage.jail,
                       "echo > /tmp/go; while ! test -e /tmp/went; do :; done; cat /tmp/read;"
                       "grep -c Read-only /tmp/wrote; ls /workspace"),
               "before\n1\nf\n");
    CHECK_OK(layers_fork(stage.layers, "sandbox-1", number, "sandbox-2", NULL, &err));
    CHECK_CSTR(kit_shell(stage.layers, "sandbox-2", "cat /workspace/f; ls /workspace"),
               "before\nf\n");
}

TEST(volumes_stay_outside)
{
    struct err err = {0};
    uint32_t number;
    char volume[PATH_MAX], other[PATH_MAX];
    AUTO_STAGE struct stage stage = {0};
    (void)snprintf(volume, sizeof volume, "%s", kit_path("volume"));
    (void)snprintf(other, sizeof other, "%s", kit_path("other"));
    CHECK_INT(mkdir(volume, 0755), 0);
    CHECK_INT(mkdir(other, 0755), 0);
    stage.plan.workspace = volume;
    stage.plan.mounts[0] =
        (struct jail_mount){.src = other, .dst = "/data/deep/er", .writable = true};
    stage.plan.mount_count = 1;
    stage_up(&stage, "volumes");
    (void)kit_run(stage.jail,
                  "echo 1 > /workspace/f; echo 1 > /home/sandbox/f; echo 1 > /data/deep/er/f");
    CHECK_OK(
        layers_checkpoint_live(stage.layers, "sandbox-1", stage.jail, &stage.plan, &number, &err));
    (void)kit_run(stage.jail,
                  "echo 2 > /workspace/f; echo 2 > /home/sandbox/f; echo 2 > /data/deep/er/f");
    CHECK_OK(
        layers_rollback_live(stage.layers, "sandbox-1", number, stage.jail, &stage.plan, &err));
    CHECK_CSTR(kit_run(stage.jail, "cat /workspace/f /home/sandbox/f /data/deep/er/f"),
               "2\n1\n2\n");
    CHECK_OK(layers_rollback_live(stage.layers, "sandbox-1", 0, stage.jail, &stage.plan, &err));
    CHECK_CSTR(kit_run(stage.jail, "cat /workspace/f /data/deep/er/f; ls /home/sandbox"), "2\n2\n");
}

TEST(a_jail_without_layers_says_so)
{
    struct err err = {0};
    AUTO_ARENA struct arena arena = {0};
    AUTO_JAIL struct jail *jail = NULL;
    AUTO_LAYERS struct layers *layers = kit_layers("none");
    struct jail_plan plan = {0}, with = {0};
    kit_plan(&plan), kit_plan(&with);
    CHECK_OK(layers_create(layers, "sandbox-1", NULL, NULL, &err));
    CHECK_OK(layers_plan(layers, "sandbox-1", &arena, &with, &err));
    CHECK_OK(jail_make(kit_warden(), &plan, &jail, &err));
    CHECK_ERR(jail_relayer(jail, &with, &err), ERR_UNSUPPORTED);
    CHECK_ERR(jail_relayer(jail, &plan, &err), ERR_UNSUPPORTED);
    CHECK_CSTR(kit_run(jail, "echo fine"), "fine\n");
}

/* ISO-15: a snapshot or an earlier layer has something else where a mount must go. */
static const struct {
    const char *place, *parent;
    bool is_file;
} lies[] = {
    {"proc", NULL, false},
    {"dev", NULL, false},
    {"tmp", NULL, false},
    {"usr", NULL, false},
    {"home", NULL, false},
    {"etc", NULL, false},
    {"workspace", NULL, false},
    {"proc", NULL, true},
    {"dev", NULL, true},
    {"tmp", NULL, true},
    {"usr", NULL, true},
    {"data", NULL, false},
    {"data", NULL, true},
    {"data/in", "data", false},
    {"home/sandbox", "home", false},
    {"home/sandbox", "home", true},
    {"etc/ssl", "etc", false},
    {"etc/alternatives", "etc", false},
    {"etc/alternatives", "etc", true},
    {"workspace", NULL, true},
};

TEST(trees_that_lie_reach_nothing_of_the_host)
{
    char host[PATH_MAX], path[PATH_MAX];
    (void)snprintf(host, sizeof host, "%s", kit_path("hostdir"));
    CHECK_INT(mkdir(host, 0777), 0);
    CHECK_INT(chmod(host, 0777), 0);
    test_write(test_tmpdir(), "hostdir/sentinel", "untouched");
    AUTO_LAYERS struct layers *layers = kit_layers("lies");
    CHECK_INT(mkdir(kit_path("lievolume"), 0755), 0);
    int refused = 0;
    for (size_t i = 0; i < countof(lies); i++) {
        struct err err = {0};
        char name[32], id[32], volume[PATH_MAX];
        AUTO_ARENA struct arena arena = {0};
        AUTO_JAIL struct jail *jail = NULL;
        (void)snprintf(name, sizeof name, "snapshot-%zu", i);
        (void)snprintf(id, sizeof id, "sandbox-%zu", i);
        (void)snprintf(path, sizeof path, "lies/snapshots/%s", name);
        CHECK_INT(mkdir(kit_path(path), 0755), 0);
        if (lies[i].parent != NULL) {
            (void)snprintf(path, sizeof path, "lies/snapshots/%s/%s", name, lies[i].parent);
            CHECK_INT(mkdir(kit_path(path), 0755), 0);
        }
        (void)snprintf(path, sizeof path, "lies/snapshots/%s/%s", name, lies[i].place);
        if (lies[i].is_file)
            test_write(test_tmpdir(), path, "a file");
        else
            test_symlink(test_tmpdir(), i % 2 == 0 ? host : "/proc/self/root", path);
        const char *snapshots[] = {name, NULL};
        CHECK_OK(layers_create(layers, id, snapshots, NULL, &err));
        struct jail_plan plan = {.mount_count = 1};
        (void)snprintf(volume, sizeof volume, "%s", kit_path("lievolume"));
        plan.mounts[0] = (struct jail_mount){.src = volume, .dst = "/data/in", .writable = true};
        if (kit_jail(layers, id, &arena, &plan, &jail, &err) < 0) {
            CHECK_MSG("bad_rootfs");
            refused++;
        } else {
            (void)kit_run(jail,
                          "echo out > /sentinel; cd /proc; cd /tmp; echo > /tmp/x; ls /data/in");
        }
        CHECK_INT(rmdir(host) < 0 && access(kit_path("hostdir/sentinel"), F_OK) == 0, 1);
    }
    CHECK(refused >= 9);
    AUTO_CLOSE int fd = open(kit_path("hostdir/sentinel"), O_RDONLY | O_CLOEXEC);
    char text[16] = "";
    CHECK_INT(read(fd, text, sizeof text - 1), 9);
    CHECK_CSTR(text, "untouched");
    CHECK_INT(unlink(kit_path("hostdir/sentinel")), 0);
    CHECK_INT(rmdir(kit_path("hostdir")), 0); /* nothing else is in it */
}

/* The same by the tenant itself: an old state in which a mount point is a link. */
TEST(a_rollback_to_a_tree_that_lies_is_refused)
{
    struct err err = {0};
    uint32_t lie, good;
    char volume[PATH_MAX];
    AUTO_STAGE struct stage stage = {0};
    AUTO_LAYERS struct layers *layers = kit_layers("lieback");
    CHECK_OK(layers_create(layers, "sandbox-1", NULL, NULL, &err));
    (void)kit_shell(layers, "sandbox-1", "ln -s /tmp /data");
    CHECK_OK(layers_checkpoint(layers, "sandbox-1", &lie, &err));
    (void)kit_shell(layers, "sandbox-1", "rm /data; mkdir /data");
    CHECK_OK(layers_checkpoint(layers, "sandbox-1", &good, &err));
    (void)snprintf(volume, sizeof volume, "%s", kit_path("lievolume2"));
    CHECK_INT(mkdir(volume, 0755), 0);
    stage.plan.mounts[0] = (struct jail_mount){.src = volume, .dst = "/data", .writable = true};
    stage.plan.mount_count = 1;
    CHECK_OK(kit_jail(layers, "sandbox-1", &stage.arena, &stage.plan, &stage.jail, &err));
    CHECK_ERR(layers_rollback_live(layers, "sandbox-1", lie, stage.jail, &stage.plan, &err),
              ERR_INVALID);
    CHECK_MSG("bad_rootfs");
    CHECK_CSTR(kit_run(stage.jail, "echo v > /data/v; cat /data/v; echo w > /w; cat /w"), "v\nw\n");
    CHECK_OK(layers_rollback_live(layers, "sandbox-1", good, stage.jail, &stage.plan, &err));
    CHECK_CSTR(kit_run(stage.jail, "cat /data/v; ls /w 2>/dev/null"), "v\n");
}

TEST(many_checkpoints_leave_nothing_behind)
{
    struct err err = {0};
    uint32_t base, number;
    AUTO_STAGE struct stage stage = {0};
    stage_up(&stage, "many");
    CHECK_OK(
        layers_checkpoint_live(stage.layers, "sandbox-1", stage.jail, &stage.plan, &base, &err));
    int fds = test_open_fds();
    char before[65536];
    (void)snprintf(before, sizeof before, "%s",
                   kit_run(stage.jail, "wc -l < /proc/self/mountinfo"));
    for (int i = 0; i < 50; i++) {
        CHECK_OK(layers_checkpoint_live(stage.layers, "sandbox-1", stage.jail, &stage.plan, &number,
                                        &err));
        CHECK_OK(
            layers_rollback_live(stage.layers, "sandbox-1", base, stage.jail, &stage.plan, &err));
    }
    CHECK_CSTR(kit_run(stage.jail, "wc -l < /proc/self/mountinfo"), before);
    CHECK_INT(test_open_fds(), fds);
}

/* The steps of an event loop, which never waits for the warden. */
static bool relayer_by_events(struct jail *jail, const struct jail_plan *plan)
{
    struct err err = {0};
    struct warden_event event;
    uint32_t request;
    CHECK_OK(jail_ask_relayer(jail, plan, &request, &err));
    for (;;) {
        struct pollfd ready = {.fd = warden_fd(kit_warden()), .events = POLLIN};
        CHECK_INT(poll(&ready, 1, 30000), 1);
        while (warden_next(kit_warden(), &event)) {
            if (event.request == request)
                return event.type == WARDEN_EVENT_DONE;
        }
    }
}

TEST(an_event_loop_takes_the_steps_one_by_one)
{
    struct err err = {0};
    uint32_t list[LAYERS_DEPTH_MAX];
    AUTO_STAGE struct stage stage = {0};
    AUTO_MOVE struct layers_move first = {0}, second = {0}, back = {0};
    stage_up(&stage, "steps");
    (void)kit_run(stage.jail, "echo one > /f");
    CHECK_OK(layers_begin_checkpoint(stage.layers, "sandbox-1", &stage.plan, &first, &err));
    CHECK(relayer_by_events(stage.jail, &first.plan));
    CHECK_OK(layers_keep(stage.layers, &first, &err));
    (void)kit_run(stage.jail, "echo two > /f");
    /* One that the jail does not follow leaves no trace. */
    CHECK_OK(layers_begin_checkpoint(stage.layers, "sandbox-1", &stage.plan, &second, &err));
    second.plan.upper = "/nowhere";
    CHECK(!relayer_by_events(stage.jail, &second.plan));
    CHECK_OK(layers_undo(stage.layers, &second, &err));
    CHECK_INT(layers_list(stage.layers, "sandbox-1", list, &err), 1);
    CHECK_INT(list[0], first.number);
    CHECK_CSTR(kit_run(stage.jail, "cat /f; echo three > /g; cat /g"), "two\nthree\n");
    CHECK_OK(
        layers_begin_rollback(stage.layers, "sandbox-1", first.number, &stage.plan, &back, &err));
    CHECK(relayer_by_events(stage.jail, &back.plan));
    CHECK_OK(layers_keep(stage.layers, &back, &err));
    CHECK_CSTR(kit_run(stage.jail, "cat /f; ls /g 2>/dev/null"), "one\n");
}

#ifdef SG_FAULTS
/* A daemon that dies in the middle, and its warden and jail with it. */
static void die_during(const char *name, const char *point, bool back)
{
    struct err err = {0};
    uint32_t number;
    kit_link = NULL; /* the parent's */
    struct stage stage = {0};
    stage_up(&stage, name);
    (void)kit_run(stage.jail, "echo one > /f");
    CHECK_OK(
        layers_checkpoint_live(stage.layers, "sandbox-1", stage.jail, &stage.plan, &number, &err));
    (void)kit_run(stage.jail, "echo two > /f");
    sys_crash_at(point);
    if (back)
        (void)!layers_rollback_live(stage.layers, "sandbox-1", number, stage.jail, &stage.plan,
                                    &err);
    else
        (void)!layers_checkpoint_live(stage.layers, "sandbox-1", stage.jail, &stage.plan, &number,
                                      &err);
    _exit(1);
}

TEST(a_crash_under_a_running_jail_leaves_the_old_stack_or_the_new)
{
    static const char *const points[] = {"layer.placed", "live.before_switch", "live.after_switch"};
    for (size_t i = 0; i < 2 * countof(points); i++) {
        struct err err = {0};
        uint32_t list[LAYERS_DEPTH_MAX];
        char name[32];
        bool back = i >= countof(points);
        (void)snprintf(name, sizeof name, "livecrash-%zu", i);
        pid_t pid = fork();
        if (pid == 0)
            die_during(name, points[i % countof(points)], back);
        int status = 0;
        CHECK_INT(waitpid(pid, &status, 0), pid);
        CHECK(WIFSIGNALED(status));
        AUTO_LAYERS struct layers *layers = kit_layers(name);
        CHECK_OK(layers_recover(layers, &err));
        CHECK_OK(layers_reclaim(layers, NULL, &err));
        CHECK_INT(layers_list(layers, "sandbox-1", list, &err), back ? 1 : 2);
        CHECK_CSTR(kit_shell(layers, "sandbox-1", "cat /f; echo on > /g; cat /g"),
                   back ? "one\non\n" : "two\non\n");
    }
}
#endif

/* In a child with a namespace of its own: both ways to say it to the kernel give the same. */
static int mount_both_ways(const char *dir)
{
    char path[PATH_MAX];
    static char names[40][8];
    const char *lower[40];
    struct err err = {0};
    if ((geteuid() != 0 && ids_enter_own_namespace(&err) < 0) || unshare(CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || chdir(dir) < 0)
        return 77;
    for (int i = 0; i < 40; i++) {
        (void)snprintf(names[i], sizeof names[i], "l%d", i);
        (void)mkdir(names[i], 0755);
        (void)snprintf(path, sizeof path, "l%d/f%d", i, i);
        (void)mkdir(path, 0755);
        lower[i] = names[i];
    }
    (void)mkdir("at", 0755);
    for (int way = 0; way < 2; way++) {
        char rw[8];
        (void)snprintf(rw, sizeof rw, "rw%d", way);
        (void)snprintf(path, sizeof path, "rw%d/upper", way);
        (void)mkdir(rw, 0755), (void)mkdir(path, 0755);
        (void)snprintf(path, sizeof path, "rw%d/work", way);
        (void)mkdir(path, 0755);
        struct overlay overlay = {
            .lower = lower, .lower_count = 40, .upper = rw, .one_string = way == 1};
        if (overlay_mount(&overlay, "at", &err) < 0) {
            (void)fprintf(stderr, "# %s\n", err.msg);
            return 2 + way;
        }
        if (access("at/f0", F_OK) < 0 || access("at/f39", F_OK) < 0 || mkdir("at/new", 0755) < 0)
            return 4 + way;
        if (umount2("at", MNT_DETACH) < 0)
            return 6;
    }
    return 0;
}

TEST(overlays_of_many_layers_on_new_and_old_kernels)
{
    char dir[PATH_MAX];
    (void)snprintf(dir, sizeof dir, "%s", kit_path("ways"));
    CHECK_INT(mkdir(dir, 0755), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(mount_both_ways(dir));
    int status = 0;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    if (WEXITSTATUS(status) == 77)
        SKIP("no right to mount");
    CHECK_INT(WEXITSTATUS(status), 0);
}
