#include "store/fault.h"

#ifdef SG_FAULTS
#include <errno.h>
#include <stdatomic.h>

#include "base/str.h"

static atomic_llong calls, failing = -1; /* -1: not read from the environment yet */
static atomic_int fail_errno = EIO;
static atomic_bool fail_all;

static int64_t number_of(const char *variable, int64_t fallback)
{
    int64_t n = fallback;
    const char *text = getenv(variable);
    if (text == NULL || !str_to_i64(str_of(text), 0, INT32_MAX, &n))
        return fallback;
    return n;
}

static void read_environment(void)
{
    store_fault_at(number_of("SG_STORE_FAIL_AT", 0), (int)number_of("SG_STORE_FAIL_ERRNO", EIO),
                   number_of("SG_STORE_FAIL_ALL", 0) == 1);
}

void store_fault_at(int64_t nth, int code, bool and_all_later)
{
    atomic_store(&calls, 0);
    atomic_store(&fail_errno, code);
    atomic_store(&fail_all, and_all_later);
    atomic_store(&failing, nth);
}

int64_t store_fault_count(void)
{
    return atomic_load(&calls);
}

bool store_fault_now(void)
{
    if (atomic_load(&failing) < 0)
        read_environment();
    int64_t nth = atomic_load(&failing), now = atomic_fetch_add(&calls, 1) + 1;
    if (nth == 0 || (now != nth && !(atomic_load(&fail_all) && now > nth)))
        return false;
    errno = atomic_load(&fail_errno);
    return true;
}

void store_fault_slow_sync(void)
{
    int64_t ms = number_of("SG_STORE_SYNC_MS", 0);
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    if (ms > 0)
        (void)nanosleep(&pause, NULL);
}
#endif

/* ISO C wants at least one declaration in a file. */
typedef int store_fault_is_empty_without_faults;
