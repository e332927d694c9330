#pragma once

/* The file tree of a jail.
 *
 * The warden builds one template: a root in memory with the host's /usr read-only, an /etc and a
 * /dev of its own, in a separate mount namespace. A jail's
 * process starts with a copy of that namespace, in which nothing else of the host was ever mounted,
 * adds what is fresh (proc, /tmp, /dev/shm, terminals, the writable layer, volumes) and leaves the
 * workshop behind. Sources on the host are
 * turned into detached mounts by the warden, so that no host path is ever resolved inside. */

#include <sys/types.h>

#include "jail/wire/plan.h"

struct err;

struct template
{
    int host_ns; /* mount namespace with the host's files, owned by our user namespace */
    int own_ns;  /* the template's */
    int proc_fd; /* the host's /proc */
    bool privileged;
};

/* Moves this process into the template for good. Host descriptors opened before stay good. */
int template_enter(struct template *template, bool privileged, struct err *err) MUST_USE;
void template_done(struct template *template);

/* Detached mounts for one jail, made by the warden, mounted by the jail's process. */
struct mount_set {
    struct {
        int fd;
        const char *dst; /* borrowed from the plan */
        bool is_dir;
        bool writable;
    } items[JAIL_MOUNTS_MAX + 1];
    size_t count;
    int layer_fds[JAIL_LAYERS_MAX + 1]; /* lowest first; the base stands at the front */
    size_t layer_count;
    int disk_fd;
};

/* A user namespace that carries the map from the owner of a tree to a jail's user; kept, because
 * making one costs more than a mount. */
struct owner_map {
    int fd; /* -1: none yet */
    uint32_t owner;
};

/* `outer` is the id of the jail's user as the warden sees it: files of the owner of a directory
 * become files of that user through an id-mapped mount. */
int mount_set_open(struct mount_set *set, const struct template *template,
                   const struct jail_plan *plan, uint32_t outer, struct owner_map *map,
                   struct err *err) MUST_USE;
void mount_set_done(struct mount_set *set);
/* Takes `fd`; `dst` is borrowed. There must be room. */
void mount_set_add(struct mount_set *set, int fd, const char *dst, bool writable);
/* The highest of its descriptors; -1: it has none. */
int mount_set_top(const struct mount_set *set);

/* Finds out what of /proc must be masked; once, in the warden, before the first jail. */
void mounts_prepare(bool as_root);

/* Where an overlay root stands in its namespace: "/" of the namespace is an empty tree with a place
 * for it and a spare one, in which its successor is put together. */
#define JAIL_ANCHOR_ROOT "/r"
#define JAIL_ANCHOR_SPARE "/s"
/* The writable layers, in memory or on the plan's disk, N/upper and N/work each; read-only but for
 * the overlays made of them. */
#define JAIL_ANCHOR_MEMORY "/w"

/* What is left of the making of a tree; -1: none. */
struct mounts_kept {
    int anchor; /* of an overlay root */
    int layer;  /* its writable layer, in memory or on the plan's disk */
    int tmp;    /* a detached mount for /tmp, with a disk */
};

/* In the jail's process, in its own namespaces: makes the tree complete and makes it "/". */
int mounts_enter(const struct mount_set *set, const struct jail_plan *plan,
                 struct mounts_kept *ret_kept, struct err *err) MUST_USE;

/* Parts of the template that are mounts of their own; NULL behind the last. */
enum { MOUNTS_PARTS_MAX = 16 };
extern const char *const mounts_template_parts[];

/* Directories of the template have no owner in a jail. Those that tenants write to, or that volumes
 * are mounted in, are created in the writable layer, unless one of its layers has them. */
int mounts_own_places(const struct mount_set *set, const struct jail_plan *plan, int upper_fd,
                      struct err *err) MUST_USE;

/* Places that tenant code may write to, for Landlock; ends with NULL. */
const char *const *mounts_writable(const struct jail_plan *plan);

/* Opens a place for a mount in the new tree; links on the way are refused. */
int mounts_open_target(const char *path, struct err *err) MUST_USE;
/* A new filesystem, detached: `options` are "key=value" or "key", NULL behind the last. */
int mounts_new_fs(const char *type, const char *const *options, unsigned attrs,
                  struct err *err) MUST_USE;
