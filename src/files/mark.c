/* Whether a tree has changed: a sum over what lstat says of each entry. */

#include <dirent.h>
#include <fcntl.h>

#include "base/err.h"
#include "base/sys.h"
#include "files/mark.h"
#include "files/walk.h"

struct marking {
    struct files_mark mark;
};

/* FNV-1a is enough: a tenant that finds two trees with the same sum misleads only itself. */
static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ at[i]) * 0x100000001b3ULL;
    return hash;
}

static uint64_t mix_number(uint64_t hash, uint64_t n)
{
    return mix(hash, &n, sizeof n);
}

static bool is_own(struct str path)
{
    return str_eq(path, STR(FILES_KEEP_OWN));
}

static bool mark_enter(UNUSED void *ctx, UNUSED int dir_fd, struct str path)
{
    return !is_own(path);
}

static int mark_visit(void *ctx, int dir_fd, const char *name, struct str path,
                      UNUSED unsigned char type, UNUSED struct err *err)
{
    struct marking *marking = ctx;
    struct stat st;
    if (is_own(path) || SYS(fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW)) < 0)
        return 0;
    marking->mark.entries++;
    for (unsigned i = 0; i < countof(marking->mark.sum); i++) {
        uint64_t hash = mix(0xcbf29ce484222325ULL + i, path.ptr, path.len);
        hash = mix_number(hash, st.st_mode);
        /* A directory's own times change with files that come and go again. */
        if (!S_ISDIR(st.st_mode)) {
            hash = mix_number(hash, (uint64_t)st.st_size);
            hash = mix_number(hash, (uint64_t)st.st_ino);
            hash = mix_number(hash, (uint64_t)files_mtime_ns(&st));
            hash = mix_number(hash, (uint64_t)st.st_ctim.tv_sec);
            hash = mix_number(hash, (uint64_t)st.st_ctim.tv_nsec);
        }
        /* Entries come in no order: a sum has none. */
        marking->mark.sum[i] += hash ^ (hash >> 29);
    }
    return 0;
}

int files_mark(struct files *files, struct str path, struct files_mark *ret_mark, struct err *err)
{
    AUTO_CLOSE int dir_fd = files_open_dir(files, path, err);
    struct marking marking = {0};
    struct files_visitor visitor = {mark_enter, mark_visit, &marking};
    struct files_walk walk;
    if (dir_fd < 0)
        return -1;
    files_walk_init(&walk, dir_fd, files->how & FD_NO_XDEV, (struct str){0});
    int done = files_walk_run(&walk, &visitor, err);
    files_walk_done(&walk);
    if (done < 0)
        return err_wrap(err, "inspect '%.*s'", STR_ARG(path));
    *ret_mark = marking.mark;
    return 0;
}
