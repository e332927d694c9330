#pragma once

/* System calls that a test can make fail.
 *
 * In builds with -Dfaults=true, SG_FAIL_AT=n makes the n-th call through SYS() fail with EIO (or
 * SG_FAIL_ERRNO); a loop over n walks every error path. Other builds carry nothing of it. */

#include <unistd.h>

#include "base/base.h"

#ifdef SG_FAULTS
/* True when this call is the one to fail; sets errno. */
bool sys_fails_now(void);
/* Counts from here on; 0 never fails. Gives the number of calls since the last start. */
int64_t sys_fail_at(int64_t nth);
/* What it fails with from here on. */
void sys_fail_errno(int code);
/* From here on every second sys_write and sys_pwrite is interrupted (EINTR), and the others take
 * `most` bytes and no more; 0: as the kernel does. For all threads. Gives how many were made
 * so since the last time. */
unsigned sys_short_writes(size_t most);
ssize_t sys_write(int fd, const void *bytes, size_t len);
ssize_t sys_pwrite(int fd, const void *bytes, size_t len, off_t offset);
#define SYS(call) (sys_fails_now() ? (__typeof__(call))-1 : (call))
/* A place between two steps. The process kills itself there when SG_CRASH_AT holds this name. */
#define CRASH_POINT(name) sys_crash_point(name)
void sys_crash_point(const char *name);
/* Overrides the environment; NULL: nowhere. */
void sys_crash_at(const char *name);
#else
#define SYS(call) (call)
#define sys_write write
#define sys_pwrite pwrite
#define CRASH_POINT(name) ((void)0)
#endif
