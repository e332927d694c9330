/* Adding runtimes: packages of the test's own, from a registry on loopback, some of them hostile.
 */

#include "test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>

#include "base/buf.h"
#include "base/crypto/hash.h"
#include "base/fd.h"
#include "base/format/base64.h"
#include "net.h"
#include "runtime/models.h"
#include "runtime/obtain.h"

static const char tool[] = "#!/bin/sh\necho tool v1.2.3\n";

/* ---- packages ---- */

static void add_entry(struct archive *archive, const char *name, mode_t mode, const char *link,
                      const char *text)
{
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, name);
    archive_entry_set_mode(entry, mode);
    if (link != NULL)
        archive_entry_set_symlink(entry, link);
    archive_entry_set_size(entry, (la_int64_t)strlen(text));
    assert_int_equal(archive_write_header(archive, entry), ARCHIVE_OK);
    assert_int_equal(archive_write_data(archive, text, strlen(text)), strlen(text));
    archive_entry_free(entry);
}

static void make_package(const char *extra, const char *link, const char *program,
                         struct buf *ret_bytes)
{
    static char bytes[1 << 20];
    size_t used = 0;
    struct archive *archive = archive_write_new();
    (void)archive_write_set_format_pax_restricted(archive);
    (void)archive_write_add_filter_gzip(archive);
    assert_int_equal(archive_write_open_memory(archive, bytes, sizeof bytes, &used), ARCHIVE_OK);
    add_entry(archive, "package/bin/tool", S_IFREG | 0755, NULL, program);
    add_entry(archive, "package/README", S_IFREG | 0666, NULL, "read me");
    if (extra != NULL)
        add_entry(archive, extra, link != NULL ? S_IFLNK | 0777 : S_IFREG | 0644, link,
                  link != NULL ? "" : "hostile");
    assert_int_equal(archive_write_close(archive), ARCHIVE_OK);
    archive_write_free(archive);
    buf_put(ret_bytes, str_n(bytes, used));
}

static void digest_of(struct str bytes, struct buf *out)
{
    unsigned char digest[HASH_SHA512_SIZE];
    struct err err;
    test_write(test_tmpdir(), "package", "");
    AUTO_CLOSE int dir = open(test_tmpdir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_OK(fd_replace_file(dir, "package", bytes, 0600, &err));
    AUTO_CLOSE int fd = openat(dir, "package", O_RDONLY | O_CLOEXEC);
    CHECK_OK(hash_sha512_fd(fd, digest, &err));
    buf_put_cstr(out, "sha512-");
    base64_put(str_n((const char *)digest, sizeof digest), out);
}

/* ---- the registry ---- */

struct registry {
    struct buf package;
    size_t cut; /* the first answer breaks off here; 0: never */
    int answers;
    bool no_ranges;
};

static void serve(int fd, struct str head, UNUSED struct str body, void *ctx)
{
    struct registry *registry = ctx;
    struct str all = buf_str(&registry->package);
    size_t at = str_find(head, STR("Range: bytes="));
    int64_t from = 0;
    char headers[128];
    registry->answers++;
    if (!str_starts(head, STR("GET /@scope/tool/-/tool-1.2.3.tgz "))) {
        net_answer(fd, "404 Not Found", "", STR("no"));
        return;
    }
    if (at < head.len && !registry->no_ranges) {
        struct str rest = str_slice(head, at + 13, head.len), number;
        CHECK(str_split(&rest, '-', &number) && str_to_i64(number, 0, (int64_t)all.len, &from));
        (void)snprintf(headers, sizeof headers, "Content-Range: bytes %lld-%zu/%zu\r\n",
                       (long long)from, all.len - 1, all.len);
        net_answer(fd, "206 Partial Content", headers, str_slice(all, (size_t)from, all.len));
        return;
    }
    if (registry->cut > 0 && registry->answers == 1) {
        AUTO_BUF struct buf part = {0};
        buf_printf(&part, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", all.len);
        buf_put(&part, str_slice(all, 0, registry->cut));
        (void)net_put(fd, buf_str(&part));
        return;
    }
    net_answer(fd, "200 OK", "", all);
}

/* ---- one addition ---- */

struct scene {
    struct registry registry;
    struct net_server *server;
    struct buf integrity, steps;
    struct runtime runtime;
    char home[512];
};

static void scene_open(struct scene *scene, const char *name, const char *extra, const char *link,
                       const char *program)
{
    char url[64];
    struct err err;
    make_package(extra, link, program, &scene->registry.package);
    digest_of(buf_str(&scene->registry.package), &scene->integrity);
    scene->server = net_server_start("127.0.0.1", 0, serve, &scene->registry);
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d", net_server_port(scene->server));
    (void)setenv("npm_config_registry", url, 1);
    (void)snprintf(scene->home, sizeof scene->home, "%s/%s", test_tmpdir(), name);
    CHECK_OK(fd_make_dirs(scene->home, 0755, &err));
    scene->runtime = (struct runtime){.name = "tool",
                                      .source = RUNTIME_NPM,
                                      .version = "1.2.3",
                                      .package = "@scope/tool",
                                      .integrity = buf_cstr(&scene->integrity),
                                      .program = "bin/tool"};
}

static void scene_close(struct scene *scene)
{
    scene->server = net_server_free(scene->server);
    buf_done(&scene->registry.package);
    buf_done(&scene->integrity);
    buf_done(&scene->steps);
}
#define AUTO_SCENE AUTO(scene_close)

static void on_progress(void *ctx, const char *step, UNUSED uint64_t have, UNUSED uint64_t total)
{
    struct scene *scene = ctx;
    if (!str_ends(buf_str(&scene->steps), str_of(step)))
        buf_printf(&scene->steps, " %s", step);
}

static int add(struct scene *scene, bool *ret_added, struct err *err)
{
    struct obtain how = {.data_dir = scene->home, .progress = on_progress, .ctx = scene};
    return runtime_add(&scene->runtime, &how, ret_added, err);
}

static bool is_added(struct scene *scene)
{
    char version[RUNTIME_VERSION_SIZE];
    return runtime_added(&scene->runtime, scene->home, version);
}

static mode_t mode_of(const struct scene *scene, const char *path)
{
    char full[1024];
    struct stat st = {0};
    (void)snprintf(full, sizeof full, "%s/runtimes/%s", scene->home, path);
    return lstat(full, &st) == 0 ? st.st_mode & 07777 : 0;
}

TEST(a_package_is_added_once_read_only_and_removed)
{
    AUTO_SCENE struct scene scene = {0};
    struct err err = {0};
    bool added = false;
    scene_open(&scene, "added", NULL, NULL, tool);
    CHECK_OK(add(&scene, &added, &err));
    CHECK(added && is_added(&scene));
    CHECK_STR(buf_str(&scene.steps), " downloading checking unpacking trying");
    CHECK_INT(mode_of(&scene, "trees/tool"), 0555);
    CHECK_INT(mode_of(&scene, "trees/tool/bin"), 0555);
    CHECK_INT(mode_of(&scene, "trees/tool/bin/tool"), 0555);
    CHECK_INT(mode_of(&scene, "trees/tool/README"), 0444);
    CHECK_INT(mode_of(&scene, "incoming/tool.tree"), 0);
    CHECK_INT(mode_of(&scene, "incoming/tool-1.2.3.part"), 0);
    int hits = scene.registry.answers;
    CHECK_OK(add(&scene, &added, &err));
    CHECK(!added);
    CHECK_INT(scene.registry.answers, hits);
    CHECK_OK(runtime_remove(&scene.runtime, scene.home, &err));
    CHECK(!is_added(&scene));
    CHECK_ERR(runtime_remove(&scene.runtime, scene.home, &err), ERR_NOT_FOUND);
}

static int check_works(const char *dir, struct err *err)
{
    AUTO_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (faccessat(fd, "README", R_OK, 0) < 0)
        return err_set(err, ERR_INVALID, "no README");
    return 0;
}

static int check_fails(UNUSED const char *dir, struct err *err)
{
    return err_set(err, ERR_INVALID, "of no use");
}

TEST(a_model_is_checked_before_it_is_added)
{
    AUTO_SCENE struct scene scene = {0};
    struct err err = {0};
    bool added = false;
    char version[RUNTIME_VERSION_SIZE], dir[RUNTIME_PATH_MAX];
    scene_open(&scene, "model", NULL, NULL, tool);
    const struct model model = {.name = "tool",
                                .version = "1.2.3",
                                .package = "@scope/tool",
                                .integrity = buf_cstr(&scene.integrity)};
    struct obtain how = {.data_dir = scene.home, .check = check_fails};
    CHECK_ERR(model_add(&model, &how, &added, &err), ERR_INVALID);
    CHECK_MSG("add model 'tool': of no use");
    CHECK_INT(model_look(&model, scene.home, version), RUNTIME_ABSENT);
    how.check = check_works;
    CHECK_OK(model_add(&model, &how, &added, &err));
    CHECK_INT(model_look(&model, scene.home, version), RUNTIME_READY);
    CHECK(added && !is_added(&scene)); /* a runtime of that name is another thing */
    model_dir(&model, scene.home, dir);
    CHECK(str_ends(str_of(dir), STR("/models/files/tool")));
    CHECK_INT(access(dir, R_OK), 0);
    CHECK_OK(model_remove(&model, scene.home, &err));
    CHECK_ERR(model_remove(&model, scene.home, &err), ERR_NOT_FOUND);
    CHECK_MSG("model 'tool' was not added");
}

TEST(another_version_takes_the_place_of_the_old_one)
{
    AUTO_SCENE struct scene scene = {0};
    struct err err = {0};
    bool added = false;
    char version[RUNTIME_VERSION_SIZE];
    scene_open(&scene, "newer", NULL, NULL, tool);
    CHECK_OK(add(&scene, &added, &err));
    char stamp[1024];
    (void)snprintf(stamp, sizeof stamp, "%s/runtimes/trees/tool/.sandglass-runtime", scene.home);
    CHECK_INT(chmod(stamp, 0644), 0);
    AUTO_CLOSE int fd = open(stamp, O_WRONLY | O_TRUNC | O_CLOEXEC);
    CHECK_OK(fd_write_all(fd, STR("1.0.0\n"), &err));
    CHECK_INT(runtime_look(&scene.runtime, scene.home, version), RUNTIME_OLD);
    CHECK_CSTR(version, "1.0.0");
    CHECK_OK(add(&scene, &added, &err));
    CHECK(added);
    CHECK_INT(runtime_look(&scene.runtime, scene.home, version), RUNTIME_READY);
}

TEST(what_broke_off_goes_on_where_it_stopped)
{
    AUTO_SCENE struct scene scene = {.registry.cut = 100};
    struct err err = {0};
    bool added = false;
    scene_open(&scene, "cut", NULL, NULL, tool);
    CHECK_OK(add(&scene, &added, &err));
    CHECK(is_added(&scene));
    AUTO_BUF struct buf log = {0};
    net_server_log(scene.server, &log);
    CHECK(str_find(buf_str(&log), STR("Range: bytes=100-")) < log.len);
}

TEST(a_server_without_ranges_sends_all_of_it)
{
    AUTO_SCENE struct scene scene = {.registry = {.cut = 100, .no_ranges = true}};
    struct err err = {0};
    bool added = false;
    scene_open(&scene, "whole", NULL, NULL, tool);
    CHECK_OK(add(&scene, &added, &err));
    CHECK(is_added(&scene));
}

TEST(another_digest_is_refused_and_begun_again)
{
    AUTO_SCENE struct scene scene = {0};
    struct err err = {0};
    bool added = false;
    scene_open(&scene, "digest", NULL, NULL, tool);
    scene.registry.package.ptr[scene.registry.package.len - 1] ^= 1;
    CHECK_ERR(add(&scene, &added, &err), ERR_INVALID);
    CHECK_MSG("the package is not @scope/tool 1.2.3");
    CHECK(!is_added(&scene));
    CHECK_INT(mode_of(&scene, "incoming/tool-1.2.3.part"), 0);
    scene.registry.package.ptr[scene.registry.package.len - 1] ^= 1;
    CHECK_OK(add(&scene, &added, &err));
}

TEST(a_package_that_leads_outside_is_refused)
{
    static const struct {
        const char *name, *entry, *link;
    } rows[] = {{"up", "package/../../../outside", NULL},
                {"absolute", "/outside", NULL},
                {"link", "package/lib", "/etc"},
                {"climb", "package/lib", "../../../../etc"}};
    for (size_t i = 0; i < countof(rows); i++) {
        AUTO_SCENE struct scene scene = {0};
        struct err err = {0};
        bool added = false;
        scene_open(&scene, rows[i].name, rows[i].entry, rows[i].link, tool);
        CHECK_ERR(add(&scene, &added, &err), ERR_INVALID);
        CHECK(!is_added(&scene));
        CHECK_INT(mode_of(&scene, "../outside"), 0);
    }
}

TEST(a_package_without_end_is_no_archive)
{
    AUTO_SCENE struct scene scene = {0};
    struct err err = {0};
    bool added = false;
    scene_open(&scene, "damaged", NULL, NULL, tool);
    scene.registry.package.len /= 2;
    buf_clear(&scene.integrity);
    digest_of(buf_str(&scene.registry.package), &scene.integrity);
    scene.runtime.integrity = buf_cstr(&scene.integrity);
    CHECK(add(&scene, &added, &err) < 0);
    CHECK(!is_added(&scene));
}

TEST(a_program_that_does_not_work_here_is_not_added)
{
    AUTO_SCENE struct scene scene = {0};
    struct err err = {0};
    bool added = false;
    scene_open(&scene, "broken", NULL, NULL, "#!/bin/sh\nexit 3\n");
    CHECK_ERR(add(&scene, &added, &err), ERR_UNAVAILABLE);
    CHECK_MSG("it ended with status 3");
    CHECK(!is_added(&scene));
}

TEST(a_program_of_another_version_is_not_added)
{
    AUTO_SCENE struct scene scene = {0};
    struct err err = {0};
    bool added = false;
    scene_open(&scene, "other", NULL, NULL, "#!/bin/sh\necho v9.9.9\n");
    CHECK_ERR(add(&scene, &added, &err), ERR_INVALID);
    CHECK_MSG("v9.9.9");
    CHECK(!is_added(&scene));
}

/* The owner of a file that is given changes it when it has been compared. */
static void on_swapping(void *ctx, const char *step, UNUSED uint64_t have, UNUSED uint64_t total)
{
    struct scene *scene = ctx;
    AUTO_BUF struct buf other = {0};
    char path[640];
    struct err err;
    if (strcmp(step, "unpacking") != 0)
        return;
    make_package("package/other", NULL, tool, &other);
    (void)snprintf(path, sizeof path, "%s/given.tgz", scene->home);
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    CHECK_OK(fd_write_all(fd, buf_str(&other), &err));
}

TEST(a_file_that_changes_after_it_was_compared_is_not_what_is_unpacked)
{
    AUTO_SCENE struct scene scene = {0};
    struct err err = {0};
    bool added = false;
    char path[640];
    scene_open(&scene, "swapped", NULL, NULL, tool);
    AUTO_CLOSE int dir = open(scene.home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_OK(fd_replace_file(dir, "given.tgz", buf_str(&scene.registry.package), 0600, &err));
    (void)snprintf(path, sizeof path, "%s/given.tgz", scene.home);
    struct obtain how = {
        .data_dir = scene.home, .file = path, .progress = on_swapping, .ctx = &scene};
    CHECK_OK(runtime_add(&scene.runtime, &how, &added, &err));
    CHECK(added && mode_of(&scene, "trees/tool/README") != 0);
    CHECK_INT(mode_of(&scene, "trees/tool/other"), 0);
}

/* npm may know a registry that wants a name and a password. */
TEST(the_password_of_a_registry_is_in_no_error)
{
    AUTO_SCENE struct scene scene = {0};
    struct err err = {0};
    bool added = false;
    char script[256], path[512];
    scene_open(&scene, "password", NULL, NULL, tool);
    (void)snprintf(script, sizeof script, "#!/bin/sh\necho http://me:pa@ss@127.0.0.1:%d/\n",
                   net_server_port(scene.server));
    test_write(scene.home, "npm", script);
    (void)snprintf(path, sizeof path, "%s/npm", scene.home);
    CHECK_INT(chmod(path, 0755), 0);
    AUTO_MEM char *before = mem_dup_cstr(getenv("PATH")); /* NOLINT(concurrency-mt-unsafe) */
    (void)setenv("PATH", scene.home, 1);
    (void)unsetenv("npm_config_registry");
    scene.runtime.version = "9.9.9";
    CHECK_INT(add(&scene, &added, &err), -1);
    (void)setenv("PATH", before, 1);
    CHECK(strstr(err.msg, "'http://127.0.0.1:") != NULL);
    CHECK(strstr(err.msg, "me:") == NULL && strstr(err.msg, "ss@") == NULL);
}

TEST(one_at_a_time)
{
    AUTO_SCENE struct scene scene = {0};
    struct err err = {0};
    bool added = false;
    char path[1024];
    scene_open(&scene, "busy", NULL, NULL, tool);
    (void)snprintf(path, sizeof path, "%s/runtimes/incoming", scene.home);
    CHECK_OK(fd_make_dirs(path, 0755, &err));
    (void)snprintf(path, sizeof path, "%s/runtimes/incoming/tool.lock", scene.home);
    AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK_INT(flock(fd, LOCK_EX), 0);
    CHECK_ERR(add(&scene, &added, &err), ERR_BUSY);
}

TEST(a_package_that_the_registry_lacks)
{
    AUTO_SCENE struct scene scene = {0};
    struct err err = {0};
    bool added = false;
    scene_open(&scene, "lacking", NULL, NULL, tool);
    scene.runtime.version = "1.2.4";
    CHECK_ERR(add(&scene, &added, &err), ERR_NOT_FOUND);
    CHECK_MSG("/@scope/tool/-/tool-1.2.4.tgz");
}

TEST(rows_of_the_table_are_whole)
{
    for (const struct runtime *row = runtimes; row->name != NULL; row++) {
        CHECK(row->summary != NULL && row->language != NULL && row->argv[0] != NULL);
        CHECK(row->env != NULL && runtime_speaks(row, str_of(row->name), str_of(row->language)));
        CHECK(row->source != RUNTIME_HOST || row->remedy != NULL);
        CHECK(row->source != RUNTIME_NPM || (row->version != NULL && row->package != NULL));
        CHECK(row->source != RUNTIME_NPM || strlen(row->integrity) == 7 + 88);
    }
}
