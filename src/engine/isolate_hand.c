#include "engine/isolate_hand.h"

#include <fcntl.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/map.h"
#include "base/vec.h"
#include "io/loop.h"
#include "isolate/nursery.h"
#include "runtime/bridges.h"

enum {
    CALLS_MAX = 64,     /* bridge calls of one worker under way */
    SLACK_MS = 1000,    /* the isolate's own deadline comes first */
    TAKEN_AT_ONCE = 64, /* events, before others on the loop have their turn */
};

struct bridging {
    struct hand *hand;
    struct bridge_call *call; /* NULL: free */
    uint64_t id;
};

struct hand {
    struct hand *next; /* among the idle ones */
    struct hands *hands;
    struct worker *worker;
    int fd; /* a copy of the worker's: it must outlive the watch, the worker may not */
    struct watch *watch;
    struct timer *timer;
    char *tenant;
    int64_t idle_since_ms;
    bool is_following, is_pumping, is_given, wants_reuse;
    struct eval_calls output;
    void *output_ctx;
    struct services *services;
    int64_t deadline_ms;
    hand_ended *ended;
    void *ctx;
    struct bridging *bridging; /* CALLS_MAX; NULL until the first call */
};

struct wish {
    struct wish *next;
    char *tenant;
    hand_taken *done;
    void *ctx;
};

struct hands {
    const struct provider_host *host;
    struct hands_calls calls;
    void *ctx;
    struct bridge_set *set;
    struct nursery *nursery;
    struct watch *watch;
    VEC(struct worker *) ready;
    size_t asked;
    uint64_t served, built; /* handed out ready, and after somebody had to wait for it */
    struct hand *idle;
    size_t idle_count;
    struct wish *wishes, **last_wish;
    struct timer *sweep;
};

static void pump(struct hand *hand);

/* --- Making workers --- */

static void ask_more(struct hands *hands)
{
    struct err err = {0};
    size_t wishes = 0;
    for (const struct wish *wish = hands->wishes; wish != NULL; wish = wish->next)
        wishes++;
    while (hands->nursery != NULL && hands->ready.len + hands->asked < HANDS_READY + wishes) {
        if (nursery_ask(hands->nursery, &err) < 0) {
            log_warn("isolate.nursery", LOG_STR("error", err.msg));
            return;
        }
        hands->asked++;
    }
}

static void on_hand_ready(void *ctx, UNUSED int events)
{
    pump(ctx);
}

static void on_hand_due(void *ctx)
{
    pump(ctx);
}

static struct hand *hand_new(struct hands *hands, struct worker *worker, const char *tenant,
                             struct err *err)
{
    struct hand *hand = mem_alloc(sizeof *hand);
    hand->hands = hands;
    hand->worker = worker;
    hand->fd = fcntl(worker_fd(worker), F_DUPFD_CLOEXEC, 3);
    if (hand->fd < 0 ||
        watch_new(hands->host->loop, hand->fd, 0, on_hand_ready, hand, &hand->watch, err) < 0) {
        (void)err_set(err, ERR_UNAVAILABLE, "the worker of an isolate cannot be watched");
        fd_close(&hand->fd);
        free(hand);
        return NULL;
    }
    hand->timer = timer_new(hands->host->loop, on_hand_due, hand);
    hand->tenant = mem_dup_cstr(tenant);
    return hand;
}

static void drop_bridging(struct hand *hand)
{
    for (size_t i = 0; hand->bridging != NULL && i < CALLS_MAX; i++)
        if (hand->bridging[i].call != NULL)
            hand->bridging[i].call = bridge_call_free(hand->bridging[i].call);
}

static void hand_free(struct hand *hand)
{
    drop_bridging(hand);
    free(hand->bridging);
    (void)watch_free(hand->watch);
    fd_close(&hand->fd);
    (void)timer_free(hand->timer);
    (void)worker_free(hand->worker);
    free(hand->tenant);
    free(hand);
}

static struct wish *take_wish(struct hands *hands)
{
    struct wish *wish = hands->wishes;
    if (wish == NULL)
        return NULL;
    hands->wishes = wish->next;
    if (hands->wishes == NULL)
        hands->last_wish = &hands->wishes;
    return wish;
}

static void fulfil(struct hands *hands, struct wish *wish, struct worker *worker)
{
    struct err err = {0};
    struct hand *hand = hand_new(hands, worker, wish->tenant, &err);
    if (hand == NULL)
        (void)worker_free(worker);
    wish->done(wish->ctx, hand, hand == NULL ? &err : NULL);
    free(wish->tenant);
    free(wish);
}

static void refuse_wishes(struct hands *hands, const struct err *why)
{
    for (struct wish *wish; (wish = take_wish(hands)) != NULL;) {
        wish->done(wish->ctx, NULL, why);
        free(wish->tenant);
        free(wish);
    }
}

static int start_nursery(struct hands *hands, struct err *err);

/* Workers end with their nursery; those that run tell it to whoever follows them. */
static void nursery_gone(struct hands *hands, const struct err *why)
{
    struct err err = {0};
    hands->watch = watch_free(hands->watch);
    hands->nursery = nursery_free(hands->nursery);
    hands->asked = 0;
    while (hands->ready.len > 0)
        (void)worker_free(vec_pop(&hands->ready));
    refuse_wishes(hands, why);
    if (start_nursery(hands, &err) < 0)
        log_error("isolate.nursery", LOG_STR("error", err.msg));
    hands->calls.on_gone(hands->ctx, why);
}

static void on_nursery(void *ctx, UNUSED int events)
{
    struct hands *hands = ctx;
    for (;;) {
        struct worker *worker = NULL;
        struct err err = {0};
        int got = nursery_next(hands->nursery, &worker, &err);
        if (got == 0)
            break;
        if (got < 0 && err.code == ERR_UNAVAILABLE) {
            nursery_gone(hands, &err);
            return;
        }
        hands->asked -= hands->asked > 0;
        struct wish *wish = take_wish(hands);
        if (got < 0 && wish != NULL) {
            wish->done(wish->ctx, NULL, &err);
            free(wish->tenant);
            free(wish);
        } else if (got > 0 && wish != NULL) {
            fulfil(hands, wish, worker);
        } else if (got > 0) {
            *vec_push(&hands->ready) = worker;
        }
    }
    ask_more(hands);
}

static int start_nursery(struct hands *hands, struct err *err)
{
    struct nursery_options options = {.bridges = bridge_set_names(hands->set),
                                      .program = hands->host->program};
    if (nursery_start(&options, &hands->nursery, err) < 0)
        return -1;
    if (watch_new(hands->host->loop, nursery_fd(hands->nursery), WATCH_READ, on_nursery, hands,
                  &hands->watch, err) < 0)
        return -1;
    ask_more(hands);
    return 0;
}

/* Idle ones end after a while: a tenant that comes back gets a fresh one. */
static void on_sweep(void *ctx)
{
    struct hands *hands = ctx;
    int64_t now = clock_now_ms();
    for (struct hand **at = &hands->idle; *at != NULL;) {
        struct hand *hand = *at;
        if (now - hand->idle_since_ms < HAND_IDLE_MS && !worker_has_gone(hand->worker)) {
            at = &hand->next;
            continue;
        }
        *at = hand->next;
        hands->idle_count--;
        hand_free(hand);
    }
}

int hands_open(const struct provider_host *host, const struct hands_calls *calls, void *ctx,
               struct hands **ret_hands, struct err *err)
{
    struct hands *hands = mem_alloc(sizeof *hands);
    hands->host = host;
    hands->calls = *calls;
    hands->ctx = ctx;
    hands->last_wish = &hands->wishes;
    hands->sweep = timer_new(host->loop, on_sweep, hands);
    if (bridge_set_new(bridges, &hands->set, err) < 0 || start_nursery(hands, err) < 0) {
        hands_close(hands);
        return -1;
    }
    timer_set(hands->sweep, HAND_IDLE_MS, HAND_IDLE_MS);
    *ret_hands = hands;
    return 0;
}

struct pool_figures hands_pool(const struct hands *hands)
{
    return (struct pool_figures){hands->ready.len, hands->asked, HANDS_READY, hands->served,
                                 hands->built};
}

void hands_close(struct hands *hands)
{
    struct err err = {0};
    (void)err_set(&err, ERR_CANCELED, "the server stops");
    refuse_wishes(hands, &err);
    while (hands->idle != NULL) {
        struct hand *hand = hands->idle;
        hands->idle = hand->next;
        hand_free(hand);
    }
    while (hands->ready.len > 0)
        (void)worker_free(vec_pop(&hands->ready));
    vec_done(&hands->ready);
    (void)watch_free(hands->watch);
    (void)nursery_free(hands->nursery);
    (void)bridge_set_free(hands->set);
    (void)timer_free(hands->sweep);
    free(hands);
}

/* --- Taking and giving --- */

static struct hand *take_idle(struct hands *hands, struct str tenant)
{
    for (struct hand **at = &hands->idle; *at != NULL; at = &(*at)->next) {
        struct hand *hand = *at;
        if (!str_eq(str_of(hand->tenant), tenant))
            continue;
        *at = hand->next;
        hands->idle_count--;
        if (!worker_has_gone(hand->worker))
            return hand;
        hand_free(hand);
        return take_idle(hands, tenant);
    }
    return NULL;
}

void hand_take(struct hands *hands, struct str tenant, bool fresh, hand_taken *done, void *ctx)
{
    struct hand *hand = fresh ? NULL : take_idle(hands, tenant);
    struct err err = {0};
    if (hand != NULL) {
        done(ctx, hand, NULL);
        return;
    }
    if (hands->nursery == NULL && start_nursery(hands, &err) < 0) {
        done(ctx, NULL, &err);
        return;
    }
    struct wish *wish = mem_alloc(sizeof *wish);
    wish->tenant = mem_alloc(tenant.len + 1);
    memcpy(wish->tenant, tenant.ptr, tenant.len);
    wish->done = done;
    wish->ctx = ctx;
    while (hands->ready.len > 0) {
        struct worker *worker = vec_pop(&hands->ready);
        if (!worker_has_gone(worker)) {
            hands->served++;
            fulfil(hands, wish, worker);
            ask_more(hands);
            return;
        }
        (void)worker_free(worker);
    }
    hands->built++;
    *hands->last_wish = wish;
    hands->last_wish = &wish->next;
    ask_more(hands);
}

void hand_give(struct hand *hand, bool reuse)
{
    struct hands *hands = hand->hands;
    drop_bridging(hand);
    hand->is_following = false;
    if (hand->is_pumping) {
        hand->is_given = true; /* the pump sees to it */
        hand->wants_reuse = reuse;
        return;
    }
    watch_set(hand->watch, 0);
    timer_clear(hand->timer);
    if (!reuse || worker_is_dead(hand->worker) || worker_is_busy(hand->worker) ||
        worker_runs(hand->worker) >= HAND_RUNS_MAX || hands->idle_count >= HANDS_IDLE_MAX) {
        hand_free(hand);
        return;
    }
    hand->idle_since_ms = clock_now_ms();
    hand->next = hands->idle;
    hands->idle = hand;
    hands->idle_count++;
}

struct worker *hand_worker(const struct hand *hand)
{
    return hand->worker;
}

/* --- Bridges --- */

static void on_settled(void *ctx, bool is_ok, struct str json)
{
    struct bridging *bridging = ctx;
    struct err err = {0};
    if (worker_answer(bridging->hand->worker, bridging->id, is_ok, json, &err) < 0 &&
        err.code == ERR_TOO_LARGE)
        worker_answer_error(bridging->hand->worker, bridging->id, &err);
    bridging->call = bridge_call_free(bridging->call);
    pump(bridging->hand);
}

static int start_call(struct hand *hand, const struct worker_event *event, struct err *err)
{
    if (hand->services == NULL)
        return err_set(err, ERR_UNSUPPORTED, "not available here");
    if (hand->bridging == NULL)
        hand->bridging = mem_alloc(CALLS_MAX * sizeof *hand->bridging);
    struct bridging *bridging = hand->bridging;
    while (bridging < hand->bridging + CALLS_MAX && bridging->call != NULL)
        bridging++;
    if (bridging == hand->bridging + CALLS_MAX)
        return err_set(err, ERR_LIMIT, "too many calls at once: await some first");
    *bridging = (struct bridging){.hand = hand, .id = event->call};
    return bridge_call_start(hand->hands->set, hand->hands->host->loop, hand->services, event->name,
                             event->text, hand->deadline_ms - clock_now_ms(), on_settled, bridging,
                             &bridging->call, err);
}

static void on_bridge(struct hand *hand, const struct worker_event *event)
{
    struct err why = {0}, err = {0};
    if (start_call(hand, event, &why) < 0)
        (void)!worker_refuse(hand->worker, event->call, why.msg, &err);
}

/* The code does not wait for it any more. */
static void on_cancel(struct hand *hand, uint64_t id)
{
    for (size_t i = 0; hand->bridging != NULL && i < CALLS_MAX; i++)
        if (hand->bridging[i].call != NULL && hand->bridging[i].id == id)
            hand->bridging[i].call = bridge_call_free(hand->bridging[i].call);
}

/* --- Following --- */

static void wait_on(struct hand *hand)
{
    int64_t due = worker_due_ms(hand->worker);
    if (worker_fd(hand->worker) >= 0)
        watch_set(hand->watch, WATCH_READ | (worker_writes(hand->worker) ? WATCH_WRITE : 0));
    if (due >= 0)
        timer_set(hand->timer, MAX(due - clock_now_ms(), (int64_t)0) + 1, 0);
}

static void over(struct hand *hand, struct worker_event *event)
{
    hand->is_following = false;
    drop_bridging(hand);
    watch_set(hand->watch, 0);
    timer_clear(hand->timer);
    hand->ended(hand->ctx, event);
}

static void take_event(struct hand *hand, struct worker_event *event)
{
    switch (event->type) {
    case WORKER_WAITS:
        break;
    case WORKER_CONSOLE:
        if (hand->output.on_output != NULL)
            hand->output.on_output(hand->output_ctx, event->stream, event->text);
        break;
    case WORKER_BRIDGE:
        on_bridge(hand, event);
        break;
    case WORKER_CANCEL:
        on_cancel(hand, event->call);
        break;
    case WORKER_DONE:
    case WORKER_NUMBER:
    case WORKER_BYTES:
    case WORKER_FAILED:
        over(hand, event);
        break;
    }
}

/* Whoever hears of an event may give the hand back: then it is let go of when all is done. */
static void pump(struct hand *hand)
{
    if (hand->is_pumping || !hand->is_following)
        return;
    hand->is_pumping = true;
    for (size_t taken = 0; hand->is_following; taken++) {
        struct worker_event event = {0};
        if (taken < TAKEN_AT_ONCE)
            worker_next(hand->worker, &event);
        if (taken == TAKEN_AT_ONCE || event.type == WORKER_WAITS) {
            wait_on(hand);
            if (taken == TAKEN_AT_ONCE) /* what it has read already shows on no descriptor */
                timer_set(hand->timer, 0, 0);
            break;
        }
        take_event(hand, &event);
    }
    hand->is_pumping = false;
    if (hand->is_given) {
        hand->is_given = false;
        hand_give(hand, hand->wants_reuse);
    }
}

void hand_follow(struct hand *hand, const struct eval_calls *output, void *output_ctx,
                 struct services *services, int64_t timeout_ms, hand_ended *ended, void *ctx)
{
    hand->output = output == NULL ? (struct eval_calls){0} : *output;
    hand->output_ctx = output_ctx;
    hand->services = services;
    hand->deadline_ms = clock_now_ms() + timeout_ms + SLACK_MS;
    hand->ended = ended;
    hand->ctx = ctx;
    hand->is_following = true;
    /* What was begun is on its way; the first word is worth waiting for on the loop. */
    if (!hand->is_pumping)
        wait_on(hand);
}
