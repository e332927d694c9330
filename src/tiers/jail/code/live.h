#pragma once

/* Saved state of a place's interpreters. */

#include "engine/provider.h"

/* live.c: see provider.h */
void tier_live_take(struct place *place, const struct live_request *request, live_done *done,
                    void *ctx);
void tier_live_release(struct place *place);
struct live_interpreters *tier_live_ref(struct live_interpreters *live);
void tier_live_free(struct live_interpreters *live);
void tier_live_restore(struct place *place, struct live_interpreters *live, engine_done *done,
                       void *ctx);
/* live_keep.c: see provider.h */
struct live_interpreters *tier_live_keep(struct provider *provider,
                                         const struct live_interpreters *live, int64_t most_bytes);
struct live_size tier_live_size(const struct live_interpreters *live);
/* The warden has exited, and with it every zygote. */
void tier_live_forget_leases(struct provider *provider);
/* The provider is closing: detaches all kept states from it. */
void tier_live_close(struct provider *provider);
/* A new place: sets the saved state of its interpreters, then starts them from it. */
void tier_live_begin(struct place *place, struct live_interpreters *live);
void tier_live_revive(struct place *place, engine_done *done, void *ctx);
/* The place or its jail is ending: requests that wait for it get an error. */
void tier_live_end(struct place *place, const struct err *why);
