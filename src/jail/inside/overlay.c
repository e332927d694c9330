#include "jail/inside/overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fd.h"
#include "jail/inside/mounts.h"
#include "jail/wire/linux.h"

/* <sys/mount.h> and <linux/mount.h> cannot be read together with glibc 2.36. */
extern int mount(const char *source, const char *target, const char *type, unsigned long flags,
                 const void *data);
enum { NOSUID = 2, NODEV = 4, OPTIONS_SIZE = 4096 };

static int set(int fs, const char *key, const char *value, struct err *err)
{
    unsigned how = value == NULL ? FSCONFIG_SET_FLAG : FSCONFIG_SET_STRING;
    if (k_fsconfig(fs, how, key, value) < 0)
        return err_sys(err, errno, "overlay option '%s'", key);
    return 0;
}

static int set_all(int fs, const struct overlay *overlay, struct err *err)
{
    char upper[256], work[256];
    (void)snprintf(upper, sizeof upper, "%s/upper", overlay->upper);
    (void)snprintf(work, sizeof work, "%s/work", overlay->upper);
    for (size_t i = 0; i < overlay->lower_count; i++)
        if (set(fs, "lowerdir+", overlay->lower[i], err) < 0)
            return -1;
    if (set(fs, "upperdir", upper, err) < 0 || set(fs, "workdir", work, err) < 0 ||
        set(fs, "userxattr", NULL, err) < 0 ||
        (!overlay->syncs && set(fs, "volatile", NULL, err) < 0) ||
        set(fs, "redirect_dir", "nofollow", err) < 0 || set(fs, "metacopy", "off", err) < 0)
        return -1;
    return set(fs, "index", "off", err);
}

static int make_each(const struct overlay *overlay, struct err *err)
{
    AUTO_CLOSE int fs = k_fsopen("overlay");
    if (fs < 0)
        return err_sys(err, errno, "open an overlay");
    if (set_all(fs, overlay, err) < 0)
        return -1;
    if (k_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
        return err_sys(err, errno, "make an overlay");
    int made = k_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    return made < 0 ? err_sys(err, errno, "mount an overlay") : made;
}

/* One page holds all options. Our paths are short, so that it holds every layer a plan may have. */
static int mount_string(const struct overlay *overlay, const char *path, struct err *err)
{
    static const char *const tails[] = {",userxattr,volatile", ",userxattr"};
    char options[OPTIONS_SIZE];
    size_t len = (size_t)snprintf(options, sizeof options, "upperdir=%s/upper,workdir=%s/work",
                                  overlay->upper, overlay->upper);
    for (size_t i = 0; i < overlay->lower_count; i++) {
        len += (size_t)snprintf(options + len, sizeof options - len, "%s%s",
                                i == 0 ? ",lowerdir=" : ":", overlay->lower[i]);
        if (len >= sizeof options - 32)
            return err_set(err, ERR_LIMIT,
                           "too many layers for this kernel; Linux 6.8 has no such limit");
    }
    for (size_t i = overlay->syncs ? 1 : 0; i < countof(tails); i++) {
        (void)snprintf(options + len, sizeof options - len, "%s", tails[i]);
        if (SYS(mount("overlay", path, "overlay", NOSUID | NODEV, options)) == 0)
            return 0;
    }
    return err_sys(err, errno, "mount an overlay");
}

int overlay_make(const struct overlay *overlay, const char *path, struct err *err)
{
    struct err first = {0};
    if (!overlay->one_string) {
        int made = make_each(overlay, &first);
        if (made >= 0)
            return made;
        /* A kernel before 6.8 does not know the words. It says so at once, or, before 6.5, only
         * when the overlay is made. */
        if (first.sys != EINVAL) {
            *err = first;
            return -1;
        }
    }
    return mount_string(overlay, path, err) < 0 ? -1 : mounts_open_target(path, err);
}

/* A file system that is already mounted there is not moved. */
static int attach(int made, const char *path, struct err *err)
{
    struct stat is, at;
    AUTO_CLOSE int target = mounts_open_target(path, err);
    if (target < 0)
        return -1;
    if (fstat(made, &is) == 0 && fstat(target, &at) == 0 && is.st_dev == at.st_dev)
        return 0;
    if (k_move_mount(made, target) < 0)
        return err_sys(err, errno, "mount '%s'", path);
    return 0;
}

int overlay_mount(const struct overlay *overlay, const char *path, struct err *err)
{
    AUTO_CLOSE int made = overlay_make(overlay, path, err);
    return made < 0 ? -1 : attach(made, path, err);
}
