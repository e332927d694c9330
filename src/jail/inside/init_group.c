#include "jail/inside/init_group.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "jail/cgroup/cgroup.h"

/* A command that takes longer than this has its group for itself afterwards. */
enum { SOON_MS = 20 };

static struct group {
    int fds[PART_FILES];
    uint32_t commands; /* that run in it */
} groups[CGROUP_COMMAND_PARTS];
static int group_count;
static int current = INIT_NO_GROUP; /* where the thread is that starts commands */
static int64_t taken_ns;            /* when a command was the first in the current group */

bool init_group_add(int *fds)
{
    if (group_count == CGROUP_COMMAND_PARTS)
        return false;
    for (int i = 0; i < PART_FILES; i++)
        groups[group_count].fds[i] = fd_take(&fds[i]);
    return ++group_count == CGROUP_COMMAND_PARTS;
}

static bool init_group_enter(int group)
{
    if (write(groups[group].fds[PART_ENTER], "0", 1) < 0)
        return false;
    current = group;
    return true;
}

/* If the host refuses it, commands run in the group of the jail. */
void init_group_begin(void)
{
    (void)init_group_enter(0);
}

int init_group_take(void)
{
    if (current == INIT_NO_GROUP || groups[current].commands++ > 0)
        return current;
    taken_ns = clock_now_ns();
    (void)!pwrite(groups[current].fds[PART_PEAK], "0", 1, 0);
    return current;
}

void init_group_leave(int group)
{
    if (group != INIT_NO_GROUP)
        groups[group].commands--;
}

static int find_free(void)
{
    for (int i = 0; i < group_count; i++)
        if (groups[i].commands == 0)
            return i;
    return INIT_NO_GROUP;
}

int init_group_wait_ms(void)
{
    if (current == INIT_NO_GROUP || groups[current].commands == 0 || find_free() == INIT_NO_GROUP)
        return -1;
    int64_t waited_ms = (clock_now_ns() - taken_ns) / 1000000;
    return waited_ms >= SOON_MS ? 0 : (int)(SOON_MS - waited_ms);
}

void init_group_move(void)
{
    int free_one = find_free();
    if (free_one != INIT_NO_GROUP && init_group_wait_ms() == 0 && !init_group_enter(free_one))
        current = INIT_NO_GROUP; /* the warden has removed them: the jail ends */
}

static struct str init_group_read_text(int fd, char *space, size_t size)
{
    ssize_t got = pread(fd, space, size, 0);
    return str_n(space, got > 0 ? (size_t)got : 0);
}

int64_t init_group_kills(int group)
{
    char space[256];
    struct str line, word;
    int64_t count;
    if (group == INIT_NO_GROUP)
        return -1;
    struct str text = init_group_read_text(groups[group].fds[PART_KILLS], space, sizeof space);
    while (str_split(&text, '\n', &line))
        if (str_split(&line, ' ', &word) && str_eq(word, STR("oom_kill")) &&
            str_to_i64(line, 0, INT64_MAX, &count))
            return count;
    return -1;
}

int64_t init_group_peak(int group)
{
    char space[64];
    int64_t bytes;
    if (group == INIT_NO_GROUP)
        return -1;
    struct str text = init_group_read_text(groups[group].fds[PART_PEAK], space, sizeof space);
    return str_to_i64(str_trim(text), 0, INT64_MAX, &bytes) ? bytes : -1;
}
