#pragma once

/* What must not be forgotten: rows in SQLite, bytes in content-addressed files.
 *
 * A store is a directory, held by one process at a time. Changes are collected in a batch, which is
 * written as a whole or not at all; batches that come while one is being written share the next
 * transaction. Everything blocking happens on one thread of the store's own; call-backs come on the
 * loop's thread, in the order of the calls.
 *
 * Two strengths. After a `STORE_DURABLE` batch is acknowledged a power cut does not take it back.
 * A `STORE_QUICK` one survives the death of this process at once and a power cut after
 * STORE_SYNC_MS (and STORE_LAZY_MS): right for what a power cut ends anyway, like that a sandbox
 * runs. */

#include "base/arena.h"
#include "io/loop.h"
#include "store/commands.h"
#include "store/tables.h"

struct err;
struct store;
struct store_batch;

enum {
    STORE_VERSION = 6, /* of the schema */
    STORE_SYNC_MS = 45,
    STORE_LAZY_MS = 5,
    STORE_LOG_CHUNK_MAX = 32 << 10,
    STORE_EVENTS_KEPT = 100000,
};

/* Creates the store if it does not exist. BUSY: another process has it; UNSUPPORTED: a newer
 * version made it; UNAVAILABLE: the file system refuses; INTERNAL: it is damaged, or part of it is
 * missing, and nothing was changed. */
int store_open(struct loop *loop, const char *dir, struct store **ret_store,
               struct err *err) MUST_USE;
/* From time to time: this process still has the store. */
void store_mark_alive(const struct store *store);
/* When an earlier process said so last; 0: none did. */
int64_t store_last_alive_ms(const struct store *store);
/* Writes what waits, calls every `done`, then returns. */
struct store *store_free(struct store *store);
DEFINE_FREEP(store)
#define AUTO_STORE AUTO(store_freep)

/* At start, before the loop runs: every row of a table in the order of `ord`. The row is borrowed.
 */
int store_each(struct store *store, const struct store_table *table,
               void (*call)(void *ctx, const void *row), void *ctx, struct err *err) MUST_USE;
/* The number of the newest event; 0 if no event exists. The same rules. */
int store_last_event(struct store *store, uint64_t *ret_seq, struct err *err) MUST_USE;
/* The offset after the last stored byte of a log; 0 if it is empty. The same rules. */
int store_log_end(struct store *store, struct str command, uint64_t *ret_end,
                  struct err *err) MUST_USE;
/* The whole of it, checked: for tests. */
int store_check(struct store *store, struct err *err) MUST_USE;

/* LAZY is QUICK for writes that no caller waits for: they go with the next batch of the others, or
 * after STORE_LAZY_MS. The order of the calls is still kept. */
enum store_strength { STORE_QUICK, STORE_DURABLE, STORE_LAZY };
typedef void store_done(void *ctx, const struct err *why);

struct store_batch *store_begin(struct store *store) MUST_USE;
/* Copies what it is given. A row with the same id is replaced. */
void store_put(struct store_batch *batch, const struct store_table *table, const void *row);
void store_remove(struct store_batch *batch, const struct store_table *table, struct str id);
void store_put_event(struct store_batch *batch, const struct store_event *event);
void store_put_log(struct store_batch *batch, const struct store_log *log);
/* Chunks of one stream that begin in [from, to) go. */
void store_cut_log(struct store_batch *batch, struct str command, int64_t stream, uint64_t from,
                   uint64_t to);
/* Takes the batch. `done` may be NULL; `why` is then logged. NO_SPACE, UNAVAILABLE: nothing of it
 * was written. */
void store_commit(struct store_batch *batch, enum store_strength strength, store_done *done,
                  void *ctx);
struct store_batch *store_batch_free(struct store_batch *batch); /* without writing */
DEFINE_FREEP(store_batch)

/* Up to `max_bytes` of a log from the chunk that holds `offset` on, in order. */
typedef void store_log_done(void *ctx, const struct store_log *logs, size_t count,
                            const struct err *why);
void store_read_log(struct store *store, struct str command, uint64_t offset, size_t max_bytes,
                    store_log_done *done, void *ctx);
/* Up to `limit` events of a tenant behind `after`; of one sandbox or of all (empty). */
typedef void store_event_done(void *ctx, const struct store_event *events, size_t count,
                              const struct err *why);
void store_read_events(struct store *store, struct str tenant, struct str sandbox, uint64_t after,
                       size_t limit, store_event_done *done, void *ctx);

struct store_figures {
    uint64_t batches, transactions, failures;
    int64_t last_commit_ns, slowest_commit_ns, commit_ns; /* the last one: of all together */
    size_t waiting;
};
struct store_figures store_figures(const struct store *store);
