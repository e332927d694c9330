/* What a server in a sandbox answers, in pieces of any size: however it is cut, the same comes out,
 * and nothing that comes out could end a header early. The first byte says what was asked for. */

#include "fuzz.h"

#include "api/ports/upstream.h"
#include "base/crypto/hash.h"

struct outcome {
    enum upstream_state state;
    int status;
    size_t headers;
    struct buf body;
};

static void check_headers(const struct upstream *upstream)
{
    for (size_t i = 0; i < upstream->header_count; i++) {
        const struct upstream_header *header = &upstream->headers[i];
        assert(header->name.len > 0);
        for (size_t k = 0; k < header->value.len; k++)
            assert((unsigned char)header->value.ptr[k] >= ' ' && header->value.ptr[k] != 0x7f);
        for (size_t k = 0; k < header->name.len; k++)
            assert(header->name.ptr[k] > ' ' && header->name.ptr[k] < 0x7f &&
                   header->name.ptr[k] != ':');
    }
}

static struct outcome run(const uint8_t *data, size_t size, size_t step)
{
    struct upstream upstream = {.is_head_request = (data[0] & 1) != 0,
                                .may_switch = (data[0] & 2) != 0};
    struct outcome outcome = {0};
    for (size_t at = 1; at < size; at += step) {
        struct str in = str_n((const char *)data + at, step < size - at ? step : size - at), body;
        while (in.len > 0 && upstream.state != UPSTREAM_DONE &&
               upstream.state != UPSTREAM_SWITCHED && upstream_feed(&upstream, &in, &body)) {
            assert(body.len == 0 || upstream_has_head(&upstream));
            buf_put(&outcome.body, body);
        }
    }
    (void)!upstream_end(&upstream);
    assert(upstream.state != UPSTREAM_BAD || upstream.why != NULL);
    assert(!upstream_has_head(&upstream) || (upstream.status >= 101 && upstream.status <= 599));
    check_headers(&upstream);
    outcome.state = upstream.state;
    outcome.status = upstream.status;
    outcome.headers = upstream.header_count;
    upstream_done(&upstream);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct outcome whole = run(data, size, size), pieces = run(data, size, 3);
    assert(whole.state == pieces.state);
    assert(str_eq(buf_str(&whole.body), buf_str(&pieces.body)));
    if (whole.state != UPSTREAM_BAD)
        assert(whole.status == pieces.status && whole.headers == pieces.headers);
    buf_done(&whole.body);
    buf_done(&pieces.body);
    return 0;
}
