#pragma once

/* Variables that lead programs to the proxy and to the certificates to trust, each by the name
 * under which some of them look. Nothing depends on them: what ignores them is captured. */

#include "base/buf.h"

enum { SETTINGS_PROXY_PORT = 3128 };

/* Paths inside the sandbox of the root certificates that it trusts: the host's own, and where
 * connections are opened a file with the sandbox's authority among them. Both are read-only. */
#define SETTINGS_CA_FILE "/etc/ssl/certs/ca-certificates.crt"
#define SETTINGS_OWN_CA_FILE "/opt/sandglass-ca.pem" /* interpreters have /opt/sandglass */

/* Appends lines "NAME=VALUE". `ca_file` may be NULL: programs keep what they were built with. */
void settings_put(uint16_t proxy_port, const char *ca_file, struct buf *out);
