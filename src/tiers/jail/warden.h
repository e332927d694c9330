#pragma once

/* The connection to the warden: what was asked of it, and plans of jails. */

#include "engine/provider.h"
#include "jail/client/jail.h"

struct warden_request;
struct runtime;

/* `event` is NULL if `why` is set: the request failed, or the warden has exited. */
typedef void warden_request_event(struct warden_request *request, const struct warden_event *event,
                                  const struct err *why);

/* Something asked of the warden. */
struct warden_request {
    struct warden_request *next;
    uint32_t number; /* of a warden_ask_* or jail_ask_* */
    warden_request_event *on_event;
    image_done *image_done;
    engine_done *plain_done;
    void *ctx;
};

/* A jail was asked for. */
void tier_warden_used(struct provider *provider);
void tier_warden_counts(struct provider *provider, struct pool_figures *ret_figures);
int tier_warden_start(struct provider *provider, struct err *err);
void tier_warden_stop(struct provider *provider);
/* Logs which of [jail] python_packages the host lacks. */
void tier_packages_warn(const struct provider *provider);
/* Interpreters are forked from a zygote as soon as it is ready; has_zygote. */
void tier_zygote_want(struct provider *provider, const struct runtime *runtime);
/* The same for sandboxes with packages of their own that the zygote has imported, too. */
void tier_plain_zygote_want(struct provider *provider, const struct runtime *runtime);
/* Remembers what was asked until it is answered. */
struct warden_request *tier_warden_asked(struct provider *provider, uint32_t number,
                                         warden_request_event *on_event, void *ctx);
/* What a jail is that asks for nothing else: the pool's. */
void tier_pool_plan(const struct provider *provider, struct jail_plan *plan);
void tier_fill_plan(const struct provider *provider, const struct sandbox_limits *limits,
                    struct jail_plan *plan);
