#include "cli/mcp_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "config/config.h"

enum { FRESH_S = 60, KEPT_MAX = 16 };
#define DIR_PREFIX "sandglass-mcp-"

/* --- What others left --- */

static int remove_one(const char *path, UNUSED const struct stat *st, UNUSED int type,
                      UNUSED struct FTW *at)
{
    return remove(path);
}

/* One that was killed leaves its directory: it is ours, old enough to have been locked, and no
 * process holds its lock any more. */
static bool is_left_over(int base_fd, const char *name)
{
    struct stat st;
    AUTO_CLOSE int fd = openat(base_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
           time(NULL) - st.st_mtime > FRESH_S && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/* Volumes of a killed one are still mounted there. */
static void unmount_below(const char *path)
{
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    struct mntent entry;
    char space[4096];
    if (mounts == NULL)
        return;
    while (getmntent_r(mounts, &entry, space, sizeof space) != NULL) {
        struct str dir = str_of(entry.mnt_dir), below = str_of(path);
        if (str_starts(dir, below) && dir.len > below.len && dir.ptr[below.len] == '/')
            (void)umount2(entry.mnt_dir, MNT_DETACH | UMOUNT_NOFOLLOW);
    }
    (void)endmntent(mounts);
}

static void remove_left_over(const char *base)
{
    DIR *dir = opendir(base);
    if (dir == NULL)
        return;
    struct dirent *entry;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread yet */
    while ((entry = readdir(dir)) != NULL) {
        if (!str_starts(str_of(entry->d_name), STR(DIR_PREFIX)) ||
            !is_left_over(dirfd(dir), entry->d_name))
            continue;
        AUTO_BUF struct buf path = {0};
        buf_printf(&path, "%s/%s", base, entry->d_name);
        unmount_below(buf_cstr(&path));
        (void)nftw(buf_cstr(&path), remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    }
    (void)closedir(dir);
}

/* --- One of its own --- */

/* The lock tells later processes that it is in use; it ends with the process. */
static bool lock_dir(const char *path, int *ret_lock)
{
    AUTO_CLOSE int lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0)
        return false;
    *ret_lock = fd_take(&lock);
    return true;
}

static int make_temporary(struct mcp_dir *dir, struct err *err)
{
    AUTO_BUF struct buf path = {0};
    const char *base = getenv("TMPDIR"); /* NOLINT(concurrency-mt-unsafe): one thread yet */
    if (base == NULL || base[0] != '/')
        base = "/var/tmp";
    remove_left_over(base);
    buf_printf(&path, "%s/" DIR_PREFIX "XXXXXX", base);
    dir->path = buf_take(&path);
    if (mkdtemp(dir->path) != NULL && lock_dir(dir->path, &dir->lock))
        return 0;
    int result = err_sys(err, errno, "make a directory '%s'", dir->path);
    free(dir->path);
    dir->path = NULL;
    return result;
}

/* The first that no other process uses. Where none can be had a temporary one will do. */
static bool take_kept(const struct config *config, struct mcp_dir *dir)
{
    struct err err = {0};
    for (int i = 0; i < KEPT_MAX && config->server.data_dir.len > 0; i++) {
        AUTO_BUF struct buf path = {0};
        buf_printf(&path, "%.*s/mcp/%d", STR_ARG(config->server.data_dir), i);
        if (fd_make_dirs(buf_cstr(&path), 0700, &err) < 0)
            return false;
        if (!lock_dir(buf_cstr(&path), &dir->lock))
            continue;
        dir->path = buf_take(&path);
        dir->is_kept = true;
        return true;
    }
    return false;
}

/* Runtimes were added to the server's directory; without one there is only the host's own. */
static void link_runtimes(const struct config *config, const struct mcp_dir *dir)
{
    AUTO_BUF struct buf from = {0}, to = {0};
    struct err err = {0};
    buf_printf(&from, "%.*s/runtimes", STR_ARG(config->server.data_dir));
    buf_printf(&to, "%s/runtimes", dir->path);
    if (dir->is_kept)
        (void)!fd_make_dirs(buf_cstr(&from), 0755, &err);
    if (config->server.data_dir.len > 0 && access(buf_cstr(&from), R_OK | X_OK) == 0)
        (void)!symlink(buf_cstr(&from), buf_cstr(&to)); /* a kept one has it */
}

int mcp_dir_open(const struct config *config, struct mcp_dir *dir, struct err *err)
{
    bool has_packages = config->sandbox.enabled && config->sandbox.dependencies.len > 0;
    *dir = (struct mcp_dir){.lock = -1};
    if (!(has_packages && take_kept(config, dir)) && make_temporary(dir, err) < 0)
        return -1;
    link_runtimes(config, dir);
    return 0;
}

void mcp_dir_close(struct mcp_dir *dir)
{
    if (dir->path != NULL && !dir->is_kept)
        (void)nftw(dir->path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    fd_close(&dir->lock);
    free(dir->path);
    dir->path = NULL;
}
