#pragma once

/* Sessions: a caller's workspace. Part of engine/engine.h.
 *
 * A session has at most one sandbox, made at first use (or at once, `warm`), one volume, made with
 * the first sandbox, and its saved code modules. After `idle_ms` without work it is dormant: the
 * sandbox is closed, the volume stays, and the next use makes a sandbox with the same files.
 * Callers that use it at the same moment share one sandbox. */

#include "engine/sandbox/sandbox.h"

enum session_state { SESSION_DORMANT, SESSION_ACTIVE };
const char *session_state_name(enum session_state state);

struct session_spec {
    struct str id; /* of the caller's choice (id_is_valid); empty: a random one */
    struct str name;
    bool warm;                   /* or as the configuration says */
    int64_t idle_ms;             /* 0: the configuration's */
    int64_t volume_ttl_ms;       /* after its last use; 0: the configuration's, -1: it stays */
    struct sandbox_spec sandbox; /* the specification of its sandboxes; `volume` is not used */
};

struct session_info {
    struct str id, tenant, name;
    enum session_state state;
    enum engine_tier tier;
    struct str sandbox; /* empty while dormant */
    struct str volume;  /* empty until first use */
    struct str runtime; /* of its sandboxes; empty: the tier's own */
    struct str region;  /* sandbox.region */
    bool warm;
    int64_t idle_ms, created_ms, active_ms;
    int64_t volume_ttl_ms;     /* 0: it stays */
    int64_t volume_expires_ms; /* date; 0: never, it is in use, or no volume */
    int64_t volume_expired_ms; /* date; 0: it did not expire, or a run has reported it since */
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

/* The configuration's packages that code of the session can import, with what it runs in; NULL: of
 * a session that asks for nothing itself. Empty while they are being installed. */
struct engine_package {
    struct str package; /* "@linear/sdk", "pypi:requests" */
    struct str version;
    struct str module; /* of Python: what is imported; may be empty */
    bool is_python;
    struct str variable; /* of its key; empty: it has none */
    bool has_key;        /* the operator has set it */
};
size_t engine_session_packages(const struct engine *engine, const struct session_info *session,
                               struct arena *arena, struct engine_package **ret_packages);

/* Code that a session keeps and later evaluations may import by its path. */
enum {
    MODULE_SOURCE_MAX = 1 << 20,
    MODULES_PER_SESSION = 256,
    MODULES_BYTES_MAX = 8 << 20, /* of all of them: they are in memory, and in one answer */
};
enum { MODULE_TEXT_MAX = 4000, MODULE_EXPORTS_MAX = 100, MODULE_EXPORT_NAME_MAX = 200 };
struct module_info {
    struct str path, source;
    struct str description, exports, usage; /* exports: a JSON array of names; may be empty */
    struct str scope;                       /* "session" or "user": who finds it */
    bool in_volume; /* a file of the session's volume, without source here */
    int64_t updated_ms;
};
/* With `source`, or as a file that exists in the session's /workspace. */
struct module_spec {
    struct str path, source, description, usage;
    const struct str *exports;
    size_t export_count;
    struct str scope; /* "session", "user"; empty: "session" */
    bool in_volume;
};
void engine_module_put(struct engine *engine, const struct engine_caller *caller,
                       struct str session, const struct module_spec *spec, engine_done *done,
                       void *ctx);
void engine_module_delete(struct engine *engine, const struct engine_caller *caller,
                          struct str session, struct str path, engine_done *done, void *ctx);
int engine_module_list(struct engine *engine, const struct engine_caller *caller,
                       struct str session, struct arena *arena, struct module_info **ret_modules,
                       size_t *ret_count, struct err *err) MUST_USE;
