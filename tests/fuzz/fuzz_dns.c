/* Any packet: no answer, or one that is short, has the question's number, and whose host is its own
 * canonical form. */

#include "fuzz.h"

#include "base/buf.h"
#include "base/err.h"
#include "egress/gateway/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct ip address = {.version = 4, .bytes = {198, 18, 0, 1}};
    struct dns_query query;
    struct err err = {0};
    AUTO_BUF struct buf out = {0};
    if (!dns_read(str_n((const char *)data, size), &query))
        return 0;
    if (query.is_host) {
        struct host again;
        int result = host_parse(host_str(&query.host), &again, &err);
        assert(result == 0 && strcmp(again.text, query.host.text) == 0);
    }
    dns_put_answer(&query, query.code, query.code == DNS_OK ? &address : NULL, "why not", &out);
    assert(out.len >= 12 && out.len <= 512 && memcmp(out.ptr, data, 2) == 0);
    assert((out.ptr[2] & 0x80) != 0);
    return 0;
}
