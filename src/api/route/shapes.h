#pragma once

/* The answers' shapes by name, as JSON Schema: what `response` in a row may name, and the schemas
 * of /openapi.json. They may refer to each other by "#/components/schemas/NAME". */

struct shape {
    const char *name;
    const char *schema;
};

/* Ends with a row without name. */
extern const struct shape api_shapes[];
