/* A list with an end for what is too old. */

#include "api/mcp/mcp_log.h"

#include <stdio.h>
#include <stdlib.h>

static void drop_first(struct mcp_log *log)
{
    struct mcp_log_entry *entry = log->first;
    log->first = entry->next;
    if (log->first == NULL)
        log->last = NULL;
    log->bytes -= entry->len;
    free(entry);
}

void mcp_log_done(struct mcp_log *log)
{
    while (log->first != NULL)
        drop_first(log);
}

void mcp_log_id(uint64_t stream, uint64_t number, char id[MCP_LOG_ID_SIZE])
{
    (void)snprintf(id, MCP_LOG_ID_SIZE, "%llu-%llu", (unsigned long long)stream,
                   (unsigned long long)number);
}

void mcp_log_add(struct mcp_log *log, uint64_t stream, struct str json, char id[MCP_LOG_ID_SIZE])
{
    mcp_log_id(stream, ++log->number, id);
    if (json.len > MCP_LOG_BYTES)
        return;
    while (log->first != NULL && log->bytes + json.len > MCP_LOG_BYTES)
        drop_first(log);
    struct mcp_log_entry *entry = mem_alloc(sizeof *entry + json.len);
    entry->next = NULL;
    entry->stream = stream;
    entry->number = log->number;
    entry->len = json.len;
    memcpy(entry->json, json.ptr, json.len);
    if (log->last == NULL)
        log->first = entry;
    else
        log->last->next = entry;
    log->last = entry;
    log->bytes += json.len;
}

bool mcp_log_parse(struct str id, uint64_t *ret_stream, uint64_t *ret_number)
{
    size_t dash = str_find_char(id, '-');
    int64_t stream, number;
    if (dash == id.len || !str_to_i64(str_slice(id, 0, dash), 0, INT64_MAX, &stream) ||
        !str_to_i64(str_slice(id, dash + 1, id.len), 0, INT64_MAX, &number))
        return false;
    *ret_stream = (uint64_t)stream;
    *ret_number = (uint64_t)number;
    return true;
}

const struct mcp_log_entry *mcp_log_after(const struct mcp_log *log, uint64_t stream,
                                          uint64_t number)
{
    for (const struct mcp_log_entry *entry = log->first; entry != NULL; entry = entry->next)
        if (entry->stream == stream && entry->number > number)
            return entry;
    return NULL;
}
