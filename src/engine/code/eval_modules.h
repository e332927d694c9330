#pragma once

/* The modules that code in an isolate may import. */

struct arena;
struct eval_spec;
struct session;

/* Those of the call, of the session (may be NULL), and what other sessions of the tenant share; the
 * first of a path wins. Copies all into `arena`. `code` of `ret_spec` is set already. */
void eval_put_modules(const struct eval_spec *call, const struct session *session,
                      struct arena *arena, struct eval_spec *ret_spec);
