#include "jail/disk/layer_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "jail/wire/ids.h"
#include "jail/wire/plan.h"

int layer_open_dir(int dir_fd, const char *name, struct err *err)
{
    int fd = SYS(openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", name);
    return fd;
}

int layer_open_part(const char *home, const char *name, struct err *err)
{
    char path[JAIL_PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", home, name);
    if (fd_make_dirs(path, 0700, err) < 0)
        return -1;
    return layer_open_dir(AT_FDCWD, path, err);
}

int layer_open_trash(int dir_fd, struct err *err)
{
    if (SYS(mkdirat(dir_fd, ".trash", 0700)) < 0 && errno != EEXIST)
        return err_sys(err, errno, "make the trash");
    return layer_open_dir(dir_fd, ".trash", err);
}

uint32_t layer_owner(void)
{
    return geteuid() == 0 ? IDS_FIRST - 1 : geteuid();
}

/* In a container that owns few ids the owner does not exist: then nobody maps ids either. */
int layer_give_away(uint32_t owner, int dir_fd, const char *name, struct err *err)
{
    if (owner == geteuid())
        return 0;
    if (SYS(fchownat(dir_fd, name, owner, owner, AT_SYMLINK_NOFOLLOW)) < 0 && errno != EINVAL &&
        errno != EPERM)
        return err_sys(err, errno, "own '%s'", name);
    return 0;
}

int layer_each(int dir_fd, int (*each)(void *ctx, const char *name, struct err *err), void *ctx,
               struct err *err)
{
    AUTO_CLOSE int copy = SYS(openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (dir == NULL)
        return err_sys(err, errno, "read a directory");
    (void)fd_take(&copy); /* the stream's now */
    int done = 0;
    for (struct dirent *entry; done == 0 && (entry = readdir(dir)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            done = each(ctx, entry->d_name, err);
    (void)closedir(dir);
    return done;
}
