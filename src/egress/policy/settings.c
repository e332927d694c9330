#include "egress/policy/settings.h"

/* What is inside: names of loopback, and the host name that jails have. */
#define DIRECT "localhost,127.0.0.1,::1,0.0.0.0,sandbox"

void settings_put(uint16_t proxy_port, const char *ca_file, struct buf *out)
{
    /* Lower case as well: curl reads http_proxy in no other way. ALL_PROXY is no SOCKS address,
     * because Python's requests fails on one where its extra package is missing. */
    static const char *const proxies[] = {"HTTP_PROXY",  "http_proxy", "HTTPS_PROXY",
                                          "https_proxy", "ALL_PROXY",  "all_proxy"};
    static const char *const roots[] = {
        "SSL_CERT_FILE",  "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
        "GIT_SSL_CAINFO", "DENO_CERT",           "npm_config_cafile",  "PIP_CERT",
        "AWS_CA_BUNDLE",
    };
    for (size_t i = 0; i < countof(proxies); i++)
        buf_printf(out, "%s=http://127.0.0.1:%d\n", proxies[i], proxy_port);
    buf_put_cstr(out, "NO_PROXY=" DIRECT "\nno_proxy=" DIRECT "\n");
    /* It takes a refusal for an accident and asks again, for ten seconds by itself. */
    buf_put_cstr(out, "PIP_RETRIES=2\n");
    for (size_t i = 0; ca_file != NULL && i < countof(roots); i++)
        buf_printf(out, "%s=%s\n", roots[i], ca_file);
}
