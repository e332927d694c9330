#pragma once

/* Sessions: a caller's line of work. Part of engine/engine.h.
 *
 * A session has at most one sandbox, made at first use (or at once, `warm`), one volume, made with
 * the first sandbox, and its saved code modules. After `idle_ms` without work it is dormant: the
 * sandbox is closed, the volume stays, and the next use makes a sandbox with the same files.
 * Callers that use it at the same moment share one sandbox. */

#include "engine/sandbox.h"

enum session_state { SESSION_DORMANT, SESSION_ACTIVE };
const char *session_state_name(enum session_state state);

struct session_spec {
    struct str id; /* of the caller's choice (id_is_valid); empty: a random one */
    struct str name;
    bool warm;                   /* or as the configuration says */
    int64_t idle_ms;             /* 0: the configuration's */
    struct sandbox_spec sandbox; /* what its sandboxes shall be; `volume` is not used */
};

struct session_info {
    struct str id, tenant, name;
    enum session_state state;
    enum engine_tier tier;
    struct str sandbox; /* empty while dormant */
    struct str volume;  /* empty until first use */
    bool warm;
    int64_t idle_ms, created_ms, active_ms;
};

typedef void session_done(void *ctx, const struct session_info *session, const struct err *why);

/* CONFLICT when there is one of that id. */
void engine_session_create(struct engine *engine, const struct engine_caller *caller,
                           const struct session_spec *spec, session_done *done, void *ctx);
int engine_session_get(struct engine *engine, const struct engine_caller *caller, struct str id,
                       struct session_info *ret_session, struct err *err) MUST_USE;
struct session_list {
    struct session_info *items;
    size_t count;
    char next[ENGINE_CURSOR_SIZE];
};
int engine_session_list(struct engine *engine, const struct engine_caller *caller,
                        const struct engine_page *page, struct arena *arena,
                        struct session_list *ret_list, struct err *err) MUST_USE;
/* Its running sandbox, made or brought back when needed. */
void engine_session_use(struct engine *engine, const struct engine_caller *caller, struct str id,
                        sandbox_done *done, void *ctx);
/* Closes the sandbox now. */
void engine_session_rest(struct engine *engine, const struct engine_caller *caller, struct str id,
                         session_done *done, void *ctx);
/* With its sandbox, its volume and its modules. */
void engine_session_delete(struct engine *engine, const struct engine_caller *caller, struct str id,
                           engine_done *done, void *ctx);

/* Code that a session keeps and later evaluations may import by its path. */
enum {
    MODULE_SOURCE_MAX = 1 << 20,
    MODULES_PER_SESSION = 256,
    MODULES_BYTES_MAX = 8 << 20, /* of all of them: they are in memory, and in one answer */
};
struct module_info {
    struct str path, source;
    int64_t updated_ms;
};
void engine_module_put(struct engine *engine, const struct engine_caller *caller,
                       struct str session, struct str path, struct str source, engine_done *done,
                       void *ctx);
void engine_module_delete(struct engine *engine, const struct engine_caller *caller,
                          struct str session, struct str path, engine_done *done, void *ctx);
int engine_module_list(struct engine *engine, const struct engine_caller *caller,
                       struct str session, struct arena *arena, struct module_info **ret_modules,
                       size_t *ret_count, struct err *err) MUST_USE;
