#pragma once

/* Approvals: something waits for a person's decision. Part of engine/engine.h.
 *
 * A requester (git push, an agent, a program over HTTP) describes what it wants to do: a kind, the
 * subject (what it is about, as the kind names it), a title and a detail for the person, and the
 * digest of exactly what is approved. None of these changes later: another content is another
 * approval, with another id, and makes the earlier one void. A person whose token has the scope
 * `approve` approves or rejects it. The decision is durable before it has any effect.
 *
 *     pending -> approved -> used        used at most once
 *     pending -> rejected | expired | void
 *     approved -> expired | void         approval_state.c has the table
 *
 * How to add a kind: a `const struct approval_kind`, in the table of approval.c or registered with
 * engine_approval_register before the loop runs. */

#include "engine/caller.h"

enum {
    APPROVAL_SUBJECT_MAX = 200,
    APPROVAL_DIGEST_MAX = 128,
    APPROVAL_TITLE_MAX = 300,
    APPROVAL_DETAIL_MAX = 16 << 10, /* bytes of JSON */
    APPROVAL_NOTE_MAX = 4 << 10,
    /* Of one tenant, beside approvals.keep_days: ended ones above these numbers are deleted, the
     * oldest first. Those that nobody decided cannot displace records of decisions. */
    APPROVALS_DECIDED_KEPT = 10000,
    APPROVALS_UNDECIDED_KEPT = 1000,
};
#define APPROVAL_EXPIRES_MAX_MS (INT64_C(30) * 86400000)

enum approval_state {
    APPROVAL_PENDING,  /* waits for a decision */
    APPROVAL_APPROVED, /* decided and recorded; not used yet */
    APPROVAL_USED,     /* what it allowed was begun, once */
    APPROVAL_REJECTED,
    APPROVAL_EXPIRED, /* not decided, or not used, in time */
    APPROVAL_VOID,    /* what it was about has changed, or the requester withdrew it */
    APPROVAL_STATE_COUNT
};
const char *approval_state_name(enum approval_state state);
bool approval_state_of_name(struct str name, enum approval_state *ret_state) MUST_USE;

struct approval_info {
    struct str id, tenant, kind, subject, digest, title;
    struct str detail;  /* JSON; empty for none */
    struct str sandbox; /* that it concerns; empty for none */
    enum approval_state state;
    struct str requested_by, requested_token; /* the token's name (or its id), and its id */
    int64_t requested_ms, expires_ms;
    struct str decided_by, decided_token;
    int64_t decided_ms; /* 0: not decided */
    struct str note;    /* of the person who decided, for the requester */
    struct str reason;  /* why it is void */
    int64_t ended_ms;   /* when it was used, rejected, expired or void; 0: open */
};

/* One kind. `ctx` is what it was registered with; NULL for those of the table. Handlers are called
 * on the loop's thread, from the loop, never from within a call of these functions by the
 * requester.
 */
struct approval_kind {
    const char *name;
    bool is_open; /* programs may request, use and withdraw it over HTTP */
    /* Does what was requested still hold (same base, target and content)? Asked before an approval
     * is recorded and before on_approved. -1: the approval becomes void with the message as its
     * reason. NULL: it always holds. */
    int (*check)(void *ctx, struct engine *engine, const struct approval_info *approval,
                 struct err *err);
    /* The decision is recorded: begin what was approved, and record that with
     * engine_approval_use. MUST BE IDEMPOTENT: it is called once in each run of the server while
     * the state is `approved`, so it is called again after a restart or kill -9 that came before
     * the use was recorded. NULL: the requester looks itself. */
    void (*on_approved)(void *ctx, struct engine *engine, const struct approval_info *approval);
    /* It was rejected, or it expired (`state` says which); `note` is the person's. Idempotent too:
     * called again after a kill -9 in between. May be NULL. */
    void (*on_rejected)(void *ctx, struct engine *engine, const struct approval_info *approval);
};
/* `kind` and `ctx` live as long as the engine. Handlers that the last run did not call are called
 * from the loop afterwards. */
void engine_approval_register(struct engine *engine, const struct approval_kind *kind, void *ctx);

/* Programs may use and withdraw approvals of this kind. */
bool engine_approval_is_open_kind(const struct engine *engine, struct str kind);

struct approval_spec {
    struct str kind, subject, title;
    struct str digest;  /* empty: that of kind, subject, title and detail */
    struct str detail;  /* JSON, for the person; empty for none */
    struct str sandbox; /* id; followers of its events see those of the approval */
    int64_t expires_ms; /* from now, at most APPROVAL_EXPIRES_MAX_MS; 0: approvals.expire_hours */
};

typedef void approval_done(void *ctx, const struct approval_info *approval, const struct err *why);

/* Asks for a decision. An open approval (pending or approved) with the same kind and subject is the
 * answer when digest, title and detail are the same too, so a repeated call does not ask twice: the
 * caller looks at `state`. When they differ, the earlier one becomes void. Title and subject are
 * one line without control characters. INVALID, LIMIT (limits.approvals). */
void engine_approval_request(struct engine *engine, const struct engine_caller *caller,
                             const struct approval_spec *spec, approval_done *done, void *ctx);

/* By id; or by subject: the open one, else the newest. CONFLICT when open ones of several kinds
 * have the subject. */
int engine_approval_get(struct engine *engine, const struct engine_caller *caller, struct str id,
                        struct approval_info *ret_approval, struct err *err) MUST_USE;

struct approval_filter {
    unsigned states; /* a bit (1U << state) for each that is wanted; 0: all */
    struct str kind, subject;
    struct engine_page page;
};
struct approval_list {
    struct approval_info *items;
    size_t count;
    char next[ENGINE_CURSOR_SIZE];
};
int engine_approval_list(struct engine *engine, const struct engine_caller *caller,
                         const struct approval_filter *filter, struct arena *arena,
                         struct approval_list *ret_list, struct err *err) MUST_USE;

struct approval_decision {
    bool is_approved;
    struct str subject; /* as the person saw it; must be the approval's */
    struct str digest;  /* the same; empty: not compared */
    struct str note;    /* for the requester; may be empty */
};
/* By id only. FORBIDDEN without `may_approve`. CONFLICT when subject or digest are others, and when
 * it is decided already or no longer open: the message says by whom and when. */
void engine_approval_decide(struct engine *engine, const struct engine_caller *caller,
                            struct str id, const struct approval_decision *decision,
                            approval_done *done, void *ctx);

/* approved -> used, recorded before it is answered. Exactly one call succeeds;
 * CONFLICT for all others, and when `digest` (empty: not compared) is another. */
void engine_approval_use(struct engine *engine, const struct engine_caller *caller, struct str id,
                         struct str digest, approval_done *done, void *ctx);

/* The requester withdraws it: it becomes void at once, also while a decision is being recorded.
 * CONFLICT when it is not open. */
void engine_approval_withdraw(struct engine *engine, const struct engine_caller *caller,
                              struct str id, approval_done *done, void *ctx);
