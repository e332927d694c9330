/* tar streams, honest and hostile (FS-11). */

#include "files/archive/tar.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "files/internal.h"
#include "files/watch.h"
#include "tree.h"
#include "ustar.h"

struct cursor {
    struct str rest;
    size_t step;
};

static ssize_t read_cursor(void *ctx, void *space, size_t size, UNUSED struct err *err)
{
    struct cursor *cursor = ctx;
    size_t step = MIN(size, cursor->step);
    step = MIN(step, cursor->rest.len);
    memcpy(space, cursor->rest.ptr, step);
    cursor->rest = str_slice(cursor->rest, step, cursor->rest.len);
    return (ssize_t)step;
}

static int append(void *ctx, struct str bytes, struct err *err)
{
    return buf_append(ctx, bytes, err);
}

static int unpack(struct tree *tree, const char *path, enum files_tar_place place, struct str bytes,
                  struct err *err)
{
    struct cursor cursor = {bytes, 10000};
    struct files_source source = {read_cursor, &cursor};
    struct files_tar_result result = {0};
    return files_tar_in(tree->files, str_of(path), place, &source, NULL, &result, err);
}

static int pack(struct tree *tree, const char *path, bool gzip, struct buf *out, struct err *err)
{
    struct files_sink sink = {append, out};
    struct files_tar_out_options options = {.gzip = gzip};
    struct files_tar_result result = {0};
    return files_tar_out(tree->files, str_of(path), &sink, &options, &result, err);
}

TEST(a_tree_survives_the_trip)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    tree_put(&tree, "from/a/b/f", "hello");
    tree_put(&tree, "from/\xff\xfe \n", "strange");
    tree_put(&tree, "from/caf\xc3\xa9", "accent");
    tree_put(&tree, "from/empty", "");
    CHECK_OK(files_mkdir(tree.files, STR("from/bare"), 0750, false, &err));
    CHECK_OK(files_chmod(tree.files, STR("from/a/b/f"), 0640, &err));
    CHECK_OK(files_symlink(tree.files, STR("from/a/l"), STR("../a/b/f"), &err));
    for (int gzip = 0; gzip < 2; gzip++) {
        AUTO_BUF struct buf packed = {0};
        CHECK_OK(pack(&tree, "from", gzip == 1, &packed, &err));
        CHECK_OK(unpack(&tree, "to", FILES_TAR_REPLACE, buf_str(&packed), &err));
        tree_check(&tree, "to/a/b/f", "hello");
        tree_check(&tree, "to/\xff\xfe \n", "strange");
        tree_check(&tree, "to/caf\xc3\xa9", "accent");
        tree_check(&tree, "to/empty", "");
        tree_check(&tree, "to/a/l", "hello");
        CHECK(tree_has(&tree, "to/bare"));
        struct files_stat a, b;
        CHECK_OK(files_stat(tree.files, STR("from/a/b/f"), true, &a, &err));
        CHECK_OK(files_stat(tree.files, STR("to/a/b/f"), true, &b, &err));
        CHECK(a.mode == b.mode && a.mtime_ns / 1000000000 == b.mtime_ns / 1000000000);
    }
    CHECK_INT(tree_count(&tree, "."), 2);
    AUTO_BUF struct buf one = {0};
    CHECK_OK(pack(&tree, "from/a/b/f", false, &one, &err));
    CHECK_OK(unpack(&tree, "single", FILES_TAR_NEW, buf_str(&one), &err));
    tree_check(&tree, "single/f", "hello");
    CHECK_ERR(pack(&tree, "no", false, &one, &err), ERR_NOT_FOUND);
    CHECK_ERR(pack(&tree, "..", false, &one, &err), ERR_PATH_ESCAPES);
}

TEST(places_are_new_replaced_or_merged)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    AUTO_BUF struct buf tar = {0};
    ustar_add(&tar, "./", '5', "", "");
    ustar_add(&tar, "./d/f", '0', "", "new");
    ustar_end(&tar);
    tree_put(&tree, "to/d/f", "old");
    tree_put(&tree, "to/d/g", "kept");
    CHECK_ERR(unpack(&tree, "to", FILES_TAR_NEW, buf_str(&tar), &err), ERR_CONFLICT);
    tree_check(&tree, "to/d/f", "old");
    CHECK_OK(unpack(&tree, "to", FILES_TAR_MERGE, buf_str(&tar), &err));
    tree_check(&tree, "to/d/f", "new");
    tree_check(&tree, "to/d/g", "kept");
    CHECK_OK(unpack(&tree, "to", FILES_TAR_REPLACE, buf_str(&tar), &err));
    CHECK(!tree_has(&tree, "to/d/g"));
    CHECK_OK(unpack(&tree, ".", FILES_TAR_MERGE, buf_str(&tar), &err));
    tree_check(&tree, "d/f", "new");
    CHECK_ERR(unpack(&tree, ".", FILES_TAR_NEW, buf_str(&tar), &err), ERR_INVALID);
    CHECK_ERR(unpack(&tree, "../x", FILES_TAR_NEW, buf_str(&tar), &err), ERR_PATH_ESCAPES);
    CHECK_INT(tree_count(&tree, "."), 2);
    tree_put(&tree, "clash/d", "a file");
    tree_put(&tree, "clash/aa", "a file");
    CHECK_ERR(unpack(&tree, "clash", FILES_TAR_MERGE, buf_str(&tar), &err), ERR_CONFLICT);
    CHECK_MSG("'d' is a regular file in the target and a directory in the archive");
    CHECK_INT(tree_count(&tree, "."), 3);
    CHECK_INT(tree_count(&tree, "clash"), 2);
}

TEST(merging_does_not_go_through_links_of_the_tree)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    AUTO_BUF struct buf tar = {0};
    ustar_add(&tar, "evil/HOSTFILE", '0', "", "overwritten");
    ustar_end(&tar);
    test_symlink(tree.dir, "..", "evil");
    CHECK_ERR(unpack(&tree, ".", FILES_TAR_MERGE, buf_str(&tar), &err), ERR_CONFLICT);
    CHECK_ERR(unpack(&tree, "evil", FILES_TAR_MERGE, buf_str(&tar), &err), ERR_NOT_A_DIRECTORY);
    CHECK_INT(tree_count(&tree, "."), 1);
}

struct hostile {
    const char *what;
    const char *names[3];
    const char *targets[3];
    char types[4];
    enum err_code code;
};

TEST(fs11_hostile_archives_change_nothing)
{
    static const struct hostile cases[] = {
        {"climbing", {"../x"}, {""}, "0", ERR_INVALID},
        {"climbing inside", {"a/../../x"}, {""}, "0", ERR_INVALID},
        {"absolute", {"/tmp/x"}, {""}, "0", ERR_INVALID},
        {"dots as a file", {".."}, {""}, "0", ERR_INVALID},
        {"root as a file", {"."}, {""}, "0", ERR_INVALID},
        {"file through a link", {"l", "l/x"}, {"d", ""}, "20", ERR_INVALID},
        {"link out", {"l"}, {"../x"}, "2", ERR_INVALID},
        {"link out absolute", {"l"}, {"/etc"}, "2", ERR_INVALID},
        {"link out deeper", {"a/b/l"}, {"../../../x"}, "2", ERR_INVALID},
        {"link out by a detour", {"l"}, {"a/../../x"}, "2", ERR_INVALID},
        {"directory, link of its name, file",
         {"d", "d", "d/x"},
         {"", "e", ""},
         "520",
         ERR_CONFLICT},
        {"link, then directory", {"d", "d"}, {"e", ""}, "25", ERR_INVALID},
        {"hard link out", {"h"}, {"../HOSTFILE"}, "1", ERR_INVALID},
        {"hard link absolute", {"h"}, {"/etc/passwd"}, "1", ERR_INVALID},
        {"hard link to nothing", {"h"}, {"none"}, "1", ERR_INVALID},
        {"hard link to a link", {"l", "h"}, {"x", "l"}, "21", ERR_INVALID},
        {"hard link through a link", {"d/f", "l", "h"}, {"", "d", "l/f"}, "021", ERR_INVALID},
        {"device", {"c"}, {""}, "3", ERR_INVALID},
        {"block device", {"b"}, {""}, "4", ERR_INVALID},
        {"fifo", {"p"}, {""}, "6", ERR_INVALID},
        {"twice", {"f", "f"}, {"", ""}, "00", ERR_CONFLICT},
        {"file as a directory", {"f", "f/g"}, {"", ""}, "00", ERR_INVALID},
    };
    AUTO_TREE struct tree tree = tree_new();
    for (size_t i = 0; i < countof(cases); i++) {
        struct err err = {0};
        AUTO_BUF struct buf tar = {0};
        ustar_add(&tar, "good", '0', "", "good");
        for (size_t e = 0; cases[i].types[e] != '\0'; e++)
            ustar_add(&tar, cases[i].names[e], cases[i].types[e], cases[i].targets[e],
                      cases[i].types[e] == '0' ? "x" : "");
        ustar_end(&tar);
        int done = unpack(&tree, ".", FILES_TAR_MERGE, buf_str(&tar), &err);
        if (done == 0 || err.code != cases[i].code)
            print_error("%s: %s %s\n", cases[i].what, err_wire_name(err.code), err.msg);
        CHECK_INT(done, -1);
        CHECK_INT(err.code, cases[i].code);
        CHECK_INT(tree_count(&tree, "."), 0); /* not even "good" */
    }
}

TEST(set_id_bits_and_inner_links_and_hard_links)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    struct files_stat st;
    AUTO_BUF struct buf tar = {0};
    ustar_add(&tar, "d/f", '0', "", "text");
    ustar_add(&tar, "e/l", '2', "../d/f", "");
    ustar_add(&tar, "h", '1', "d/f", "");
    ustar_end(&tar);
    CHECK_OK(unpack(&tree, "to", FILES_TAR_NEW, buf_str(&tar), &err));
    CHECK_OK(files_stat(tree.files, STR("to/d/f"), false, &st, &err));
    CHECK_INT(st.mode, 0755); /* the header said 04755 */
    tree_check(&tree, "to/e/l", "text");
    tree_check(&tree, "to/h", "text");
}

TEST(times_past_all_counting_are_left_out)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    struct files_stat st;
    AUTO_BUF struct buf tar = {0};
    ustar_add(&tar, "x", 'x', "", "24 mtime=99999999999999\n");
    ustar_add(&tar, "f", '0', "", "text");
    ustar_end(&tar);
    CHECK_OK(unpack(&tree, "to", FILES_TAR_NEW, buf_str(&tar), &err));
    CHECK_OK(files_stat(tree.files, STR("to/f"), false, &st, &err));
    CHECK(st.mtime_ns > 1577836800LL * 1000000000); /* that of the unpacking */
    struct stat far = {.st_mtim = {.tv_sec = INT64_MAX}}, old = {.st_mtim = {.tv_sec = INT64_MIN}};
    files_stat_from(&far, &st);
    CHECK(st.mtime_ns == INT64_MAX);
    files_stat_from(&old, &st);
    CHECK(st.mtime_ns == INT64_MIN);
}

TEST(damaged_archives_are_refused)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    AUTO_BUF struct buf tar = {0};
    ustar_add(&tar, "f", '0', "", "some text");
    struct str cut = str_slice(buf_str(&tar), 0, 700);
    CHECK_ERR(unpack(&tree, "to", FILES_TAR_NEW, cut, &err), ERR_INVALID);
    static const char *const sizes[] = {
        "77777777777", "\x80\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "-0000000001",
        "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xf0"};
    for (size_t i = 0; i < countof(sizes); i++) {
        buf_clear(&tar);
        ustar_header(&tar, "f", '0', "", 0644, sizes[i]);
        ustar_end(&tar);
        int done = unpack(&tree, "to", FILES_TAR_NEW, buf_str(&tar), &err);
        CHECK(done < 0 && (err.code == ERR_INVALID || err.code == ERR_TOO_LARGE));
    }
    CHECK_ERR(unpack(&tree, "to", FILES_TAR_NEW, STR("this is no archive at all"), &err),
              ERR_INVALID);
    CHECK_INT(tree_count(&tree, "."), 0);
}

TEST(limits_hold)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    AUTO_BUF struct buf tar = {0}, text = {0};
    for (int i = 0; i < 2000; i++)
        buf_put_cstr(&text, "0123456789");
    for (int i = 0; i < 20; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "f%d", i);
        ustar_add(&tar, name, '0', "", text.ptr);
    }
    ustar_end(&tar);
    static const struct files_tar_limits limits[] = {
        {.packed = 100000}, {.unpacked = 100000}, {.entries = 19}};
    for (size_t i = 0; i < countof(limits); i++) {
        struct cursor cursor = {buf_str(&tar), 10000};
        struct files_source source = {read_cursor, &cursor};
        struct files_tar_result result;
        CHECK_ERR(
            files_tar_in(tree.files, STR("to"), FILES_TAR_NEW, &source, &limits[i], &result, &err),
            ERR_TOO_LARGE);
        CHECK_INT(tree_count(&tree, "."), 0);
    }
    CHECK_OK(unpack(&tree, "to", FILES_TAR_NEW, buf_str(&tar), &err)); /* the control */
    buf_clear(&tar);
    AUTO_BUF struct buf deep = {0};
    for (int i = 0; i < 40; i++)
        buf_put_cstr(&deep, "d/");
    buf_put_cstr(&deep, "f");
    struct files_tar_limits shallow = {.depth = 40};
    ustar_add(&tar, deep.ptr, '0', "", "x");
    ustar_end(&tar);
    struct cursor cursor = {buf_str(&tar), 10000};
    struct files_source source = {read_cursor, &cursor};
    struct files_tar_result result;
    CHECK_ERR(
        files_tar_in(tree.files, STR("deep"), FILES_TAR_NEW, &source, &shallow, &result, &err),
        ERR_INVALID);
}

/* Zeros by the megabyte in a few kilobytes of gzip. */
TEST(a_bomb_is_noticed_by_its_ratio)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    AUTO_BUF struct buf packed = {0};
    AUTO_MEM char *zeros = mem_alloc(16 << 20);
    struct files_write_options options = {.no_sync = true};
    bool created;
    CHECK_OK(
        files_write(tree.files, STR("zeros"), str_n(zeros, 16 << 20), &options, &created, &err));
    CHECK_OK(pack(&tree, "zeros", true, &packed, &err));
    CHECK(packed.len < 65536);
    CHECK_ERR(unpack(&tree, "to", FILES_TAR_NEW, buf_str(&packed), &err), ERR_TOO_LARGE);
    CHECK_MSG("200 times");
    CHECK(!tree_has(&tree, "to"));
}

TEST(holes_stay_holes)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    char path[400];
    static const char *const names[] = {"from/hole_only", "from/mixed"};
    for (size_t i = 0; i < countof(names); i++) {
        tree_put(&tree, names[i], "");
        (void)snprintf(path, sizeof path, "%s/%s", tree.dir, names[i]);
        CHECK_INT(truncate(path, 64 << 20), 0);
    }
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK_INT(pwrite(fd, "middle", 6, 32 << 20), 6);
    AUTO_BUF struct buf packed = {0};
    CHECK_OK(pack(&tree, "from", false, &packed, &err));
    CHECK(packed.len < 1 << 20);
    CHECK_OK(unpack(&tree, "to", FILES_TAR_NEW, buf_str(&packed), &err));
    struct files_stat st;
    CHECK_OK(files_stat(tree.files, STR("to/mixed"), true, &st, &err));
    CHECK(st.size == 64 << 20 && st.disk_bytes < 1 << 20);
    CHECK_OK(files_stat(tree.files, STR("to/hole_only"), true, &st, &err));
    CHECK(st.size == 64 << 20 && st.disk_bytes < 1 << 20);
    AUTO_BUF struct buf out = {0};
    struct files_content content;
    struct files_range range = {(32 << 20) - 1, 8};
    CHECK_OK(files_read(tree.files, STR("to/mixed"), &range, &out, &content, &err));
    CHECK(str_eq(buf_str(&out), STR("\0middle\0")));
}

TEST(links_are_packed_as_links)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    AUTO_BUF struct buf packed = {0};
    test_symlink(tree.dir, "../HOSTFILE", "out");
    test_symlink(tree.dir, "..", "up");
    char path[400];
    (void)snprintf(path, sizeof path, "%s/fifo", tree.dir);
    CHECK_INT(mkfifo(path, 0666), 0);
    CHECK_OK(pack(&tree, ".", false, &packed, &err));
    CHECK(str_find(buf_str(&packed), STR(HOST_SECRET)) == packed.len);
    CHECK(str_find(buf_str(&packed), STR("../HOSTFILE")) < packed.len);
    CHECK_ERR(pack(&tree, "out", false, &packed, &err), ERR_PATH_ESCAPES);
    CHECK_ERR(pack(&tree, "fifo", false, &packed, &err), ERR_NOT_A_FILE);
}

static bool hears(const struct buf *news, const char *line)
{
    return str_find(buf_str(news), str_of(line)) < news->len;
}

/* By renames from a place that it does not watch. */
/* The process ends without a chance to clear up when half of the archive was read. */
static ssize_t read_and_die(void *ctx, void *space, size_t size, struct err *err)
{
    struct cursor *cursor = ctx;
    if (cursor->rest.len < 2000)
        (void)raise(SIGKILL);
    return read_cursor(cursor, space, size, err);
}

static void unpack_and_die(struct tree *tree, const char *path, enum files_tar_place place,
                           struct str bytes)
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct cursor cursor = {bytes, 512};
        struct files_source source = {read_and_die, &cursor};
        struct files_tar_result result = {0};
        struct err err = {0};
        (void)!files_tar_in(tree->files, str_of(path), place, &source, NULL, &result, &err);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(what_a_killed_process_left_goes_with_the_next_archive)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    AUTO_BUF struct buf tar = {0};
    ustar_add(&tar, "d/f", '0', "", "text");
    ustar_add(&tar, "d/g", '0', "", "more");
    ustar_end(&tar);
    tree_put(&tree, "to/kept", "");
    CHECK_OK(files_mkdir(tree.files, STR("to/.sandglass-notes"), 0755, false, &err));
    unpack_and_die(&tree, "to", FILES_TAR_MERGE, buf_str(&tar));
    unpack_and_die(&tree, "to", FILES_TAR_MERGE, buf_str(&tar));
    unpack_and_die(&tree, "to/new", FILES_TAR_REPLACE, buf_str(&tar));
    CHECK(tree_count(&tree, "to") > 2); /* the last one has removed the others, not itself */
    CHECK_OK(unpack(&tree, "to", FILES_TAR_MERGE, buf_str(&tar), &err));
    CHECK_INT(tree_count(&tree, "to"), 3);
    tree_check(&tree, "to/d/g", "more");
    CHECK(tree_has(&tree, "to/kept") && tree_has(&tree, "to/.sandglass-notes"));
}

/* An archive whose bytes come slowly: another is unpacked meanwhile. */
struct slow_source {
    struct cursor cursor;
    struct tree *tree;
    struct str other;
    bool is_done, failed;
};

static ssize_t read_slowly(void *ctx, void *space, size_t size, struct err *err)
{
    struct slow_source *slow = ctx;
    if (!slow->is_done && slow->cursor.rest.len < 2000) {
        slow->is_done = true;
        slow->failed = unpack(slow->tree, "to", FILES_TAR_MERGE, slow->other, err) < 0 ||
                       unpack(slow->tree, "to/fast", FILES_TAR_REPLACE, slow->other, err) < 0;
    }
    return read_cursor(&slow->cursor, space, size, err);
}

TEST(archives_that_are_unpacked_at_once_do_not_remove_each_other)
{
    AUTO_TREE struct tree tree = tree_new();
    struct err err = {0};
    AUTO_BUF struct buf slow_tar = {0}, other = {0};
    ustar_add(&slow_tar, "a", '0', "", "slow");
    ustar_add(&slow_tar, "b", '0', "", "slow");
    ustar_end(&slow_tar);
    ustar_add(&other, "c", '0', "", "other");
    ustar_end(&other);
    tree_put(&tree, "to/fast/old", "");
    struct slow_source slow = {{buf_str(&slow_tar), 512}, &tree, buf_str(&other), false, false};
    struct files_source source = {read_slowly, &slow};
    struct files_tar_result result = {0};
    CHECK_OK(files_tar_in(tree.files, STR("to"), FILES_TAR_MERGE, &source, NULL, &result, &err));
    CHECK(slow.is_done && !slow.failed);
    tree_check(&tree, "to/a", "slow");
    tree_check(&tree, "to/b", "slow");
    tree_check(&tree, "to/c", "other");
    tree_check(&tree, "to/fast/c", "other");
    CHECK_INT(tree_count(&tree, "to"), 4);
    CHECK_INT(tree_count(&tree, "to/fast"), 1);
}

TEST(a_watch_tells_of_what_is_unpacked_as_created_or_changed)
{
    AUTO_TREE struct tree tree = tree_new();
    AUTO_FILES_WATCH struct files_watch *watch = NULL;
    AUTO_BUF struct buf packed = {0}, news = buf_with_limit(1 << 16);
    struct err err = {0};
    struct files_delete_result deleted;
    tree_put(&tree, "from/plain", "new");
    tree_put(&tree, "from/sub/b", "b");
    CHECK_OK(pack(&tree, "from", false, &packed, &err));
    CHECK_OK(files_delete(tree.files, STR("from"), true, &deleted, &err));
    tree_put(&tree, "plain", "old");
    CHECK_OK(files_watch_new(tree.files, STR("."), true, &watch, &err));

    CHECK_OK(unpack(&tree, ".", FILES_TAR_MERGE, buf_str(&packed), &err));
    tree_hear(watch, &news);
    CHECK(hears(&news, "write plain\n") && hears(&news, "create sub\ncreate sub/b\n"));
    CHECK_INT(news.len, strlen("write plain\ncreate sub\ncreate sub/b\n"));
    tree_check(&tree, "plain", "new");
    CHECK_INT(tree_count(&tree, "."), 2);

    CHECK_OK(unpack(&tree, "to", FILES_TAR_NEW, buf_str(&packed), &err));
    tree_hear(watch, &news);
    CHECK(hears(&news, "create to\n") && hears(&news, "create to/plain\n"));
    CHECK(!hears(&news, "to to") && !hears(&news, "from"));

    tree_put(&tree, "to/old", "");
    tree_hear(watch, &news);
    CHECK_OK(unpack(&tree, "to", FILES_TAR_REPLACE, buf_str(&packed), &err));
    tree_hear(watch, &news);
    CHECK(str_starts(buf_str(&news), STR("remove to\ncreate to\n")));
    CHECK(hears(&news, "create to/sub/b\n") && !hears(&news, "from"));
    tree_put(&tree, "to/later", "");
    tree_hear(watch, &news);
    CHECK_CSTR(buf_cstr(&news), "create to/later\n");
    CHECK_OK(files_rename(tree.files, STR("to"), STR("gone"), false, &err));
    tree_hear(watch, &news);
    CHECK(str_starts(buf_str(&news), STR("from to\nto gone\n")));
}
