#pragma once

/* Which member of a body an error is about: `path` of the answer, such as "limits.memoryMb".
 *
 * Errors name it in their text: base/format/schema.h's begin with it, and those of the engine with
 * it and a colon ("limits.pids: not between 8 and 1024"). */

#include "base/str.h"

struct arena;
struct json_t;

/* Of what schema_check has said; empty when it is the body as a whole. */
struct str error_path_of_schema(struct arena *arena, const char *message);

/* Of any other error for a body with this schema (NULL: none): empty when it begins with no member
 * of it. A member one object further down is found too: a session's "env: ..." is about
 * "sandbox.env". */
struct str error_path_of_member(struct arena *arena, struct json_t *schema, const char *message);
