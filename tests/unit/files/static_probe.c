/* What pid 1 of a jail links: the core verbs in a static program without glibc. Built with musl-gcc
 * and run as a test, so that no heavy library creeps in. TAP. */

#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "files/files.h"
#include "files/watch.h"

static struct err err;

static int use_verbs(struct files *files)
{
    AUTO_ARENA struct arena arena = {0};
    AUTO_BUF struct buf out = {0};
    AUTO_FILES_WATCH struct files_watch *watch = NULL;
    struct files_write_options options = {.make_parents = true};
    struct files_content content;
    struct files_list list;
    struct files_glob glob;
    struct files_event event;
    struct files_delete_result deleted;
    bool created;
    uint64_t n;
    if (files_watch_new(files, STR("."), true, &watch, &err) < 0 ||
        files_write(files, STR("a/b/f"), STR("hello"), &options, &created, &err) < 0 ||
        files_edit(files, STR("a/b/f"), STR("hell"), STR("jell"), false, &n, &err) < 0 ||
        files_append(files, STR("a/b/f"), STR("!"), &n, &err) < 0 ||
        files_chmod(files, STR("a/b/f"), 0600, &err) < 0 ||
        files_symlink(files, STR("l"), STR("a/b/f"), &err) < 0 ||
        files_rename(files, STR("l"), STR("m"), false, &err) < 0 ||
        files_read(files, STR("m"), NULL, &out, &content, &err) < 0 ||
        files_list(files, STR("."), NULL, &arena, &list, &err) < 0 ||
        files_glob(files, STR("."), STR("**/{f,g}"), NULL, &arena, &glob, &err) < 0 ||
        files_watch_next(watch, 0, &event, &err) < 0 ||
        files_delete(files, STR("."), true, &deleted, &err) < 0)
        return -1;
    bool is_right = str_eq(buf_str(&out), STR("jello!")) && list.count == 2 && glob.count == 1;
    return is_right ? 0 : err_set(&err, ERR_INTERNAL, "wrong answers");
}

static int stay_inside(struct files *files)
{
    AUTO_BUF struct buf out = {0};
    struct files_content content;
    if (files_read(files, STR("../x"), NULL, &out, &content, &err) == 0 ||
        err.code != ERR_PATH_ESCAPES)
        return err_set(&err, ERR_INTERNAL, "a way out");
    return 0;
}

static void say(int number, const char *what, int result)
{
    printf("%sok %d - %s%s%s\n", result < 0 ? "not " : "", number, what, result < 0 ? ": " : "",
           result < 0 ? err.msg : "");
}

int main(void)
{
    char dir[] = "/tmp/sandglass-static-XXXXXX";
    AUTO_FILES struct files *files = NULL;
    if (mkdtemp(dir) == NULL || files_open(dir, NULL, &files, &err) < 0)
        return 1;
    printf("1..3\n");
    say(1, "static_verbs", use_verbs(files));
    say(2, "static_stays_inside", stay_inside(files));
    fd_without_openat2();
    say(3, "static_verbs_without_openat2", use_verbs(files));
    (void)rmdir(dir);
    return 0;
}
