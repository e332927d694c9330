#pragma once

/* What the headers of a request to /mcp say, beside its body. From revision 2026-07-28 on they
 * repeat parts of it, for proxies that do not read bodies; a request whose headers say other
 * than its body is refused. */

#include "base/base.h"

struct request;

/* Whether the request is independent of others: it names a revision without initialize,
 * in the body or in the header. */
bool mcp_head_is_modern(const struct request *request);
/* False with a reply. */
bool mcp_head_is_right(struct request *request) MUST_USE;
/* For all others: that the revision of the header, if any, is supported. False with a reply. */
bool mcp_head_is_spoken(struct request *request) MUST_USE;
