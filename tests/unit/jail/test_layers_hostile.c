/* Snapshots of an attacker: whatever is in them is refused or harmless. */

#include "layers_kit.h"

#include <errno.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "jail/inside/overlay.h"
#include "jail/wire/ids.h"

/* A path in a snapshot, which is a layer above the base. */
static const char *in_snapshot(const char *snapshot, const char *name)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s%s%s", snapshot, name[0] == '\0' ? "" : "/", name);
    return kit_path(path);
}

/* An empty snapshot, and a plan that uses it. */
static struct jail_plan plan_on(const char *snapshot)
{
    static char path[PATH_MAX];
    CHECK_INT(mkdir(in_snapshot(snapshot, ""), 0755), 0);
    (void)snprintf(path, sizeof path, "%s", in_snapshot(snapshot, ""));
    return (struct jail_plan){.layers = {path}, .layer_count = 1};
}

static void make_file(const char *snapshot, const char *name, const char *text, mode_t mode)
{
    const char *path = in_snapshot(snapshot, name);
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    CHECK_INT(fchmod(fd, mode), 0);
}

static void make_dir(const char *snapshot, const char *name)
{
    CHECK_INT(mkdir(in_snapshot(snapshot, name), 0755), 0);
}

static void copy_program(const char *snapshot, const char *from, const char *name)
{
    AUTO_BUF struct buf bytes = {0};
    struct err err = {0};
    AUTO_CLOSE int in = open(from, O_RDONLY | O_CLOEXEC);
    CHECK(in >= 0);
    CHECK_OK(buf_read_all(&bytes, in, &err));
    AUTO_CLOSE int out =
        open(in_snapshot(snapshot, name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    CHECK(out >= 0);
    CHECK_OK(fd_write_all(out, buf_str(&bytes), &err));
}

TEST(set_id_bits_in_a_snapshot_change_nobody)
{
    struct jail_plan plan = plan_on("setid");
    copy_program("setid", "/usr/bin/id", "own");
    copy_program("setid", "/usr/bin/id", "other");
    if (geteuid() == 0)
        CHECK_INT(chown(in_snapshot("setid", "other"), 54321, 54321), 0);
    CHECK_INT(chmod(in_snapshot("setid", "own"), 06755), 0);
    CHECK_INT(chmod(in_snapshot("setid", "other"), 06755), 0);
    /* The bits are there, the programs run, and the user who runs them does not change. */
    CHECK_CSTR(kit_shell(plan, "stat -c %a /own /other; /own -u; /own -g; /other -u; /other -g"),
               "6755\n6755\n1000\n1000\n1000\n1000\n");
}

TEST(capabilities_in_a_snapshot_give_none)
{
    struct jail_plan plan = plan_on("caps");
    /* VFS_CAP_REVISION_2 with the effective bit, everything permitted and inheritable. */
    static const uint32_t caps[5] = {0x02000001, 0xffffffff, 0xffffffff, 0x1ff, 0x1ff};
    copy_program("caps", "/usr/bin/grep", "grep");
    if (setxattr(in_snapshot("caps", "grep"), "security.capability", caps, sizeof caps, 0) < 0)
        SKIP("this user cannot give capabilities to a file");
    CHECK_CSTR(kit_shell(plan, "/grep -E 'Cap(Eff|Prm)' /proc/self/status"),
               "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n");
}

TEST(device_nodes_in_a_snapshot_open_nothing)
{
    static const struct {
        const char *name;
        mode_t type;
        unsigned major, minor;
    } nodes[] = {{"zero", S_IFCHR, 1, 5}, {"mem", S_IFCHR, 1, 1}, {"loop", S_IFBLK, 7, 0}};
    struct jail_plan plan = plan_on("nodes");
    make_dir("nodes", "n");
    make_file("nodes", "n/file", "read\n", 0644);
    for (size_t i = 0; i < countof(nodes); i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "n/%s", nodes[i].name);
        if (mknod(in_snapshot("nodes", name), nodes[i].type | 0666,
                  makedev(nodes[i].major, nodes[i].minor)) < 0)
            SKIP("this user cannot make device nodes");
        CHECK_INT(chmod(in_snapshot("nodes", name), 0666), 0);
    }
    CHECK_CSTR(kit_shell(plan,
                         "cd /n; cat file; ls; for i in zero mem loop; do"
                         " head -c 1 $i >/dev/null 2>&1 && echo opened $i; (: > $i) 2>/dev/null &&"
                         " echo written $i; cp -a $i /workspace 2>/dev/null &&"
                         " head -c 1 /workspace/$i >/dev/null 2>&1 && echo copied $i; done; true"),
               "read\nfile\nloop\nmem\nzero\n");
}

/* What a jail cannot do without is there, whatever a snapshot says is not. */
TEST(whiteouts_in_a_snapshot_hide_only_from_its_own)
{
    static const char *const places[] = {"usr", "proc",      "dev", "tmp", "home", "etc",
                                         "bin", "workspace", "var", "mnt", "cache"};
    struct jail_plan plan = plan_on("whiteouts");
    for (size_t i = 0; i < countof(places); i++)
        if (mknod(in_snapshot("whiteouts", places[i]), S_IFCHR, 0) < 0)
            SKIP("this user cannot make whiteouts");
    CHECK_CSTR(
        kit_shell(plan,
                  "PATH=/usr/bin; for i in /usr /proc /dev /tmp /home/sandbox /workspace; do"
                  " [ -d $i ] && echo $i; done; > /workspace/f && > /tmp/f && > /home/sandbox/f &&"
                  " echo fine; ls -A /etc; : > /dev/null; readlink /proc/self/ns/net |"
                  " cut -c 1-4"),
        "/usr\n/proc\n/dev\n/tmp\n/home/sandbox\n/workspace\nfine\nalternatives\nssl\nnet:\n");
    /* Another sandbox, without it, misses nothing. */
    CHECK_CSTR(kit_shell((struct jail_plan){.overlay = true}, "ls -d /etc/passwd /bin/sh"),
               "/bin/sh\n/etc/passwd\n");
}

static void set(const char *path, const char *name, const char *value)
{
    /* Names of the other kind need privilege; what this user may not write he cannot use. */
    if (setxattr(path, name, value, strlen(value), 0) < 0)
        CHECK(errno == EPERM || errno == EOPNOTSUPP);
}

TEST(overlay_attributes_in_a_snapshot_lead_nowhere)
{
    static const char *const kinds[] = {"user", "trusted"};
    struct jail_plan plan = plan_on("attrs");
    make_dir("attrs", "target");
    make_file("attrs", "target/secret", "secret\n", 0644);
    for (size_t i = 0; i < countof(kinds); i++) {
        char name[64], dir[16], file[16];
        (void)snprintf(dir, sizeof dir, "d%zu", i);
        (void)snprintf(file, sizeof file, "f%zu", i);
        make_dir("attrs", dir);
        make_file("attrs", file, "", 0644);
        (void)snprintf(name, sizeof name, "%s.overlay.redirect", kinds[i]);
        set(in_snapshot("attrs", dir), name, "/target");
        set(in_snapshot("attrs", file), name, "/target/secret");
        (void)snprintf(name, sizeof name, "%s.overlay.metacopy", kinds[i]);
        set(in_snapshot("attrs", file), name, "");
        (void)snprintf(name, sizeof name, "%s.overlay.origin", kinds[i]);
        set(in_snapshot("attrs", dir), name, "nonsense");
        (void)snprintf(name, sizeof name, "%s.overlay.impure", kinds[i]);
        set(in_snapshot("attrs", dir), name, "y");
    }
    /* Refused or nothing behind it; the control is the file itself. */
    CHECK_CSTR(kit_shell(plan, "cat /target/secret; ls -R /d0 /d1 2>/dev/null | grep secret;"
                               "cat /f0 /f1 2>/dev/null"),
               "secret\n");
}

TEST(an_opaque_snapshot_cannot_empty_what_is_mounted)
{
    struct jail_plan plan = plan_on("opaque");
    static const char *const dirs[] = {"usr", "etc", "dev", "proc", "home"};
    for (size_t i = 0; i < countof(dirs); i++) {
        make_dir("opaque", dirs[i]);
        set(in_snapshot("opaque", dirs[i]), "user.overlay.opaque", "y");
        set(in_snapshot("opaque", dirs[i]), "trusted.overlay.opaque", "y");
    }
    CHECK_CSTR(kit_shell(plan,
                         "[ -x /usr/bin/env ] && [ -r /proc/self/stat ] && [ -c /dev/null ] &&"
                         " > /home/sandbox/f && echo fine"),
               "fine\n");
}

TEST(a_snapshot_is_a_directory_and_no_link)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = NULL;
    struct jail_plan plan = plan_on("link");
    CHECK_INT(rmdir(kit_path("link")), 0);
    test_symlink(test_tmpdir(), "/etc", "link");
    CHECK_ERR(kit_jail(&plan, &jail, &err), ERR_INVALID);
    CHECK_MSG("neither a file nor a directory");
    CHECK_INT(unlink(kit_path("link")), 0);
}

/* A snapshot is never written: what is changed above it stays above. */
TEST(a_snapshot_never_changes)
{
    struct stat before, after;
    struct jail_plan plan = plan_on("still");
    make_file("still", "f", "first\n", 0666);
    CHECK_INT(stat(in_snapshot("still", "f"), &before), 0);
    CHECK_CSTR(
        kit_shell(plan, "echo more >> /f; chmod 777 /f; > /new; cat /f; rm /f; mkdir /f; ls -d /f"),
        "first\nmore\n/f\n");
    CHECK_INT(stat(in_snapshot("still", "f"), &after), 0);
    CHECK(before.st_mode == after.st_mode && before.st_size == after.st_size &&
          before.st_ctim.tv_nsec == after.st_ctim.tv_nsec);
    CHECK(access(in_snapshot("still", "new"), F_OK) < 0);
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
    CHECK_INT(mkdir(kit_path("lievolume"), 0755), 0);
    int refused = 0;
    for (size_t i = 0; i < countof(lies); i++) {
        struct err err = {0};
        char name[32], volume[PATH_MAX], layer[PATH_MAX];
        AUTO_JAIL struct jail *jail = NULL;
        (void)snprintf(name, sizeof name, "lie-%zu", i);
        (void)snprintf(layer, sizeof layer, "%s", kit_path(name));
        CHECK_INT(mkdir(layer, 0755), 0);
        if (lies[i].parent != NULL) {
            (void)snprintf(path, sizeof path, "%s/%s", name, lies[i].parent);
            CHECK_INT(mkdir(kit_path(path), 0755), 0);
        }
        (void)snprintf(path, sizeof path, "%s/%s", name, lies[i].place);
        if (lies[i].is_file)
            test_write(test_tmpdir(), path, "a file");
        else
            test_symlink(test_tmpdir(), i % 2 == 0 ? host : "/proc/self/root", path);
        struct jail_plan plan = {.mount_count = 1, .layers = {layer}, .layer_count = 1};
        (void)snprintf(volume, sizeof volume, "%s", kit_path("lievolume"));
        plan.mounts[0] = (struct jail_mount){.src = volume, .dst = "/data/in", .writable = true};
        if (kit_jail(&plan, &jail, &err) < 0) {
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
