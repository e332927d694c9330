/* Headers that a client sends to a server in a sandbox: what we say there is said once, and nothing
 * else frames the request or carries a port's token. */

#include <stdlib.h>

#include "api/ports/port_head.h"
#include "base/buf.h"
#include "fuzz.h"

/* As the judge of requests lets them through. */
static bool is_name(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c <= ' ' || c >= 0x7f || c == ':')
            return false;
    }
    return text.len > 0;
}

static bool is_value(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] < ' ' || text.ptr[i] == 0x7f)
            return false;
    return true;
}

static void take_headers(struct request *request, struct str rest)
{
    struct str line, name;
    while (rest.len > 0 && request->header_count < REQUEST_HEADERS_MAX &&
           str_split(&rest, '\n', &line))
        if (str_split(&line, ':', &name) && is_name(name) && is_value(line))
            request->headers[request->header_count++] =
                (struct request_header){name, str_trim(line)};
}

/* Lines of the head whose name is this one, also for readers that see no underscores. */
static size_t count_lines(struct str head, const char *wanted)
{
    struct str line, name;
    size_t count = 0;
    while (head.len > 0 && str_split(&head, '\n', &line)) {
        if (!str_split(&line, ':', &name) || name.len != strlen(wanted))
            continue;
        bool is_same = true;
        for (size_t i = 0; i < name.len; i++) {
            char c = name.ptr[i] == '_' ? '-' : name.ptr[i];
            is_same &= str_eq_nocase(str_n(&c, 1), str_n(wanted + i, 1));
        }
        count += is_same;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_BUF struct buf out = {0};
    if (size < 1 || size > 16 << 10)
        return 0;
    struct request *request = mem_alloc(sizeof *request);
    struct port_way way = {.id = STR("abc"),
                           .port = 8000,
                           .prefix = STR("/v1/sandboxes/abc/ports/8000"),
                           .path = STR("/x"),
                           .is_chunked = (data[0] & 1) != 0,
                           .is_upgrade = (data[0] & 2) != 0,
                           .keeps_auth = (data[0] & 4) != 0,
                           .peer = "10.0.0.1"};
    request->method = STR("GET");
    request->by_host = (data[0] & 8) != 0;
    take_headers(request, str_n((const char *)data + 1, size - 1));
    port_put_request(request, &way, &out);
    struct str head = buf_str(&out);
    assert(str_ends(head, STR("\r\n\r\n")) && str_find(head, STR("\r\n\r\n")) == head.len - 4);
    assert(count_lines(head, "Host") == 1 && count_lines(head, "X-Forwarded-For") == 1);
    assert(count_lines(head, "Connection") == 1 && count_lines(head, PORT_HEADER) == 0);
    assert(count_lines(head, "Transfer-Encoding") == way.is_chunked);
    assert(count_lines(head, "Content-Length") <= !way.is_chunked);
    assert(count_lines(head, "Cookie") == 0 || request->by_host);
    struct str token;
    for (size_t i = 0; i < 64 && port_cookie(request, i, &token); i++)
        assert(token.len <= size);
    arena_done(&request->arena);
    free(request);
    return 0;
}
