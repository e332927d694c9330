/* Reading directories by getdents64: entries as they are, into a buffer that we bound. */

#include <dirent.h>
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sys.h"
#include "files/internal.h"

/* As the kernel writes it. */
struct raw_dirent {
    uint64_t ino;
    int64_t off;
    uint16_t reclen;
    uint8_t type;
    char name[];
};

static int dir_fill(struct files_dir *dir)
{
    long got;
    do
        got = SYS(syscall(SYS_getdents64, dir->fd, dir->bytes, sizeof dir->bytes));
    while (got < 0 && errno == EINTR);
    /* A directory that was removed under us has no more entries. */
    if (got < 0 && errno == ENOENT)
        got = 0;
    dir->at = 0;
    dir->len = got < 0 ? 0 : (size_t)got;
    return got < 0 ? -1 : 0;
}

static bool is_dots(const char *name)
{
    return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

int files_dir_next(struct files_dir *dir, struct files_dirent *ret_entry)
{
    for (;;) {
        if (dir->at == dir->len && dir_fill(dir) < 0)
            return -1;
        if (dir->len == 0)
            return 0;
        const struct raw_dirent *raw = (const void *)(dir->bytes + dir->at);
        dir->at += raw->reclen;
        if (is_dots(raw->name))
            continue;
        *ret_entry = (struct files_dirent){raw->ino, raw->name, raw->type};
        return 1;
    }
}
