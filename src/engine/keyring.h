#pragma once

/* The secrets of sandboxes as the engine keeps them: bindings in clear, values sealed with a key
 * that is stored next to the database (DATA/secrets.key, readable only by its owner).
 *
 * Why sealed and not only by reference: a sandbox outlives the daemon's memory, and after a restart
 * it must work with the keys that it was given over HTTP. A copy of only the database (a backup, a
 * stray WAL file) then reveals nothing. Values that the configuration names are kept by name and
 * read from where it says at each start.
 *
 * A sealed value opens for its tenant, its name, its hosts and its headers: moved to another row it
 * is worthless. */

#include "base/crypto/hash.h"
#include "engine/sandbox/sandbox.h"

struct json_out;
struct json_t;

struct secrets;

/* INVALID names the entry by its place and never repeats what stands there; FORBIDDEN when the
 * configuration does not give its secret to this tenant. `policy` (parsed; may be NULL): the hosts
 * must be reachable. */
struct policy;
int keyring_check(const struct engine *engine, const struct engine_caller *caller,
                  const struct sandbox_secrets *secrets, const struct policy *policy,
                  struct err *err) MUST_USE;

/* A copy that can be kept: values sealed. Expects checked ones; an entry without a value takes that
 * of its name in `before` (may be NULL). */
int keyring_keep(struct engine *engine, struct str tenant, const struct sandbox_secrets *secrets,
                 const struct sandbox_secrets *before, struct arena *arena,
                 struct sandbox_secrets *ret_kept, struct err *err) MUST_USE;

/* The values, for a place; NULL when there are none. */
int keyring_open(struct engine *engine, struct str tenant, const struct sandbox_secrets *kept,
                 struct secrets **ret_secrets, struct err *err) MUST_USE;

/* HMAC under the same key, for values that the store compares and that must not be guessable from
 * it. `use` separates the kinds of hashes. */
int keyring_hash(struct engine *engine, const char *use, struct str text, char out[HASH_HEX_SIZE],
                 struct err *err) MUST_USE;

/* For the store. */
void keyring_put_json(const struct sandbox_secrets *kept, struct json_out *out);
int keyring_read_json(const struct json_t *list, struct arena *arena,
                      struct sandbox_secrets *ret_kept, struct err *err) MUST_USE;
