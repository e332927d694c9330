/* Record locks of jails.
 *
 * A record lock is memory of the Linux kernel (192 bytes) that is charged to no control group, and
 * no limit says how many a process may have: without one, a tenant could fill the machine. So the
 * warden counts those of each jail, and kills the process that has most of them when they are too
 * many.
 *
 * The filter sees to it that every lock belongs to a process that lives: it refuses locks of open
 * file descriptions, and descriptors that processes share without being threads. What a jail can
 * take between two looks is limited by its CPU time. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "jail/warden/warden_internal.h"

enum {
    LOOK_MS = 500,
    LOOK_AGAIN_MS = 20, /* after a kill */
    /* The kernel gives a page at a time, and counts from the first row for each: so no more are
     * read than are needed to see which process it is. Newer rows come first. */
    READS_MAX = 512,
    HOLDERS_MAX = 4096, /* power of two */
    FEW = 8,            /* rows of a process whose jail is not looked for */
};

struct holder {
    pid_t pid; /* 0: free */
    size_t rows;
    ino_t namespace; /* of processes with more than a few rows */
};

static struct holder holders[HOLDERS_MAX];
static int64_t next_look_ns;

static void note_holder(pid_t pid)
{
    size_t at = (uint32_t)pid * 2654435761u % HOLDERS_MAX;
    for (size_t tries = 0; tries < 64; tries++, at = (at + 1) % HOLDERS_MAX)
        if (holders[at].pid == 0 || holders[at].pid == pid) {
            holders[at].pid = pid;
            holders[at].rows++;
            return;
        }
}

/* "12: POSIX  ADVISORY  WRITE 345 00:22:10384 0 EOF"; one that waits has "->" before its kind. */
static void note_row(struct str row)
{
    struct str word;
    int64_t pid = 0;
    for (int words = 0; row.len > 0 && str_split(&row, ' ', &word);) {
        if (word.len == 0 || str_eq(word, STR("->")))
            continue;
        if (++words == 5) {
            if (str_to_i64(word, 1, INT32_MAX, &pid))
                note_holder((pid_t)pid);
            return;
        }
    }
}

static void read_locks(void)
{
    char text[8192];
    size_t held = 0;
    AUTO_CLOSE int fd = open("/proc/locks", O_RDONLY | O_CLOEXEC);
    memset(holders, 0, sizeof holders);
    for (int reads = 0; fd >= 0 && reads < READS_MAX; reads++) {
        ssize_t len = read(fd, text + held, sizeof text - held);
        if (len <= 0)
            return;
        struct str rest = {text, held + (size_t)len}, row;
        while (str_find_char(rest, '\n') < rest.len && str_split(&rest, '\n', &row))
            note_row(row);
        held = rest.len < sizeof text ? rest.len : 0;
        if (held > 0)
            memmove(text, rest.ptr, held);
    }
}

/* The pid namespace of a process: of the same one in all processes of a jail. */
static ino_t namespace_of(pid_t pid)
{
    char path[64];
    struct stat st;
    (void)snprintf(path, sizeof path, "/proc/%d/ns/pid", pid);
    return stat(path, &st) == 0 ? st.st_ino : 0;
}

/* The descriptor comes first: then it is the process that is looked at which is killed. */
static void kill_holder(pid_t pid, ino_t namespace)
{
    AUTO_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd >= 0 && namespace_of(pid) == namespace)
        (void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
}

/* True: a process was killed. */
static bool check_jail(size_t index)
{
    const struct slot *slot = &warden.slots.ptr[index];
    ino_t namespace = namespace_of(slot->made.pid);
    size_t sum = 0;
    const struct holder *most = NULL;
    for (size_t i = 0; namespace != 0 && i < HOLDERS_MAX; i++) {
        const struct holder *holder = &holders[i];
        if (holder->namespace != namespace || holder->pid == slot->made.pid)
            continue;
        sum += holder->rows;
        if (most == NULL || holder->rows > most->rows)
            most = holder;
    }
    if (sum <= JAIL_LOCKS_MAX)
        return false;
    kill_holder(most->pid, namespace);
    wire_begin(&warden.out, WARDEN_KILLED_LOCKER, 0);
    wire_put_u32(&warden.out, (uint32_t)index + 1);
    warden_say(NULL, 0);
    return true;
}

static bool has_jails(void)
{
    bool has = false;
    for (size_t i = 0; i < warden.slots.len && !has; i++)
        has = warden.slots.ptr[i].state == OWNED;
    return has;
}

/* False: there are so few that no jail can have too many. */
static bool find_namespaces(void)
{
    size_t rows = 0;
    for (size_t i = 0; i < HOLDERS_MAX; i++)
        rows += holders[i].rows;
    for (size_t i = 0; rows > JAIL_LOCKS_MAX && i < HOLDERS_MAX; i++)
        if (holders[i].rows >= FEW)
            holders[i].namespace = namespace_of(holders[i].pid);
    return rows > JAIL_LOCKS_MAX;
}

void warden_tend_locks(void)
{
    int64_t now = clock_now_ns();
    bool killed = false;
    if (now < next_look_ns || !has_jails())
        return;
    read_locks();
    if (find_namespaces())
        for (size_t i = 0; i < warden.slots.len; i++)
            if (warden.slots.ptr[i].state == OWNED)
                killed |= check_jail(i);
    next_look_ns = clock_now_ns() + (killed ? LOOK_AGAIN_MS : LOOK_MS) * 1000000LL;
}

int warden_locks_wait_ms(int wait_ms)
{
    if (wait_ms == 0 || !has_jails())
        return wait_ms;
    int64_t left_ms = (next_look_ns - clock_now_ns()) / 1000000 + 1;
    left_ms = MAX(left_ms, (int64_t)1);
    return wait_ms < 0 || wait_ms > left_ms ? (int)left_ms : wait_ms;
}
