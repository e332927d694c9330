#pragma once

/* Approvals from inside: for approval*.c and engine.c. */

#include "engine/approval/approval.h"
#include "engine/approval/approval_state.h"

struct answer;
struct deciding;
struct store_batch;

struct approval {
    struct engine *engine;
    struct approval_info info;
    struct arena arena;
    int64_t ord;
    struct deciding *deciding; /* a decision or use that is being recorded; NULL: none */
    bool is_new;               /* its request is being recorded: it is not visible yet */
    bool is_told;              /* the event of its state is published */
    bool is_called;            /* on_approved was called in this run */
    bool is_unsaved;           /* the store does not have its state: tried again */
};

/* approval.c */
void approval_open(struct engine *engine);
struct approval *approval_new(struct engine *engine, struct str tenant);
void approval_remove(struct approval *approval, struct store_batch *batch);
const struct approval_registered *approval_kind(const struct engine *engine, struct str name);
/* By id, of this tenant, and recorded; else NULL with NOT_FOUND. */
struct approval *approval_find(struct engine *engine, struct str tenant, struct str id,
                               struct err *err) MUST_USE;
/* Pending or approved; NULL: none. Also one whose request is being recorded. */
struct approval *approval_find_open(struct engine *engine, struct str tenant, struct str kind,
                                    struct str subject);
size_t approval_count_pending(const struct engine *engine, struct str tenant);
/* Deletes the oldest ended ones of the tenant above the numbers of approval.h. */
void approval_trim(struct engine *engine, struct str tenant, struct store_batch *batch);
/* An answer with the approval of answer->id. */
struct answer *approval_answer(struct engine *engine, approval_done *done, void *ctx);
/* approval_decide.c. CONFLICT: why it is not in the state that a verb needs; by whom and when. */
int approval_refuse(const struct approval *approval, struct err *err);

/* A move that is recorded before it is in effect. _begin gives the approval as it will be, to fill
 * in; _record writes that, makes the move, publishes it and answers. */
struct approval_info *approval_decide_begin(struct approval *approval, enum approval_state to);
void approval_decide_record(struct approval *approval, struct answer *answer);

/* approval_row.c */
void approval_save(const struct approval *approval, struct store_batch *batch);
int approval_load(struct engine *engine, struct err *err) MUST_USE;
/* Asserts that the move exists. The fields that go with it are the caller's to set. */
void approval_move(struct approval *approval, enum approval_state to);
/* Publishes the event of its state, and records that in the batch. */
void approval_publish(struct approval *approval, struct store_batch *batch);
/* Its kind is to be called now that it is rejected or expired. */
bool approval_has_end_handler(const struct approval *approval);
/* Commits a batch with its row; when that fails, the row is written again later. `answer` may be
 * NULL. */
void approval_commit(struct approval *approval, struct store_batch *batch, struct answer *answer);
/* Open -> expired or void, at once: published and recorded durably, then `answer` (may be NULL) is
 * given. */
void approval_end(struct approval *approval, enum approval_state to, const char *reason,
                  struct answer *answer);

/* approval_due.c: what happens without a call. */
void approval_tick(struct engine *engine);
void approval_sweep(struct engine *engine);
/* The state is recorded: publishes it and calls the kind's handler. */
void approval_tell(struct approval *approval);
/* Asks the kind; -1: the approval is void now. */
int approval_check(struct approval *approval, struct err *err) MUST_USE;
/* Looks for expired ones at this date at the latest. */
void approval_due(struct engine *engine, int64_t date_ms);
void approval_done_all(struct engine *engine);
