#include "tree.h"

#include <dirent.h>

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
