#pragma once

/* The location hints of a request: latitude, longitude, city, country. Any may be missing; those
 * present are valid. */

#include "base/str.h"

struct err;
struct json_out;
struct json_t;

enum { HINT_TEXT_SIZE = 129 };

struct hints {
    bool has_latitude, has_longitude;
    double latitude, longitude;
    char city[HINT_TEXT_SIZE], country[HINT_TEXT_SIZE]; /* empty: not given */
};

/* "latitude", "52.52". INVALID with what is wrong; UTF-8 of one line for texts. */
int hints_set(struct hints *hints, struct str key, struct str value, struct err *err) MUST_USE;
/* {"latitude": 52.52, "city": "Berlin"}; null counts as missing. `hints` stays as it was on error.
 */
int hints_read(const struct json_t *object, struct hints *hints, struct err *err) MUST_USE;

static inline bool hints_has_place(const struct hints *hints)
{
    return hints->has_latitude && hints->has_longitude;
}

/* An object with null for what is missing. */
void hints_put_json(const struct hints *hints, struct json_out *out);
/* An array of sentences, empty when all hints are present, or when the code did not use them
 * (`are_used`). */
void hints_put_warnings(const struct hints *hints, bool are_used, struct json_out *out);
