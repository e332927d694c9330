#include "tree.h"

#include <dirent.h>

#include "files/watch.h"

int tree_count(struct tree *tree, const char *path)
{
    AUTO_BUF struct buf full = {0};
    buf_printf(&full, "%s/%s", tree->dir, path);
    DIR *dir = opendir(full.ptr);
    assert_non_null(dir);
    int count = -2;
    while (readdir(dir) != NULL)
        count++;
    (void)closedir(dir);
    return count;
}

void tree_hear(struct files_watch *watch, struct buf *out)
{
    static const char *const names[] = {"create", "write", "remove",   "from",
                                        "to",     "chmod", "overflow", "gone"};
    struct err err = {0};
    struct files_event event;
    buf_clear(out);
    while (files_watch_next(watch, 0, &event, &err) == 1)
        buf_printf(out, "%s %.*s\n", names[event.type], STR_ARG(event.path));
}
