#include "jail/wire/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/defended.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/sys.h"

static bool has_cap(unsigned cap)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    if (syscall(SYS_capget, &head, data) < 0)
        return false;
    return (data[cap / 32].effective >> (cap % 32) & 1) != 0;
}

/* Whether this process can give away ids of the machine: it needs the capabilities, and they must
 * be over the first namespace, where every id is mapped. */
static bool owns_all_ids(void)
{
    AUTO_CLOSE int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
    char text[128] = {0};
    if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
        return false;
    unsigned inner, outer, count;
    if (sscanf(text, "%u %u %u", &inner, &outer, &count) != 3)
        return false;
    return inner == 0 && outer == 0 && count == 4294967295u && has_cap(CAP_SETUID) &&
           has_cap(CAP_SETGID) && has_cap(CAP_SYS_ADMIN) && has_cap(CAP_CHOWN);
}

/* An abstract socket name can be bound once in a network namespace and is free again when its
 * holder is gone, however it went. */
static int lock_block(uint32_t block, struct err *err)
{
    AUTO_CLOSE int fd = SYS(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return err_sys(err, errno, "socket");
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int len = snprintf(addr.sun_path + 1, sizeof addr.sun_path - 1, "sandglass-ids-%u", block);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
    if (bind(fd, (struct sockaddr *)&addr, size) < 0)
        return err_sys(err, errno, "take a block of ids");
    return fd_take(&fd);
}

static int take_block(struct ids *ids, struct err *err)
{
    uint32_t start;
    id_random(&start, sizeof start);
    for (uint32_t i = 0; i < IDS_BLOCKS; i++) {
        uint32_t block = (start + i) % IDS_BLOCKS;
        ids->lock_fd = lock_block(block, err);
        if (ids->lock_fd < 0 && err->sys != EADDRINUSE)
            return -1;
        if (ids->lock_fd < 0)
            continue;
        ids->first = IDS_FIRST + block * IDS_PER_BLOCK;
        ids->used = mem_alloc(IDS_PER_BLOCK / 8);
        return 0;
    }
    return err_set(err, ERR_LIMIT, "all %d blocks of sandbox ids are taken", IDS_BLOCKS);
}

int ids_init(struct ids *ids, struct err *err)
{
    *ids = (struct ids){.lock_fd = -1, .privileged = owns_all_ids()};
    return ids->privileged ? take_block(ids, err) : 0;
}

void ids_done(struct ids *ids)
{
    fd_close(&ids->lock_fd);
    free(ids->used);
    *ids = (struct ids){.lock_fd = -1};
}

int ids_take(struct ids *ids, uint32_t *ret_id, struct err *err)
{
    if (!ids->privileged) {
        *ret_id = 0; /* the caller, who is root of the warden's namespace */
        return 0;
    }
    for (uint32_t i = 0; i < IDS_PER_BLOCK; i++) {
        uint32_t n = (ids->next + i) % IDS_PER_BLOCK;
        if ((ids->used[n / 8] >> (n % 8) & 1) != 0)
            continue;
        ids->used[n / 8] = (uint8_t)(ids->used[n / 8] | 1u << (n % 8));
        /* Going round before reuse keeps an id of a jail that just ended away from the next. */
        ids->next = n + 1;
        *ret_id = ids->first + n;
        return 0;
    }
    return err_set(err, ERR_LIMIT, "all %d sandbox ids are in use", IDS_PER_BLOCK);
}

void ids_give_back(struct ids *ids, uint32_t id)
{
    if (!ids->privileged)
        return;
    uint32_t n = id - ids->first;
    assert(n < IDS_PER_BLOCK);
    ids->used[n / 8] = (uint8_t)(ids->used[n / 8] & ~(1u << (n % 8)));
}

static int write_proc(const char *who, const char *name, const char *text, struct err *err)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%s/%s", who, name);
    AUTO_CLOSE int fd = SYS(openat(AT_FDCWD, path, O_WRONLY | O_CLOEXEC));
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", path);
    if (SYS(write(fd, text, strlen(text))) < 0)
        return err_sys(err, errno, "write '%s'", path);
    return 0;
}

static int write_maps(const char *who, uint32_t inner, uint32_t outer_uid, uint32_t outer_gid,
                      struct err *err)
{
    char map[64];
    if (DEFENDED(GROUPS) && write_proc(who, "setgroups", "deny", err) < 0)
        return -1;
    (void)snprintf(map, sizeof map, "%u %u 1\n", inner, outer_uid);
    if (write_proc(who, "uid_map", map, err) < 0)
        return -1;
    (void)snprintf(map, sizeof map, "%u %u 1\n", inner, outer_gid);
    return write_proc(who, "gid_map", map, err);
}

int ids_write_maps(pid_t pid, uint32_t inner, uint32_t outer, struct err *err)
{
    char who[16];
    (void)snprintf(who, sizeof who, "%d", (int)pid);
    return write_maps(who, inner, outer, outer, err);
}

int ids_map_self(uint32_t inner, uint32_t outer, struct err *err)
{
    return write_maps("self", inner, outer, outer, err);
}

int ids_enter_own_namespace(struct err *err)
{
    uint32_t uid = geteuid(), gid = getegid();
    if (SYS(unshare(CLONE_NEWUSER)) < 0)
        return err_sys(err, errno,
                       "user namespaces are not available to this user (see "
                       "kernel.unprivileged_userns_clone, user.max_user_namespaces or AppArmor)");
    return write_maps("self", 0, uid, gid, err);
}
