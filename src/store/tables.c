#include "store/tables.h"

#define COLUMN_TEXT(column) {#column, false, offsetof(ROW, column)},
#define COLUMN_INT(column) {#column, true, offsetof(ROW, column)},
#define TABLE(type, table, list, ordered)                                                          \
    static const struct store_column table##_columns[] = {list(COLUMN_TEXT, COLUMN_INT)};          \
    const struct store_table store_##table = {                                                     \
        #table,      table##_columns, countof(table##_columns),                                    \
        sizeof(ROW), ordered,         STORE_INDEX_##table};

#define ROW struct store_sandbox
TABLE(sandbox, sandboxes, STORE_SANDBOX, true)
#undef ROW
#define ROW struct store_session
TABLE(session, sessions, STORE_SESSION, true)
#undef ROW
#define ROW struct store_module
TABLE(module, code_modules, STORE_MODULE, false)
#undef ROW
#define ROW struct store_volume
TABLE(volume, session_volumes, STORE_VOLUME, true)
#undef ROW
#define ROW struct store_snapshot
TABLE(snapshot, snapshots, STORE_SNAPSHOT, true)
#undef ROW
#define ROW struct store_command
TABLE(command, commands, STORE_COMMAND, true)
#undef ROW
#define ROW struct store_token
TABLE(token, tokens, STORE_TOKEN, true)
#undef ROW
#define ROW struct store_approval
TABLE(approval, approvals, STORE_APPROVAL, true)
#undef ROW
#define ROW struct store_key
TABLE(key, idempotency_keys, STORE_KEY, false)
#undef ROW
#define ROW struct store_meta
TABLE(meta, meta, STORE_META, false)
#undef ROW
