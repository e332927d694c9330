#pragma once

/* What search and the start of engine/docs need of modules. */

#include "engine/docs/docs_internal.h"

struct session_module;
struct session;

struct docs_module_page {
    struct str path, scope, text;
    bool is_known; /* it is stored as it is: it is not read */
};
struct str docs_module_text(struct str path, const struct session_module *module,
                            struct arena *arena);
struct docs_source_spec docs_module_source(const struct session *session, struct arena *arena);
/* For `prepare`; modules of one tenant. */
int docs_read_modules(struct docs_job *work, const struct docs_module_page *modules, size_t count,
                      struct library_page *ret_pages, struct err *err) MUST_USE;
/* On the loop, when results have come. */
void docs_fill_modules(struct engine *engine, struct library_results *results, struct arena *arena);
/* Takes out modules whose file is gone, and removes their rows. `done` may come at once. */
void docs_check_files(struct engine *engine, struct str tenant, struct library_results *results,
                      void (*done)(void *ctx), void *ctx);
