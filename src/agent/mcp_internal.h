#pragma once

/* A client of the Model Context Protocol from inside, for the mcp*.c of this module. */

#include "agent/internal.h"
#include "agent/mcp.h"
#include "base/map.h"

enum {
    RPC_PARSE = -32700,
    RPC_INVALID = -32600,
    RPC_NO_METHOD = -32601,
    RPC_PARAMS = -32602,
    RPC_INTERNAL = -32603,
    RPC_NO_RESOURCE = -32002, /* before 2026-07-28; RPC_PARAMS from then on */
    RPC_NO_VERSION = -32022,
};

/* Severity in the order of RFC 5424, least severe first. LEVEL_COUNT: nothing is sent. */
enum mcp_level { LEVEL_DEBUG, LEVEL_INFO, LEVEL_NOTICE, LEVEL_WARNING, LEVEL_COUNT = 8 };

/* A request, as far as its answer must know it. */
struct mcp_asked {
    struct str id;  /* JSON text */
    bool is_modern; /* 2026-07-28 or later: it says all about itself, and needs no initialize */
    bool is_listen; /* its answer ends a subscription */
    int level;      /* of a modern one: log messages from here on */
};

struct mcp_call;
struct mcp_listen;

struct mcp {
    const struct mcp_calls *calls;
    void *ctx;
    struct arena arena;
    struct tool_context context;
    bool is_ready;                /* initialize was answered */
    int level;                    /* that the client has named by logging/setLevel */
    struct mcp_call *running;     /* requests that wait for the engine */
    struct map subscriptions;     /* path -> itself */
    struct mcp_listen *listens;   /* subscriptions of modern requests */
    struct file_watcher *watcher; /* while there are any of both */
};

/* A request that is answered later. It outlives its client: `mcp` is NULL then. */
struct mcp_call {
    struct mcp_call *next;
    struct mcp *mcp;
    struct mcp_asked asked; /* its id is `id` */
    char *id;
    char *progress_token; /* JSON text, NULL when no progress is wanted */
    int64_t progress;
    struct tool_run *run; /* of tools/call */
    struct buf uri;       /* of resources/read; the prefix of completed paths */
};

struct mcp_call *mcp_call_new(struct mcp *mcp, const struct mcp_asked *asked,
                              const struct json_t *params);
/* Takes it out of its client's list and frees it. */
void mcp_call_free(struct mcp_call *call);

bool mcp_is_object(const struct json_t *value); /* NULL is not */
/* Empty if missing. */
struct str mcp_text(const struct json_t *object, const char *name);
/* Begins {"jsonrpc": "2.0", "id": ID, "result": { and what every result has in it. */
struct json_out *mcp_begin(struct json_out *out, struct buf *text, const struct mcp_asked *asked);
/* How long a modern client may keep a result; a public one holds for every client. */
void mcp_put_cache(struct json_out *out, const struct mcp_asked *asked, bool is_public);
/* Ends what mcp_begin began, and sends it. */
void mcp_send(struct mcp *mcp, const struct mcp_asked *asked, struct json_out *out);
void mcp_send_empty(struct mcp *mcp, const struct mcp_asked *asked); /* nothing more in it */
void mcp_send_error(struct mcp *mcp, struct str id, int code, const char *message);
/* Begins {"jsonrpc": "2.0", "method": METHOD, "params": */
struct json_out *mcp_begin_note(struct json_out *out, struct buf *text, const char *method);
void mcp_send_note(struct mcp *mcp, struct str about, struct json_out *out);
/* JSON text that was parsed before, as a value. */
void mcp_put_json(struct json_out *out, struct str json);

/* mcp_modern.c */
#define MCP_META "io.modelcontextprotocol/"
/* The newest first; those that begin with initialize, and those that need none. */
extern const char *const mcp_old_versions[], *const mcp_modern_versions[];
/* What a request says about itself. */
struct mcp_asked mcp_asked_of(const struct json_t *params, struct str id);
void mcp_discover(struct mcp *mcp, const struct mcp_asked *asked, const struct json_t *params);

/* mcp.c */
bool mcp_level_of(struct str name, int *ret_level) MUST_USE;
/* "capabilities": ..., "instructions": ... */
void mcp_put_abilities(struct mcp *mcp, struct json_out *out);
/* Whether there is such a method for a modern request, or for any other. */
bool mcp_has_method(struct str name, bool is_modern);

/* mcp_call.c */
void mcp_call_tool(struct mcp *mcp, const struct mcp_asked *asked, const struct json_t *params);
void mcp_cancel(struct mcp *mcp, const struct json_t *params);

/* mcp_complete.c */
void mcp_complete(struct mcp *mcp, const struct mcp_asked *asked, const struct json_t *params);

/* mcp_prompts.c */
void mcp_list_prompts(struct mcp *mcp, const struct mcp_asked *asked, const struct json_t *params);
void mcp_get_prompt(struct mcp *mcp, const struct mcp_asked *asked, const struct json_t *params);
/* The name of the prompt's one argument; NULL when there is no such prompt. */
const char *mcp_prompt_argument(struct str name);

/* mcp_files.c */
#define MCP_FILE_ROOT "/workspace"
#define MCP_PAGE_SCHEME "docs://page/"
#define MCP_FILE_SCHEME "file://workspace"
#define MCP_FILE_TEMPLATE MCP_FILE_SCHEME "/{+path}"
void mcp_list_files(struct mcp *mcp, const struct mcp_asked *asked, const struct json_t *params);
void mcp_list_templates(struct mcp *mcp, const struct mcp_asked *asked,
                        const struct json_t *params);
void mcp_read_file(struct mcp *mcp, const struct mcp_asked *asked, const struct json_t *params);
/* `path` begins behind /workspace, with its slash. */
void mcp_put_uri(struct buf *out, struct str path);
/* The absolute path; false when the URI is not one of ours. */
bool mcp_path_of(struct str uri, struct buf *out) MUST_USE;
/* The same for params.uri; says what is wrong itself. */
bool mcp_uri_of(struct mcp *mcp, const struct mcp_asked *asked, const struct json_t *params,
                struct str *ret_uri, struct buf *path) MUST_USE;

/* mcp_watch.c */
void mcp_subscribe(struct mcp *mcp, const struct mcp_asked *asked, const struct json_t *params);
void mcp_unsubscribe(struct mcp *mcp, const struct mcp_asked *asked, const struct json_t *params);
void mcp_listen(struct mcp *mcp, const struct mcp_asked *asked, const struct json_t *params);
/* Ends a subscription without an answer; false when the id is not found. */
bool mcp_unlisten(struct mcp *mcp, struct str id);
/* Ends all watches and notifies their clients. */
void mcp_watch_done(struct mcp *mcp);
