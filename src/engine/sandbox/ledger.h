#pragma once

/* Which interpreters of a sandbox hold variables, and which have lost theirs since their last run.
 *
 * The first run after a loss reports it, once for each context, on every surface. The ledger is a
 * column of the sandbox's row, so that a restart of the server is a loss like any other; while a
 * session has no sandbox it is a column of the session's. The context of an isolate is "". */

#include "base/vec.h"
#include "runtime/loss.h"

struct engine;
struct json_out;
struct sandbox;
struct str;

enum {
    LEDGER_MAX = 64,        /* contexts; the oldest entries go first */
    LEDGER_CONTEXT_MAX = 64 /* bytes of an id */
};

struct ledger_entry {
    char context[LEDGER_CONTEXT_MAX + 1];
    bool has_state;         /* its interpreter has run code */
    struct loss lost, then; /* not reported by a run yet; `then` came before `lost` was reported */
};

struct ledger {
    VEC(struct ledger_entry) entries;
};

void ledger_done(struct ledger *ledger);
#define AUTO_LEDGER AUTO(ledger_done)
void ledger_copy(struct ledger *to, const struct ledger *from);
bool ledger_is_empty(const struct ledger *ledger);
bool ledger_has_state(const struct ledger *ledger, struct str context);
bool ledger_has_any_state(const struct ledger *ledger);

/* These say whether something changed. */
bool ledger_begin(struct ledger *ledger, struct str context);
bool ledger_lose(struct ledger *ledger, struct str context, const struct loss *loss);
bool ledger_lose_all(struct ledger *ledger, const struct loss *loss);
/* As lose_all, for a loss of files as well: every context reports it, and without any context the
 * next run reports it. */
bool ledger_lose_files(struct ledger *ledger, const struct loss *loss);
/* The variables came back after all: the newest loss did not happen. */
bool ledger_restore(struct ledger *ledger, struct str context);
/* The caller closed the context: nothing of it is missed. */
bool ledger_forget(struct ledger *ledger, struct str context);
/* For the answer of a run. `is_dying`: the run itself lost the variables; then the first run after
 * it tells of that loss, too. */
bool ledger_tell(struct ledger *ledger, struct str context, bool is_dying, struct loss *ret_loss);

void ledger_put_json(const struct ledger *ledger, struct json_out *out);
void ledger_read_json(struct ledger *ledger, struct str text); /* what is malformed is left out */
char *ledger_text(const struct ledger *ledger) MUST_USE; /* JSON to be freed; NULL when empty */

/* --- Of a sandbox: the ledger changes, and the row with it --- */

struct loss ledger_loss_now(enum loss_reason reason);
void sandbox_ledger_begin(struct sandbox *sandbox, struct str context);
void sandbox_ledger_lost(struct sandbox *sandbox, struct str context, enum loss_reason reason);
struct loss sandbox_ledger_tell(struct sandbox *sandbox, struct str context, bool is_dying);

/* From providers, as struct provider_host has them. */
void ledger_on_begun(struct engine *engine, struct str sandbox, struct str context);
void ledger_on_restored(struct engine *engine, struct str sandbox, struct str context);
void ledger_on_lost(struct engine *engine, struct str sandbox, struct str context,
                    enum loss_reason reason);
