#pragma once

/* What HTTP's words are made of (RFC 9110): whoever reads or writes a message asks here, so that no
 * two readers differ. */

#include "base/str.h"

bool http_is_token(struct str s);   /* a method, a field's name; not empty */
bool http_is_visible(struct str s); /* ASCII without blanks, not empty */
