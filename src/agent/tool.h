#pragma once

/* Tools: the engine's verbs as a language model sees them.
 *
 * One table names them all; the HTTP API, the MCP server, the SDKs' types and docs/TOOLS.md are
 * made from its rows. A model never sees a sandbox: a call works in the session, or in the sandbox,
 * that its context names.
 *
 * What goes wrong is an answer, not a failure: {"success": false, "error": {"code", "message",
 * "hint"}}, where the hint says what to try next. Answers are bounded, and one that was cut says
 * how to get the rest. */

#include "base/format/json.h"
#include "engine/engine.h"

struct config;
struct loop;

enum {
    TOOL_TEXT_MAX = 100 << 10,  /* of a file, in one answer */
    TOOL_IMAGE_MAX = 4 << 20,   /* of a picture, as bytes */
    TOOL_OUTPUT_MAX = 30 << 10, /* of a command or of code, each stream */
    TOOL_VALUE_MAX = 64 << 10,  /* of a value as JSON */
    TOOL_PATHS_MAX = 1000,
    TOOL_MATCHES_MAX = 1000,
    TOOL_MATCHES_DEFAULT = 100,
};

enum tool_flags {
    TOOL_READ_ONLY = 1 << 0,   /* changes nothing */
    TOOL_DESTRUCTIVE = 1 << 1, /* may lose something */
    TOOL_REPEATABLE = 1 << 2,  /* twice is as good as once */
    TOOL_OPEN_WORLD = 1 << 3,  /* may reach beyond the sandbox */
    TOOL_OF_TURNS = 1 << 4,    /* needs automatic checkpoints, and [sandbox] undo_tool */
    TOOL_OF_DOCS = 1 << 5,     /* needs documents or modules to search */
};

struct tool_run;

struct tool {
    const char *name;
    const char *title;
    const char *description;
    const char *input;  /* JSON Schema, in base/format/schema.h's part of it */
    const char *output; /* JSON Schema of an answer without error */
    unsigned flags;
    /* Begins it; ends in tool_end or tool_fail, at once or later. */
    void (*start)(struct tool_run *run);
};

/* Ends with a row without name. */
extern const struct tool tools[];

/* Sandboxes may be switched off ([sandbox] enabled = false): then no tool is offered. */
bool tools_are_offered(const struct config *config);
/* NULL when none of that name is offered, as configured. */
const struct tool *tool_find(const struct config *config, struct str name);

/* For whom, and where. */
struct tool_context {
    struct engine *engine;
    const struct config *config;
    struct loop *loop;
    struct engine_caller caller; /* borrowed only for the call, as all of it is */
    struct str session;          /* or: */
    struct str sandbox;
};

struct tool_image {
    struct str mime;
    struct str base64;
};

struct tool_answer {
    bool is_error;
    bool fits_schema; /* `json` is what the tool's `output` describes */
    struct str json;  /* one object */
    const struct tool_image *images;
    size_t image_count;
};

/* Any but on_done may be NULL. */
struct tool_calls {
    void (*on_output)(void *ctx, bool is_stderr, struct str text); /* as it comes */
    void (*on_done)(void *ctx, const struct tool_answer *answer);  /* once, later than tool_start */
};

/* `args` is an object or NULL; both it and the context are borrowed until this returns. */
struct tool_run *tool_start(const struct tool_context *context, struct str name,
                            const struct json_t *args, const struct tool_calls *calls, void *ctx);
/* Ends what can be ended; on_done does not come any more, and the run is no more. */
void tool_cancel(struct tool_run *run);

enum tool_format { TOOLS_JSON, TOOLS_OPENAI, TOOLS_ANTHROPIC, TOOLS_MCP };
bool tool_format_of_name(struct str name, enum tool_format *ret_format) MUST_USE;
/* An array, one element a tool, in the shape that others expect. `also`: also those with these
 * flags (TOOL_OF_TURNS where it is configured, TOOL_OF_DOCS). */
void tools_put(const struct config *config, enum tool_format format, unsigned also,
               struct json_out *out);
/* TOOL_OF_DOCS when the tenant has something to search, and with `has_turns` TOOL_OF_TURNS. */
unsigned tools_also(const struct engine *engine, struct str tenant, bool has_turns);
/* Whether automatic checkpoints are made in the session or sandbox of the context. */
bool tool_has_turns(const struct tool_context *context);

/* What a system prompt of the tenant should say about them; nothing when none is offered. Of the
 * configuration's packages it names those that code of the session can import (NULL: of a session
 * that asks for nothing itself). */
void tools_put_prompt(const struct engine *engine, const struct config *config, struct str tenant,
                      const struct session_info *session, struct buf *out);
/* docs/TOOLS.md. */
void tools_put_doc(struct buf *out);
/* sdk/ts/src/tool_table.ts: the rows that every server offers, as a constant of TypeScript. */
void tools_put_typescript(struct buf *out);
