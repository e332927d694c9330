#pragma once

/* Access tokens, kept as digests. Part of engine/engine.h. */

#include "base/crypto/hash.h"
#include "base/id.h"
#include "engine/caller.h"

enum token_scope {
    TOKEN_READ = 1,
    TOKEN_RUN = 2,
    TOKEN_FILES = 4,
    TOKEN_ADMIN = 8,
    TOKEN_APPROVE = 16,
    TOKEN_SCOPE_ALL = 31,
};

struct token_info {
    struct str id, tenant, name;
    unsigned scopes;
    int64_t created_ms, expires_ms; /* 0: never */
    struct engine_quota quota;
    int64_t rate_per_minute; /* 0: no limit of its own */
};

struct token_spec {
    struct str tenant, name;
    unsigned scopes;
    int64_t expires_ms;
    struct engine_quota quota;
    int64_t rate_per_minute;
};

/* `secret` is the token itself and is not available later; wipe every copy of it. */
typedef void token_done(void *ctx, const struct token_info *token, const char *secret,
                        const struct err *why);
void engine_token_create(struct engine *engine, const struct token_spec *spec, token_done *done,
                         void *ctx);
/* True when `secret` is a token that holds now. Its time does not depend on how nearly it is. */
bool engine_token_find(struct engine *engine, struct str secret, struct token_info *ret_token);
int engine_token_list(struct engine *engine, struct arena *arena, struct token_info **ret_tokens,
                      size_t *ret_count, struct err *err) MUST_USE;
void engine_token_delete(struct engine *engine, struct str id, engine_done *done, void *ctx);
