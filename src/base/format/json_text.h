#pragma once

/* Text that is JSON already, and is passed to a reader of ours or of others. */

#include "base/buf.h"

/* Each "\u0000" becomes "\ufffd", in place. A tenant's output may hold NUL, which is written so and
 * which json_parse, like other careful readers, refuses together with the text around it. */
void json_hide_nul(struct buf *json);
