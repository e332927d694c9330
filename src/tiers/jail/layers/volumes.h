#pragma once

/* Volumes of the tier: work runs on the disk's thread, call-backs on the loop. */

#include "engine/provider.h"

typedef void attached_done(void *ctx, struct str path, const struct err *why);
void tier_volume_create(struct provider *provider, struct str id, int64_t capacity_bytes,
                        engine_done *done, void *ctx);
bool tier_volume_exists(struct provider *provider, struct str id);
void tier_volume_delete(struct provider *provider, struct str id, engine_done *done, void *ctx);
void tier_volume_attach(struct provider *provider, struct str id, attached_done *done, void *ctx);
void tier_volume_detach(struct provider *provider, struct str id, engine_done *done, void *ctx);
/* Deletes every volume that `volumes` does not name. */
void tier_volumes_reclaim(struct provider *provider, const struct map *volumes, engine_done *done,
                          void *ctx);
