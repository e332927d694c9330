/* Below which group of cgroup v2 the groups of jails are made.
 *
 * A group that has processes cannot pass controllers on to groups below it, except for the root of
 * the tree. The group of this process usually has some: the shell of a login, or the server. So, in
 * this order:
 *
 * 1. The own group, if it can pass them on.
 * 2. The own group, if it is delegated to us: then all its processes are ours and are moved into a
 *    group below it. systemd delegates with Delegate=yes, and a container owns its uppermost group.
 * 3. The root of the tree. Only root may write there. systemd does not touch groups that it has
 *    not made, and the kernel does not take a controller away that a group below has passed on. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "jail/cgroup/cgroup_internal.h"

enum { MOVE_ROUNDS = 10 }; /* a process may fork while its group is read */

/* "+memory +pids +cpu", those that the layout needs from the unified tree; "": none. */
static void words_of(const struct cgroup_layout *layout, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (int slot = CG_MEMORY; slot <= CG_CPU; slot++)
        if (layout->slots[slot].version == 2 && len < size)
            len += (size_t)snprintf(out + len, size - len, "%s+%s", len > 0 ? " " : "",
                                    cgroup_slot_names[slot]);
}

static bool can_pass_on(int dir_fd, const char *words)
{
    struct err ignored = {0};
    return cgroup_write_text(dir_fd, "cgroup.subtree_control", words, &ignored) == 0;
}

/* Of root, systemd marks it; of another user, it is the owner. */
static bool is_delegated(int dir_fd, const struct cgroup_layout *layout)
{
    char text[8];
    struct stat st;
    if (strcmp(layout->slots[CG_UNIFIED].dir, layout->unified_top) == 0)
        return true; /* of a container */
    if (fgetxattr(dir_fd, "trusted.delegate", text, sizeof text) == 1 && text[0] == '1')
        return true;
    if (fgetxattr(dir_fd, "user.delegate", text, sizeof text) == 1 && text[0] == '1')
        return true;
    return geteuid() != 0 && fstat(dir_fd, &st) == 0 && st.st_uid == geteuid();
}

/* Moves what is in the group now; true when nothing was. */
static bool move_once(int dir_fd, int leaf_fd)
{
    AUTO_BUF struct buf text = buf_with_limit(CGROUP_TEXT_MAX);
    struct err ignored = {0};
    if (cgroup_read_text(dir_fd, "cgroup.procs", &text, &ignored) < 0 || text.len == 0)
        return true;
    struct str rest = str_trim(buf_str(&text)), pid;
    while (str_split(&rest, '\n', &pid)) {
        char number[24];
        (void)snprintf(number, sizeof number, "%.*s", STR_ARG(pid));
        /* One that has just ended is no longer there to be moved. */
        (void)!cgroup_write_text(leaf_fd, "cgroup.procs", number, &ignored);
    }
    return false;
}

static void move_processes(int dir_fd, const char *name)
{
    char leaf[CGROUP_NAME_SIZE + 8];
    (void)snprintf(leaf, sizeof leaf, "%s-server", name);
    if (SYS(mkdirat(dir_fd, leaf, 0755)) < 0 && errno != EEXIST)
        return;
    AUTO_CLOSE int leaf_fd = SYS(openat(dir_fd, leaf, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (int round = 0; leaf_fd >= 0 && round < MOVE_ROUNDS && !move_once(dir_fd, leaf_fd); round++)
        ;
}

void cgroup_choose_parent(struct cgroup_layout *layout, const char *name)
{
    char words[64];
    char *dir = layout->slots[CG_UNIFIED].dir;
    words_of(layout, words, sizeof words);
    if (words[0] == '\0')
        return; /* v1 has the controllers */
    AUTO_CLOSE int own = SYS(open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (own < 0 || can_pass_on(own, words))
        return;
    if (is_delegated(own, layout)) {
        move_processes(own, name);
        if (can_pass_on(own, words))
            return;
    }
    AUTO_CLOSE int top = SYS(open(layout->unified_top, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (top < 0 || !can_pass_on(top, words))
        return; /* enable_v2 says why */
    (void)snprintf(dir, CGROUP_DIR_SIZE, "%s", layout->unified_top);
    for (int slot = CG_MEMORY; slot <= CG_FREEZER; slot++)
        if (layout->slots[slot].version == 2)
            (void)snprintf(layout->slots[slot].dir, CGROUP_DIR_SIZE, "%s", layout->unified_top);
}
