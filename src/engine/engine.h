#pragma once

/* The product's verbs. Every surface (HTTP, WebSocket, MCP, the CLI) is a translator of these.
 *
 * All of it belongs to the loop's thread. Requests are plain structs, borrowed only for the call.
 * The answer is given by the call-back `done`, exactly once for each call and never from within the
 * call itself: with the result and `why` NULL, or with `why` and nothing else. What a call-back is
 * handed is borrowed too, until it returns. Its `ctx` must live until then; only calls that give a
 * handle (readers, waiters) can be dropped, by freeing it.
 *
 * Verbs that only read (get, list) answer at once, from memory: their results are valid until
 * control returns to the loop. An object of another tenant is NOT_FOUND, with the same message as
 * one that does not exist.
 *
 * When `done` says that something was made, changed or removed, the store has it: it survives kill
 * -9 (docs/ENGINE.md says what survives a power cut). */

#include "engine/approval/approval.h"
#include "engine/code/context.h"
#include "engine/code/eval.h"
#include "engine/command/command.h"
#include "engine/docs/docs.h"
#include "engine/du.h"
#include "engine/feed.h"
#include "engine/figures.h"
#include "engine/file/file.h"
#include "engine/port.h"
#include "engine/sandbox/sandbox.h"
#include "engine/sandbox/turn.h"
#include "engine/session/session.h"
#include "engine/snapshot/snapshot.h"
#include "engine/token.h"
#include "engine/volume/volume.h"
#include "engine/zone.h"

struct buf;
struct config;
struct engine;
struct err;
struct loop;
struct provider_table;

struct engine_options {
    const struct config *config; /* borrowed until engine_free */
    const char *data_dir;        /* exists, and is ours */
    const char *program;         /* of sandglass, for its helpers; NULL: /proc/self/exe */
    /* The tiers that sandboxes can have, by enum engine_tier; tiers/tiers.h has all of them. */
    const struct provider_table *const *tiers;
};

/* Opens the store (BUSY when another process has it, INTERNAL when it is damaged, UNSUPPORTED when
 * a newer version made it) and restores what the last run left; this continues after the call
 * returns. */
int engine_open(struct loop *loop, const struct engine_options *options, struct engine **ret_engine,
                struct err *err) MUST_USE;
/* Accepts no more work, pauses or ends what runs, writes unsaved state, then calls `done`. */
void engine_stop(struct engine *engine, engine_done *done, void *ctx);
/* At once: running sandboxes end and are `interrupted` at the next start. */
struct engine *engine_free(struct engine *engine);
DEFINE_FREEP(engine)

/* The pid of the process that makes places of a tier; 0 if none runs. For figures and tests. */
int engine_tier_process_pid(const struct engine *engine, enum engine_tier tier);

/* What became of the configuration's dependencies, for /readyz. */
enum { ENGINE_SLUG_SIZE = 32 };
struct engine_dependencies {
    char slug[ENGINE_SLUG_SIZE]; /* of their snapshot; "": no dependencies */
    const char *state;           /* "building", "ready", "failed" */
    char detail[240];            /* how far, or why it failed */
};
const struct engine_dependencies *engine_dependencies(const struct engine *engine);

/* What the operator should set right, such as a key of the configuration that is not set: logged at
 * start, shown by /readyz. */
void engine_each_warning(const struct engine *engine, void (*call)(void *ctx, struct str text),
                         void *ctx);

/* True when everything that start has to do is done; else what is missing, for /readyz. */
bool engine_is_ready(const struct engine *engine, struct buf *ret_why);
