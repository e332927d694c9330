/* Any bytes as an archive: refused with a reason and nothing left, or unpacked into the place it
 * was meant for and nowhere else. */

#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "files/archive/tar.h"

struct cursor {
    struct str rest;
};

static ssize_t read_cursor(void *ctx, void *space, size_t size, struct err *err)
{
    (void)err;
    struct cursor *cursor = ctx;
    size_t step = MIN(size, cursor->rest.len);
    if (step > 0)
        memcpy(space, cursor->rest.ptr, step);
    cursor->rest = str_slice(cursor->rest, step, cursor->rest.len);
    return (ssize_t)step;
}

static char outer[] = "/tmp/sandglass-fuzz-tar-XXXXXX";

static void remove_outer(void)
{
    char tree[64];
    (void)snprintf(tree, sizeof tree, "%s/tree", outer);
    (void)rmdir(tree);
    (void)rmdir(outer);
}

static struct files *open_tree(void)
{
    struct err err;
    struct files *files = NULL;
    char tree[64];
    if (mkdtemp(outer) == NULL)
        abort();
    (void)snprintf(tree, sizeof tree, "%s/tree", outer);
    if (mkdir(tree, 0700) < 0 || files_open(tree, NULL, &files, &err) < 0)
        abort();
    (void)atexit(remove_outer);
    return files;
}

static int count_in(const char *path)
{
    DIR *dir = opendir(path);
    assert(dir != NULL);
    int count = -2;
    while (readdir(dir) != NULL)
        count++;
    (void)closedir(dir);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct files *files;
    if (files == NULL)
        files = open_tree();
    struct cursor cursor = {str_n((const char *)data, size)};
    struct files_source source = {read_cursor, &cursor};
    struct files_tar_limits limits = {.unpacked = 1 << 20, .entries = 200};
    struct files_tar_result result = {0};
    struct err err = {0};
    char tree[64];
    (void)snprintf(tree, sizeof tree, "%s/tree", outer);
    if (files_tar_in(files, STR("to"), FILES_TAR_NEW, &source, &limits, &result, &err) == 0) {
        struct files_delete_result deleted;
        assert(result.bytes <= 1 << 20 && result.entries <= 200);
        assert(count_in(tree) == 1);
        int done = files_delete(files, STR("to"), true, &deleted, &err);
        assert(done == 0);
    } else {
        assert(err.code != ERR_NONE && err.msg[0] != '\0');
    }
    assert(count_in(tree) == 0 && count_in(outer) == 1);
    return 0;
}
