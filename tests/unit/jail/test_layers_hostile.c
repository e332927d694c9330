/* Snapshots that somebody else made: whatever lies in them is refused or harmless. */

#include "layers_kit.h"

#include <errno.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

/* A data directory with one snapshot to fill; gives the path of something in it. */
static const char *in_snapshot(const char *store, const char *name)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/snapshots/snapshot-1%s%s", store,
                   name[0] == '\0' ? "" : "/", name);
    return kit_path(path);
}

static struct layers *store_with_snapshot(const char *store)
{
    struct layers *layers = kit_layers(store);
    CHECK_INT(mkdir(in_snapshot(store, ""), 0755), 0);
    return layers;
}

static void make_file(const char *store, const char *name, const char *text, mode_t mode)
{
    const char *path = in_snapshot(store, name);
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    CHECK_INT(fchmod(fd, mode), 0);
}

static void make_dir(const char *store, const char *name)
{
    CHECK_INT(mkdir(in_snapshot(store, name), 0755), 0);
}

/* A sandbox above it. */
static void place_sandbox(struct layers *layers)
{
    static const char *const snapshots[] = {"snapshot-1", NULL};
    struct err err = {0};
    CHECK_OK(layers_create(layers, "sandbox-1", snapshots, NULL, &err));
}

static void copy_program(const char *store, const char *from, const char *name)
{
    AUTO_BUF struct buf bytes = {0};
    struct err err = {0};
    AUTO_CLOSE int in = open(from, O_RDONLY | O_CLOEXEC);
    CHECK(in >= 0);
    CHECK_OK(buf_read_all(&bytes, in, &err));
    AUTO_CLOSE int out =
        open(in_snapshot(store, name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    CHECK(out >= 0);
    CHECK_OK(fd_write_all(out, buf_str(&bytes), &err));
}

TEST(set_id_bits_in_a_snapshot_change_nobody)
{
    AUTO_LAYERS struct layers *layers = store_with_snapshot("setid");
    copy_program("setid", "/usr/bin/id", "own");
    copy_program("setid", "/usr/bin/id", "other");
    if (geteuid() == 0)
        CHECK_INT(chown(in_snapshot("setid", "other"), 54321, 54321), 0);
    CHECK_INT(chmod(in_snapshot("setid", "own"), 06755), 0);
    CHECK_INT(chmod(in_snapshot("setid", "other"), 06755), 0);
    place_sandbox(layers);
    /* The bits are there, the programs run, and whoever runs them stays who he is. */
    CHECK_CSTR(kit_shell(layers, "sandbox-1",
                         "stat -c %a /own /other; /own -u; /own -g; /other -u; /other -g"),
               "6755\n6755\n1000\n1000\n1000\n1000\n");
}

TEST(capabilities_in_a_snapshot_give_none)
{
    AUTO_LAYERS struct layers *layers = store_with_snapshot("caps");
    /* VFS_CAP_REVISION_2 with the effective bit, everything permitted and inheritable. */
    static const uint32_t caps[5] = {0x02000001, 0xffffffff, 0xffffffff, 0x1ff, 0x1ff};
    copy_program("caps", "/usr/bin/grep", "grep");
    if (setxattr(in_snapshot("caps", "grep"), "security.capability", caps, sizeof caps, 0) < 0)
        KIT_SKIP(layers = layers_free(layers), "this user cannot give capabilities to a file");
    place_sandbox(layers);
    CHECK_CSTR(kit_shell(layers, "sandbox-1", "/grep -E 'Cap(Eff|Prm)' /proc/self/status"),
               "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n");
}

TEST(device_nodes_in_a_snapshot_open_nothing)
{
    static const struct {
        const char *name;
        mode_t type;
        unsigned major, minor;
    } nodes[] = {{"zero", S_IFCHR, 1, 5}, {"mem", S_IFCHR, 1, 1}, {"loop", S_IFBLK, 7, 0}};
    AUTO_LAYERS struct layers *layers = store_with_snapshot("nodes");
    make_dir("nodes", "n");
    make_file("nodes", "n/file", "read\n", 0644);
    for (size_t i = 0; i < countof(nodes); i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "n/%s", nodes[i].name);
        if (mknod(in_snapshot("nodes", name), nodes[i].type | 0666,
                  makedev(nodes[i].major, nodes[i].minor)) < 0)
            KIT_SKIP(layers = layers_free(layers), "this user cannot make device nodes");
        CHECK_INT(chmod(in_snapshot("nodes", name), 0666), 0);
    }
    place_sandbox(layers);
    CHECK_CSTR(kit_shell(layers, "sandbox-1",
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
    AUTO_LAYERS struct layers *layers = store_with_snapshot("whiteouts");
    for (size_t i = 0; i < countof(places); i++)
        if (mknod(in_snapshot("whiteouts", places[i]), S_IFCHR, 0) < 0)
            KIT_SKIP(layers = layers_free(layers), "this user cannot make whiteouts");
    place_sandbox(layers);
    CHECK_CSTR(
        kit_shell(layers, "sandbox-1",
                  "PATH=/usr/bin; for i in /usr /proc /dev /tmp /home/sandbox /workspace; do"
                  " [ -d $i ] && echo $i; done; > /workspace/f && > /tmp/f && > /home/sandbox/f &&"
                  " echo fine; ls -A /etc; : > /dev/null; readlink /proc/self/ns/net |"
                  " cut -c 1-4"),
        "/usr\n/proc\n/dev\n/tmp\n/home/sandbox\n/workspace\nfine\nalternatives\nssl\nnet:\n");
    /* Another sandbox, without it, misses nothing. */
    struct err err = {0};
    CHECK_OK(layers_create(layers, "sandbox-2", NULL, NULL, &err));
    CHECK_CSTR(kit_shell(layers, "sandbox-2", "ls -d /etc/passwd /bin/sh"),
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
    AUTO_LAYERS struct layers *layers = store_with_snapshot("attrs");
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
    place_sandbox(layers);
    /* Refused or nothing behind it; the control is the file itself. */
    CHECK_CSTR(kit_shell(layers, "sandbox-1",
                         "cat /target/secret; ls -R /d0 /d1 2>/dev/null | grep secret;"
                         "cat /f0 /f1 2>/dev/null"),
               "secret\n");
}

TEST(an_opaque_snapshot_cannot_empty_what_is_mounted)
{
    AUTO_LAYERS struct layers *layers = store_with_snapshot("opaque");
    static const char *const dirs[] = {"usr", "etc", "dev", "proc", "home"};
    for (size_t i = 0; i < countof(dirs); i++) {
        make_dir("opaque", dirs[i]);
        set(in_snapshot("opaque", dirs[i]), "user.overlay.opaque", "y");
        set(in_snapshot("opaque", dirs[i]), "trusted.overlay.opaque", "y");
    }
    place_sandbox(layers);
    CHECK_CSTR(kit_shell(layers, "sandbox-1",
                         "[ -x /usr/bin/env ] && [ -r /proc/self/stat ] && [ -c /dev/null ] &&"
                         " > /home/sandbox/f && echo fine"),
               "fine\n");
}

TEST(a_snapshot_is_a_directory_and_no_link)
{
    static const char *const snapshots[] = {"snapshot-1", NULL};
    struct err err = {0};
    AUTO_ARENA struct arena arena = {0};
    AUTO_JAIL struct jail *jail = NULL;
    AUTO_LAYERS struct layers *layers = kit_layers("link");
    test_symlink(test_tmpdir(), "/etc", "link/snapshots/snapshot-1");
    CHECK(layers_create(layers, "sandbox-1", snapshots, NULL, &err) < 0);
    CHECK_INT(unlink(kit_path("link/snapshots/snapshot-1")), 0);
    CHECK_INT(mkdir(kit_path("link/snapshots/snapshot-1"), 0755), 0);
    CHECK_OK(layers_create(layers, "sandbox-1", snapshots, NULL, &err));
    /* Exchanged afterwards. */
    CHECK_INT(rmdir(kit_path("link/snapshots/snapshot-1")), 0);
    test_symlink(test_tmpdir(), "/etc", "link/snapshots/snapshot-1");
    CHECK_ERR(kit_jail(layers, "sandbox-1", &arena, &(struct jail_plan){0}, &jail, &err),
              ERR_INVALID);
    CHECK_MSG("neither a file nor a directory");
    CHECK_INT(unlink(kit_path("link/snapshots/snapshot-1")), 0);
}

/* A snapshot is never written: what is changed above it stays above. */
TEST(a_snapshot_never_changes)
{
    struct stat before, after;
    AUTO_LAYERS struct layers *layers = store_with_snapshot("still");
    make_file("still", "f", "first\n", 0666);
    place_sandbox(layers);
    CHECK_INT(stat(in_snapshot("still", "f"), &before), 0);
    CHECK_CSTR(
        kit_shell(layers, "sandbox-1",
                  "echo more >> /f; chmod 777 /f; > /new; cat /f; rm /f; mkdir /f; ls -d /f"),
        "first\nmore\n/f\n");
    CHECK_INT(stat(in_snapshot("still", "f"), &after), 0);
    CHECK(before.st_mode == after.st_mode && before.st_size == after.st_size &&
          before.st_ctim.tv_nsec == after.st_ctim.tv_nsec);
    CHECK(access(in_snapshot("still", "new"), F_OK) < 0);
}
