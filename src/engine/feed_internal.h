#pragma once

/* The writing side of the feed of events. Only for engine/. */

#include "engine/feed.h"

struct store_batch;

/* As `tenant` of an event: all subscribers get it. No tenant has this name. */
#define EVERY_TENANT "\n"

/* Publishes an event: writes it to the batch and sends it to subscribers. */
void feed_publish(struct engine *engine, struct store_batch *batch, enum event_kind kind,
                  struct str tenant, struct str id, struct str sandbox, const char *state,
                  const char *detail);

/* Whether a reader follows the events of this sandbox. */
bool feed_is_followed(const struct engine *engine, struct str sandbox);
void feed_close(struct engine *engine);
