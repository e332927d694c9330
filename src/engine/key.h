#pragma once

/* Idempotency keys: what earlier calls with a key have made. Only for engine/. */

#include "base/crypto/hash.h"
#include "base/str.h"

struct buf;
struct engine;
struct engine_caller;
struct err;
struct store_batch;

enum {
    KEY_TTL_MS = 86400000,
    KEYS_MAX = 20000,
};

/* A request that waits for the answer of another one with the same key; see key_claim.c. */
struct key_wait {
    struct key_wait *next;
    char hash[HASH_HEX_SIZE];
    void (*call)(struct key_wait *wait, struct str object, const struct err *why);
};

/* An object that has been deleted since leaves its key free. */
typedef bool key_is_there(struct engine *engine, struct str object);

/* key.c. key_find: 1 with the object that was created, which is borrowed until the next call of
 * these functions; 0 if the key is unknown. */
int key_find(struct engine *engine, const struct engine_caller *caller, struct str *ret_object,
             struct err *err) MUST_USE;
void key_remember(struct engine *engine, const struct engine_caller *caller, struct str object,
                  struct store_batch *batch);
void key_put_id(const struct engine_caller *caller, struct buf *out);
void key_put(struct engine *engine, struct str id, struct str request_hash, struct str object,
             struct store_batch *batch);
void key_drop(struct engine *engine, struct str id);
struct str key_object(const struct engine *engine, struct str id); /* empty: unknown id */
int key_refuse(struct str key, struct err *err); /* it was used with another request */
void key_forget(struct engine *engine, struct str tenant, struct str object,
                struct store_batch *batch);
void key_sweep(struct engine *engine);
int key_load(struct engine *engine, struct err *err) MUST_USE;
void key_reconcile(struct engine *engine, struct store_batch *batch);
void key_done(struct engine *engine);

/* key_claim.c. The first call with a key has the claim; a call with the same key before its end
 * waits for it and gets the same object or error. */
enum key_found {
    KEY_REFUSED,
    KEY_FREE,  /* continue; the caller must end the claim (NULL without a key) */
    KEY_KNOWN, /* `ret_object` was made before; borrowed until the next call of these */
    KEY_WAITS, /* `wait` is called */
};
struct key_claim;
enum key_found key_claim(struct engine *engine, const struct engine_caller *caller,
                         key_is_there *is_there, struct key_wait *wait, struct str *ret_object,
                         struct key_claim **ret_claim, struct err *err) MUST_USE;
/* Has a call had it before, with whatever request? */
bool key_is_taken(struct engine *engine, const struct engine_caller *caller,
                  key_is_there *is_there);
/* Of a request that was not known whole when the key was claimed; before key_keep. */
void key_claim_hash(struct key_claim *claim, struct str hash);
/* In the batch that records the object. These two do nothing for NULL. */
void key_keep(struct key_claim *claim, struct str object, struct store_batch *batch);
/* Frees the claim; `why` when there is no object after all. */
void key_end(struct key_claim *claim, const struct err *why);
