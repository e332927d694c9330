/* Pages of a list: cursors, and how much one page holds. */

#include "engine/page.h"

#include "base/err.h"

int page_cursor_read(struct str cursor, int64_t *ret_order, struct err *err)
{
    *ret_order = 0;
    if (cursor.len > 0 && !str_to_i64(cursor, 1, INT64_MAX, ret_order))
        return err_set(err, ERR_INVALID, "unknown cursor; use `next` of the previous page");
    return 0;
}

void page_cursor_write(int64_t order, char out[ENGINE_CURSOR_SIZE])
{
    (void)snprintf(out, ENGINE_CURSOR_SIZE, "%lld", (long long)order);
}

size_t page_limit(const struct engine_page *page)
{
    return page->limit == 0 ? ENGINE_PAGE_DEFAULT : MIN(page->limit, (size_t)ENGINE_PAGE_MAX);
}

bool page_has_room(size_t *used, size_t bytes)
{
    enum { PAGE_BYTES_MAX = 4 << 20 }; /* each of which may be six in an answer */
    bool has_room = *used == 0 || *used + bytes <= PAGE_BYTES_MAX;
    *used += bytes;
    return has_room;
}
