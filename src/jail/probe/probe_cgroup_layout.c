/* Where each cgroup controller lives, from the process's own cgroup file and its mounts: on a
 * hybrid host every controller may have a tree of its own. */

#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "jail/probe/probe_internal.h"

static const char *const names[PROBE_CTRL_COUNT] = {
    [PROBE_CTRL_MEMORY] = "memory",
    [PROBE_CTRL_PIDS] = "pids",
    [PROBE_CTRL_CPU] = "cpu",
    [PROBE_CTRL_FREEZER] = "freezer",
};

struct mount_line {
    struct str root, point, type, options;
};

/* "31 23 0:28 ROOT POINT rw,relatime [optional]... - TYPE SOURCE OPTIONS" */
static bool parse_mount(struct str line, struct mount_line *ret)
{
    size_t dash = str_find(line, STR(" - "));
    if (dash == line.len)
        return false;
    struct str front = str_slice(line, 0, dash), back = str_slice(line, dash + 3, line.len), skip;
    for (int i = 0; i < 3; i++)
        if (!str_split(&front, ' ', &skip))
            return false;
    return str_split(&front, ' ', &ret->root) && str_split(&front, ' ', &ret->point) &&
           str_split(&back, ' ', &ret->type) && str_split(&back, ' ', &skip) &&
           str_split(&back, ' ', &ret->options);
}

/* This process's path in the tree of `controller` ("" for v2); false when it is in none. */
static bool own_path(struct str self_cgroup, struct str controller, struct str *ret_path)
{
    struct str line, id, list;
    while (str_split(&self_cgroup, '\n', &line)) {
        struct str rest = line;
        if (!str_split(&rest, ':', &id) || !str_split(&rest, ':', &list))
            continue;
        if (controller.len == 0 ? list.len == 0 && str_eq(id, STR("0"))
                                : probe_has_word(list, controller)) {
            *ret_path = rest;
            return true;
        }
    }
    return false;
}

/* mountinfo writes blanks and backslashes as \040 and \134. */
static void put_unescaped(struct str s, char *out, size_t size)
{
    size_t len = 0;
    for (size_t i = 0; i < s.len && len + 1 < size; i++) {
        if (s.ptr[i] == '\\' && i + 3 < s.len) {
            out[len++] = (char)((s.ptr[i + 1] - '0') << 6 | (s.ptr[i + 2] - '0') << 3 |
                                (s.ptr[i + 3] - '0'));
            i += 3;
        } else {
            out[len++] = s.ptr[i];
        }
    }
    out[len] = '\0';
}

static void place(const struct mount_line *mount, struct str path, int version,
                  struct probe_hierarchy *ret)
{
    ret->version = version;
    put_unescaped(mount->point, ret->top, sizeof ret->top);
    struct str below = path;
    if (!str_eq(mount->root, STR("/")))
        below =
            str_starts(path, mount->root) ? str_slice(path, mount->root.len, path.len) : STR("");
    /* A group outside the visible part of the tree reads "/../x". */
    if (str_eq(below, STR("/")) || str_starts(below, STR("/..")))
        below = STR("");
    (void)snprintf(ret->own, sizeof ret->own, "%s%.*s", ret->top, STR_ARG(below));
}

void probe_cgroups_parse(struct str self_cgroup, struct str mountinfo, struct probe_cgroups *ret)
{
    *ret = (struct probe_cgroups){0};
    struct str line, path;
    while (str_split(&mountinfo, '\n', &line)) {
        struct mount_line mount;
        if (!parse_mount(line, &mount))
            continue;
        if (str_eq(mount.type, STR("cgroup2")) && ret->unified.version == 0 &&
            own_path(self_cgroup, STR(""), &path))
            place(&mount, path, 2, &ret->unified);
        if (!str_eq(mount.type, STR("cgroup")))
            continue;
        for (size_t i = 0; i < PROBE_CTRL_COUNT; i++)
            if (probe_has_word(mount.options, str_of(names[i])) &&
                ret->controllers[i].version == 0 &&
                own_path(self_cgroup, str_of(names[i]), &path)) {
                place(&mount, path, 1, &ret->controllers[i]);
                ret->has_v1 = true;
            }
    }
}

const char *probe_cgroups_mode(const struct probe_cgroups *cgroups)
{
    if (cgroups->unified.version == 0)
        return cgroups->has_v1 ? "v1" : "none";
    return cgroups->has_v1 ? "hybrid" : "v2";
}

static void read_beside(const char *dir, const char *file, char *out, size_t size)
{
    char path[PROBE_PATH_MAX + 64];
    (void)snprintf(path, sizeof path, "%s/%s", dir, file);
    if (probe_read(path, out, size) < 0)
        out[0] = '\0';
}

static void read_whole(const char *path, struct buf *text)
{
    struct err err = {0};
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && buf_read_all(text, fd, &err) < 0)
        buf_clear(text);
}

void probe_cgroups_read(struct probe_cgroups *cgroups)
{
    AUTO_BUF struct buf self = {0};
    AUTO_BUF struct buf mounts = {0};
    read_whole("/proc/self/cgroup", &self);
    read_whole("/proc/self/mountinfo", &mounts);
    probe_cgroups_parse(buf_str(&self), buf_str(&mounts), cgroups);
    if (cgroups->unified.version == 0)
        return;
    const struct probe_hierarchy *v2 = &cgroups->unified;
    read_beside(v2->own, "cgroup.controllers", cgroups->available, sizeof cgroups->available);
    read_beside(v2->own, "cgroup.subtree_control", cgroups->enabled_own,
                sizeof cgroups->enabled_own);
    read_beside(v2->top, "cgroup.subtree_control", cgroups->enabled_top,
                sizeof cgroups->enabled_top);
    char offered[PROBE_NAME_MAX];
    read_beside(v2->top, "cgroup.controllers", offered, sizeof offered);
    for (size_t i = 0; i < PROBE_CTRL_FREEZER; i++)
        if (cgroups->controllers[i].version == 0 &&
            (probe_has_word(str_of(cgroups->available), str_of(names[i])) ||
             probe_has_word(str_of(offered), str_of(names[i]))))
            cgroups->controllers[i] = *v2;
}

static void probe_cgroup_layout_add(struct probe_result *result, const char *before,
                                    const char *word)
{
    size_t len = strlen(result->detail);
    (void)snprintf(result->detail + len, sizeof result->detail - len, "%s%s", before, word);
}

PROBE_RUN(probe_cgroup_layout)
{
    (void)probe;
    const struct probe_cgroups *groups = &env->cgroups;
    const char *mode = probe_cgroups_mode(groups);
    if (strcmp(mode, "none") == 0) {
        (void)probe_fail(result, 0, "no cgroup file system is mounted");
        return;
    }
    probe_say(result, PROBE_OK, "%s", mode);
    bool first = true;
    for (int version = 1; version <= 2; version++) {
        bool any = false;
        for (size_t i = 0; i < PROBE_CTRL_FREEZER; i++)
            if (groups->controllers[i].version == version) {
                probe_cgroup_layout_add(result, any ? ", " : first ? ": " : "; ", names[i]);
                any = true;
                first = false;
            }
        if (any)
            probe_cgroup_layout_add(result, " ", version == 1 ? "in v1" : "in v2");
    }
}
