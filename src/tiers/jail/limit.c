/* Other limits of a living place: memory and cpu by the warden, then the size of its disk. The
 * disk comes last because an image that has grown cannot shrink again. */

#include "base/err.h"
#include "base/log.h"
#include "base/map.h"
#include "jail/client/jail_fork.h"
#include "tiers/jail/layers/disk.h"
#include "tiers/jail/place.h"
#include "tiers/jail/provider_jail.h"
#include "tiers/jail/warden.h"

struct limiting {
    struct provider *provider;
    char *sandbox;             /* id: its place may be gone when the answer comes */
    struct jail_limits before; /* that hold again when it fails */
    int64_t disk_bytes;        /* 0: stays */
    bool is_asked;             /* the warden has set other limits of memory and cpu */
    struct err why;            /* the answer, while the limits before are set again */
    engine_done *done;
    void *ctx;
};

static struct place *find_place(const struct limiting *limiting)
{
    for (struct place *place = limiting->provider->places; place != NULL; place = place->next)
        if (str_eq(str_of(place->id), str_of(limiting->sandbox)))
            return place->is_gone ? NULL : place;
    return NULL;
}

static void limit_finish(struct limiting *limiting, const struct err *why)
{
    struct place *place = find_place(limiting);
    if (place != NULL && why != NULL)
        place->plan.limits = limiting->before;
    limiting->done(limiting->ctx, why);
    free(limiting->sandbox);
    free(limiting);
}

static void on_restored(struct warden_request *request, UNUSED const struct warden_event *event,
                        const struct err *why)
{
    struct limiting *limiting = request->ctx;
    struct err first = limiting->why;
    if (why != NULL)
        log_warn("jail.limit", LOG_STR("sandbox", limiting->sandbox), LOG_STR("error", why->msg));
    limit_finish(limiting, &first);
}

/* The answer is given when the limits before hold again. */
static void restore(struct limiting *limiting, struct place *place, const struct err *why)
{
    struct err err = {0};
    uint32_t number = 0;
    limiting->why = *why;
    if (limiting->provider->warden != NULL &&
        jail_ask_limits(place->jail, &limiting->before, &number, &err) == 0)
        (void)tier_warden_asked(limiting->provider, number, on_restored, limiting);
    else
        limit_finish(limiting, why);
}

static void on_resized(void *ctx, const struct err *why)
{
    struct limiting *limiting = ctx;
    struct place *place = find_place(limiting);
    struct err err = {0};
    if (why == NULL) {
        if (place != NULL)
            place->plan.limits.disk_bytes = limiting->disk_bytes;
        limit_finish(limiting, NULL);
        return;
    }
    err = *why;
    if (why->code == ERR_UNSUPPORTED)
        (void)err_set(&err, ERR_UNSUPPORTED,
                      "the disk cannot be resized: %s; or create a sandbox from a snapshot of "
                      "this one with another limits.diskMb",
                      why->msg);
    if (place != NULL && limiting->is_asked)
        restore(limiting, place, &err);
    else
        limit_finish(limiting, &err);
}

static void resize(struct limiting *limiting)
{
    struct place *place = find_place(limiting);
    struct err err = {0};
    if (place == NULL) {
        (void)err_set(&err, ERR_GONE, "the sandbox ended");
        limit_finish(limiting, &err);
        return;
    }
    if (place->disk[0] == '\0') {
        (void)err_set(&err, ERR_UNSUPPORTED,
                      "the files of this sandbox are in memory, and their limit is set when the "
                      "sandbox is created");
        on_resized(limiting, &err);
        return;
    }
    tier_disk_resize(place, limiting->disk_bytes, on_resized, limiting);
}

static void on_limited(struct warden_request *request, UNUSED const struct warden_event *event,
                       const struct err *why)
{
    struct limiting *limiting = request->ctx;
    limiting->is_asked = why == NULL;
    if (why != NULL || limiting->disk_bytes == 0)
        limit_finish(limiting, why);
    else
        resize(limiting);
}

void tier_limit(struct place *place, const struct sandbox_limits *limits, engine_done *done,
                void *ctx)
{
    struct err err = {0};
    struct jail_limits *now = &place->plan.limits, before = *now;
    bool has_disk = limits->disk_bytes != now->disk_bytes;
    uint32_t number = 0;
    if (place->is_gone || place->provider->warden == NULL) {
        (void)err_set(&err, ERR_GONE, "the sandbox ended");
        done(ctx, &err);
        return;
    }
    struct limiting *limiting = mem_alloc(sizeof *limiting);
    *limiting = (struct limiting){.provider = place->provider,
                                  .sandbox = place_copy_id(place),
                                  .before = before,
                                  .disk_bytes = has_disk ? limits->disk_bytes : 0,
                                  .done = done,
                                  .ctx = ctx};
    if (has_disk && limits->memory_bytes == now->memory_bytes &&
        limits->cpu_milli == now->cpu_milli) {
        resize(limiting);
        return;
    }
    now->memory_bytes = limits->memory_bytes;
    now->cpu_milli = limits->cpu_milli;
    if (jail_ask_limits(place->jail, now, &number, &err) < 0)
        limit_finish(limiting, &err);
    else
        (void)tier_warden_asked(place->provider, number, on_limited, limiting);
}
