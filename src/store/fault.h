#pragma once

/* Every file call of the store goes past here, so that tests can count and fail them.
 *
 * In builds with -Dfaults=true the n-th call fails, only it or with all that follow, with an errno
 * of the test's choice; SG_STORE_FAIL_AT, SG_STORE_FAIL_ERRNO and SG_STORE_FAIL_ALL=1 say the same
 * from outside, SG_STORE_SYNC_MS makes every sync slow. Other builds do not contain it. */

#include "base/base.h"

#ifdef SG_FAULTS
/* Counts from here on; 0 never fails. */
void store_fault_at(int64_t nth, int code, bool and_all_later);
int64_t store_fault_count(void); /* calls since then */
/* True when this call must fail; errno is set then. */
bool store_fault_now(void);
void store_fault_slow_sync(void);
#define STORE_IO(call) (store_fault_now() ? (__typeof__(call))-1 : (call))
#else
#define STORE_IO(call) (call)
#define store_fault_slow_sync() ((void)0)
#endif
