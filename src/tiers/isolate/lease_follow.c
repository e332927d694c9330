/* What a leased worker says while it runs code: console lines, calls of bridges, its result. */

#include "base/clock.h"
#include "base/err.h"
#include "io/loop.h"
#include "runtime/bridges.h"
#include "tiers/isolate/lease_internal.h"

enum {
    CALLS_MAX = 64,     /* bridge calls of one worker under way */
    SLACK_MS = 1000,    /* the isolate's own deadline comes first */
    TAKEN_AT_ONCE = 64, /* events, before others on the loop have their turn */
};

void lease_drop_calls(struct lease *lease)
{
    for (size_t i = 0; lease->bridging != NULL && i < CALLS_MAX; i++)
        if (lease->bridging[i].call != NULL)
            lease->bridging[i].call = bridge_call_free(lease->bridging[i].call);
}

/* --- Bridges --- */

static void on_settled(void *ctx, bool is_ok, struct str json)
{
    struct bridging *bridging = ctx;
    struct err err = {0};
    if (worker_answer(bridging->lease->worker, bridging->id, is_ok, json, &err) < 0 &&
        err.code == ERR_TOO_LARGE)
        worker_answer_error(bridging->lease->worker, bridging->id, &err);
    bridging->call = bridge_call_free(bridging->call);
    lease_pump(bridging->lease);
}

static int start_call(struct lease *lease, const struct worker_event *event, struct err *err)
{
    if (lease->services == NULL)
        return err_set(err, ERR_UNSUPPORTED, "not available here");
    if (lease->bridging == NULL)
        lease->bridging = mem_alloc(CALLS_MAX * sizeof *lease->bridging);
    struct bridging *bridging = lease->bridging;
    while (bridging < lease->bridging + CALLS_MAX && bridging->call != NULL)
        bridging++;
    if (bridging == lease->bridging + CALLS_MAX)
        return err_set(err, ERR_LIMIT, "too many calls at once: await some first");
    *bridging = (struct bridging){.lease = lease, .id = event->call};
    return bridge_call_start(lease->leases->set, lease->leases->host->loop, lease->services,
                             event->name, event->text, lease->deadline_ms - clock_now_ms(),
                             on_settled, bridging, &bridging->call, err);
}

static void on_bridge(struct lease *lease, const struct worker_event *event)
{
    struct err why = {0}, err = {0};
    if (start_call(lease, event, &why) < 0)
        (void)!worker_refuse(lease->worker, event->call, why.msg, &err);
}

/* The code does not wait for it any more. */
static void on_cancel(struct lease *lease, uint64_t id)
{
    for (size_t i = 0; lease->bridging != NULL && i < CALLS_MAX; i++)
        if (lease->bridging[i].call != NULL && lease->bridging[i].id == id)
            lease->bridging[i].call = bridge_call_free(lease->bridging[i].call);
}

/* --- Following --- */

static void wait_on(struct lease *lease)
{
    int64_t due = worker_due_ms(lease->worker);
    if (worker_fd(lease->worker) >= 0)
        watch_set(lease->watch, WATCH_READ | (worker_writes(lease->worker) ? WATCH_WRITE : 0));
    if (due >= 0)
        timer_set(lease->timer, MAX(due - clock_now_ms(), (int64_t)0) + 1, 0);
}

static void over(struct lease *lease, struct worker_event *event)
{
    lease->is_following = false;
    lease_drop_calls(lease);
    watch_set(lease->watch, 0);
    timer_clear(lease->timer);
    lease->ended(lease->ctx, event);
}

/* A console reports lines; the call-backs take text with its line end, as from an interpreter. */
static void lease_follow_put_line(struct lease *lease, enum isolate_stream stream, struct str line)
{
    AUTO_BUF struct buf text = {0};
    if (lease->output.on_output == NULL)
        return;
    buf_put(&text, line);
    buf_put_char(&text, '\n');
    lease->output.on_output(lease->output_ctx, stream, buf_str(&text));
}

static void take_event(struct lease *lease, struct worker_event *event)
{
    switch (event->type) {
    case WORKER_WAITS:
        break;
    case WORKER_CONSOLE:
        lease_follow_put_line(lease, event->stream, event->text);
        break;
    case WORKER_BRIDGE:
        on_bridge(lease, event);
        break;
    case WORKER_CANCEL:
        on_cancel(lease, event->call);
        break;
    case WORKER_DONE:
    case WORKER_NUMBER:
    case WORKER_BYTES:
    case WORKER_FAILED:
        over(lease, event);
        break;
    }
}

void lease_pump(struct lease *lease)
{
    if (lease->is_pumping || !lease->is_following)
        return;
    lease->is_pumping = true;
    for (size_t taken = 0; lease->is_following; taken++) {
        struct worker_event event = {0};
        if (taken < TAKEN_AT_ONCE)
            worker_next(lease->worker, &event);
        if (taken == TAKEN_AT_ONCE || event.type == WORKER_WAITS) {
            wait_on(lease);
            if (taken == TAKEN_AT_ONCE) /* what it has read already shows on no descriptor */
                timer_set(lease->timer, 0, 0);
            break;
        }
        take_event(lease, &event);
    }
    lease->is_pumping = false;
    if (lease->is_given) {
        lease->is_given = false;
        lease_give(lease, lease->wants_reuse);
    }
}

void lease_follow(struct lease *lease, const struct eval_calls *output, void *output_ctx,
                  struct services *services, int64_t timeout_ms, lease_ended *ended, void *ctx)
{
    lease->output = output == NULL ? (struct eval_calls){0} : *output;
    lease->output_ctx = output_ctx;
    lease->services = services;
    lease->deadline_ms = clock_now_ms() + timeout_ms + SLACK_MS;
    lease->ended = ended;
    lease->ctx = ctx;
    lease->is_following = true;
    /* The request has been sent; the first event is waited for on the loop. */
    if (!lease->is_pumping)
        wait_on(lease);
}
