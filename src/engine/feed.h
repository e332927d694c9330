#pragma once

/* The feed of what happens: one sink, any number of readers. Part of engine/engine.h. */

#include "engine/caller.h"

/* One row is one kind of event. */
#define EVENT_MAP(X)                                                                               \
    X(SANDBOX_CREATED, "sandbox.created")                                                          \
    X(SANDBOX_STATE, "sandbox.state")                                                              \
    X(SANDBOX_EXPIRING, "sandbox.expiring")                                                        \
    X(SANDBOX_UPDATED, "sandbox.updated")                                                          \
    X(SANDBOX_CHECKPOINT, "sandbox.checkpoint")                                                    \
    X(SANDBOX_ROLLBACK, "sandbox.rollback")                                                        \
    X(SANDBOX_DELETED, "sandbox.deleted")                                                          \
    X(NETWORK_BLOCKED, "network.blocked")                                                          \
    X(NETWORK_UNRESOLVED, "network.unresolved")                                                    \
    X(COMMAND_STARTED, "command.started")                                                          \
    X(COMMAND_ENDED, "command.ended")                                                              \
    X(SESSION_CREATED, "session.created")                                                          \
    X(SESSION_ACTIVE, "session.active")                                                            \
    X(SESSION_DORMANT, "session.dormant")                                                          \
    X(SESSION_DELETED, "session.deleted")                                                          \
    X(VOLUME_CREATED, "volume.created")                                                            \
    X(VOLUME_DELETED, "volume.deleted")                                                            \
    X(VOLUME_EXPIRED, "volume.expired")                                                            \
    X(SNAPSHOT_BUILDING, "snapshot.building")                                                      \
    X(SNAPSHOT_READY, "snapshot.ready")                                                            \
    X(SNAPSHOT_FAILED, "snapshot.failed")                                                          \
    X(SNAPSHOT_DELETED, "snapshot.deleted")                                                        \
    X(APPROVAL_REQUESTED, "approval.requested")                                                    \
    X(APPROVAL_DECIDED, "approval.decided")                                                        \
    X(APPROVAL_USED, "approval.used")                                                              \
    X(APPROVAL_EXPIRED, "approval.expired")                                                        \
    X(APPROVAL_VOID, "approval.void")                                                              \
    X(DOCS_READY, "docs.ready")                                                                    \
    X(DOCS_FAILED, "docs.failed")                                                                  \
    X(DOCS_VECTORS, "docs.vectors")

enum event_kind {
#define X(name, wire) EVENT_##name,
    EVENT_MAP(X)
#undef X
        EVENT_KIND_COUNT
};
const char *feed_event_name(enum event_kind kind);

struct event {
    uint64_t seq; /* increases; where a subscriber continues */
    int64_t date_ms;
    enum event_kind kind;
    struct str tenant;
    struct str id;      /* of what it is about */
    struct str sandbox; /* the sandbox it concerns; empty for none */
    struct str state;   /* of a sandbox, or why a command ended; empty for none */
    struct str detail;  /* one line for people; may be empty */
};

struct feed_reader;
struct feed_calls {
    void (*on_event)(void *ctx, const struct event *event);
    /* The reader lagged so far behind that events were left out, or the engine stops. */
    void (*on_end)(void *ctx, const struct err *why);
};
/* Events of the tenant behind `after` (0: from the oldest kept; UINT64_MAX: only new ones), for
 * one sandbox or for all (empty). */
int engine_feed_open(struct engine *engine, const struct engine_caller *caller, struct str sandbox,
                     uint64_t after, const struct feed_calls *calls, void *ctx,
                     struct feed_reader **ret_reader, struct err *err) MUST_USE;
struct feed_reader *feed_reader_free(struct feed_reader *reader);
DEFINE_FREEP(feed_reader)
void feed_reader_pause(struct feed_reader *reader);
void feed_reader_resume(struct feed_reader *reader);
