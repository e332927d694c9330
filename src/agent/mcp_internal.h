#pragma once

/* A client of the Model Context Protocol from inside, for mcp.c, mcp_call.c and mcp_files.c. */

#include "agent/internal.h"
#include "agent/mcp.h"
#include "base/map.h"

enum {
    RPC_PARSE = -32700,
    RPC_INVALID = -32600,
    RPC_NO_METHOD = -32601,
    RPC_PARAMS = -32602,
    RPC_INTERNAL = -32603,
    RPC_NO_RESOURCE = -32002,
};

/* Severity as RFC 5424 orders it, least first. */
enum mcp_level { LEVEL_DEBUG, LEVEL_INFO, LEVEL_NOTICE, LEVEL_WARNING, LEVEL_COUNT = 8 };

struct mcp_call;

struct mcp {
    const struct mcp_calls *calls;
    void *ctx;
    struct arena arena;
    struct tool_context context;
    bool is_ready; /* initialize was answered */
    bool logs;     /* the client has named a level */
    int level;
    struct mcp_call *running;     /* requests that wait for the engine */
    struct map subscriptions;     /* path -> itself */
    struct file_watcher *watcher; /* while there are any */
};

/* A request that is answered later. It outlives its client: `mcp` is NULL then. */
struct mcp_call {
    struct mcp_call *next;
    struct mcp *mcp;
    char *id;             /* JSON text */
    char *progress_token; /* JSON text, NULL when no progress is wanted */
    int64_t progress;
    struct tool_run *run; /* of tools/call */
    struct buf uri;       /* of resources/read; what stands before completed paths */
};

struct mcp_call *mcp_call_new(struct mcp *mcp, struct str id, const struct json_t *params);
/* Takes it out of its client's list and frees it. */
void mcp_call_free(struct mcp_call *call);

/* Begins {"jsonrpc": "2.0", "id": ID, "result": and leaves the value to the caller. */
struct json_out *mcp_begin(struct json_out *out, struct buf *text, struct str id);
void mcp_send(struct mcp *mcp, struct str id, struct json_out *out);
void mcp_send_empty(struct mcp *mcp, struct str id); /* {} */
void mcp_send_error(struct mcp *mcp, struct str id, int code, const char *message);
/* Begins {"jsonrpc": "2.0", "method": METHOD, "params": */
struct json_out *mcp_begin_note(struct json_out *out, struct buf *text, const char *method);
void mcp_send_note(struct mcp *mcp, struct str about, struct json_out *out);

/* mcp_call.c */
void mcp_call_tool(struct mcp *mcp, struct str id, const struct json_t *params);
void mcp_cancel(struct mcp *mcp, const struct json_t *params);

/* mcp_complete.c */
void mcp_complete(struct mcp *mcp, struct str id, const struct json_t *params);

/* mcp.c. The name of the prompt's one argument; NULL when there is no such prompt. */
const char *mcp_prompt_argument(struct str name);

/* mcp_files.c */
#define MCP_FILE_TEMPLATE "file://workspace/{+path}"
void mcp_list_files(struct mcp *mcp, struct str id, const struct json_t *params);
void mcp_read_file(struct mcp *mcp, struct str id, const struct json_t *params);
void mcp_subscribe(struct mcp *mcp, struct str id, const struct json_t *params);
void mcp_unsubscribe(struct mcp *mcp, struct str id, const struct json_t *params);
void mcp_files_done(struct mcp *mcp);
/* After a tool has run: a watch that ended with its sandbox is taken up again. */
void mcp_watch(struct mcp *mcp);
