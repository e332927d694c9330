/* Idempotency keys: a create that is repeated gives what the first one made. */

#include <stdlib.h>

#include "base/clock.h"
#include "engine/internal.h"

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
    return err_set(err, ERR_CONFLICT,
                   "Idempotency-Key%s%.*s%s came with another request before; use a new one",
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
        return err_set(err, ERR_INVALID, "Idempotency-Key: longer than 255 bytes");
    key_put_id(caller, &id);
    const struct key *key = map_get(&engine->keys, buf_str(&id));
    if (key == NULL)
        return 0;
    if (!str_eq(str_of(key->hash), caller->request_hash))
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

static void add(struct engine *engine, struct str id, struct str hash, struct str object,
                int64_t created_ms)
{
    struct key *key = mem_alloc(sizeof *key);
    key->hash = copy_of(hash);
    key->object = copy_of(object);
    key->created_ms = created_ms;
    (void)key_free(map_put(&engine->keys, id, key));
}

void key_put(struct engine *engine, struct str id, struct str hash, struct str object,
             struct store_batch *batch)
{
    int64_t now = clock_date_ms();
    add(engine, id, hash, object, now);
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
    add(ctx, row->id, row->request_hash, row->object, row->created_ms);
}

int key_load(struct engine *engine, struct err *err)
{
    return store_each(engine->store, &store_idempotency_keys, load, engine, err);
}

void key_done(struct engine *engine)
{
    MAP_EACH (entry, &engine->keys)
        (void)key_free(entry->value);
    map_done(&engine->keys);
}
