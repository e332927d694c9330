/* Which hierarchy owns which controller, and where in it this process sits. */

#include "jail/cgroup/cgroup.h"

static const char *const names[CG_COUNT] = {
    [CG_MEMORY] = "memory", [CG_PIDS] = "pids", [CG_CPU] = "cpu", [CG_FREEZER] = "freezer"};

static bool list_has(struct str list, struct str word)
{
    struct str part;
    while (str_split(&list, ',', &part))
        if (str_eq(part, word))
            return true;
    return false;
}

/* "4:memory:/a/b" -> controllers "memory", path "/a/b". */
static bool parse_self_line(struct str line, struct str *ret_controllers, struct str *ret_path)
{
    struct str number;
    if (!str_split(&line, ':', &number) || !str_split(&line, ':', ret_controllers))
        return false;
    *ret_path = line;
    return line.len > 0 && line.ptr[0] == '/';
}

/* Path of this process in the hierarchy that `word` names; the unified one has no name. */
static bool find_path(struct str self_cgroup, struct str word, struct str *ret_path)
{
    struct str line, controllers;
    while (str_split(&self_cgroup, '\n', &line)) {
        if (!parse_self_line(line, &controllers, ret_path))
            continue;
        if (word.len == 0 ? controllers.len == 0 : list_has(controllers, word))
            return true;
    }
    return false;
}

struct mount_line {
    struct str root, point, type, options;
};

/* "32 31 0:29 /root /point rw,relatime - cgroup cgroup rw,cpu"; optional fields before the "-". */
static bool parse_mount_line(struct str line, struct mount_line *ret)
{
    struct str field, parts[5];
    for (size_t i = 0; i < 5; i++)
        if (!str_split(&line, ' ', &parts[i]))
            return false;
    ret->root = parts[3];
    ret->point = parts[4];
    do {
        if (!str_split(&line, ' ', &field))
            return false;
    } while (!str_eq(field, STR("-")));
    struct str source;
    if (!str_split(&line, ' ', &ret->type) || !str_split(&line, ' ', &source))
        return false;
    ret->options = line;
    return true;
}

static bool find_mount(struct str mountinfo, int version, struct str word, struct mount_line *ret)
{
    struct str line;
    while (str_split(&mountinfo, '\n', &line)) {
        if (!parse_mount_line(line, ret))
            continue;
        bool fits = version == 2 ? str_eq(ret->type, STR("cgroup2"))
                                 : str_eq(ret->type, STR("cgroup")) && list_has(ret->options, word);
        if (fits)
            return true;
    }
    return false;
}

/* The mount shows `root` of the hierarchy at `point`; we sit at `path` of the hierarchy. */
static bool place(const struct mount_line *mount, struct str path, char out[CGROUP_DIR_SIZE])
{
    struct str rest = path;
    if (mount->root.len > 1) {
        bool below = str_starts(path, mount->root) &&
                     (path.len == mount->root.len || path.ptr[mount->root.len] == '/');
        if (!below)
            return false;
        rest = str_slice(path, mount->root.len, path.len);
    }
    if (str_eq(rest, STR("/")))
        rest = STR("");
    int len = snprintf(out, CGROUP_DIR_SIZE, "%.*s%.*s", STR_ARG(mount->point), STR_ARG(rest));
    return len > 0 && len < CGROUP_DIR_SIZE;
}

static void find_slot(struct str self_cgroup, struct str mountinfo, int version, struct str word,
                      enum cgroup_slot slot, struct cgroup_layout *layout)
{
    struct str path;
    struct mount_line mount;
    struct str named = version == 2 ? STR("") : word;
    if (find_path(self_cgroup, named, &path) && find_mount(mountinfo, version, word, &mount) &&
        place(&mount, path, layout->slots[slot].dir))
        layout->slots[slot].version = version;
}

void cgroup_find(struct str self_cgroup, struct str mountinfo, struct cgroup_layout *ret_layout)
{
    *ret_layout = (struct cgroup_layout){0};
    find_slot(self_cgroup, mountinfo, 2, STR(""), CG_UNIFIED, ret_layout);
    struct mount_line mount;
    if (ret_layout->slots[CG_UNIFIED].version == 2 && find_mount(mountinfo, 2, STR(""), &mount) &&
        mount.point.len < CGROUP_DIR_SIZE)
        memcpy(ret_layout->unified_top, mount.point.ptr, mount.point.len);
    for (int slot = 0; slot < CG_UNIFIED; slot++) {
        find_slot(self_cgroup, mountinfo, 1, str_of(names[slot]), (enum cgroup_slot)slot,
                  ret_layout);
        /* Not a v1 controller: then it is in the unified tree or nowhere. */
        if (ret_layout->slots[slot].version == 0 && ret_layout->slots[CG_UNIFIED].version == 2)
            ret_layout->slots[slot] = ret_layout->slots[CG_UNIFIED];
    }
}
