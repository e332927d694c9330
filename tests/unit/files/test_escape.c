/* FS-01 to FS-07: ways out of the tree, and things that are no files. Each has its control: the
 * same call with an honest path works. */

#include <errno.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "tree.h"

enum { RACES = 3000 };

/* Calls every verb with the path; whatever each answers, it is not the host's secret, and
 * tree_done checks that the host's file stayed as it was. Gives how many succeeded. */
static int call_all(struct tree *tree, struct str path)
{
    struct files *files = tree->files;
    AUTO_ARENA struct arena arena = {0};
    AUTO_BUF struct buf out = {0};
    struct err err = {0};
    struct files_content content;
    struct files_stat st = {0};
    struct files_list list;
    struct files_glob glob;
    struct files_delete_result deleted;
    struct str target;
    uint64_t n;
    bool flag;
    int good = 0;
    good += files_read(files, path, NULL, &out, &content, &err) == 0;
    CHECK(str_find(buf_str(&out), STR(HOST_SECRET)) == out.len);
    if (files_stat(files, path, true, &st, &err) == 0 && ++good)
        CHECK(st.size != sizeof HOST_SECRET - 1);
    good += files_exists(files, path, &flag, &err) == 0 && flag;
    good += files_list(files, path, NULL, &arena, &list, &err) == 0;
    good += files_glob(files, path, STR("**"), NULL, &arena, &glob, &err) == 0;
    good += files_readlink(files, path, &arena, &target, &err) == 0;
    good += files_edit(files, path, STR("cnry"), STR("gone"), true, &n, &err) == 0;
    good += files_append(files, path, STR("x"), &n, &err) == 0;
    good += files_chmod(files, path, 0777, &err) == 0;
    good += files_mkdir(files, path, 0777, true, &err) == 0;
    good += files_symlink(files, path, STR("x"), &err) == 0;
    good += files_write(files, path, STR("overwritten"), NULL, &flag, &err) == 0;
    good += files_rename(files, path, STR("taken"), true, &err) == 0;
    good += files_delete(files, path, true, &deleted, &err) == 0;
    return good;
}

TEST(fs01_paths_lead_nowhere_outside)
{
    AUTO_TREE struct tree tree = tree_new();
    char host[300], long_path[5001], long_name[257];
    (void)snprintf(host, sizeof host, "%s/HOSTFILE", tree.outer);
    memset(long_path, 'p', sizeof long_path - 1);
    for (size_t i = 99; i < sizeof long_path; i += 100)
        long_path[i] = '/';
    long_path[5000] = '\0';
    memset(long_name, 'n', 256);
    long_name[256] = '\0';
    const struct str refused[] = {
        STR("../HOSTFILE"),        STR("../../HOSTFILE"), str_of(host), STR("a/../../HOSTFILE"),
        STR("./..//HOSTFILE"),     STR("a\0b"),           STR(""),      STR("/"),
        str_of(long_path),         str_of(long_name),     STR("//"),    STR(".."),
        STR("../tree/../HOSTFILE")};
    CHECK_INT(mkdirat(open(tree.dir, O_RDONLY | O_CLOEXEC), "a", 0755), 0);
    for (size_t i = 0; i < countof(refused); i++)
        CHECK_INT(call_all(&tree, refused[i]), 0);
    static const char *const literal[] = {
        "%2e%2e%2fHOSTFILE", "..%c0%afHOSTFILE", "..\\..\\HOSTFILE", "\xff\xfe", "...", "a/../b"};
    for (size_t i = 0; i < countof(literal); i++)
        CHECK(call_all(&tree, str_of(literal[i])) > 3); /* the control: a file inside */
}

TEST(fs02_links_lead_nowhere_outside)
{
    AUTO_TREE struct tree tree = tree_new();
    char host[300], to[32], from[32] = "inside";
    struct err err = {0};
    (void)snprintf(host, sizeof host, "%s/HOSTFILE", tree.outer);
    tree_put(&tree, "inside", "fine");
    test_symlink(tree.dir, "inside", "honest");
    for (int i = 0; i < 60; i++) {
        (void)snprintf(to, sizeof to, "chain%d", i);
        test_symlink(tree.dir, from, to);
        memcpy(from, to, sizeof from);
    }
    static const char *const targets[] = {"/", "../../..", "..", "../HOSTFILE", "loop", "chain59"};
    static const char *const ways[] = {"%s", "%s/HOSTFILE", "%s/outer/HOSTFILE", "%s/"};
    test_symlink(tree.dir, "loop", "loop");
    for (size_t t = 0; t <= countof(targets); t++) {
        for (size_t w = 0; w < countof(ways); w++) {
            struct files_delete_result deleted;
            (void)!files_delete(tree.files, STR("link"), false, &deleted, &err);
            test_symlink(tree.dir, t < countof(targets) ? targets[t] : host, "link");
            char path[64];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            (void)snprintf(path, sizeof path, ways[w], "link");
#pragma GCC diagnostic pop
            (void)call_all(&tree, str_of(path));
            (void)!files_delete(tree.files, STR("taken"), true, &deleted, &err);
        }
    }
    AUTO_BUF struct buf out = {0};
    struct files_content content;
    CHECK_ERR(files_read(tree.files, STR("loop"), NULL, &out, &content, &err), ERR_INVALID);
    CHECK_ERR(files_read(tree.files, STR("chain59"), NULL, &out, &content, &err), ERR_INVALID);
    CHECK_OK(files_read(tree.files, STR("chain20"), NULL, &out, &content, &err));
    buf_clear(&out);
    CHECK_OK(files_read(tree.files, STR("honest"), NULL, &out, &content, &err));
    CHECK_STR(buf_str(&out), "fine");
}

TEST(fs02_a_link_at_the_target_is_replaced_or_removed_not_followed)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    bool created;
    struct files_delete_result deleted;
    test_symlink(tree.dir, "../HOSTFILE", "w");
    test_symlink(tree.dir, "../HOSTFILE", "d");
    CHECK_OK(files_write(tree.files, STR("w"), STR("mine"), NULL, &created, &err));
    tree_check(&tree, "w", "mine");
    CHECK_OK(files_delete(tree.files, STR("d"), true, &deleted, &err));
    CHECK(!tree_has(&tree, "d"));
}

struct swapper {
    int dir_fd;
    atomic_bool stop;
};

static void *swap_for_ever(void *ctx)
{
    struct swapper *swapper = ctx;
    while (!atomic_load(&swapper->stop))
        (void)syscall(SYS_renameat2, swapper->dir_fd, "d", swapper->dir_fd, "evil",
                      RENAME_EXCHANGE);
    return NULL;
}

/* FS-03: "d" is now a directory, now a link to the directory of HOSTFILE. */
TEST(fs03_swapping_a_directory_for_a_link_wins_nothing)
{
    AUTO_TREE struct tree tree = tree_new();
    AUTO_ARENA struct arena arena = {0};
    struct err err = {0};
    tree_put(&tree, "d/HOSTFILE", "mine");
    test_symlink(tree.dir, "..", "evil");
    AUTO_CLOSE int dir_fd = open(tree.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct swapper swapper = {.dir_fd = dir_fd};
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, swap_for_ever, &swapper), 0);
    struct files_write_options quick = {.no_sync = true};
    struct files_list_options all = {.recursive = true};
    int read_good = 0, write_good = 0;
    for (int i = 0; i < RACES; i++) {
        AUTO_BUF struct buf out = {0};
        struct files_content content;
        struct files_list list;
        struct files_delete_result deleted;
        bool created;
        if (files_read(tree.files, STR("d/HOSTFILE"), NULL, &out, &content, &err) == 0) {
            CHECK(str_find(buf_str(&out), STR("cnry")) == out.len);
            read_good++;
        }
        write_good +=
            files_write(tree.files, STR("d/HOSTFILE"), STR("mine"), &quick, &created, &err) == 0;
        (void)!files_delete(tree.files, STR("d/none"), true, &deleted, &err);
        if (files_list(tree.files, STR("."), &all, &arena, &list, &err) == 0)
            for (size_t e = 0; e < list.count; e++)
                CHECK(list.entries[e].stat.size != sizeof HOST_SECRET - 1);
        arena_reset(&arena);
    }
    atomic_store(&swapper.stop, true);
    CHECK_INT(pthread_join(thread, NULL), 0);
    CHECK(read_good > 0 && write_good > 0); /* the control: it was a race, not a wall */
}

TEST(fs04_proc_and_dev_lead_nowhere)
{
    AUTO_TREE struct tree tree = tree_new();
    char self_fd[64];
    (void)snprintf(self_fd, sizeof self_fd, "/proc/%d/fd/0", (int)getpid());
    const char *const targets[] = {"/proc/self/root", "/proc/self/cwd", self_fd, "/dev/fd/0",
                                   "/dev/stdin"};
    for (size_t i = 0; i < countof(targets); i++) {
        char name[16], below[32];
        (void)snprintf(name, sizeof name, "l%zu", i);
        (void)snprintf(below, sizeof below, "l%zu/HOSTFILE", i);
        test_symlink(tree.dir, targets[i], name);
        AUTO_BUF struct buf out = {0};
        struct files_content content;
        struct err err = {0};
        CHECK_ERR(files_read(tree.files, str_of(name), NULL, &out, &content, &err),
                  ERR_PATH_ESCAPES);
        CHECK_ERR(files_read(tree.files, str_of(below), NULL, &out, &content, &err),
                  ERR_PATH_ESCAPES);
        CHECK_ERR(files_read(tree.files, str_of(targets[i]), NULL, &out, &content, &err),
                  ERR_PATH_ESCAPES);
    }
}

TEST(fs05_what_is_no_file_is_refused_at_once)
{
    AUTO_TREE struct tree tree = tree_new();
    char path[400];
    (void)snprintf(path, sizeof path, "%s/fifo", tree.dir);
    CHECK_INT(mkfifo(path, 0666), 0);
    AUTO_CLOSE int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    AUTO_CLOSE int dir_fd = open(tree.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)snprintf(addr.sun_path, sizeof addr.sun_path, "/proc/self/fd/%d/sock", dir_fd);
    CHECK_INT(bind(sock, (struct sockaddr *)&addr, sizeof addr), 0);
    CHECK_INT(mkdirat(dir_fd, "dir", 0755), 0);
    bool has_device = mknodat(dir_fd, "dev", S_IFCHR | 0666, (dev_t)0x105) == 0;
    static const char *const names[] = {"fifo", "sock", "dir", "dev"};
    for (size_t i = 0; i < countof(names) - !has_device; i++) {
        struct str name = str_of(names[i]);
        AUTO_BUF struct buf out = {0};
        struct files_content content;
        struct err err = {0};
        uint64_t n;
        bool created;
        CHECK_ERR(files_read(tree.files, name, NULL, &out, &content, &err), ERR_NOT_A_FILE);
        CHECK_ERR(files_append(tree.files, name, STR("x"), &n, &err), ERR_NOT_A_FILE);
        CHECK_ERR(files_edit(tree.files, name, STR("x"), STR("y"), true, &n, &err), ERR_NOT_A_FILE);
        CHECK_ERR(files_write(tree.files, name, STR("x"), NULL, &created, &err), ERR_NOT_A_FILE);
        CHECK_MSG("not a regular file");
    }
}

TEST(fs06_a_sparse_file_is_read_as_far_as_asked)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    tree_put(&tree, "big", "");
    char path[400];
    (void)snprintf(path, sizeof path, "%s/big", tree.dir);
    CHECK_INT(truncate(path, (off_t)1 << 40), 0);
    AUTO_BUF struct buf out = {0};
    struct files_content content;
    struct files_stat st;
    CHECK_OK(files_read(tree.files, STR("big"), NULL, &out, &content, &err));
    CHECK(content.truncated && content.size == (uint64_t)1 << 40);
    CHECK_INT(out.len, FILES_READ_MAX);
    CHECK_OK(files_stat(tree.files, STR("big"), true, &st, &err));
    CHECK(st.disk_bytes < 65536);
    uint64_t n;
    CHECK_ERR(files_edit(tree.files, STR("big"), STR("a"), STR("b"), true, &n, &err),
              ERR_TOO_LARGE);
}

static void *resize_for_ever(void *ctx)
{
    struct swapper *swapper = ctx;
    while (!atomic_load(&swapper->stop)) {
        (void)!ftruncate(swapper->dir_fd, 0);
        (void)!ftruncate(swapper->dir_fd, 1 << 20);
    }
    return NULL;
}

TEST(fs07_a_file_that_changes_under_the_reader_does_no_harm)
{
    AUTO_TREE struct tree tree = tree_new();
    tree_put(&tree, "f", "x");
    char path[400];
    (void)snprintf(path, sizeof path, "%s/f", tree.dir);
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
    struct swapper swapper = {.dir_fd = fd};
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, resize_for_ever, &swapper), 0);
    for (int i = 0; i < RACES / 10; i++) {
        AUTO_BUF struct buf out = {0};
        struct files_content content;
        struct err err = {0};
        CHECK_OK(files_read(tree.files, STR("f"), NULL, &out, &content, &err));
        CHECK(out.len <= 1 << 20);
    }
    atomic_store(&swapper.stop, true);
    CHECK_INT(pthread_join(thread, NULL), 0);
}
