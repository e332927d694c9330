#include "base/sys.h"

#ifdef SG_FAULTS
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/str.h"

static int64_t calls;
static int64_t failing = -1; /* -1: not read from the environment yet */
static int64_t fail_errno = EIO;

static void read_environment(void)
{
    const char *nth = getenv("SG_FAIL_AT");
    const char *code = getenv("SG_FAIL_ERRNO");
    failing = 0;
    if (nth != NULL && !str_to_i64(str_of(nth), 1, INT64_MAX, &failing))
        failing = 0;
    if (code != NULL && !str_to_i64(str_of(code), 1, 4095, &fail_errno))
        fail_errno = EIO;
}

bool sys_fails_now(void)
{
    if (failing < 0)
        read_environment();
    if (++calls != failing)
        return false;
    errno = (int)fail_errno;
    return true;
}

int64_t sys_fail_at(int64_t nth)
{
    int64_t made = calls;
    calls = 0;
    failing = nth;
    return made;
}

void sys_fail_errno(int code)
{
    fail_errno = code;
}

static atomic_size_t write_most; /* 0: any */
static atomic_uint write_calls;

unsigned sys_short_writes(size_t most)
{
    atomic_store(&write_most, most);
    return atomic_exchange(&write_calls, 0);
}

/* False when this one is interrupted; else the bytes that it takes. */
static bool may_write(size_t *len)
{
    size_t most = atomic_load(&write_most);
    if (most == 0)
        return true;
    *len = MIN(*len, most);
    errno = EINTR;
    return atomic_fetch_add(&write_calls, 1) % 2 == 1;
}

ssize_t sys_write(int fd, const void *bytes, size_t len)
{
    return may_write(&len) ? write(fd, bytes, len) : -1;
}

ssize_t sys_pwrite(int fd, const void *bytes, size_t len, off_t offset)
{
    return may_write(&len) ? pwrite(fd, bytes, len, offset) : -1;
}

static const char *crash_at;
static bool crash_is_set;

void sys_crash_point(const char *name)
{
    if (!crash_is_set)
        sys_crash_at(getenv("SG_CRASH_AT"));
    if (crash_at != NULL && strcmp(crash_at, name) == 0)
        (void)kill(getpid(), SIGKILL);
}

void sys_crash_at(const char *name)
{
    crash_is_set = true;
    crash_at = name;
}
#endif

/* ISO C wants at least one declaration in a file. */
typedef int sys_is_empty_without_faults;
