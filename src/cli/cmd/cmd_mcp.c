/* `sandglass mcp`: a client of the Model Context Protocol on standard input and output, with an
 * engine of its own that lives and ends with it. */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/mcp.h"
#include "agent/tool.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/format/json.h"
#include "base/id.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/cmd/commands.h"
#include "cli/mcp_dir.h"
#include "config/config.h"
#include "engine/engine.h"
#include "io/loop.h"
#include "tiers/tiers.h"

enum { LINE_MAX_BYTES = JSON_SIZE_MAX, READ_BYTES = 64 << 10, STOP_MS = 10000 };

struct stdio {
    struct loop *loop;
    struct engine *engine;
    struct mcp *mcp;
    struct engine_caller caller;
    char session[ID_SIZE];
    struct watch *input;
    struct buf line;
    bool is_too_long; /* the line at hand: skipped to its end */
    bool is_over;     /* nothing more comes in */
    bool is_stopping;
    struct err err;
};

/* --- Ending --- */

static void on_stopped(void *ctx, UNUSED const struct err *why)
{
    struct stdio *stdio = ctx;
    loop_stop(stdio->loop);
}

static void on_deleted(void *ctx, UNUSED const struct err *why)
{
    struct stdio *stdio = ctx;
    engine_stop(stdio->engine, on_stopped, stdio);
}

static void mcp_stop(struct stdio *stdio)
{
    if (stdio->is_stopping)
        return;
    stdio->is_stopping = true;
    stdio->input = watch_free(stdio->input);
    stdio->mcp = mcp_free(stdio->mcp);
    engine_session_delete(stdio->engine, &stdio->caller, str_of(stdio->session), on_deleted, stdio);
}

/* What was asked before the end of input is answered first. */
static void stop_when_done(struct stdio *stdio)
{
    if (stdio->is_over && !mcp_is_busy(stdio->mcp))
        mcp_stop(stdio);
}

struct stop_task {
    struct loop_task task;
    struct stdio *stdio;
};

static void on_stop_task(struct loop_task *task)
{
    struct stop_task *later = (struct stop_task *)task;
    if (!later->stdio->is_stopping)
        stop_when_done(later->stdio);
    free(later);
}

static void mcp_on_signal(void *ctx, UNUSED int signo)
{
    mcp_stop(ctx);
}

/* --- Messages --- */

static void mcp_on_message(void *ctx, UNUSED struct str about, bool is_last, struct str json)
{
    struct stdio *stdio = ctx;
    AUTO_BUF struct buf line = {0};
    if (json.len > 0) {
        buf_put(&line, json);
        buf_put_char(&line, '\n');
        cli_print(buf_str(&line));
    }
    if (is_last && stdio->is_over) {
        struct stop_task *later = mem_alloc(sizeof *later);
        *later = (struct stop_task){.task.run = on_stop_task, .stdio = stdio};
        loop_post(stdio->loop, &later->task);
    }
}

static const struct mcp_calls calls = {mcp_on_message};

static void mcp_take_line(struct stdio *stdio, struct str line)
{
    struct err err = {0};
    AUTO_JSON struct json_t *message = NULL;
    line = str_trim(line);
    if (line.len == 0)
        return;
    if (json_parse(line, &message, &err) < 0)
        mcp_refuse(stdio->mcp, err.msg);
    else
        (void)mcp_take(stdio->mcp, message);
}

static void take_bytes(struct stdio *stdio, struct str bytes)
{
    struct str part;
    while (bytes.len > 0) {
        size_t at = str_find_char(bytes, '\n');
        part = str_slice(bytes, 0, at);
        if (!stdio->is_too_long && stdio->line.len + part.len > LINE_MAX_BYTES) {
            stdio->is_too_long = true;
            mcp_refuse(stdio->mcp, "message larger than 16 MiB");
        }
        if (!stdio->is_too_long)
            buf_put(&stdio->line, part);
        if (at == bytes.len)
            return;
        if (!stdio->is_too_long)
            mcp_take_line(stdio, buf_str(&stdio->line));
        stdio->is_too_long = false;
        buf_clear(&stdio->line);
        bytes = str_slice(bytes, at + 1, bytes.len);
    }
}

static void on_input(void *ctx, UNUSED int events)
{
    struct stdio *stdio = ctx;
    char bytes[READ_BYTES];
    ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
    if (got > 0) {
        take_bytes(stdio, str_n(bytes, (size_t)got));
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        take_bytes(stdio, STR("\n"));
        stdio->is_over = true;
        watch_set(stdio->input, 0);
        stop_when_done(stdio);
    }
}

static void on_session(void *ctx, UNUSED const struct session_info *session, const struct err *why)
{
    struct stdio *stdio = ctx;
    if (why != NULL) {
        stdio->err = *why;
        loop_stop(stdio->loop);
    } else if (watch_new(stdio->loop, STDIN_FILENO, WATCH_READ, on_input, stdio, &stdio->input,
                         &stdio->err) < 0) {
        (void)err_wrap(&stdio->err, "standard input (must be a pipe)");
        mcp_stop(stdio);
    }
}

/* --- The verb --- */

static void mcp_ignore(UNUSED void *ctx, UNUSED const struct err *why)
{
}

/* One that was killed has left its session in a directory that is kept. */
static void delete_sessions(struct stdio *stdio)
{
    AUTO_ARENA struct arena arena = {0};
    struct session_list list = {0};
    struct engine_page page = {0};
    struct err err = {0};
    if (engine_session_list(stdio->engine, &stdio->caller, &page, &arena, &list, &err) < 0)
        return;
    for (size_t i = 0; i < list.count; i++)
        engine_session_delete(stdio->engine, &stdio->caller, list.items[i].id, mcp_ignore, NULL);
}

static int converse(struct stdio *stdio, const struct config *config, const struct mcp_dir *dir,
                    struct err *err)
{
    struct signal_watch *signals[2] = {0};
    const struct engine_options options = {
        .config = config, .data_dir = dir->path, .tiers = tiers_all};
    if (signal_watch_new(stdio->loop, SIGTERM, mcp_on_signal, stdio, &signals[0], err) < 0 ||
        signal_watch_new(stdio->loop, SIGINT, mcp_on_signal, stdio, &signals[1], err) < 0 ||
        engine_open(stdio->loop, &options, &stdio->engine, err) < 0)
        return -1;
    id_new(stdio->session);
    stdio->caller = (struct engine_caller){.tenant = STR("local"), .is_operator = true};
    if (dir->is_kept)
        delete_sessions(stdio);
    struct session_spec spec = {.id = str_of(stdio->session), .name = STR("mcp")};
    stdio->mcp = mcp_new(&(struct mcp_options){.engine = stdio->engine,
                                               .config = config,
                                               .loop = stdio->loop,
                                               .caller = stdio->caller,
                                               .session = spec.id},
                         &calls, stdio);
    engine_session_create(stdio->engine, &stdio->caller, &spec, on_session, stdio);
    loop_run(stdio->loop);
    stdio->mcp = mcp_free(stdio->mcp);
    stdio->engine = engine_free(stdio->engine);
    *err = stdio->err;
    return stdio->err.code == ERR_NONE ? EXIT_OK : -1;
}

static int print_config(const char *client, struct err *err)
{
    AUTO_BUF struct buf text = {0};
    char program[4096];
    ssize_t len = readlink("/proc/self/exe", program, sizeof program - 1);
    bool is_vscode = strcmp(client, "vscode") == 0;
    struct json_out out = {.buf = &text, .pretty = true};
    if (!is_vscode && strcmp(client, "claude") != 0 && strcmp(client, "cursor") != 0)
        return err_set(err, ERR_INVALID,
                       "--print-config: must be claude, cursor or vscode, got '%.40s'", client);
    json_begin_object(&out);
    json_key(&out, is_vscode ? "servers" : "mcpServers");
    json_begin_object(&out);
    json_key(&out, "sandglass");
    json_begin_object(&out);
    if (is_vscode)
        json_key(&out, "type"), json_put_cstr(&out, "stdio");
    json_key(&out, "command");
    json_put_str(&out, len > 0 ? str_n(program, (size_t)len) : STR("sandglass"));
    json_key(&out, "args");
    json_begin_array(&out);
    json_put_cstr(&out, "mcp");
    json_end_array(&out);
    json_end_object(&out);
    json_end_object(&out);
    json_end_object(&out);
    buf_put_char(&text, '\n');
    cli_print(buf_str(&text));
    return EXIT_OK;
}

static int mcp(const struct cli_call *call, struct err *err)
{
    AUTO_CONFIG struct config *config = NULL;
    AUTO_MCP_DIR struct mcp_dir dir = {.lock = -1};
    const char *client = cli_value(call, "print-config");
    if (client != NULL)
        return print_config(client, err);
    if (config_load(cli_value(call, "config"), &config, err) < 0)
        return -1;
    log_setup(LOG_WARN, config->server.log_format, STDERR_FILENO);
    struct stdio stdio = {0};
    if (mcp_dir_open(config, &dir, err) < 0 || loop_open(&stdio.loop, err) < 0)
        return -1;
    int code = converse(&stdio, config, &dir, err);
    stdio.loop = loop_free(stdio.loop);
    buf_done(&stdio.line);
    return code;
}

static const struct cli_option mcp_options[] = {
    {0, "print-config", "CLIENT", "Print the settings to add to claude, cursor or vscode"},
    {0},
};

const struct cli_verb cmd_mcp = {
    .name = "mcp",
    .args = "",
    .summary = "Serve one client of the Model Context Protocol on standard input and output",
    .details = "Needs no daemon: the client gets its own session, with a sandbox created at first "
               "use; both are deleted when the client disconnects. A running daemon serves the "
               "same protocol at /mcp.",
    .options = mcp_options,
    .run = mcp,
};

static int tools_docs(UNUSED const struct cli_call *call, UNUSED struct err *err)
{
    AUTO_BUF struct buf out = {0};
    tools_put_doc(&out);
    cli_print(buf_str(&out));
    return EXIT_OK;
}

static int tools_typescript(UNUSED const struct cli_call *call, UNUSED struct err *err)
{
    AUTO_BUF struct buf out = {0};
    tools_put_typescript(&out);
    cli_print(buf_str(&out));
    return EXIT_OK;
}

const struct cli_verb cmd_tools_ts = {
    .name = "tools ts",
    .args = "",
    .summary = "Print sdk/ts/src/tool_table.ts",
    .hidden = true,
    .run = tools_typescript,
};

const struct cli_verb cmd_tools_docs = {
    .name = "tools docs",
    .args = "",
    .summary = "Print docs/TOOLS.md",
    .hidden = true,
    .run = tools_docs,
};
