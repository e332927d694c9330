#pragma once

/* The routes of /v1: each v1_*.c turns JSON into an engine verb's struct, and its answer into JSON.
 * What they share. */

#include "api/http/api.h"
#include "api/http/request.h"
#include "base/err.h"
#include "base/format/json.h"
#include "engine/engine.h"

extern const struct route v1_sandbox_routes[];
extern const struct route v1_run_routes[];
extern const struct route v1_turn_routes[];
extern const struct route v1_context_routes[];
extern const struct route v1_command_routes[];
extern const struct route v1_log_routes[];
extern const struct route v1_file_routes[];
extern const struct route v1_byte_routes[];
extern const struct route v1_session_routes[];
extern const struct route v1_snapshot_routes[];
extern const struct route v1_snapshot_byte_routes[];
extern const struct route v1_volume_routes[];
extern const struct route v1_zone_routes[];
extern const struct route v1_event_routes[];
extern const struct route v1_token_routes[];
extern const struct route v1_approval_routes[];
extern const struct route v1_docs_routes[];
extern const struct route v1_du_routes[];
extern const struct route v1_tool_routes[];
extern const struct route v1_tty_routes[];
extern const struct route v1_port_routes[];
extern const struct route mcp_routes[];

/* The sandbox of the session or command that the path or the body names, as it is now; empty when
 * not found. Belongs to the request's arena. */
struct str v1_sandbox_of(struct api *api, struct request *request);
/* Names stand for ids in paths: puts the id there. False with a reply when several have the name.
 */
bool v1_find_named(struct api *api, struct request *request);

/* Members of the checked body, or of an object in it; absent ones are empty. Text is borrowed from
 * the body, lists from the request's arena. */
struct str v1_str(const struct json_t *object, const char *name);
int64_t v1_int(const struct json_t *object, const char *name, int64_t fallback);
/* A limit of time, as the engine takes it: 0 when it was left out, -1 for none. */
int64_t v1_time(const struct json_t *object, const char *name);
bool v1_bool(const struct json_t *object, const char *name, bool fallback);
struct engine_pairs v1_pairs(struct request *request, const struct json_t *object,
                             const char *name);
const struct str *v1_list(struct request *request, const struct json_t *object, const char *name,
                          size_t *ret_count);
/* The members `secrets` and `limits`. */
struct sandbox_secrets v1_secrets(struct request *request, const struct json_t *object);
/* Once the engine has them: the values are wiped where the body was parsed. */
void v1_forget_secrets(const struct sandbox_secrets *secrets);
struct sandbox_limits v1_limits(const struct json_t *object);
/* Reads the specification of a sandbox from the members of a request body. */
int v1_sandbox_spec(struct request *request, const struct json_t *object,
                    struct sandbox_spec *ret_spec, struct err *err) MUST_USE;
/* The page that the query asks for. */
struct engine_page v1_page(struct request *request);

/* Bodies for rows: V1_BODY(JSON("name": {...}) "," JSON(...)), or V1_NEEDS(JSON(["name"]), ...). */
#define V1_BODY(members)                                                                           \
    "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{" members "}}"
#define V1_NEEDS(names, members)                                                                   \
    "{\"type\":\"object\",\"additionalProperties\":false,\"required\":" names                      \
    ",\"properties\":{" members "}}"
/* Members that several bodies have. */
/* clang-format off */
#define V1_SPELL(n) #n
#define V1_SPELLED(n) V1_SPELL(n)
#define V1_MEMORY_MB(most) "\"memoryMb\":{\"type\":\"integer\",\"minimum\":" \
    V1_SPELLED(MEMORY_MIN_MB) ",\"maximum\":" #most "}"
/* A limit of time: milliseconds; 0 and "none" mean no limit. */
#define V1_TIME(help) "{\"anyOf\":[{\"type\":\"integer\",\"minimum\":0,\"maximum\":31536000000}," \
    "{\"type\":\"string\",\"enum\":[\"none\"]}],\"description\":\"" help "\"}"
#define V1_M_TIMEOUT "\"timeoutMs\":" V1_TIME( \
    "Pause it (or stop it, see onTimeout) this many milliseconds from now, even if it is busy; default, 0 or none: never")
#define V1_M_IDLE "\"idleMs\":" V1_TIME( \
    "Pause it after this many milliseconds without work; 0 or none: never; default: sandbox.idle_seconds of the configuration")
#define V1_M_SEARCH_ALL \
    JSON("searchAll": {"type": "boolean", \
        "description": "Also search .git, node_modules and .sandglass, which are skipped unless pattern names them"})
#define V1_M_ENV JSON("env": {"type": "object", "additionalProperties": {"type": "string"}, \
    "description": "Environment variables"})
#define V1_M_NETWORK JSON("network": {"type": "string", "maxLength": 65536, \
    "description": "Allowed hosts: none, public, or allow HOST, ... with npm and pypi for the registries of the server; default: none"})
#define V1_M_SECRETS JSON("secrets": {"type": "array", "maxItems": 32, "writeOnly": true, \
    "description": "Keys that code uses and never sees: in the sandbox the variable NAME holds a placeholder, which is replaced with the value in requests to the given hosts. Responses never contain the value", \
    "items": {"type": "object", "additionalProperties": false, "properties": { \
        "name": {"type": "string", "maxLength": 64, "description": "Variable inside"}, \
        "value": {"type": "string", "maxLength": 8192, \
            "description": "8 characters or more; if omitted in an update, unchanged"}, \
        "hosts": {"type": "array", "maxItems": 16, "items": {"type": "string", "maxLength": 260}, \
            "description": "Exact hosts, HOST or HOST:PORT, over https; the network must allow them"}, \
        "headers": {"type": "array", "maxItems": 8, "items": {"type": "string", "maxLength": 64}, \
            "description": "Request headers that it may be sent in; default: Authorization and X-Api-Key"}, \
        "config": {"type": "string", "maxLength": 64, \
            "description": "Instead of the other members: NAME of a [secrets.NAME] of the server"}}}})
/* Limits of the network; members of `limits`. */
#define V1_M_NET_LIMITS \
    JSON("netConnections": {"type": "integer", "minimum": 0, "maximum": 1024, \
        "description": "Maximum open connections; further ones wait. 0, here and below: as configured"}) "," \
    JSON("netBytesPerSecond": {"type": "integer", "minimum": 0, "maximum": 1000000000000000}) "," \
    JSON("netBytesTotal": {"type": "integer", "minimum": 0, "maximum": 1000000000000000, \
        "description": "Both directions, in its whole lifetime"}) "," \
    JSON("netIdleMs": {"type": "integer", "minimum": 0, "maximum": 86400000, \
        "description": "A connection without traffic is closed after this time"}) "," \
    JSON("netTotalMs": {"type": "integer", "minimum": 0, "maximum": 86400000, \
        "description": "A connection is closed after this time"}) "," \
    JSON("netHeadBytes": {"type": "integer", "minimum": 0, "maximum": 1048576, \
        "description": "Maximum size of HTTP headers that the proxy reads"}) "," \
    JSON("netAnswerBytes": {"type": "integer", "minimum": 0, "maximum": 1000000000000000, \
        "description": "Maximum size of an HTTP response body that the proxy reads"})
/* What v1_sandbox_spec reads. */
#define V1_M_SANDBOX \
    JSON("tier": {"type": "string", "enum": ["jail", "isolate", "memory"], \
        "description": "Kind of isolation (memory: only files, for tests); default: as configured"}) "," \
    JSON("runtime": {"type": "string", "maxLength": 64}) "," \
    JSON("name": {"type": "string", "maxLength": 64, "description": "For people"}) "," \
    JSON("snapshots": {"type": "array", "maxItems": 16, "items": {"type": "string"}, \
        "description": "Ids or slugs, lowest first"}) "," \
    JSON("requirements": {"type": "array", "maxItems": 64, \
        "items": {"type": "string", "maxLength": 200}, \
        "description": "Packages to install before the first run of its runtime"}) "," \
    JSON("volume": {"type": "string", "description": "Id of the volume at /workspace"}) "," \
    V1_M_ENV "," \
    JSON("metadata": {"type": "object", "additionalProperties": {"type": "string"}, \
        "description": "Labels to find it by"}) "," \
    JSON("limits": {"type": "object", "additionalProperties": false, "properties": {) \
        V1_MEMORY_MB(1048576) JSON(, \
        "diskMb": {"type": "integer", "minimum": 1, "maximum": 1048576}, \
        "cpus": {"type": "number", "minimum": 0.05, "maximum": 1024}, \
        "pids": {"type": "integer", "minimum": 1, "maximum": 1024}, \
        "execMs":) V1_TIME( \
        "Time limit of a run of code or a foreground command whose call gives none; 0 or none: no limit") \
        "," V1_M_NET_LIMITS "}}," \
    V1_M_NETWORK "," V1_M_SECRETS "," V1_M_TIMEOUT "," V1_M_IDLE "," \
    JSON("onTimeout": {"type": "string", "enum": ["pause", "kill"]}) "," \
    JSON("checkpoints": {"type": "string", "enum": ["manual", "turn"], \
        "description": "turn: save /workspace before each call that may change files, for undo and diff"})
/* clang-format on */

/* Rows of a list. */
extern const struct route_query v1_page_query[];

/* Writing. */
void v1_put_str(struct json_out *out, const char *key, struct str text); /* null when empty */
/* JSON that is stored as text; `fallback` when it is empty. */
void v1_put_json(struct json_out *out, struct str text, const char *fallback);
struct events;
/* Members sandbox, state and reason; and an event with them. */
void v1_put_state(struct json_out *out, const struct sandbox_info *sandbox);
void v1_put_state_event(struct events *events, const struct sandbox_info *sandbox);
void v1_put_pairs(struct json_out *out, const char *key, struct engine_pairs pairs);
void v1_put_date(struct json_out *out, const char *key, int64_t date_ms); /* null when 0 */
void v1_put_sandbox(struct json_out *out, const void *thing); /* struct sandbox_info; a v1_put */
void v1_put_command(struct json_out *out, const void *thing); /* struct command_info */
/* Holds the request, and calls `done` with the command that its path names. */
void v1_get_command(struct request *request, struct api *api, command_done *done);
/* For such a `done`: false with a reply when there is no command. */
bool v1_has_command(struct request *request, const struct command_info *command,
                    const struct err *why);
/* Resumes a paused sandbox because input arrived. */
void v1_wake(struct api *api, const struct engine_caller *caller, struct str sandbox);
void v1_put_checkpoint(struct json_out *out, const void *thing); /* struct sandbox_checkpoint */
/* Bytes as text where they are UTF-8, else in base64. */
void v1_put_bytes(struct json_out *out, struct str bytes);

/* Begins the answer {...}; v1_reply ends and sends it. */
struct v1_answer {
    struct buf buf;
    struct json_out json;
};
struct json_out *v1_begin(struct v1_answer *answer);
void v1_reply(struct request *request, int status, struct v1_answer *answer);
/* Writes one thing of the kind that a list has. */
typedef void v1_put(struct json_out *out, const void *thing);
/* The row's status and the thing; or the error, where `why` is one. */
void v1_reply_one(struct request *request, v1_put *put, const void *thing, const struct err *why);
/* The row's status and {NAME: [...], "next": ...}. */
struct v1_rows {
    v1_put *put;
    const void *items;
    size_t count, size; /* of one */
    const char *next;   /* NULL: the list has no pages */
};
#define V1_ROWS(put_one, list)                                                                     \
    (&(struct v1_rows){(put_one), (list).items, (list).count, sizeof *(list).items, (list).next})
void v1_reply_rows(struct request *request, const char *name, const struct v1_rows *rows);
/* `engine_done` of verbs that answer with nothing: 204, or the error. `ctx` is the request. */
void v1_done(void *ctx, const struct err *why);
/* `sandbox_done`: 200 and the sandbox. */
void v1_sandbox_done(void *ctx, const struct sandbox_info *sandbox, const struct err *why);

/* The table's scopes for the engine's. */
uint32_t v1_scopes_of_token(unsigned token_scopes);

/* Files. */
/* clang-format off */
#define V1_FILE_FAILS (E(NOT_FOUND) | E(NOT_A_FILE) | E(NOT_A_DIRECTORY) | E(PATH_ESCAPES) | E(READ_ONLY) | \
    E(CONFLICT) | E(GONE) | E(UNSUPPORTED) | E(NO_SPACE) | E(TOO_LARGE) | E(BUSY) | E(TIMEOUT))
/* clang-format on */
/* "/v1/volumes/ID/files": which kind of place the path names. */
struct file_place v1_place(const struct request *request);
/* The query's `path`; false with a reply when it is missing. */
bool v1_path(struct request *request, struct str *ret_path);
void v1_put_file(struct json_out *out, const struct file_info *info);

/* `snapshot_done`: the row's status and the snapshot. */
void v1_snapshot_done(void *ctx, const struct snapshot_info *snapshot, const struct err *why);

/* Counts how long the request took until now. */
void v1_observe(struct request *request, int family, const char *tier, const char *kind,
                const struct err *why);
