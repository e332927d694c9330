/* Access tokens: created here, shown once, stored as digests. */

#include "engine/token.h"

#include "base/clock.h"
#include "base/crypto/hash.h"
#include "base/id.h"
#include "base/map.h"
#include "engine/answer.h"
#include "engine/internal.h"
#include "store/store.h"

struct token {
    struct token_info info;
    struct arena arena;
    char hash[HASH_HEX_SIZE];
    int64_t ord;
};

static struct token *token_free(struct token *token)
{
    if (token != NULL) {
        arena_done(&token->arena);
        free(token);
    }
    return NULL;
}

void token_done_all(struct engine *engine)
{
    MAP_EACH (entry, &engine->tokens)
        (void)token_free(entry->value);
    map_done(&engine->tokens);
}

/* The table is by digest: the time of a lookup does not show how near a guess was. */
static struct token *token_add(struct engine *engine, const struct token_info *info,
                               const char *hash, int64_t ord)
{
    struct token *token = mem_alloc(sizeof *token);
    token->info = *info;
    token->info.id = arena_dup(&token->arena, info->id);
    token->info.tenant = arena_dup(&token->arena, info->tenant);
    token->info.name = arena_dup(&token->arena, info->name);
    memcpy(token->hash, hash, HASH_HEX_SIZE);
    token->ord = ord;
    (void)token_free(map_put(&engine->tokens, str_of(token->hash), token));
    return token;
}

static void load(void *ctx, const void *data)
{
    struct engine *engine = ctx;
    const struct store_token *row = data;
    char hash[HASH_HEX_SIZE];
    (void)snprintf(hash, sizeof hash, "%.*s", STR_ARG(row->hash));
    struct token_info info = {
        .id = row->id,
        .tenant = row->tenant,
        .name = row->name,
        .scopes = (unsigned)row->scopes,
        .created_ms = row->created_ms,
        .expires_ms = row->expires_ms,
        .quota = {row->sandboxes, row->memory_bytes, row->disk_bytes},
        .rate_per_minute = row->rate_per_minute,
    };
    (void)token_add(engine, &info, hash, row->ord);
    engine->last_order = MAX(engine->last_order, row->ord);
}

int token_load(struct engine *engine, struct err *err)
{
    return store_each(engine->store, &store_tokens, load, engine, err);
}

static struct token *find_id(struct engine *engine, struct str id)
{
    MAP_EACH (entry, &engine->tokens)
        if (str_eq(((struct token *)entry->value)->info.id, id))
            return entry->value;
    return NULL;
}

/* By its id, or by a name that only one has. */
static struct token *token_find_named(struct engine *engine, struct str id, size_t *ret_count)
{
    struct token *found = find_id(engine, id);
    *ret_count = found != NULL;
    if (found != NULL || id.len == 0)
        return found;
    MAP_EACH (entry, &engine->tokens)
        if (str_eq(((struct token *)entry->value)->info.name, id)) {
            found = entry->value;
            ++*ret_count;
        }
    return *ret_count == 1 ? found : NULL;
}

static void token_save(const struct token *token, struct store_batch *batch)
{
    const struct token_info *info = &token->info;
    store_put(batch, &store_tokens,
              &(struct store_token){
                  .id = info->id,
                  .tenant = info->tenant,
                  .ord = token->ord,
                  .name = info->name,
                  .hash = str_of(token->hash),
                  .scopes = info->scopes,
                  .created_ms = info->created_ms,
                  .expires_ms = info->expires_ms,
                  .sandboxes = info->quota.sandboxes,
                  .memory_bytes = info->quota.memory_bytes,
                  .disk_bytes = info->quota.disk_bytes,
                  .rate_per_minute = info->rate_per_minute,
              });
}

/* --- Verbs --- */

static int token_check(const struct token_spec *spec, struct err *err)
{
    if (spec->tenant.len == 0 || engine_check_name(spec->tenant, "tenant", err) < 0)
        return err_set(err, ERR_INVALID, "tenant: must be a name of at most %d bytes",
                       ENGINE_NAME_MAX);
    if (engine_check_name(spec->name, "name", err) < 0)
        return -1;
    if (spec->scopes == 0 || (spec->scopes & ~(unsigned)TOKEN_SCOPE_ALL) != 0)
        return err_set(err, ERR_INVALID, "scopes: must name at least one known scope");
    if (spec->expires_ms != 0 && spec->expires_ms <= clock_date_ms())
        return err_set(err, ERR_INVALID, "expires: this time is in the past");
    return 0;
}

static void token_deliver(struct answer *answer, const struct err *why)
{
    const struct token *token = why == NULL ? find_id(answer->engine, str_of(answer->id)) : NULL;
    answer->done.token(answer->ctx, token == NULL ? NULL : &token->info,
                       token == NULL ? NULL : answer->secret, why);
}

static void token_on_saved(void *ctx, const struct err *why)
{
    struct answer *answer = ctx;
    struct token *token = find_id(answer->engine, str_of(answer->id));
    if (why != NULL && token != NULL) {
        (void)map_remove(&answer->engine->tokens, str_of(token->hash));
        (void)token_free(token);
    }
    answer_give(answer, why);
}

static void add(struct answer *answer, const struct token_spec *spec, struct str secret)
{
    struct engine *engine = answer->engine;
    char hash[HASH_HEX_SIZE];
    hash_sha256_hex(secret, hash);
    id_new(answer->id);
    struct token_info info = {
        .id = str_of(answer->id),
        .tenant = spec->tenant,
        .name = spec->name,
        .scopes = spec->scopes,
        .created_ms = clock_date_ms(),
        .expires_ms = spec->expires_ms,
        .quota = spec->quota,
        .rate_per_minute = spec->rate_per_minute,
    };
    const struct token *token = token_add(engine, &info, hash, engine_order(engine));
    struct store_batch *batch = store_begin(engine->store);
    token_save(token, batch);
    store_commit(batch, STORE_DURABLE, token_on_saved, answer);
}

void engine_token_create(struct engine *engine, const struct token_spec *spec, token_done *done,
                         void *ctx)
{
    struct answer *answer = answer_new(engine, token_deliver, ctx);
    struct err err = {0};
    char secret[TOKEN_SIZE];
    answer->done.token = done;
    if (token_check(spec, &err) < 0) {
        answer_give(answer, &err);
        return;
    }
    id_new_token(secret);
    answer->secret = mem_dup_cstr(secret);
    add(answer, spec, str_of(secret));
    explicit_bzero(secret, sizeof secret);
}

bool engine_token_find(struct engine *engine, struct str secret, struct token_info *ret_token)
{
    loop_assert(engine->loop);
    char hash[HASH_HEX_SIZE];
    hash_sha256_hex(secret, hash);
    const struct token *token = map_get(&engine->tokens, str_of(hash));
    if (token == NULL || !hash_equal(token->hash, hash, HASH_HEX_SIZE) ||
        (token->info.expires_ms != 0 && token->info.expires_ms <= clock_date_ms()))
        return false;
    *ret_token = token->info;
    return true;
}

int engine_token_list(struct engine *engine, struct arena *arena, struct token_info **ret_tokens,
                      size_t *ret_count, UNUSED struct err *err)
{
    loop_assert(engine->loop);
    size_t count = 0;
    struct token_info *list = arena_array(arena, struct token_info, engine->tokens.len + 1);
    MAP_EACH (entry, &engine->tokens)
        list[count++] = ((const struct token *)entry->value)->info;
    *ret_tokens = list;
    *ret_count = count;
    return 0;
}

static void on_removed(void *ctx, const struct err *why)
{
    answer_give(ctx, why);
}

void engine_token_delete(struct engine *engine, struct str id, engine_done *done, void *ctx)
{
    struct answer *answer = answer_plain(engine, done, ctx);
    size_t count = 0;
    struct token *token = token_find_named(engine, id, &count);
    if (count > 1) {
        answer_fail(answer, ERR_CONFLICT, "%zu tokens are named '%.*s'; use an id", count,
                    (int)MIN(id.len, (size_t)64), id.ptr);
        return;
    }
    if (token == NULL) {
        answer_fail(answer, ERR_NOT_FOUND, "no token '%.*s'", (int)MIN(id.len, (size_t)64),
                    id.ptr == NULL ? "" : id.ptr);
        return;
    }
    struct store_batch *batch = store_begin(engine->store);
    store_remove(batch, &store_tokens, token->info.id);
    (void)map_remove(&engine->tokens, str_of(token->hash));
    (void)token_free(token);
    store_commit(batch, STORE_DURABLE, on_removed, answer);
}
