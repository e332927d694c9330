#pragma once

/* Sessions from inside, for session*.c and those who use a session's sandbox. */

#include "engine/internal.h"

struct module {
    char *source;
    size_t len;
    int64_t updated_ms;
};

/* Somebody who waits for a session's sandbox; it may be in any state then. */
struct session_want {
    struct session_want *next;
    void (*call)(struct session_want *want, struct sandbox *sandbox, const struct err *why);
};

struct session {
    struct engine *engine;
    struct session_info info;
    struct arena arena;
    struct str row_id;
    struct sandbox_spec spec;
    char sandbox[ID_SIZE], volume[ID_SIZE];
    int64_t ord;
    struct engine_quota quota; /* of who asked last: what is made for it is made for them */
    struct map modules;        /* by path */
    struct session_want *wants;
    bool is_making, is_resting, is_deleting;
};

struct session *session_find(struct engine *engine, struct str tenant, struct str id,
                             struct err *err) MUST_USE;
/* For a verb: also NULL when the caller may not ask, or not now. */
struct session *session_of_caller(struct engine *engine, const struct engine_caller *caller,
                                  struct str id, struct err *err) MUST_USE;
struct session *session_new(struct engine *engine, struct str tenant, struct str id,
                            struct str name);
struct session *session_free(struct session *session);
struct answer *session_answer(struct engine *engine, session_done *done, void *ctx);
void session_save(const struct session *session, struct store_batch *batch);

/* session_life.c */
void session_use(struct session *session, struct session_want *want);

/* session_module.c */
struct module *module_free(struct module *module);
void module_remove_row(const struct session *session, struct str path, struct store_batch *batch);
