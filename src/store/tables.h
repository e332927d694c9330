#pragma once

/* The rows of the store, one list each: TEXT (empty is NULL) and INT columns in the order of
 * schema.sql, `id` first. From the list come the struct and the table that binds it. */

#include "base/str.h"

struct store_column {
    const char *name;
    bool is_int;
    size_t offset;
};

struct store_table {
    const char *name;
    const struct store_column *columns;
    size_t column_count, row_size;
    bool has_order;
    int index; /* among all tables */
};

/* Lists, not code: */
/* clang-format off */
#define STORE_SANDBOX(TEXT, INT) \
    TEXT(id) TEXT(tenant) INT(ord) TEXT(tier) TEXT(runtime) TEXT(state) TEXT(name) TEXT(reason) \
    TEXT(session) TEXT(volume) TEXT(forked_from) TEXT(spec) TEXT(metadata) TEXT(network) \
    TEXT(checkpoints) TEXT(image) INT(timeout_ms) INT(idle_ms) INT(kills) INT(expires_ms) \
    INT(created_ms) INT(started_ms) INT(active_ms) INT(ended_ms) INT(version) TEXT(variables) \
    TEXT(disk) TEXT(turns)

#define STORE_SESSION(TEXT, INT) \
    TEXT(id) TEXT(tenant) TEXT(session) INT(ord) TEXT(name) TEXT(sandbox) TEXT(volume) TEXT(spec) \
    INT(warm) INT(idle_ms) INT(created_ms) INT(active_ms) INT(volume_expired_ms) \
    TEXT(variables) TEXT(turns) INT(volume_ttl_ms)

#define STORE_MODULE(TEXT, INT) \
    TEXT(id) TEXT(session) TEXT(path) TEXT(source) INT(updated_ms) TEXT(description) TEXT(exports) \
    TEXT(usage) TEXT(scope) INT(in_volume)

#define STORE_VOLUME(TEXT, INT) \
    TEXT(id) TEXT(tenant) INT(ord) TEXT(name) TEXT(session) TEXT(slug) TEXT(region) TEXT(tier) \
    TEXT(sandbox) INT(fence) INT(capacity_bytes) INT(ttl_ms) INT(created_ms) INT(used_ms) \
    TEXT(metadata)

#define STORE_SNAPSHOT(TEXT, INT) \
    TEXT(id) TEXT(tenant) INT(ord) TEXT(slug) TEXT(tier) TEXT(state) TEXT(source) TEXT(detail) \
    TEXT(image) INT(size_bytes) INT(created_ms) TEXT(packages)

#define STORE_COMMAND(TEXT, INT) \
    TEXT(id) TEXT(tenant) INT(ord) TEXT(sandbox) TEXT(spec) INT(state) INT(end_reason) INT(code) \
    INT(signal) INT(started_ms) INT(ended_ms) INT(wall_us) INT(user_us) INT(system_us) \
    INT(peak_bytes) INT(log_end) INT(bytes_out) INT(bytes_err) INT(bytes_tty) INT(truncated) INT(missing)

#define STORE_TOKEN(TEXT, INT) \
    TEXT(id) TEXT(tenant) INT(ord) TEXT(name) TEXT(hash) INT(scopes) INT(created_ms) \
    INT(expires_ms) INT(sandboxes) INT(memory_bytes) INT(disk_bytes) INT(rate_per_minute)

#define STORE_APPROVAL(TEXT, INT) \
    TEXT(id) TEXT(tenant) INT(ord) TEXT(kind) TEXT(subject) TEXT(digest) TEXT(title) TEXT(detail) \
    TEXT(sandbox) TEXT(state) TEXT(requested_by) TEXT(requested_token) INT(requested_ms) \
    INT(expires_ms) TEXT(decided_by) TEXT(decided_token) INT(decided_ms) TEXT(note) TEXT(reason) \
    INT(ended_ms) INT(told)

#define STORE_KEY(TEXT, INT) TEXT(id) TEXT(request_hash) TEXT(object) INT(created_ms)

#define STORE_META(TEXT, INT) TEXT(id) TEXT(value)
/* clang-format on */

/* struct name, table, list */
#define STORE_TABLES(X)                                                                            \
    X(sandbox, sandboxes, STORE_SANDBOX, true)                                                     \
    X(session, sessions, STORE_SESSION, true)                                                      \
    X(module, code_modules, STORE_MODULE, false)                                                   \
    X(volume, session_volumes, STORE_VOLUME, true)                                                 \
    X(snapshot, snapshots, STORE_SNAPSHOT, true)                                                   \
    X(command, commands, STORE_COMMAND, true)                                                      \
    X(token, tokens, STORE_TOKEN, true)                                                            \
    X(approval, approvals, STORE_APPROVAL, true)                                                   \
    X(key, idempotency_keys, STORE_KEY, false)                                                     \
    X(meta, meta, STORE_META, false)

enum {
#define X(type, table, list, ordered) STORE_INDEX_##table,
    STORE_TABLES(X)
#undef X
        STORE_TABLE_COUNT
};

#define STORE_TEXT_FIELD(name) struct str name;
#define STORE_INT_FIELD(name) int64_t name;
#define X(type, table, list, ordered)                                                              \
    struct store_##type {                                                                          \
        list(STORE_TEXT_FIELD, STORE_INT_FIELD)                                                    \
    };                                                                                             \
    extern const struct store_table store_##table;
STORE_TABLES(X)
#undef X

/* These two are not rows by id. */
struct store_event {
    uint64_t seq;
    int64_t date_ms;
    struct str kind, tenant, id, sandbox, state, detail;
};
struct store_log {
    struct str command;
    uint64_t start;
    int64_t stream;
    struct str bytes;
    int64_t at, lines; /* bytes and lines of its stream before it; -1: not known */
};
