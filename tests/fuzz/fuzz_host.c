/* Any bytes: a host in its one canonical form, or one line that says what is wrong. */

#include "fuzz.h"

#include "base/err.h"
#include "egress/policy/host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    struct host host, again;
    if (host_parse(str_n((const char *)data, size), &host, &err) < 0) {
        assert(err.code == ERR_INVALID && strpbrk(err.msg, "\r\n") == NULL);
        return 0;
    }
    int result = host_parse(host_str(&host), &again, &err);
    assert(result == 0 && strcmp(host.text, again.text) == 0 && ip_eq(&host.ip, &again.ip));
    assert(!host_is_below(host_str(&host), host_str(&host)));
    if (host_is_ip(&host)) {
        char text[IP_TEXT_SIZE];
        struct ip ip = {0};
        ip_format(&host.ip, text);
        bool good = ip_parse(str_of(text), &ip);
        assert(good && ip_eq(&ip, &host.ip));
        (void)ip_is_public(&ip);
    }
    return 0;
}
