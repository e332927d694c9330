/* Keys of creates that take a while: a repeated call waits for the first one and gets its answer.
 * The key is taken once the object's record has it (key_keep); a call that fails leaves its key
 * free. */

#include <stdlib.h>

#include "base/crypto/hash.h"
#include "base/map.h"
#include "engine/internal.h"
#include "engine/key.h"

struct key_claim {
    struct key_claim *next;
    struct engine *engine;
    char *id, *object;        /* of the key; what was made, NULL so far */
    const char *name;         /* the key as it came, in `id` */
    char hash[HASH_HEX_SIZE]; /* of the request; empty until it has come whole */
    struct key_wait *waits, **last_wait;
};

static struct key_claim *key_claim_find(const struct engine *engine, struct str id)
{
    struct key_claim *claim = engine->claims;
    while (claim != NULL && !str_eq(str_of(claim->id), id))
        claim = claim->next;
    return claim;
}

static struct key_claim *claim_new(struct engine *engine, const struct engine_caller *caller,
                                   struct str id)
{
    struct key_claim *claim = mem_alloc(sizeof *claim);
    claim->engine = engine;
    claim->id = mem_alloc(id.len + 1);
    memcpy(claim->id, id.ptr, id.len);
    claim->name = claim->id + id.len - caller->key.len;
    key_claim_hash(claim, caller->request_hash);
    claim->last_wait = &claim->waits;
    claim->next = engine->claims;
    engine->claims = claim;
    return claim;
}

static void key_claim_wait_for(struct key_claim *claim, const struct engine_caller *caller,
                               struct key_wait *wait)
{
    (void)snprintf(wait->hash, sizeof wait->hash, "%.*s", STR_ARG(caller->request_hash));
    wait->next = NULL;
    *claim->last_wait = wait;
    claim->last_wait = &wait->next;
}

bool key_is_taken(struct engine *engine, const struct engine_caller *caller, key_is_there *is_there)
{
    AUTO_BUF struct buf id = {0};
    if (caller->key.len == 0)
        return false;
    key_put_id(caller, &id);
    struct str object = key_object(engine, buf_str(&id));
    return key_claim_find(engine, buf_str(&id)) != NULL ||
           (object.len > 0 && is_there(engine, object));
}

enum key_found key_claim(struct engine *engine, const struct engine_caller *caller,
                         key_is_there *is_there, struct key_wait *wait, struct str *ret_object,
                         struct key_claim **ret_claim, struct err *err)
{
    AUTO_BUF struct buf id = {0};
    struct str object = {0};
    if (caller->key.len == 0)
        return KEY_FREE;
    key_put_id(caller, &id);
    struct key_claim *first = key_claim_find(engine, buf_str(&id));
    if (first != NULL) {
        if (first->hash[0] != '\0' && !str_eq(str_of(first->hash), caller->request_hash)) {
            (void)key_refuse(caller->key, err);
            return KEY_REFUSED;
        }
        key_claim_wait_for(first, caller, wait);
        return KEY_WAITS;
    }
    int known = key_find(engine, caller, &object, err);
    if (known < 0)
        return KEY_REFUSED;
    if (known > 0 && is_there(engine, object)) {
        *ret_object = object;
        return KEY_KNOWN;
    }
    *ret_claim = claim_new(engine, caller, buf_str(&id));
    return KEY_FREE;
}

void key_claim_hash(struct key_claim *claim, struct str hash)
{
    (void)snprintf(claim->hash, sizeof claim->hash, "%.*s", STR_ARG(hash));
}

void key_keep(struct key_claim *claim, struct str object, struct store_batch *batch)
{
    if (claim == NULL)
        return;
    free(claim->object);
    claim->object = mem_alloc(object.len + 1);
    memcpy(claim->object, object.ptr, object.len);
    key_put(claim->engine, str_of(claim->id), str_of(claim->hash), object, batch);
}

static void key_claim_tell(const struct key_claim *claim, struct key_wait *wait,
                           const struct err *why)
{
    struct err err = {0};
    if (why == NULL && strcmp(claim->hash, wait->hash) != 0) {
        (void)key_refuse(str_of(claim->name), &err);
        why = &err;
    }
    wait->call(wait, why == NULL ? str_of(claim->object) : (struct str){0}, why);
}

void key_end(struct key_claim *claim, const struct err *why)
{
    if (claim == NULL)
        return;
    struct key_claim **at = &claim->engine->claims;
    while (*at != claim)
        at = &(*at)->next;
    *at = claim->next;
    if (why != NULL && claim->object != NULL)
        key_drop(claim->engine, str_of(claim->id));
    for (struct key_wait *wait = claim->waits, *next; wait != NULL; wait = next) {
        next = wait->next; /* it is its caller's from now on */
        key_claim_tell(claim, wait, why);
    }
    free(claim->id);
    free(claim->object);
    free(claim);
}
