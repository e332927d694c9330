/* Any bytes: more must come, a refusal with words, or a canonical host; never more used than given.
 */

#include "fuzz.h"

#include "base/err.h"
#include "egress/gateway/socks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str bytes = str_n((const char *)data, size);
    unsigned char method = 0;
    size_t used = socks_read_greeting(bytes, &method);
    assert(used <= size && (method == 0 || method == 0xff));
    if (used == 0)
        return 0;
    struct str rest = str_slice(bytes, used, size);
    struct host host = {0}, again;
    uint16_t port = 0;
    enum socks_reply reply = SOCKS_OK;
    struct err err = {0};
    used = socks_read_request(rest, &host, &port, &reply, &err);
    assert(used <= rest.len);
    if (used == 0)
        return 0;
    assert(reply == SOCKS_OK || err.msg[0] != '\0');
    if (reply == SOCKS_OK) {
        int result = host_parse(host_str(&host), &again, &err);
        assert(result == 0 && strcmp(again.text, host.text) == 0);
    }
    return 0;
}
