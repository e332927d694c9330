/* A command's terminal over WebSocket: bytes both ways as binary messages, words about them as text
 * ones. After a lost connection a client attaches again with the offset of the last byte it
 * received. */

#include "api/http/ws.h"
#include "api/v1/v1.h"
#include "base/excerpt.h"

enum { REPLAYED = 64 << 10, INPUT_MAX = 1 << 20 };

struct tty {
    struct api *api;
    struct engine_caller caller;
    char tenant[TENANT_MAX + 1];
    char id[ID_SIZE], sandbox[ID_SIZE];
    struct ws *ws; /* NULL once the client has gone */
    struct command_log_reader *reader;
    size_t unwritten; /* input that the command has not taken */
    size_t pending;   /* calls whose answers are due */
    struct arena arena;
};

static void release(struct tty *tty)
{
    if (tty->ws != NULL || tty->pending > 0)
        return;
    arena_done(&tty->arena);
    free(tty);
}

/* ---- out ----------------------------------------------------------------------------------- */

static void tty_say(struct tty *tty, const char *type, uint64_t offset,
                    const struct command_info *command)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text};
    json_begin_object(&out);
    json_key(&out, "type"), json_put_cstr(&out, type);
    json_key(&out, "offset"), json_put_i64(&out, (int64_t)offset);
    json_key(&out, "command"), v1_put_command(&out, command);
    json_end_object(&out);
    ws_send(tty->ws, true, buf_str(&text));
}

static void on_chunk(void *ctx, const struct log_chunk *chunk)
{
    struct tty *tty = ctx;
    ws_send(tty->ws, false, chunk->bytes);
    if (ws_is_full(tty->ws))
        command_log_reader_pause(tty->reader);
}

static void tty_on_end(void *ctx, const struct command_info *command, const struct err *why)
{
    struct tty *tty = ctx;
    if (why == NULL)
        tty_say(tty, "end", command->log_end, command);
    ws_close(tty->ws, why == NULL ? WS_NORMAL : WS_INTERNAL, why == NULL ? "" : why->msg);
}

/* A line of its own on the screen. */
static void on_gap(void *ctx, const struct log_gap *gap)
{
    struct tty *tty = ctx;
    AUTO_BUF struct buf text = {0};
    buf_put_cstr(&text, "\r\n");
    excerpt_mark(gap->bytes, gap->lines, "not kept", &text);
    AUTO_BUF struct buf json = {0};
    struct json_out out = {.buf = &json};
    json_begin_object(&out);
    json_key(&out, "type"), json_put_cstr(&out, "gap");
    json_key(&out, "offset"), json_put_i64(&out, (int64_t)gap->offset);
    json_key(&out, "bytes"), json_put_i64(&out, (int64_t)gap->bytes);
    json_key(&out, "text"), json_put_str(&out, buf_str(&text));
    json_end_object(&out);
    ws_send(tty->ws, true, buf_str(&json));
}

static void on_state(void *ctx, const struct sandbox_info *sandbox)
{
    struct tty *tty = ctx;
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text};
    json_begin_object(&out);
    json_key(&out, "type"), json_put_cstr(&out, "state");
    v1_put_state(&out, sandbox);
    json_end_object(&out);
    ws_send(tty->ws, true, buf_str(&text));
}

static const struct log_calls log_calls = {on_chunk, tty_on_end, on_gap, on_state};

/* ---- in ------------------------------------------------------------------------------------ */

struct write {
    struct tty *tty;
    size_t len;
};

static void tty_on_written(void *ctx, const struct err *why)
{
    struct write *write = ctx;
    struct tty *tty = write->tty;
    tty->pending--;
    tty->unwritten -= write->len;
    free(write);
    /* Input after the end of the command is dropped. */
    if (tty->ws != NULL && why != NULL && why->code == ERR_LIMIT)
        ws_close(tty->ws, WS_TRY_LATER, why->msg);
    else if (tty->ws != NULL && tty->unwritten < INPUT_MAX / 2)
        ws_resume(tty->ws);
    release(tty);
}

static void type_in(struct tty *tty, struct str bytes)
{
    struct write *write = mem_alloc(sizeof *write);
    *write = (struct write){tty, bytes.len};
    tty->pending++;
    tty->unwritten += bytes.len;
    if (tty->unwritten >= INPUT_MAX)
        ws_pause(tty->ws);
    v1_wake(tty->api, &tty->caller, str_of(tty->sandbox));
    engine_command_write(tty->api->engine, &tty->caller, str_of(tty->id), bytes, tty_on_written,
                         write);
}

static void on_resized(void *ctx, UNUSED const struct err *why)
{
    struct tty *tty = ctx;
    tty->pending--;
    release(tty);
}

static void obey(struct tty *tty, const struct json_t *message)
{
    struct str type = v1_str(message, "type");
    int64_t rows = v1_int(message, "rows", 0), cols = v1_int(message, "cols", 0);
    if (str_eq(type, STR("input"))) {
        type_in(tty, v1_str(message, "data"));
    } else if (str_eq(type, STR("resize")) && rows > 0 && rows <= 1000 && cols > 0 &&
               cols <= 1000) {
        tty->pending++;
        engine_command_resize(tty->api->engine, &tty->caller, str_of(tty->id), (uint16_t)rows,
                              (uint16_t)cols, on_resized, tty);
    } else {
        ws_close(tty->ws, WS_POLICY, "send bytes, or {\"type\":\"resize\",\"rows\",\"cols\"}");
    }
}

static void tty_on_message(void *ctx, bool is_text, struct str bytes)
{
    struct tty *tty = ctx;
    struct err err;
    AUTO_JSON struct json_t *message = NULL;
    if (!is_text)
        type_in(tty, bytes);
    else if (json_parse(bytes, &message, &err) == 0 && json_kind(message) == JSON_KIND_OBJECT)
        obey(tty, message);
    else
        ws_close(tty->ws, WS_POLICY, "a text message must be a JSON object");
}

static void tty_on_drain(void *ctx)
{
    struct tty *tty = ctx;
    if (tty->reader != NULL)
        command_log_reader_resume(tty->reader);
}

static void tty_on_closed(void *ctx)
{
    struct tty *tty = ctx;
    tty->ws = NULL;
    tty->reader = command_log_reader_free(tty->reader);
    release(tty);
}

static const struct ws_calls ws_calls = {tty_on_message, tty_on_drain, tty_on_closed};

static void v1_tty_on_found(void *ctx, const struct command_info *command, const struct err *why)
{
    struct request *request = ctx;
    struct api *api = request->rules->ctx;
    struct err err;
    struct engine_caller caller = request_caller(request);
    if (!v1_has_command(request, command, why))
        return;
    if (!command->tty) {
        (void)err_set(&err, ERR_CONFLICT, "the command has no terminal; start it with tty: true");
        reply_error(request, &err);
        return;
    }
    uint64_t late = command->log_end > REPLAYED ? command->log_end - REPLAYED : 0;
    uint64_t offset = (uint64_t)request_query_int(request, "offset", (int64_t)late);
    struct tty *tty = mem_alloc(sizeof *tty);
    tty->api = api;
    (void)snprintf(tty->id, sizeof tty->id, "%.*s", STR_ARG(command->id));
    (void)snprintf(tty->sandbox, sizeof tty->sandbox, "%.*s", STR_ARG(command->sandbox));
    (void)snprintf(tty->tenant, sizeof tty->tenant, "%s", request->caller.tenant);
    tty->caller = (struct engine_caller){
        .tenant = str_of(tty->tenant), .is_operator = caller.is_operator, .quota = caller.quota};
    if (engine_log_open(api->engine, &caller, command->id, offset, LOG_ATTACH, &log_calls, tty,
                        &tty->reader, &err) < 0 ||
        ws_accept(request, &ws_calls, tty, &tty->ws, &err) < 0) {
        tty->reader = command_log_reader_free(tty->reader);
        free(tty);
        reply_error(request, &err);
        return;
    }
    tty_say(tty, "attached", offset, command);
}

static void attach(struct request *request, void *ctx)
{
    v1_get_command(request, ctx, v1_tty_on_found);
}

/* clang-format off */
static const struct route_query attach_query[] = {
    {"offset", JSON({"type": "integer", "minimum": 0}),
     "Offset to replay from (default: 64 KiB before the end)"}, {0},
};

const struct route v1_tty_routes[] = {
    {"GET", "/v1/commands/{id}/tty", attach, "Attach to a command's terminal", SCOPE_RUN, "commands",
     .details = "For a command that was started with tty. Binary messages are the terminal's bytes, in both directions. Text messages are JSON: {\"type\":\"resize\",\"rows\":40,\"cols\":120} and {\"type\":\"input\",\"data\":\"ls\\n\"} from the client; attached (with the offset of the next byte), gap (bytes that the log did not keep), state (the sandbox was paused or resumed; with the reason) and end from the server. The command waits for a slow client. Input resumes a paused sandbox. The command keeps running when the connection closes: count the bytes and attach again with ?offset=.",
     .query = attach_query, .gives = FORM_SOCKET, .errors = E(NOT_FOUND) | E(CONFLICT) | E(GONE)},
    {0},
};
/* clang-format on */
