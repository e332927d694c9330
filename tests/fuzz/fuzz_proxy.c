/* A request with its body, or an answer: refused with words, or written anew as one head that reads
 * the same and ends where it should; its body ends at the same byte however it is cut. */

#include "fuzz.h"

#include "base/buf.h"
#include "base/err.h"
#include "egress/exchange.h"

static size_t follow(const struct http_head *head, struct str bytes, size_t piece, bool *ret_bad)
{
    struct http_body body;
    struct err err = {0};
    size_t at = 0;
    http_body_begin(&body, head);
    *ret_bad = false;
    while (at < bytes.len && !body.is_done) {
        size_t used = 0;
        if (http_body_take(&body, str_slice(bytes, at, at + piece), &used, &err) < 0) {
            *ret_bad = true;
            return 0;
        }
        assert(used > 0);
        at += used;
    }
    return at;
}

static void check_body(const struct http_head *head, struct str bytes)
{
    bool bad, other_bad;
    size_t whole = follow(head, bytes, bytes.len + 1, &bad);
    size_t pieces = follow(head, bytes, 3, &other_bad);
    assert(bad == other_bad && whole == pieces && whole <= bytes.len);
}

static void check_again(const struct http_head *head)
{
    AUTO_BUF struct buf text = {0};
    struct err err = {0};
    static struct http_head again;
    exchange_put_request(head, STR("/"), STR("ok.test"), false, &text);
    assert(http_head_end(buf_str(&text)) == text.len);
    int result = http_read_request(buf_str(&text), &again, &err);
    /* A field more than came in may be one too many. */
    assert(result == 0 || err.code == ERR_TOO_LARGE);
    assert(result < 0 || (again.framing == head->framing && again.length == head->length));
    assert(result < 0 || str_eq(http_find(&again, STR("host")), STR("ok.test")));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str bytes = str_n((const char *)data, size);
    static struct http_head head;
    struct err err = {0};
    size_t end = http_head_end(str_slice(bytes, 0, HTTP_HEAD_MAX));
    if (end == 0)
        return 0;
    struct str text = str_slice(bytes, 0, end), rest = str_slice(bytes, end, size);
    if (http_read_request(text, &head, &err) == 0) {
        check_again(&head);
        check_body(&head, rest);
    } else {
        assert(err.msg[0] != '\0');
    }
    if (http_read_answer(text, STR("GET"), &head, &err) == 0)
        check_body(&head, rest);
    else
        assert(err.msg[0] != '\0');
    return 0;
}
