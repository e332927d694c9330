/* A reader that a document has taken over, for tests: the text of a document says what it does. */

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "search/reader_internal.h"

static void put_frame(struct str record, uint32_t len)
{
    struct err err = {0};
    if (fd_write_all(READER_OUT, str_n((const char *)&len, sizeof len), &err) < 0 ||
        fd_write_all(READER_OUT, record, &err) < 0)
        _exit(9);
}

static void obey(const struct document_ask *ask)
{
    AUTO_BUF struct buf record = {0};
    struct err err = {0};
    if (str_starts(ask->text, STR("crash")))
        abort();
    if (str_starts(ask->text, STR("leave")))
        _exit(7);
    if (str_starts(ask->text, STR("sleep")))
        (void)pause();
    if (document_read(ask, &record, &err) < 0)
        document_put_failure(&record, &err);
    uint32_t len = (uint32_t)record.len;
    if (str_starts(ask->text, STR("garbage")))
        memset(record.ptr, 0xa5, record.len);
    if (str_starts(ask->text, STR("longer")))
        len = UINT32_MAX;
    if (str_starts(ask->text, STR("shorter")))
        len--;
    put_frame(buf_str(&record), len);
    if (str_starts(ask->text, STR("twice")))
        put_frame(buf_str(&record), len);
}

int main(void)
{
    AUTO_BUF struct buf input = buf_with_limit(256 << 20);
    struct err err = {0};
    if (buf_read_all(&input, READER_IN, &err) < 0)
        return 9;
    struct str rest = buf_str(&input);
    while (rest.len > 0) {
        struct reader_head head;
        memcpy(&head, rest.ptr, sizeof head);
        size_t text = sizeof head + head.title_len, end = text + head.text_len;
        struct document_ask ask = {.title = str_slice(rest, sizeof head, text),
                                   .text = str_slice(rest, text, end),
                                   .format = (enum doc_format)head.format};
        obey(&ask);
        rest = str_slice(rest, end, rest.len);
    }
    return 0;
}
