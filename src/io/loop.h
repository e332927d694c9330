#pragma once

/* The one thread that owns the product's state waits here for timers, descriptors, signals and
 * messages from other threads (libuv, included only in loop.c).
 *
 * Everything but loop_post belongs to the thread that opened the loop; the functions assert it.
 * Call-backs run on that thread, one at a time, and may free any timer, watch or signal, their own
 * included. What is still open when the loop is freed is closed by it. */

#include "base/base.h"

struct err;
struct loop;
struct timer;
struct watch;

int loop_open(struct loop **ret_loop, struct err *err) MUST_USE;
/* Runs tasks posted before, then lets go of everything. Not from inside a call-back. */
struct loop *loop_free(struct loop *loop);
DEFINE_FREEP(loop)
#define AUTO_LOOP AUTO(loop_freep)

/* Aborts when called on another thread. */
void loop_assert(const struct loop *loop);

/* Returns after loop_stop, or when no timer, watch or signal is left. */
void loop_run(struct loop *loop);
/* Handles what is ready now, without waiting. False when nothing is left to wait for. */
bool loop_step(struct loop *loop);
void loop_stop(struct loop *loop);

/* A call to be made on the loop's thread. Lives inside the caller's own struct, so that posting
 * needs no memory and cannot fail; it may be posted again once `run` was called. */
struct loop_task {
    void (*run)(struct loop_task *task);
    struct loop_task *next;
};
/* From any thread. Tasks run in the order in which they were posted. */
void loop_post(struct loop *loop, struct loop_task *task);
/* Runs what was posted so far, for callers that wait for it outside loop_run. */
void loop_run_posted(struct loop *loop);
/* Between the two loop_run waits for tasks to come, though nothing else be left. */
void loop_hold(struct loop *loop);
void loop_release(struct loop *loop);

/* Timers count on the monotonic clock. */
struct timer *timer_new(struct loop *loop, void (*call)(void *ctx), void *ctx) MUST_USE;
struct timer *timer_free(struct timer *timer);
/* Calls once after `delay_ms`, then every `repeat_ms` (0: never again). Replaces what was set. */
void timer_set(struct timer *timer, int64_t delay_ms, int64_t repeat_ms);
void timer_clear(struct timer *timer);
bool timer_is_set(const struct timer *timer);

/* A descriptor in its two directions. WATCH_HANGUP comes unasked, together with WATCH_READ. */
enum { WATCH_READ = 1, WATCH_WRITE = 2, WATCH_HANGUP = 4 };

/* Borrows `fd`, which becomes non-blocking and must stay open until watch_free. Level-triggered.
 * Also right for a pidfd, which is readable once its process has ended. */
int watch_new(struct loop *loop, int fd, int events, void (*call)(void *ctx, int events), void *ctx,
              struct watch **ret_watch, struct err *err) MUST_USE;
struct watch *watch_free(struct watch *watch);
/* Other events from now on; 0 pauses. */
void watch_set(struct watch *watch, int events);

/* Takes the signal away from its default action until the loop ends. */
struct signal_watch;
int signal_watch_new(struct loop *loop, int signo, void (*call)(void *ctx, int signo), void *ctx,
                     struct signal_watch **ret_watch, struct err *err) MUST_USE;
