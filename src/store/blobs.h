#pragma once

/* Bytes by their digest: files that never change, named by their SHA-256.
 *
 * Putting one writes a temporary file, syncs, renames and syncs the directory, and then reports
 * success: the row that names a blob is committed after that. Removing goes the other way: first
 * the row, then, after a grace time, the blob, by store_sweep_blobs. */

#include "base/crypto/hash.h"
#include "base/vec.h"
#include "store/store.h"

struct buf;

enum { STORE_BLOB_MAX = 512 << 20, STORE_BLOB_GRACE_MS = 60000 };

typedef void store_blob_put_done(void *ctx, const char hash[HASH_HEX_SIZE], const struct err *why);
typedef void store_blob_get_done(void *ctx, struct str bytes, const struct err *why);

/* Takes the bytes out of `bytes`. */
void store_put_blob(struct store *store, struct buf *bytes, store_blob_put_done *done, void *ctx);
/* NOT_FOUND; INTERNAL when the bytes are not those of the name. */
void store_get_blob(struct store *store, struct str hash, store_blob_get_done *done, void *ctx);

/* Removes what `kept` (hex digests, NUL-terminated, in any order) does not name and what is older
 * than the grace time, and temporary files. Takes `kept`. */
struct store_hashes {
    VEC(char *) list;
};
void store_sweep_blobs(struct store *store, struct store_hashes *kept, int64_t grace_ms,
                       store_done *done, void *ctx);
