#include "jail/cgroup/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/sys.h"
#include "jail/cgroup/cgroup_internal.h"
#include "jail/cgroup/reclaim.h"

const char *const cgroup_slot_names[CG_COUNT] = {
    "memory", "pids", "cpu", "freezer", "unified",
};

int cgroup_read_text(int dir_fd, const char *path, struct buf *out, struct err *err)
{
    AUTO_CLOSE int fd = SYS(openat(dir_fd, path, O_RDONLY | O_CLOEXEC));
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", path);
    return buf_read_all(out, fd, err);
}

int cgroup_write_text(int dir_fd, const char *path, const char *text, struct err *err)
{
    AUTO_CLOSE int fd = SYS(openat(dir_fd, path, O_WRONLY | O_CLOEXEC));
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", path);
    if (SYS(write(fd, text, strlen(text))) < 0)
        return err_sys(err, errno, "write '%s' to '%s'", text, path);
    return 0;
}

static bool word_in_file(int dir_fd, const char *path, const char *word)
{
    AUTO_BUF struct buf text = buf_with_limit(CGROUP_TEXT_MAX);
    struct err err;
    if (cgroup_read_text(dir_fd, path, &text, &err) < 0)
        return false;
    struct str rest = str_trim(buf_str(&text)), part;
    while (str_split(&rest, ' ', &part))
        if (str_eq(part, str_of(word)))
            return true;
    return false;
}

static void say_why(struct cgroup_host *host, enum cgroup_slot slot, const char *where,
                    const char *reason)
{
    char text[sizeof host->why[slot]];
    (void)snprintf(text, sizeof text, "%.50s: %.40s", where, reason);
    memcpy(host->why[slot], text, sizeof text);
}

/* Makes our corner below the place where this process sits. */
static int open_corner(struct cgroup_host *host, enum cgroup_slot slot)
{
    const char *dir = host->layout.slots[slot].dir;
    AUTO_CLOSE int here = SYS(open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    bool is_locked = here >= 0 && reclaim_lock(here);
    if (here < 0 || (SYS(mkdirat(here, host->name, 0755)) < 0 && errno != EEXIST)) {
        say_why(host, slot, dir, strerror(errno));
        return -1;
    }
    int fd = SYS(openat(here, host->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd >= 0)
        (void)flock(fd, LOCK_EX | LOCK_NB);
    reclaim_corners(here, is_locked);
    reclaim_unlock(here);
    if (fd < 0)
        say_why(host, slot, dir, strerror(errno));
    else
        host->parents[slot] = fd_take(&here); /* paths mean nothing once we live elsewhere */
    return fd;
}

static void enable_v2(struct cgroup_host *host, enum cgroup_slot slot)
{
    const char *dir = host->layout.slots[CG_UNIFIED].dir;
    const char *name = cgroup_slot_names[slot];
    char word[16];
    struct err err = {0};
    AUTO_CLOSE int here = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (host->fds[CG_UNIFIED] < 0) {
        say_why(host, slot, "control groups are not delegated", "see `sandglass doctor`");
        return;
    }
    if (here < 0 || !word_in_file(here, "cgroup.controllers", name)) {
        say_why(host, slot, dir, "no cgroup hierarchy of this host has this controller");
        return;
    }
    (void)snprintf(word, sizeof word, "+%s", name);
    if (cgroup_write_text(here, "cgroup.subtree_control", word, &err) < 0)
        say_why(host, slot, "control groups are not delegated", strerror(err.sys));
    else if (cgroup_write_text(host->fds[CG_UNIFIED], "cgroup.subtree_control", word, &err) < 0)
        say_why(host, slot, "control group", strerror(err.sys));
    else
        host->v2[slot] = true;
}

static int read_layout(struct cgroup_layout *layout, struct err *err)
{
    AUTO_BUF struct buf self = buf_with_limit(CGROUP_TEXT_MAX);
    AUTO_BUF struct buf mounts = buf_with_limit(CGROUP_TEXT_MAX);
    if (cgroup_read_text(AT_FDCWD, "/proc/self/cgroup", &self, err) < 0 ||
        cgroup_read_text(AT_FDCWD, "/proc/self/mountinfo", &mounts, err) < 0)
        return -1;
    cgroup_find(buf_str(&self), buf_str(&mounts), layout);
    return 0;
}

static bool list_has(const char *list, const char *word)
{
    struct str rest = str_of(list == NULL ? "" : list), part;
    while (str_split(&rest, ',', &part))
        if (str_eq(part, str_of(word)))
            return true;
    return false;
}

int cgroup_host_open(struct cgroup_host *host, const char *without, struct err *err)
{
    *host = (struct cgroup_host){0};
    for (int slot = 0; slot < CG_COUNT; slot++)
        host->fds[slot] = host->parents[slot] = -1;
    char id[ID_SIZE];
    id_new(id);
    (void)snprintf(host->name, sizeof host->name, "sandglass-%.12s", id);
    if (read_layout(&host->layout, err) < 0)
        return -1;
    if (list_has(without, "groups"))
        host->layout = (struct cgroup_layout){0};
    if (list_has(without, "unified"))
        host->layout.slots[CG_UNIFIED].version = 0;
    if (list_has(without, "unified") && host->layout.slots[CG_FREEZER].version == 2)
        host->layout.slots[CG_FREEZER].version = 0;
    host->lacks_kill = list_has(without, "kill");
    if (host->layout.slots[CG_UNIFIED].version == 2) {
        cgroup_choose_parent(&host->layout, host->name);
        host->fds[CG_UNIFIED] = open_corner(host, CG_UNIFIED);
    }
    for (int slot = 0; slot < CG_UNIFIED; slot++) {
        int version = host->layout.slots[slot].version;
        if (version == 1)
            host->fds[slot] = open_corner(host, (enum cgroup_slot)slot);
        else if (version == 2 && slot == CG_FREEZER)
            host->v2[slot] = host->fds[CG_UNIFIED] >= 0;
        else if (version == 2)
            enable_v2(host, (enum cgroup_slot)slot);
        else
            say_why(host, (enum cgroup_slot)slot, cgroup_slot_names[slot], "no such controller");
    }
    return 0;
}

void cgroup_host_close(struct cgroup_host *host)
{
    while (host->stock_count > 0)
        (void)cgroup_remove(host, &host->stock[--host->stock_count]);
    for (int slot = 0; slot < CG_COUNT; slot++) {
        if (host->fds[slot] < 0)
            continue;
        fd_close(&host->fds[slot]);
        (void)unlinkat(host->parents[slot], host->name, AT_REMOVEDIR);
        fd_close(&host->parents[slot]);
    }
}

bool cgroup_has(const struct cgroup_host *host, enum cgroup_slot slot)
{
    return host->fds[slot] >= 0 || host->v2[slot];
}
