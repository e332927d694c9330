#pragma once

/* The character classes of HTTP (RFC 9110), used by all code that reads or writes a message, so
 * that no two readers differ. */

#include "base/str.h"

bool http_is_token(struct str s);   /* a method, a field's name; not empty */
bool http_is_visible(struct str s); /* ASCII without blanks, not empty */
