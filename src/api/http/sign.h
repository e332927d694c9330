#pragma once

/* URLs that carry their own permission: for one method and one file, until a date. */

#include "base/buf.h"
#include "base/crypto/hash.h"

struct api;
struct caller;
struct err;
struct request;

enum { SIGN_SECONDS_MAX = 7 * 24 * 3600 };

/* "/v1/sandboxes/ID/files?path=...&expires=...&tenant=...&signature=..." into `out`. */
void sign_url(const struct api *api, struct str method, struct str route, struct str tenant,
              struct str path, int64_t expires_s, struct buf *out);
/* Whether the request's own URL is such a one: `ret_caller` when it holds now, `err` when it is
 * wrong or was right once. */
enum sign_found { SIGN_NONE, SIGN_GOOD, SIGN_WRONG, SIGN_EXPIRED };
enum sign_found sign_check(const struct api *api, struct request *request,
                           struct caller *ret_caller, struct err *err) MUST_USE;

/* What a token for an exposed port is signed with; `key` is the port's. */
void sign_port(const struct api *api, struct str id, uint16_t port, struct str key,
               int64_t expires_s, char out[HASH_HEX_SIZE]);
