/* Any bytes as an exported snapshot: refused with a reason, or unpacked within its limits, and
 * nothing outside the tree is touched. */

#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/tree.h"
#include "files/archive/snapshot.h"

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

static char outer[] = "/tmp/sandglass-fuzz-snapshot-XXXXXX";
static int outer_fd = -1, trash_fd = -1;

static void empty_outer(void)
{
    struct err err;
    if (tree_discard(outer_fd, "tree", trash_fd, &err) < 0 || tree_reclaim(trash_fd, &err) < 0)
        abort();
}

static void remove_outer(void)
{
    (void)unlinkat(outer_fd, "trash", AT_REMOVEDIR);
    (void)rmdir(outer);
}

static void open_outer(void)
{
    if (mkdtemp(outer) == NULL ||
        (outer_fd = open(outer, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
        mkdirat(outer_fd, "trash", 0700) < 0 ||
        (trash_fd = openat(outer_fd, "trash", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        abort();
    (void)atexit(remove_outer);
}

static int count_outer(void)
{
    DIR *dir = opendir(outer);
    assert(dir != NULL);
    int count = -2;
    while (readdir(dir) != NULL)
        count++;
    (void)closedir(dir);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct files *files = NULL;
    struct cursor cursor = {str_n((const char *)data, size)};
    struct files_source source = {read_cursor, &cursor};
    struct files_tar_limits limits = {.unpacked = 1 << 20, .entries = 200};
    struct files_tar_result result = {0};
    struct err err = {0};
    char tree[64];
    if (outer_fd < 0)
        open_outer();
    (void)snprintf(tree, sizeof tree, "%s/tree", outer);
    if (mkdirat(outer_fd, "tree", 0700) < 0 || files_open(tree, NULL, &files, &err) < 0)
        abort();
    if (files_snapshot_in(files, &source, &limits, &result, &err) == 0)
        assert(result.bytes <= 1 << 20 && result.entries <= 200);
    else
        assert(err.code != ERR_NONE && err.msg[0] != '\0');
    files = files_free(files);
    assert(count_outer() == 2);
    empty_outer();
    return 0;
}
