#pragma once

/* Pages of a list: cursors, and how much one page holds. Only for engine/. */

#include "engine/caller.h"

/* A page begins behind the order that the cursor names. */
int page_cursor_read(struct str cursor, int64_t *ret_order, struct err *err) MUST_USE;
void page_cursor_write(int64_t order, char out[ENGINE_CURSOR_SIZE]);
size_t page_limit(const struct engine_page *page);
/* Counts the bytes of a row; false when a page that has rows already must end before it. A page of
 * a thousand long rows would be too long for an answer. */
bool page_has_room(size_t *used, size_t bytes) MUST_USE;
