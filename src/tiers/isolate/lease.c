/* Leases: workers are made in advance, taken, followed while they run code, and given back. */

#include <fcntl.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/vec.h"
#include "io/loop.h"
#include "isolate/spawner/spawner.h"
#include "runtime/bridges.h"
#include "tiers/isolate/lease_internal.h"

enum {
    SLACK_MS = 1000,    /* the isolate's own deadline comes first */
    TAKEN_AT_ONCE = 64, /* events, before others on the loop have their turn */
};

/* A caller that waits for a worker. */
struct lease_request {
    struct lease_request *next;
    lease_taken *done;
    void *ctx;
    char tenant[];
};

/* --- Making workers --- */

static void ask_more(struct leases *leases)
{
    struct err err = {0};
    size_t waiting = 0;
    for (const struct lease_request *request = leases->waiting; request != NULL;
         request = request->next)
        waiting++;
    while (leases->spawner != NULL && leases->ready.len + leases->asked < LEASES_READY + waiting) {
        if (spawner_ask(leases->spawner, &err) < 0) {
            log_warn("isolate.spawner", LOG_STR("error", err.msg));
            return;
        }
        leases->asked++;
    }
}

static void on_hand_ready(void *ctx, UNUSED int events)
{
    lease_pump(ctx);
}

static void on_hand_due(void *ctx)
{
    lease_pump(ctx);
}

static struct lease *lease_new(struct leases *leases, struct worker *worker, const char *tenant,
                               struct err *err)
{
    struct lease *lease = mem_alloc(sizeof *lease);
    lease->leases = leases;
    lease->worker = worker;
    lease->fd = fcntl(worker_fd(worker), F_DUPFD_CLOEXEC, 3);
    if (lease->fd < 0 ||
        watch_new(leases->host->loop, lease->fd, 0, on_hand_ready, lease, &lease->watch, err) < 0) {
        (void)err_set(err, ERR_UNAVAILABLE, "the worker process of an isolate cannot be watched");
        fd_close(&lease->fd);
        free(lease);
        return NULL;
    }
    lease->timer = timer_new(leases->host->loop, on_hand_due, lease);
    lease->tenant = mem_dup_cstr(tenant);
    return lease;
}

static void lease_free(struct lease *lease)
{
    if (lease->bridging != NULL)
        lease_drop_calls(lease);
    free(lease->bridging);
    (void)watch_free(lease->watch);
    fd_close(&lease->fd);
    (void)timer_free(lease->timer);
    (void)worker_free(lease->worker);
    free(lease->tenant);
    free(lease);
}

static struct lease_request *take_wish(struct leases *leases)
{
    struct lease_request *request = leases->waiting;
    if (request == NULL)
        return NULL;
    leases->waiting = request->next;
    if (leases->waiting == NULL)
        leases->last_wish = &leases->waiting;
    return request;
}

static void answer(struct lease_request *request, struct lease *lease, const struct err *why)
{
    request->done(request->ctx, lease, why);
    free(request);
}

static void grant(struct leases *leases, struct lease_request *request, struct worker *worker)
{
    struct err err = {0};
    struct lease *lease = lease_new(leases, worker, request->tenant, &err);
    if (lease == NULL)
        (void)worker_free(worker);
    answer(request, lease, lease == NULL ? &err : NULL);
}

static void refuse_wishes(struct leases *leases, const struct err *why)
{
    for (struct lease_request *request; (request = take_wish(leases)) != NULL;)
        answer(request, NULL, why);
}

static int start_spawner(struct leases *leases, struct err *err);

/* Workers end with their spawner; leases that run report it to their call-backs. */
static void spawner_gone(struct leases *leases, const struct err *why)
{
    struct err err = {0};
    leases->watch = watch_free(leases->watch);
    leases->spawner = spawner_free(leases->spawner);
    leases->asked = 0;
    while (leases->ready.len > 0)
        (void)worker_free(vec_pop(&leases->ready));
    refuse_wishes(leases, why);
    if (start_spawner(leases, &err) < 0)
        log_error("isolate.spawner", LOG_STR("error", err.msg));
    leases->calls.on_gone(leases->ctx, why);
}

static void on_spawner(void *ctx, UNUSED int events)
{
    struct leases *leases = ctx;
    for (;;) {
        struct worker *worker = NULL;
        struct err err = {0};
        int got = spawner_next(leases->spawner, &worker, &err);
        if (got == 0)
            break;
        if (got < 0 && err.code == ERR_UNAVAILABLE) {
            spawner_gone(leases, &err);
            return;
        }
        leases->asked -= leases->asked > 0;
        struct lease_request *request = take_wish(leases);
        if (got < 0 && request != NULL)
            answer(request, NULL, &err);
        else if (got > 0 && request != NULL)
            grant(leases, request, worker);
        else if (got > 0)
            *vec_push(&leases->ready) = worker;
    }
    ask_more(leases);
}

static int start_spawner(struct leases *leases, struct err *err)
{
    struct spawner_options options = {.bridges = bridge_set_names(leases->set),
                                      .program = leases->host->program};
    if (spawner_start(&options, &leases->spawner, err) < 0)
        return -1;
    if (watch_new(leases->host->loop, spawner_fd(leases->spawner), WATCH_READ, on_spawner, leases,
                  &leases->watch, err) < 0)
        return -1;
    ask_more(leases);
    return 0;
}

/* Idle ones end after a while: a tenant that comes back gets a fresh one. */
static void on_sweep(void *ctx)
{
    struct leases *leases = ctx;
    int64_t now = clock_now_ms();
    for (struct lease **at = &leases->idle; *at != NULL;) {
        struct lease *lease = *at;
        if (now - lease->idle_since_ms < LEASE_IDLE_MS && !worker_has_gone(lease->worker)) {
            at = &lease->next;
            continue;
        }
        *at = lease->next;
        leases->idle_count--;
        lease_free(lease);
    }
}

int leases_open(const struct provider_host *host, const struct leases_calls *calls, void *ctx,
                struct leases **ret_hands, struct err *err)
{
    struct leases *leases = mem_alloc(sizeof *leases);
    leases->host = host;
    leases->calls = *calls;
    leases->ctx = ctx;
    leases->last_wish = &leases->waiting;
    leases->sweep = timer_new(host->loop, on_sweep, leases);
    if (bridge_set_new(bridges, &leases->set, err) < 0 || start_spawner(leases, err) < 0) {
        leases_close(leases);
        return -1;
    }
    timer_set(leases->sweep, LEASE_IDLE_MS, LEASE_IDLE_MS);
    *ret_hands = leases;
    return 0;
}

struct pool_figures leases_pool(const struct leases *leases)
{
    return (struct pool_figures){leases->ready.len, leases->asked, LEASES_READY, leases->served,
                                 leases->built};
}

void leases_close(struct leases *leases)
{
    struct err err = {0};
    (void)err_set(&err, ERR_CANCELED, "the server is stopping");
    refuse_wishes(leases, &err);
    while (leases->idle != NULL) {
        struct lease *lease = leases->idle;
        leases->idle = lease->next;
        lease_free(lease);
    }
    while (leases->ready.len > 0)
        (void)worker_free(vec_pop(&leases->ready));
    vec_done(&leases->ready);
    (void)watch_free(leases->watch);
    (void)spawner_free(leases->spawner);
    (void)bridge_set_free(leases->set);
    (void)timer_free(leases->sweep);
    free(leases);
}

/* --- Taking and giving --- */

static struct lease *take_idle(struct leases *leases, struct str tenant)
{
    for (struct lease **at = &leases->idle; *at != NULL; at = &(*at)->next) {
        struct lease *lease = *at;
        if (!str_eq(str_of(lease->tenant), tenant))
            continue;
        *at = lease->next;
        leases->idle_count--;
        if (!worker_has_gone(lease->worker))
            return lease;
        lease_free(lease);
        return take_idle(leases, tenant);
    }
    return NULL;
}

void lease_take(struct leases *leases, struct str tenant, bool fresh, lease_taken *done, void *ctx)
{
    struct lease *lease = fresh ? NULL : take_idle(leases, tenant);
    struct err err = {0};
    if (lease != NULL) {
        done(ctx, lease, NULL);
        return;
    }
    if (leases->spawner == NULL && start_spawner(leases, &err) < 0) {
        done(ctx, NULL, &err);
        return;
    }
    struct lease_request *request = mem_alloc(sizeof *request + tenant.len + 1);
    memcpy(request->tenant, tenant.ptr, tenant.len);
    request->done = done;
    request->ctx = ctx;
    while (leases->ready.len > 0) {
        struct worker *worker = vec_pop(&leases->ready);
        if (!worker_has_gone(worker)) {
            leases->served++;
            grant(leases, request, worker);
            ask_more(leases);
            return;
        }
        (void)worker_free(worker);
    }
    leases->built++;
    *leases->last_wish = request;
    leases->last_wish = &request->next;
    ask_more(leases);
}

/* The lease has ended and no function holds it: its worker is kept for the tenant, or ends. */
static void lease_done(struct lease *lease)
{
    struct leases *leases = lease->leases;
    watch_set(lease->watch, 0);
    timer_clear(lease->timer);
    if (!lease->wants_reuse || worker_is_dead(lease->worker) || worker_is_busy(lease->worker) ||
        worker_runs(lease->worker) >= LEASE_RUNS_MAX || leases->idle_count >= LEASES_IDLE_MAX) {
        lease_free(lease);
        return;
    }
    lease->hold = (struct hold){0}; /* it is taken again as a new lease */
    lease->idle_since_ms = clock_now_ms();
    lease->next = leases->idle;
    leases->idle = lease;
    leases->idle_count++;
}

void lease_give(struct lease *lease, bool reuse)
{
    if (lease->bridging != NULL)
        lease_drop_calls(lease);
    lease->is_following = false;
    lease->wants_reuse = reuse;
    if (hold_end(&lease->hold))
        lease_done(lease);
}

struct worker *lease_worker(const struct lease *lease)
{
    return lease->worker;
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
    if (lease->bridging != NULL)
        lease_drop_calls(lease);
    watch_set(lease->watch, 0);
    timer_clear(lease->timer);
    lease->ended(lease->ctx, event);
}

/* A console reports lines; the call-backs take text with its line end, as from an interpreter. */
static void put_line(struct lease *lease, enum isolate_stream stream, struct str line)
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
        put_line(lease, event->stream, event->text);
        break;
    case WORKER_BRIDGE:
        lease_on_bridge(lease, event);
        break;
    case WORKER_CANCEL:
        lease_on_cancel(lease, event->call);
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
    if (lease->hold.count > 0 || !lease->is_following)
        return;
    hold_take(&lease->hold);
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
    if (hold_release(&lease->hold))
        lease_done(lease);
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
    if (lease->hold.count == 0)
        wait_on(lease);
}
