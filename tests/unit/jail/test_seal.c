/* Sealing the layer in memory of a jail that runs: the sealed one no longer changes, the jail
 * continues.
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

TEST(a_sealed_layer_no_longer_changes_and_the_jail_continues)
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

TEST(a_running_process_prevents_the_seal_and_notices_nothing)
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

TEST(mounts_of_the_jail_move_along)
{
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
    stage_up(&stage);
    (void)kit_run(stage.jail,
                  "echo 1 > /workspace/f; echo 1 > /home/sandbox/f; echo 1 > /data/deep/er/f");
    int sealed = seal(&stage, 0);
    CHECK_CSTR(kit_run(stage.jail, "cat /workspace/f /home/sandbox/f /data/deep/er/f;"
                                   "echo 2 > /workspace/f; echo 2 > /data/deep/er/f"),
               "1\n1\n1\n");
    CHECK_CSTR(text_of(sealed, "home/sandbox/f"), "1\n");
    /* What lies on them is no part of a layer. */
    CHECK(text_of(sealed, "workspace/f") == NULL && text_of(sealed, "data/deep/er/f") == NULL);
    CHECK_CSTR(kit_run(stage.jail, "cat /workspace/f /data/deep/er/f"), "2\n2\n");
}

/* --- Processes that move to the new root --- */

/* Python code before and after a wait for /tmp/go. */
static uint32_t start(struct stage *stage, const char *cwd, const char *before, const char *after)
{
    struct err err = {0};
    char script[512];
    uint32_t id;
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const char *argv[] = {"python3", "-c", script, NULL};
    (void)snprintf(script, sizeof script,
                   "import os,time,socket,threading\n%s\nopen('/tmp/up','w').close()\n"
                   "while not os.path.exists('/tmp/go'): time.sleep(0.02)\n%s\n",
                   before, after);
    CHECK_OK(jail_start(stage->jail, &(struct jail_command){.argv = argv, .cwd = cwd},
                        (int[]){null, null, null}, &id, NULL, &err));
    return id;
}

static int seal_moving(struct stage *stage, uint32_t processes, struct err *err)
{
    return jail_seal_with(stage->jail, &stage->plan,
                          &(struct jail_seal){.most_bytes = PLENTY, .processes = processes}, err);
}

static void wait_until_up(struct stage *stage)
{
    (void)kit_run(stage->jail, "while ! test -e /tmp/up; do sleep 0.02; done");
}

static void go_on(struct stage *stage, uint32_t id)
{
    (void)kit_run(stage->jail, "touch /tmp/go");
    kit_await_end(stage->jail, id);
}

static void need_freezer(void)
{
    if (warden_host(kit_warden())->no_freeze[0] != '\0')
        SKIP(warden_host(kit_warden())->no_freeze);
}

TEST(a_process_at_the_root_moves_along)
{
    struct err err = {0};
    need_freezer();
    AUTO_STAGE struct stage stage = {0};
    stage_up(&stage);
    (void)kit_run(stage.jail, "echo one >/workspace/f");
    uint32_t id =
        start(&stage, "/", "t = open('/tmp/held', 'w')",
              "t.write('held'); t.close()\n"
              "s = open('/workspace/f').read(); open('workspace/f', 'a').write('two\\n')\n"
              "open('/workspace/g', 'w').write(s + os.getcwd())");
    wait_until_up(&stage);
    CHECK_ERR(seal_moving(&stage, 0, &err), ERR_BUSY);
    AUTO_CLOSE int sealed = seal_moving(&stage, 1, &err);
    CHECK_OK(sealed);
    go_on(&stage, id);
    CHECK_CSTR(kit_run(stage.jail, "cat /workspace/f /workspace/g /tmp/held"),
               "one\ntwo\none\n/held");
    CHECK_CSTR(text_of(sealed, "workspace/f"), "one\n");
    CHECK(text_of(sealed, "workspace/g") == NULL);
}

/* Each keeps the root that it has, and loses nothing. */
TEST(a_process_that_holds_the_old_root_keeps_it)
{
    static const struct {
        const char *why, *cwd, *before, *after, *shown;
    } cases[] = {
        {"directory of the root", "/workspace", "", "open('x', 'w').write('1')", "1"},
        {"file of the root", "/", "f = open('/workspace/x', 'w')", "f.write('2'); f.close()", "2"},
        {"file of the root", "/", "open('/workspace/x', 'w').write('3'); f = open('/workspace/x')",
         "", "3"},
        {"file of the root", "/", "d = os.open('/workspace', os.O_PATH)",
         "os.close(os.open('x', os.O_CREAT | os.O_WRONLY, dir_fd=d))", ""},
        {"open for writing", "/",
         "open('/workspace/x', 'w').write('abcd'); f = os.open('/workspace/x', os.O_RDWR)\n"
         "import ctypes; c = ctypes.CDLL(None); c.mmap.restype = ctypes.c_void_p\n"
         "p = c.mmap(None, 4, 3, 1, f, ctypes.c_long(0)); os.close(f)",
         "ctypes.memmove(p, b'efgh', 4)", "efgh"},
        {"bound to a file", "/",
         "s = socket.socket(socket.AF_UNIX); s.bind('/workspace/x.sock')\ns.listen()",
         "open('/workspace/x', 'w').write('6')", "6"},
        {"bound to a file", "/tmp", "s = socket.socket(socket.AF_UNIX); s.bind('s')",
         "open('/workspace/x', 'w').write('7')", "7"},
        {"watches files", "/",
         "import ctypes; c = ctypes.CDLL(None); w = c.inotify_init()\n"
         "c.inotify_add_watch(w, b'/workspace', 0x100)",
         "open('/workspace/x', 'w').write('8'); os.read(w, 100)", "8"},
        {"commands are running", "/", "p = os.fork()\nif p == 0: time.sleep(1000)",
         "os.kill(p, 9); open('/workspace/x', 'w').write('9')", "9"},
        {"directory of the root", "/",
         "import ctypes\ndef f(): ctypes.CDLL(None).unshare(0x200); os.chdir('/workspace');"
         " open('/tmp/in', 'w').close(); time.sleep(1000)\n"
         "threading.Thread(target=f, daemon=True).start()\n"
         "while not os.path.exists('/tmp/in'): time.sleep(0.01)",
         "open('/workspace/x', 'w').write('10')", "10"},
    };
    need_freezer();
    for (size_t i = 0; i < countof(cases); i++) {
        struct err err = {0};
        AUTO_STAGE struct stage stage = {0};
        stage_up(&stage);
        uint32_t id = start(&stage, cases[i].cwd, cases[i].before, cases[i].after);
        wait_until_up(&stage);
        int sealed = seal_moving(&stage, 1, &err);
        if (sealed >= 0 || strstr(err.msg, cases[i].why) == NULL)
            print_error("%s: %s\n", cases[i].why, err.msg);
        CHECK(strstr(err.msg, cases[i].why) != NULL);
        CHECK_ERR(sealed, ERR_BUSY);
        go_on(&stage, id);
        CHECK_CSTR(kit_run(stage.jail, "cat /workspace/x"), cases[i].shown);
    }
}

/* What it has mapped privately stays, also when the layer is emptied; but not without end. */
TEST(a_program_of_the_old_root_goes_on)
{
    struct err err = {0};
    AUTO_STAGE struct stage stage = {0};
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC), last = -1;
    const char *argv[] = {
        "/workspace/mine", "-c",
        "echo >/tmp/up; until test -e /tmp/go; do read -t 0.02 <>/tmp/fifo; done;"
        /* Its own program is on the old root, which nobody can write to. */
        "{ cat /workspace/f; chmod 700 /proc/$$/exe; touch -c /proc/$$/exe;"
        " mount -o remount,rw / 2>/dev/null && echo remounted; } 2>&1 | sed 's/.*: //' >/tmp/went",
        NULL};
    uint32_t id;
    int moves = 0;
    need_freezer();
    stage_up(&stage);
    (void)kit_run(stage.jail, "cp /bin/bash /workspace/mine; mkfifo /tmp/fifo");
    CHECK_OK(jail_start(stage.jail, &(struct jail_command){.argv = argv, .cwd = "/"},
                        (int[]){null, null, null}, &id, NULL, &err));
    wait_until_up(&stage);
    for (int fd; moves < 1000; moves++) {
        struct jail_seal seal = {.most_bytes = PLENTY, .processes = 1};
        (void)kit_run(stage.jail, "echo more >>/workspace/f");
        if ((fd = jail_seal_with(stage.jail, &stage.plan, &seal, &err)) < 0)
            break;
        if (last >= 0)
            CHECK_OK(tree_reclaim(last, &err));
        fd_close(&last);
        last = fd;
    }
    CHECK_INT(err.code, ERR_BUSY);
    CHECK(strstr(err.msg, "too often") != NULL);
    CHECK(moves >= 100);
    CHECK_CSTR(kit_run(stage.jail, "echo new >/workspace/f && echo ok"), "ok\n");
    go_on(&stage, id);
    CHECK_CSTR(kit_run(stage.jail, "cat /tmp/went"),
               "new\nRead-only file system\nRead-only file system\n");
    /* Once it has exited, the count begins again. */
    AUTO_CLOSE int alone = seal_moving(&stage, 0, &err);
    CHECK_OK(alone);
    (void)kit_run(stage.jail, "rm /tmp/go /tmp/up");
    id = start(&stage, "/", "", "");
    wait_until_up(&stage);
    AUTO_CLOSE int again = seal_moving(&stage, 1, &err);
    CHECK_OK(again);
    go_on(&stage, id);
}
