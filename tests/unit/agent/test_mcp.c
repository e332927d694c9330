/* Messages of the Model Context Protocol: what each is answered with, whatever carries them. */

#include "rig.h"

#include <string.h>

#include "agent/mcp.h"
#include "agent/mcp_internal.h"
#include "agent/tool.h"

/* A client, and the messages that it got. */
struct peer {
    struct rig rig;
    struct mcp *mcp;
    size_t count; /* messages */
    char about[16][128];
    bool is_last[16];
    struct json_t *got[16]; /* NULL where the text was empty */
};

static void on_message(void *ctx, struct str about, bool is_last, struct str json)
{
    struct peer *peer = ctx;
    struct err err = {0};
    size_t n = peer->count++;
    CHECK(n < countof(peer->got));
    CHECK(str_find_char(json, '\n') == json.len);
    (void)snprintf(peer->about[n], sizeof peer->about[n], "%.*s", STR_ARG(about));
    peer->is_last[n] = is_last;
    if (json.len > 0)
        CHECK_OK(json_parse(json, &peer->got[n], &err));
}

static const struct mcp_calls calls = {on_message};

static void peer_open(struct peer *peer, bool is_known)
{
    *peer = (struct peer){0};
    rig_open(&peer->rig, NULL);
    struct session_spec spec = {.id = STR("session-1")};
    CHECK_INT(RIG_CALL(&peer->rig, engine_session_create, &spec, rig_on_session), 0);
    struct mcp_options options = {.engine = peer->rig.engine,
                                  .config = peer->rig.config,
                                  .loop = peer->rig.loop,
                                  .caller = peer->rig.caller,
                                  .session = STR("session-1"),
                                  .is_known = is_known};
    peer->mcp = mcp_new(&options, &calls, peer);
}

static void forget(struct peer *peer)
{
    for (size_t i = 0; i < peer->count; i++)
        peer->got[i] = json_free(peer->got[i]);
    peer->count = 0;
}

static void peer_done(struct peer *peer)
{
    forget(peer);
    peer->mcp = mcp_free(peer->mcp);
    rig_done(&peer->rig);
}

/* Forgets what came before; gives how many requests the message holds. */
static size_t tell(struct peer *peer, const char *text)
{
    AUTO_JSON struct json_t *message = NULL;
    struct err err = {0};
    forget(peer);
    CHECK_OK(json_parse(str_of(text), &message, &err));
    return mcp_take(peer->mcp, message);
}

/* The same for one request, with its one answer. */
static void ask(struct peer *peer, const char *text)
{
    CHECK_INT(tell(peer, text), 1);
    for (int i = 0; peer->count == 0 && i < 1000; i++)
        rig_run_ms(&peer->rig, 10);
    CHECK_INT(peer->count, 1);
    CHECK(peer->is_last[0]);
    CHECK(!mcp_is_busy(peer->mcp));
}

static const struct json_t *result_of(const struct peer *peer)
{
    const struct json_t *result = json_get(peer->got[0], "result");
    CHECK(result != NULL && json_get(peer->got[0], "error") == NULL);
    return result;
}

static void check_error(const struct peer *peer, size_t n, int64_t code, const char *part)
{
    const struct json_t *error = json_get(peer->got[n], "error");
    int64_t got = 0;
    struct str message = {0};
    CHECK(error != NULL && json_get(peer->got[n], "result") == NULL);
    CHECK(json_to_i64(json_get(error, "code"), &got));
    CHECK_INT(got, code);
    CHECK(json_to_str(json_get(error, "message"), &message));
    if (memmem(message.ptr, message.len, part, strlen(part)) == NULL)
        CHECK_STR(message, part);
}

/* The id of message n as JSON text. */
static void check_id(const struct peer *peer, size_t n, const char *expected)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text};
    const struct json_t *id = json_get(peer->got[n], "id");
    CHECK(id != NULL);
    json_put_value(&out, id);
    CHECK_CSTR(buf_cstr(&text), expected);
}

#define REQUEST(id, method, params)                                                                \
    "{\"jsonrpc\": \"2.0\", \"id\": " id ", \"method\": \"" method "\", \"params\": " params "}"
#define HELLO(version) REQUEST("1", "initialize", "{\"protocolVersion\": \"" version "\"}")
#define META(version, more)                                                                        \
    "{\"_meta\": {\"io.modelcontextprotocol/protocolVersion\": \"" version "\"" more "}}"
#define ABLE ", \"io.modelcontextprotocol/clientCapabilities\": {}"

TEST(initialize_agrees_on_a_revision)
{
    static const struct {
        const char *hello, *version;
    } rows[] = {
        {HELLO("2024-11-05"), "2024-11-05"}, {HELLO("2025-06-18"), "2025-06-18"},
        {HELLO("1999-01-01"), "2025-11-25"}, {HELLO("2026-07-28"), "2025-11-25"}, /* needs none */
        {HELLO(""), "2025-11-25"},           {REQUEST("1", "initialize", "{}"), "2025-11-25"},
    };
    struct peer peer;
    peer_open(&peer, false);
    for (size_t i = 0; i < countof(rows); i++) {
        struct str version = {0}, name = {0}, words = {0};
        ask(&peer, rows[i].hello);
        const struct json_t *result = result_of(&peer);
        CHECK(json_to_str(json_get(result, "protocolVersion"), &version));
        CHECK_STR(version, rows[i].version);
        CHECK(json_to_str(json_get(json_get(result, "serverInfo"), "name"), &name));
        CHECK_STR(name, "sandglass");
        CHECK(json_get(json_get(result, "capabilities"), "tools") != NULL);
        CHECK(json_to_str(json_get(result, "instructions"), &words) && words.len > 0);
    }
    peer_done(&peer);
}

TEST(initialize_comes_first)
{
    struct peer peer;
    peer_open(&peer, false);
    ask(&peer, REQUEST("1", "tools/list", "{}"));
    check_error(&peer, 0, RPC_INVALID, "send initialize first");
    ask(&peer, REQUEST("2", "ping", "{}"));
    CHECK_INT(json_len(result_of(&peer)), 0);
    ask(&peer, HELLO("2025-06-18"));
    ask(&peer, REQUEST("3", "tools/list", "{}"));
    (void)result_of(&peer);
    peer_done(&peer);
    peer_open(&peer, true); /* one that goes on */
    ask(&peer, REQUEST("1", "tools/list", "{}"));
    (void)result_of(&peer);
    peer_done(&peer);
}

TEST(the_tools_are_those_of_the_table)
{
    struct peer peer;
    peer_open(&peer, true);
    ask(&peer, REQUEST("1", "tools/list", "{}"));
    const struct json_t *list = json_get(result_of(&peer), "tools");
    size_t n = 0;
    for (const struct tool *tool = tools; tool->name != NULL; tool++) {
        struct str name = {0};
        if (tool->flags & (TOOL_OF_TURNS | TOOL_OF_DOCS))
            continue;
        CHECK(json_to_str(json_get(json_at(list, n++), "name"), &name));
        CHECK_STR(name, tool->name);
    }
    CHECK_INT(json_len(list), n);
    peer.rig.config->sandbox.is_off = true;
    ask(&peer, REQUEST("2", "tools/list", "{}"));
    CHECK_INT(json_len(json_get(result_of(&peer), "tools")), 0);
    peer_done(&peer);
}

TEST(unknown_methods_and_wrong_params_are_refused)
{
    struct peer peer;
    peer_open(&peer, true);
    ask(&peer, REQUEST("7", "tools/destroy", "{}"));
    check_error(&peer, 0, RPC_NO_METHOD, "'tools/destroy'");
    check_id(&peer, 0, "7");
    ask(&peer, REQUEST("8", "", "{}"));
    check_error(&peer, 0, RPC_NO_METHOD, "''");
    ask(&peer, REQUEST("9", "tools/list", "[]"));
    check_error(&peer, 0, RPC_PARAMS, "params must be an object");
    ask(&peer, REQUEST("10", "tools/call", "\"read\""));
    check_error(&peer, 0, RPC_PARAMS, "params must be an object");
    ask(&peer, REQUEST("11", "logging/setLevel", "{\"level\": \"loud\"}"));
    check_error(&peer, 0, RPC_PARAMS, "level");
    ask(&peer, REQUEST("12", "logging/setLevel", "{\"level\": \"error\"}"));
    (void)result_of(&peer);
    peer_done(&peer);
}

TEST(ids_come_back_as_they_were)
{
    static const char *const ids[] = {"0",    "-1", "9007199254740993", "\"\"", "\"a\\\"b\\\\\"",
                                      "\"1\""};
    struct peer peer;
    peer_open(&peer, true);
    for (size_t i = 0; i < countof(ids); i++) {
        char text[200];
        (void)snprintf(text, sizeof text,
                       "{\"jsonrpc\": \"2.0\", \"id\": %s, \"method\": \"ping\"}", ids[i]);
        ask(&peer, text);
        check_id(&peer, 0, ids[i]);
        CHECK_CSTR(peer.about[0], ids[i]);
        (void)result_of(&peer);
    }
    peer_done(&peer);
}

TEST(what_is_no_message_is_refused_without_an_id)
{
    static const char *const texts[] = {
        "{}",
        "7",
        "null",
        "\"ping\"",
        "{\"id\": null, \"method\": \"ping\"}",
        "{\"id\": 1.5, \"method\": \"ping\"}",
        "{\"id\": true, \"method\": \"ping\"}",
        "{\"id\": {}, \"method\": \"ping\"}",
        "{\"id\": [1], \"method\": \"ping\"}",
        "{\"id\": 1, \"method\": 7}",
        "{\"method\": null}",
        "{\"id\": false, \"result\": {}}",
    };
    struct peer peer;
    peer_open(&peer, true);
    for (size_t i = 0; i < countof(texts); i++) {
        ask(&peer, texts[i]);
        check_error(&peer, 0, RPC_INVALID, "not a JSON-RPC 2.0 message");
        check_id(&peer, 0, "null");
        CHECK_CSTR(peer.about[0], "");
    }
    forget(&peer);
    mcp_refuse(peer.mcp, "line 1: unexpected end");
    check_error(&peer, 0, RPC_PARSE, "unexpected end");
    check_id(&peer, 0, "null");
    peer_done(&peer);
}

TEST(notifications_and_answers_get_none)
{
    static const char *const texts[] = {
        "{\"jsonrpc\": \"2.0\", \"method\": \"notifications/initialized\"}",
        "{\"jsonrpc\": \"2.0\", \"method\": \"notifications/unheard_of\", \"params\": 7}",
        "{\"jsonrpc\": \"2.0\", \"method\": \"tools/list\"}",
        "{\"jsonrpc\": \"2.0\", \"method\": \"notifications/cancelled\"}",
        "{\"jsonrpc\": \"2.0\", \"method\": \"notifications/cancelled\", \"params\": [1]}",
        "{\"method\": \"notifications/cancelled\", \"params\": {\"requestId\": 99}}",
        "{\"jsonrpc\": \"2.0\", \"id\": 1, \"result\": {}}",
        "{\"jsonrpc\": \"2.0\", \"id\": \"x\", \"error\": {\"code\": 1, \"message\": \"\"}}",
        "[]",
    };
    struct peer peer;
    peer_open(&peer, true);
    for (size_t i = 0; i < countof(texts); i++) {
        CHECK_INT(tell(&peer, texts[i]), 0);
        rig_run_ms(&peer.rig, 2);
        CHECK_INT(peer.count, 0);
    }
    peer_done(&peer);
}

TEST(a_batch_is_answered_one_by_one)
{
    struct peer peer;
    peer_open(&peer, true);
    CHECK_INT(tell(&peer,
                   "[{\"id\": 1, \"method\": \"ping\"}, {\"method\": \"notifications/x\"}, 7, "
                   "{\"id\": \"b\", \"method\": \"none\"}, [{\"id\": 2, \"method\": \"ping\"}]]"),
              4);
    CHECK_INT(peer.count, 4);
    check_id(&peer, 0, "1");
    check_error(&peer, 1, RPC_INVALID, "");
    check_error(&peer, 2, RPC_NO_METHOD, "");
    check_id(&peer, 2, "\"b\"");
    check_error(&peer, 3, RPC_INVALID, ""); /* no batch within a batch */
    peer_done(&peer);
}

static bool is_error(const struct peer *peer)
{
    bool flag = false;
    CHECK(json_to_bool(json_get(result_of(peer), "isError"), &flag));
    return flag;
}

TEST(a_tool_is_called)
{
    struct peer peer;
    peer_open(&peer, true);
    CHECK_INT(tell(&peer, REQUEST("\"w\"", "tools/call",
                                  "{\"name\": \"write\", \"arguments\": "
                                  "{\"path\": \"a\", \"content\": \"hi\"}}")),
              1);
    CHECK(mcp_is_busy(peer.mcp));
    CHECK_INT(peer.count, 0);
    for (int i = 0; peer.count == 0 && i < 1000; i++)
        rig_run_ms(&peer.rig, 10);
    check_id(&peer, 0, "\"w\"");
    CHECK(!is_error(&peer) && !mcp_is_busy(peer.mcp));
    ask(&peer,
        REQUEST("2", "tools/call", "{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}"));
    CHECK(!is_error(&peer));
    struct str text = {0};
    const struct json_t *result = result_of(&peer);
    CHECK(json_to_str(json_get(json_get(result, "structuredContent"), "content"), &text));
    CHECK_STR(text, "hi");
    CHECK(json_to_str(json_get(json_at(json_get(result, "content"), 0), "text"), &text));
    AUTO_JSON struct json_t *same = NULL; /* for clients that know no structured content */
    struct err err = {0};
    CHECK_OK(json_parse(text, &same, &err));
    CHECK(json_to_str(json_get(same, "content"), &text));
    CHECK_STR(text, "hi");
    peer_done(&peer);
}

TEST(what_is_wrong_with_a_call_is_reported_where_it_belongs)
{
    struct peer peer;
    peer_open(&peer, true);
    ask(&peer, REQUEST("1", "tools/call", "{\"name\": \"format_disk\"}"));
    check_error(&peer, 0, RPC_PARAMS, "'format_disk'"); /* the client's mistake */
    ask(&peer, REQUEST("2", "tools/call", "{}"));
    check_error(&peer, 0, RPC_PARAMS, "tools/list");
    ask(&peer, REQUEST("3", "tools/call", "{\"name\": 7}"));
    check_error(&peer, 0, RPC_PARAMS, "tools/list");
    /* The model's: it reads the answer and calls again. */
    ask(&peer, REQUEST("4", "tools/call", "{\"name\": \"read\", \"arguments\": {\"path\": 7}}"));
    CHECK(is_error(&peer));
    CHECK(json_get(result_of(&peer), "structuredContent") == NULL); /* fits no schema */
    ask(&peer, REQUEST("5", "tools/call", "{\"name\": \"read\", \"arguments\": [\"a\"]}"));
    CHECK(is_error(&peer));
    ask(&peer, REQUEST("6", "tools/call", "{\"name\": \"list\"}")); /* needs none */
    CHECK(!is_error(&peer));
    peer_done(&peer);
}

#define WRITE(id)                                                                                  \
    REQUEST(id, "tools/call",                                                                      \
            "{\"name\": \"write\", \"arguments\": {\"path\": \"a\", \"content\": \"x\"}}")
#define CANCEL(id) "{\"method\": \"notifications/cancelled\", \"params\": {\"requestId\": " id "}}"

TEST(a_canceled_request_gets_no_answer)
{
    struct peer peer;
    peer_open(&peer, true);
    CHECK_INT(tell(&peer, WRITE("5")), 1);
    CHECK_INT(tell(&peer, CANCEL("\"5\"")), 0); /* another one */
    CHECK(mcp_is_busy(peer.mcp));
    CHECK_INT(tell(&peer, CANCEL("5")), 0);
    CHECK(!mcp_is_busy(peer.mcp));
    CHECK_INT(peer.count, 1); /* the transport learns that no answer follows */
    CHECK(peer.got[0] == NULL && peer.is_last[0]);
    CHECK_CSTR(peer.about[0], "5");
    rig_run_ms(&peer.rig, 200);
    CHECK_INT(peer.count, 1);
    peer_done(&peer);
}

TEST(a_client_that_leaves_gets_no_answer)
{
    struct peer peer;
    peer_open(&peer, true);
    CHECK_INT(tell(&peer, WRITE("1")), 1);
    CHECK_INT(tell(&peer, REQUEST("2", "resources/list", "{}")), 1);
    CHECK(mcp_is_busy(peer.mcp));
    peer.mcp = mcp_free(peer.mcp);
    rig_run_ms(&peer.rig, 200);
    CHECK_INT(peer.count, 0);
    peer_done(&peer);
}

TEST(a_modern_request_needs_no_initialize)
{
    struct str type = {0};
    struct peer peer;
    peer_open(&peer, false);
    ask(&peer, REQUEST("1", "tools/list", META("2026-07-28", ABLE)));
    const struct json_t *result = result_of(&peer);
    CHECK(json_to_str(json_get(result, "resultType"), &type));
    CHECK_STR(type, "complete");
    CHECK(json_get(result, "ttlMs") != NULL && json_len(json_get(result, "tools")) > 10);
    ask(&peer, REQUEST("2", "server/discover", META("2026-07-28", ABLE)));
    CHECK_INT(json_len(json_get(result_of(&peer), "supportedVersions")), 1);
    /* It is known by what it says of itself, not by what came before. */
    ask(&peer, REQUEST("3", "tools/list", "{}"));
    check_error(&peer, 0, RPC_INVALID, "send initialize first");
    peer_done(&peer);
}

TEST(a_modern_request_says_all_about_itself)
{
    struct str version = {0};
    struct peer peer;
    peer_open(&peer, true);
    ask(&peer, REQUEST("1", "tools/list", META("2031-01-01", ABLE)));
    check_error(&peer, 0, RPC_NO_VERSION, "version");
    const struct json_t *data = json_get(json_get(peer.got[0], "error"), "data");
    CHECK(json_to_str(json_at(json_get(data, "supported"), 0), &version));
    CHECK_STR(version, "2026-07-28");
    CHECK(json_to_str(json_get(data, "requested"), &version));
    CHECK_STR(version, "2031-01-01");
    ask(&peer, REQUEST("2", "tools/list", META("2026-07-28", "")));
    check_error(&peer, 0, RPC_PARAMS, "clientCapabilities");
    ask(&peer, REQUEST("3", "server/discover", "{}"));
    check_error(&peer, 0, RPC_PARAMS, "protocolVersion");
    ask(&peer, REQUEST("4", "ping", META("2026-07-28", ABLE)));
    check_error(&peer, 0, RPC_NO_METHOD, "'ping'"); /* of the old ones only */
    peer_done(&peer);
}
