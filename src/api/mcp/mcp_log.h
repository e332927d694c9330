#pragma once

/* The latest events that were sent to a client of the Model Context Protocol, by stream. A client
 * that reconnects continues after the last event it has received (Last-Event-ID). Belongs to the
 * loop's thread. */

#include "base/str.h"

enum {
    MCP_LOG_BYTES = 1 << 20, /* kept of one client; the oldest go first */
    MCP_LOG_ID_SIZE = 48,
};

struct mcp_log_entry {
    struct mcp_log_entry *next;
    uint64_t stream, number;
    size_t len;
    char json[];
};

/* All zero is an empty one. */
struct mcp_log {
    struct mcp_log_entry *first, *last;
    size_t bytes;
    uint64_t number;
};

void mcp_log_done(struct mcp_log *log);
/* Keeps it and gives the id of its event: "STREAM-NUMBER". */
void mcp_log_add(struct mcp_log *log, uint64_t stream, struct str json, char id[MCP_LOG_ID_SIZE]);
void mcp_log_id(uint64_t stream, uint64_t number, char id[MCP_LOG_ID_SIZE]);
/* False for an id that is not ours. */
bool mcp_log_parse(struct str id, uint64_t *ret_stream, uint64_t *ret_number) MUST_USE;
/* The first one of the stream after `number`; NULL when not found. */
const struct mcp_log_entry *mcp_log_after(const struct mcp_log *log, uint64_t stream,
                                          uint64_t number);
