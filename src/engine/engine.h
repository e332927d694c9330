#pragma once

/* The product's verbs. Every surface (HTTP, WebSocket, MCP, the CLI) is a translator of these.
 *
 * All of it belongs to the loop's thread. Requests go down as plain structs, which are borrowed
 * for the call alone. An answer comes up through a call-back `done`, exactly once for each call,
 * never from within the call itself: with what was asked for and `why` NULL, or with `why` and
 * nothing else. What a call-back is handed is borrowed too, until it returns. Its `ctx` must live
 * until then; only calls that give a handle (readers, waiters) can be dropped, by freeing it.
 *
 * Verbs that only look (get, list) answer at once, from memory: what they give is good until the
 * loop goes on. An object of another tenant is NOT_FOUND, with the words for one that is not there.
 *
 * When `done` says that something was made, changed or removed, the store has it: it survives
 * kill -9 (docs/ENGINE.md says what survives a power cut). */

#include "engine/command.h"
#include "engine/context.h"
#include "engine/eval.h"
#include "engine/feed.h"
#include "engine/figures.h"
#include "engine/file.h"
#include "engine/port.h"
#include "engine/sandbox.h"
#include "engine/session.h"
#include "engine/snapshot.h"
#include "engine/token.h"
#include "engine/volume.h"
#include "engine/zone.h"

struct buf;
struct config;
struct engine;
struct err;
struct loop;

struct engine_options {
    const struct config *config; /* borrowed until engine_free */
    const char *data_dir;        /* exists, and is ours */
    const char *program;         /* of sandglass, for its helpers; NULL: /proc/self/exe */
};

/* Opens the store (BUSY when another process has it, INTERNAL when it is damaged, UNSUPPORTED when
 * a newer version made it) and takes up what the last run left; that goes on behind the answer. */
int engine_open(struct loop *loop, const struct engine_options *options, struct engine **ret_engine,
                struct err *err) MUST_USE;
/* Takes no more work, pauses or ends what runs, writes what is unwritten, then `done`. */
void engine_stop(struct engine *engine, engine_done *done, void *ctx);
/* At once: running sandboxes end and are `interrupted` at the next start. */
struct engine *engine_free(struct engine *engine);
DEFINE_FREEP(engine)

/* The process that makes places of a tier; 0 when there is none. For figures and tests. */
int engine_maker_pid(const struct engine *engine, enum engine_tier tier);

/* What became of the configuration's dependencies, for /readyz. */
enum { ENGINE_SLUG_SIZE = 32 };
struct engine_dependencies {
    char slug[ENGINE_SLUG_SIZE]; /* of their snapshot; "": there are none */
    const char *state;           /* "building", "ready", "failed" */
    char detail[240];            /* how far, or why it failed */
};
const struct engine_dependencies *engine_dependencies(const struct engine *engine);

/* True when everything that start has to do is done; else what is missing, for /readyz. */
bool engine_is_ready(const struct engine *engine, struct buf *ret_why);
