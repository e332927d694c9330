/* Idempotency keys: a create that is repeated gives what the first one made.
 *
 * A hash of the body decides whether a request is the same, and a body may contain secrets. The
 * store therefore has HMACs under the server's sealing key: a plain hash would let a reader of the
 * database try guesses. */

#include "engine/key.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/crypto/hash.h"
#include "base/log.h"
#include "base/map.h"
#include "engine/internal.h"
#include "engine/keyring.h"
#include "store/store.h"

struct key {
    char *hash, *object;
    int64_t created_ms;
};

void key_put_id(const struct engine_caller *caller, struct buf *out)
{
    buf_put(out, caller->tenant);
    buf_put_char(out, '\n'); /* in no tenant's name */
    buf_put(out, caller->key_scope);
    buf_put_char(out, ' ');
    buf_put(out, caller->key);
}

/* Before each HMAC; rows of older versions have the plain hash and lack it. */
static const struct str mark = {"hmac.", 5};

enum { KEPT_SIZE = 5 + HASH_HEX_SIZE };

/* What is kept of a request's hash. */
static int keep_hash(struct engine *engine, struct str id, struct str request_hash,
                     char out[KEPT_SIZE], struct err *err)
{
    AUTO_BUF struct buf text = {0};
    buf_printf(&text, "%zu\n", id.len);
    buf_put(&text, id);
    buf_put(&text, request_hash);
    memcpy(out, mark.ptr, mark.len);
    return keyring_hash(engine, "idempotency key", buf_str(&text), out + mark.len, err);
}

static struct key *key_free(struct key *key)
{
    if (key != NULL) {
        free(key->hash);
        free(key->object);
        free(key);
    }
    return NULL;
}

int key_refuse(struct str key, struct err *err)
{
    bool is_shown = key.len <= 100 && str_is_utf8(key);
    return err_set(
        err, ERR_CONFLICT,
        "Idempotency-Key%s%.*s%s was already used with a different request; use a new key",
        is_shown ? " '" : "", is_shown ? (int)key.len : 0, is_shown ? key.ptr : "",
        is_shown ? "'" : "");
}

int key_find(struct engine *engine, const struct engine_caller *caller, struct str *ret_object,
             struct err *err)
{
    AUTO_BUF struct buf id = {0};
    if (caller->key.len == 0)
        return 0;
    if (caller->key.len > 255)
        return err_set(err, ERR_INVALID, "Idempotency-Key: must have at most 255 bytes");
    key_put_id(caller, &id);
    char kept[KEPT_SIZE];
    if (keep_hash(engine, buf_str(&id), caller->request_hash, kept, err) < 0)
        return err_wrap(err, "Idempotency-Key");
    const struct key *key = map_get(&engine->keys, buf_str(&id));
    if (key == NULL)
        return 0;
    if (strlen(key->hash) != strlen(kept) || !hash_equal(key->hash, kept, strlen(kept)))
        return key_refuse(caller->key, err);
    *ret_object = str_of(key->object);
    return 1;
}

struct str key_object(const struct engine *engine, struct str id)
{
    const struct key *key = map_get(&engine->keys, id);
    return key == NULL ? (struct str){0} : str_of(key->object);
}

static char *copy_of(struct str text)
{
    char *copy = mem_alloc(text.len + 1);
    if (text.len > 0)
        memcpy(copy, text.ptr, text.len);
    return copy;
}

static void key_add(struct engine *engine, struct str id, struct str hash, struct str object,
                    int64_t created_ms)
{
    struct key *key = mem_alloc(sizeof *key);
    key->hash = copy_of(hash);
    key->object = copy_of(object);
    key->created_ms = created_ms;
    (void)key_free(map_put(&engine->keys, id, key));
}

void key_put(struct engine *engine, struct str id, struct str request_hash, struct str object,
             struct store_batch *batch)
{
    int64_t now = clock_date_ms();
    char kept[KEPT_SIZE];
    struct err err;
    struct str hash = mark;
    if (keep_hash(engine, id, request_hash, kept, &err) == 0)
        hash = str_of(kept);
    else /* key_find worked, and the key file went since: this key fits no request, so a repeated
            one is refused and makes nothing twice */
        log_warn("key.hash", LOG_STR("error", err.msg));
    key_add(engine, id, hash, object, now);
    store_put(
        batch, &store_idempotency_keys,
        &(struct store_key){.id = id, .request_hash = hash, .object = object, .created_ms = now});
}

void key_remember(struct engine *engine, const struct engine_caller *caller, struct str object,
                  struct store_batch *batch)
{
    AUTO_BUF struct buf id = {0};
    if (caller->key.len == 0)
        return;
    key_put_id(caller, &id);
    key_put(engine, buf_str(&id), caller->request_hash, object, batch);
}

void key_drop(struct engine *engine, struct str id)
{
    struct store_batch *batch = store_begin(engine->store);
    store_remove(batch, &store_idempotency_keys, id);
    (void)key_free(map_remove(&engine->keys, id));
    store_commit(batch, STORE_QUICK, NULL, NULL);
}

void key_forget(struct engine *engine, struct str tenant, struct str object,
                struct store_batch *batch)
{
    MAP_EACH (entry, &engine->keys) {
        const struct key *key = entry->value;
        if (!str_eq(str_of(key->object), object) ||
            !str_eq(str_slice(entry->key, 0, str_find_char(entry->key, '\n')), tenant))
            continue;
        store_remove(batch, &store_idempotency_keys, entry->key);
        (void)key_free(map_remove(&engine->keys, entry->key));
        return;
    }
}

static int by_age(const void *a, const void *b)
{
    const int64_t *one = a, *other = b;
    return (*one > *other) - (*one < *other);
}

/* Keys from before this moment go: those that are old, and the oldest when there are too many. */
static int64_t find_limit(const struct engine *engine)
{
    int64_t limit = clock_date_ms() - KEY_TTL_MS;
    if (engine->keys.len <= KEYS_MAX)
        return limit;
    int64_t *ages = mem_alloc(engine->keys.len * sizeof *ages);
    size_t count = 0;
    MAP_EACH (entry, &engine->keys)
        ages[count++] = ((const struct key *)entry->value)->created_ms;
    qsort(ages, count, sizeof *ages, by_age);
    limit = MAX(limit, ages[count - KEYS_MAX]);
    free(ages);
    return limit;
}

void key_sweep(struct engine *engine)
{
    int64_t limit = find_limit(engine);
    struct store_batch *batch = NULL;
    MAP_EACH (entry, &engine->keys) {
        const struct key *key = entry->value;
        if (key->created_ms >= limit)
            continue;
        if (batch == NULL)
            batch = store_begin(engine->store);
        store_remove(batch, &store_idempotency_keys, entry->key);
        (void)key_free(map_remove(&engine->keys, entry->key));
    }
    if (batch != NULL)
        store_commit(batch, STORE_QUICK, NULL, NULL);
}

static void load(void *ctx, const void *data)
{
    const struct store_key *row = data;
    key_add(ctx, row->id, row->request_hash, row->object, row->created_ms);
}

int key_load(struct engine *engine, struct err *err)
{
    return store_each(engine->store, &store_idempotency_keys, load, engine, err);
}

/* Rows of an older version, with the plain hash, become such as are written today. */
void key_reconcile(struct engine *engine, struct store_batch *batch)
{
    MAP_EACH (entry, &engine->keys) {
        struct key *key = entry->value;
        char kept[KEPT_SIZE];
        struct err err;
        if (str_starts(str_of(key->hash), mark))
            continue;
        if (keep_hash(engine, entry->key, str_of(key->hash), kept, &err) < 0) {
            log_warn("reconcile.key", LOG_STR("error", err.msg));
            return;
        }
        free(key->hash);
        key->hash = copy_of(str_of(kept));
        store_put(batch, &store_idempotency_keys,
                  &(struct store_key){.id = entry->key,
                                      .request_hash = str_of(key->hash),
                                      .object = str_of(key->object),
                                      .created_ms = key->created_ms});
    }
}

void key_done(struct engine *engine)
{
    MAP_EACH (entry, &engine->keys)
        (void)key_free(entry->value);
    map_done(&engine->keys);
}
