#pragma once

/* A closed part of JSON Schema, for arguments that come from scripts and models: type, properties,
 * required, additionalProperties, minimum, maximum, enum, minLength, maxLength, items, minItems,
 * maxItems; title, description, default and examples are read by people. What is "writeOnly" may be
 * a secret: no message repeats a part of it. No patterns and no references: checking costs time in
 * proportion to the value, whatever the value is. */

#include "base/str.h"

struct buf;
struct err;
struct json_t;

/* INVALID when the schema uses anything else, or uses these wrongly: what would not be checked is
 * refused before it is trusted. */
int schema_check_schema(const struct json_t *schema, struct err *err) MUST_USE;

/* INVALID with one sentence that names the place: "latitude must be a number from -90 to 90, got
 * 123". `path` names the value itself and may be empty. The schema has passed the check above. */
int schema_check(const struct json_t *schema, const struct json_t *value, const char *path,
                 struct err *err) MUST_USE;

/* The type of a value for documents: "integer", or "integer or `"none"`" of a limit. */
void schema_put_type(const struct json_t *schema, struct buf *out);
