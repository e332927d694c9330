/* Sources on the host, turned into detached mounts by the warden. */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/defended.h"
#include "base/err.h"
#include "base/fd.h"
#include "jail/inside/mounts.h"
#include "jail/wire/ids.h"
#include "jail/wire/linux.h"

/* Ends with its warden and keeps none of its descriptors: an open copy of a socket would hide the
 * warden's death from the peer. */
static void NORETURN carry_map(pid_t warden)
{
    (void)k_close_range(0, ~0u, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != warden)
        _exit(0);
    for (;;)
        (void)pause();
}

/* A user namespace that only exists to carry a map: its process waits until we have the fd. */
static int make_map_ns(const struct template *template, uint32_t owner, uint32_t outer,
                       struct err *err)
{
    struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    pid_t warden = getpid(), pid = k_clone3(&args);
    if (pid == 0)
        carry_map(warden);
    if (pid < 0)
        return err_sys(err, errno, "make an id map: " KERNEL_NO_NAMESPACES);
    char path[32];
    (void)snprintf(path, sizeof path, "%d/ns/user", (int)pid);
    int fd = -1;
    if (ids_write_maps(pid, owner, outer, err) == 0) {
        fd = SYS(openat(template->proc_fd, path, O_RDONLY | O_CLOEXEC));
        if (fd < 0)
            (void)err_sys(err, errno, "open an id map");
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    return fd;
}

/* Files of the tree's owner become files of the jail's user, only on this mount. */
static int map_owner(int tree, const struct template *template, const char *path, uint32_t outer,
                     struct owner_map *map, struct err *err)
{
    struct stat st;
    if (SYS(fstat(tree, &st)) < 0)
        return err_sys(err, errno, "stat '%s'", path);
    if (!template->privileged || st.st_uid == outer)
        return 0;
    if (map->fd < 0 || map->owner != st.st_uid) {
        fd_close(&map->fd);
        map->owner = st.st_uid;
        map->fd = make_map_ns(template, st.st_uid, outer, err);
    }
    if (map->fd < 0)
        return -1;
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)map->fd};
    if (k_mount_setattr(tree, AT_EMPTY_PATH, &attr) < 0)
        return err_sys(err, errno, "the filesystem of '%s' cannot map owners", path);
    return 0;
}

static int open_source(const struct template *template, const char *path, bool writable,
                       uint32_t outer, struct owner_map *map, struct err *err)
{
    AUTO_CLOSE int tree =
        k_open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
    if (tree < 0)
        return err_sys(err, errno, "open '%s'", path);
    struct stat st;
    if (SYS(fstat(tree, &st)) < 0)
        return err_sys(err, errno, "stat '%s'", path);
    /* A socket or a device would give access to the process or driver behind it. */
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return err_set(err, ERR_INVALID, "'%s' is neither a file nor a directory", path);
    if (map_owner(tree, template, path, outer, map, err) < 0)
        return -1;
    struct mount_attr attr = {.attr_set =
                                  DEFENDED(MOUNT_FLAGS) ? MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV : 0};
    if (!writable)
        attr.attr_set |= MOUNT_ATTR_RDONLY;
    if (k_mount_setattr(tree, AT_EMPTY_PATH, &attr) < 0)
        return err_sys(err, errno, "set flags of '%s'", path);
    return fd_take(&tree);
}

void mount_set_add(struct mount_set *set, int fd, const char *dst, bool writable)
{
    struct stat st;
    assert(set->count < countof(set->items));
    set->items[set->count].fd = fd;
    set->items[set->count].dst = dst;
    set->items[set->count].writable = writable;
    set->items[set->count].is_dir = fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
    set->count++;
}

static int add_item(struct mount_set *set, const struct template *template, const char *src,
                    const char *dst, bool writable, uint32_t outer, struct owner_map *map,
                    struct err *err)
{
    int fd = open_source(template, src, writable, outer, map, err);
    if (fd < 0)
        return -1;
    mount_set_add(set, fd, dst, writable);
    return 0;
}

static int add_layer(struct mount_set *set, const struct template *template, const char *path,
                     uint32_t outer, struct owner_map *map, struct err *err)
{
    int fd = open_source(template, path, false, outer, map, err);
    if (fd < 0)
        return err_wrap(err, "layer");
    set->layer_fds[set->layer_count++] = fd;
    return 0;
}

static int open_all(struct mount_set *set, const struct template *template,
                    const struct jail_plan *plan, uint32_t outer, struct owner_map *map,
                    struct err *err)
{
    if (plan->base != NULL && add_layer(set, template, plan->base, outer, map, err) < 0)
        return -1;
    for (size_t i = 0; i < plan->layer_count; i++)
        if (add_layer(set, template, plan->layers[i], outer, map, err) < 0)
            return -1;
    if (plan->disk != NULL) {
        set->disk_fd = open_source(template, plan->disk, true, outer, map, err);
        if (set->disk_fd < 0)
            return err_wrap(err, "disk");
    }
    if (plan->workspace != NULL &&
        add_item(set, template, plan->workspace, "/workspace", true, outer, map, err) < 0)
        return err_wrap(err, "workspace");
    for (size_t i = 0; i < plan->mount_count; i++)
        if (add_item(set, template, plan->mounts[i].src, plan->mounts[i].dst,
                     plan->mounts[i].writable, outer, map, err) < 0)
            return err_wrap(err, "mount");
    return 0;
}

int mount_set_open(struct mount_set *set, const struct template *template,
                   const struct jail_plan *plan, uint32_t outer, struct owner_map *map,
                   struct err *err)
{
    *set = (struct mount_set){.disk_fd = -1};
    if (plan->base == NULL && plan->layer_count == 0 && plan->disk == NULL &&
        plan->workspace == NULL && plan->mount_count == 0)
        return 0;
    if (SYS(setns(template->host_ns, CLONE_NEWNS)) < 0)
        return err_sys(err, errno, "inspect the host's files");
    int done = open_all(set, template, plan, outer, map, err);
    /* Staying in the host's tree would hand it to the next jail. */
    if (setns(template->own_ns, CLONE_NEWNS) < 0) {
        (void)fprintf(stderr, "sandglass: cannot return to the template: %s\n", strerror(errno));
        abort();
    }
    if (done < 0)
        mount_set_done(set);
    return done;
}

int mount_set_top(const struct mount_set *set)
{
    int top = set->disk_fd;
    for (size_t i = 0; i < set->count; i++)
        top = MAX(top, set->items[i].fd);
    for (size_t i = 0; i < set->layer_count; i++)
        top = MAX(top, set->layer_fds[i]);
    return top;
}

void mount_set_done(struct mount_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        fd_close(&set->items[i].fd);
    for (size_t i = 0; i < set->layer_count; i++)
        fd_close(&set->layer_fds[i]);
    if (set->disk_fd > 0)
        fd_close(&set->disk_fd);
    *set = (struct mount_set){.disk_fd = -1};
}
