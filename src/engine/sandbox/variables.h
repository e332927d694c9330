#pragma once

/* Variables of interpreters that are kept in memory, for a dormant session and for rollback to a
 * checkpoint.
 *
 * Interpreters write their state themselves (provider.h, live_take); it lives no longer than this
 * process. [sandbox] keep_variables_mb bounds it for one session or sandbox,
 * keep_variables_total_mb for all together, which also have no more than a quarter of the server's
 * descriptors; what does not fit is dropped, the oldest of the tenant with the most first. An
 * interpreter that needed it then starts fresh, and the ledger records the loss (ledger.h). */

#include "engine/provider.h"

struct kept; /* by one session or one checkpoint; stays when its memory was dropped */
struct live_interpreters;
struct sandbox;
struct variables_figures;

/* The sandbox has interpreters with variables that could be kept. */
bool variables_are_wanted(const struct sandbox *sandbox);
/* The provider's live_take, for what could be kept of them. */
void variables_take(struct sandbox *sandbox, live_done *done, void *ctx);

/* Takes `live`, which may be NULL. `group` shares keep_variables_mb. NULL: there is nothing to
 * keep. */
struct kept *variables_keep(struct engine *engine, const struct sandbox *sandbox, struct str group,
                            struct live_interpreters *live);
/* A reference, to be freed by live_free; NULL when there is nothing, or not any more. */
struct live_interpreters *variables_use(const struct kept *kept);
struct kept *variables_free(struct kept *kept);

/* Drops all of a tier: the processes that could continue from them are gone. */
void variables_drop(struct engine *engine, enum engine_tier tier);

/* What is kept now. */
void variables_count(const struct engine *engine, struct variables_figures *figures);
