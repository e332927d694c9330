/* WebSocket against a peer that does everything wrong that can be done wrong: the mandatory cases
 * of the Autobahn suite (groups 1 to 7, 9, 10), written out. */

#include "api/http/ws.h"

#include "base/err.h"
#include "talk.h"

static struct ws *socket_now;
static int closed_count;
static bool is_silent; /* take messages, answer nothing */

static void on_message(UNUSED void *ctx, bool is_text, struct str bytes)
{
    if (!is_silent)
        ws_send(socket_now, is_text, bytes);
}

static void on_closed(UNUSED void *ctx)
{
    closed_count++;
    socket_now = NULL;
}

static const struct ws_calls calls = {.on_message = on_message, .on_closed = on_closed};

static void greet(struct request *request, UNUSED void *ctx)
{
    struct err err;
    if (ws_accept(request, &calls, NULL, &socket_now, &err) < 0)
        reply_error(request, &err);
}

static const struct route routes[] = {
    {"GET", "/ws", greet, "", SCOPE_OPEN, .gives = FORM_SOCKET},
    {0},
};

#define ASKS                                                                                       \
    "GET /ws HTTP/1.1\r\n" H "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"           \
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

static struct fixture fix;
static struct buf got; /* what the server has sent behind the head */
static bool hung_up;

static void collect(void)
{
    static char bytes[256 << 10];
    for (int quiet = 0; quiet < 6;) {
        step(&fix, 1);
        ssize_t count = read(fix.client, bytes, sizeof bytes);
        if (count == 0)
            hung_up = true;
        if (count > 0)
            buf_put(&got, str_n(bytes, (size_t)count));
        quiet = count > 0 ? 0 : quiet + 1;
    }
}

static void open_socket(void)
{
    bool closed;
    fix = (struct fixture){0};
    hung_up = is_silent = false;
    closed_count = 0;
    buf_clear(&got);
    start(&fix, routes, (struct http_options){0});
    const char *answer = ASK(&fix, ASKS);
    CHECK(says(answer, "101 Switching Protocols"));
    CHECK(says(answer, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    CHECK(!closed);
}

static void close_socket(void)
{
    (void)close(fix.client);
    for (int i = 0; i < 50 && closed_count == 0; i++)
        step(&fix, 1);
    CHECK_INT(closed_count, 1);
    step(&fix, 5);
    CHECK_INT(http_counts(fix.http).running, 0);
    fix.client = -1;
    stop(&fix);
    buf_done(&got);
}

static void send_all(struct str bytes)
{
    for (int stuck = 0; bytes.len > 0 && stuck < 10000;) {
        ssize_t count = write(fix.client, bytes.ptr, bytes.len);
        if (count > 0)
            bytes = str_slice(bytes, (size_t)count, bytes.len);
        stuck = count > 0 ? 0 : stuck + 1;
        collect();
    }
}

/* A frame as a client sends it; `head` is FIN, reserved bits and opcode. */
static void put_frame(struct buf *out, unsigned head, struct str payload, bool is_masked)
{
    static const char mask[4] = {0x11, 0x22, 0x33, 0x44};
    char bit = (char)(is_masked ? 0x80 : 0);
    buf_put_char(out, (char)head);
    if (payload.len < 126) {
        buf_put_char(out, (char)(bit | (char)payload.len));
    } else if (payload.len < 65536) {
        buf_put_char(out, (char)(bit | 126));
        buf_put_char(out, (char)(payload.len >> 8));
        buf_put_char(out, (char)payload.len);
    } else {
        buf_put_char(out, (char)(bit | 127));
        for (int shift = 56; shift >= 0; shift -= 8)
            buf_put_char(out, (char)((uint64_t)payload.len >> shift));
    }
    if (is_masked)
        buf_put(out, str_n(mask, 4));
    for (size_t i = 0; i < payload.len; i++)
        buf_put_char(out, is_masked ? (char)(payload.ptr[i] ^ mask[i % 4]) : payload.ptr[i]);
}

static void frame(unsigned head, struct str payload)
{
    AUTO_BUF struct buf out = {0};
    put_frame(&out, head, payload, true);
    send_all(buf_str(&out));
}

/* Takes the next frame that the server has sent: its opcode, or -1. */
static int next(struct str *ret_payload)
{
    static struct buf last;
    const unsigned char *p = (const unsigned char *)got.ptr;
    if (got.len < 2)
        return -1;
    size_t len = p[1] & 127, at = 2;
    CHECK_INT(p[1] & 128, 0); /* a server does not mask */
    if (len == 126) {
        len = (size_t)p[2] << 8 | p[3];
        at = 4;
    } else if (len == 127) {
        len = (size_t)p[6] << 24 | (size_t)p[7] << 16 | (size_t)p[8] << 8 | p[9];
        at = 10;
    }
    if (got.len < at + len)
        return -1;
    int opcode = p[0] & 15;
    buf_clear(&last);
    buf_put(&last, str_n(got.ptr + at, len));
    buf_consume(&got, at + len);
    if (ret_payload != NULL)
        *ret_payload = buf_str(&last);
    return opcode;
}

static int close_code(void)
{
    struct str payload;
    int opcode;
    while ((opcode = next(&payload)) >= 0)
        if (opcode == 8)
            return payload.len < 2
                       ? 0
                       : (int)((unsigned char)payload.ptr[0] << 8 | (unsigned char)payload.ptr[1]);
    return -1;
}

enum { TEXT = 0x81, BINARY = 0x82, CLOSE = 0x88, PING = 0x89, PONG = 0x8a };

TEST(group_1_messages_of_every_length_come_back)
{
    static const size_t sizes[] = {0, 125, 126, 127, 128, 65535, 65536, WS_MESSAGE_MAX};
    for (int binary = 0; binary < 2; binary++) {
        open_socket();
        for (size_t i = 0; i < countof(sizes); i++) {
            AUTO_BUF struct buf message = {0};
            struct str payload;
            while (message.len < sizes[i])
                buf_put_char(&message, '*');
            frame(binary ? BINARY : TEXT, buf_str(&message));
            CHECK_INT(next(&payload), binary ? 2 : 1);
            CHECK(str_eq(payload, buf_str(&message)));
        }
        close_socket();
    }
    /* Byte by byte. */
    open_socket();
    AUTO_BUF struct buf chopped = {0};
    put_frame(&chopped, TEXT, STR("octet by octet"), true);
    for (size_t i = 0; i < chopped.len; i++)
        send_all(str_n(chopped.ptr + i, 1));
    struct str payload;
    CHECK_INT(next(&payload), 1);
    CHECK_STR(payload, "octet by octet");
    close_socket();
}

TEST(group_2_pings_are_answered)
{
    char most[126];
    struct str payload;
    memset(most, 0xfe, sizeof most);
    open_socket();
    frame(PING, STR(""));
    CHECK_INT(next(&payload), 10);
    CHECK_INT(payload.len, 0);
    frame(PING, STR("Hello"));
    CHECK_INT(next(&payload), 10);
    CHECK_STR(payload, "Hello");
    frame(PING, str_n(most, 125));
    CHECK_INT(next(&payload), 10);
    CHECK(str_eq(payload, str_n(most, 125)));
    frame(PONG, STR("unsolicited"));
    CHECK_INT(next(&payload), -1);
    for (int i = 0; i < 10; i++)
        frame(PING, STR("again"));
    for (int i = 0; i < 10; i++)
        CHECK_INT(next(&payload), 10);
    frame(PING, str_n(most, 126));
    CHECK_INT(close_code(), 1002);
    CHECK(hung_up);
    close_socket();
}

/* One frame that is wrong in itself, behind one that is right. */
static void check_refused(unsigned head, struct str payload, int code)
{
    open_socket();
    frame(TEXT, STR("before"));
    CHECK_INT(next(NULL), 1);
    frame(head, payload);
    int seen = close_code();
    if (seen != code || !hung_up)
        fail_msg("frame %#x %zu: closed with %d instead of %d, hung up %d", head, payload.len, seen,
                 code, hung_up);
    close_socket();
}

TEST(groups_3_and_4_reserved_bits_and_opcodes)
{
    static const unsigned bits[] = {0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70};
    for (size_t i = 0; i < countof(bits); i++) {
        check_refused(TEXT | bits[i], STR("x"), 1002);
        check_refused(PING | bits[i], STR("x"), 1002);
    }
    for (unsigned opcode = 3; opcode < 8; opcode++)
        check_refused(0x80 | opcode, STR(""), 1002);
    for (unsigned opcode = 11; opcode < 16; opcode++)
        check_refused(0x80 | opcode, STR("x"), 1002);
}

TEST(an_unmasked_frame_is_refused)
{
    open_socket();
    AUTO_BUF struct buf out = {0};
    put_frame(&out, TEXT, STR("naked"), false);
    send_all(buf_str(&out));
    CHECK_INT(close_code(), 1002);
    close_socket();
}

TEST(group_5_fragments)
{
    struct str payload;
    open_socket();
    frame(0x01, STR("frag"));
    frame(PING, STR("between"));
    CHECK_INT(next(&payload), 10);
    frame(0x00, STR(""));
    frame(0x80, STR("ment"));
    CHECK_INT(next(&payload), 1);
    CHECK_STR(payload, "fragment");
    close_socket();
    check_refused(0x09, STR("a fragmented ping"), 1002);
    check_refused(0x0a, STR("a fragmented pong"), 1002);
    check_refused(0x80, STR("no beginning"), 1002);
    check_refused(0x00, STR("no beginning"), 1002);
    open_socket();
    frame(0x01, STR("first"));
    frame(TEXT, STR("another before the end"));
    CHECK_INT(close_code(), 1002);
    close_socket();
}

TEST(group_6_text_is_utf8)
{
    static const char *const good[] = {"Hello-µ@ßöäüàá-UTF-8!!", "\xce\xba\xe1\xbd\xb9\xcf\x83",
                                       "\xf4\x8f\xbf\xbf", "\xef\xbf\xbf", "\xed\x9f\xbf"};
    static const char *const bad[] = {
        "\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80\x65\x64\x69\x74\x65\x64",
        "\xf4\x90\x80\x80",
        "\xc0\xaf",
        "\xe0\x80\xaf",
        "\xed\xa0\x80",
        "\xff",
        "\x80",
        "\xc3",
        "\xf8\x88\x80\x80\x80",
        "abc\xfe"};
    struct str payload;
    open_socket();
    for (size_t i = 0; i < countof(good); i++) {
        frame(TEXT, str_of(good[i]));
        CHECK_INT(next(&payload), 1);
        CHECK(str_eq(payload, str_of(good[i])));
    }
    frame(0x01, STR("\xce")); /* cut inside a character */
    frame(0x80, STR("\xba"));
    CHECK_INT(next(&payload), 1);
    frame(BINARY, str_of(bad[0]));
    CHECK_INT(next(&payload), 2);
    close_socket();
    for (size_t i = 0; i < countof(bad); i++)
        check_refused(TEXT, str_of(bad[i]), 1007);
}

TEST(group_7_closing)
{
    static const int good[] = {1000, 1001, 1002, 1003, 1007, 1008, 1009,
                               1010, 1011, 3000, 3999, 4000, 4999};
    static const int bad[] = {0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000, 65535};
    for (size_t i = 0; i < countof(good); i++) {
        char payload[2] = {(char)(good[i] >> 8), (char)good[i]};
        check_refused(CLOSE, str_n(payload, 2), good[i]);
    }
    for (size_t i = 0; i < countof(bad); i++) {
        char payload[2] = {(char)(bad[i] >> 8), (char)bad[i]};
        check_refused(CLOSE, str_n(payload, 2), 1002);
    }
    check_refused(CLOSE, STR(""), 0); /* an empty one gets an empty one */
    check_refused(CLOSE, STR("\x03"), 1002);
    check_refused(CLOSE, STR("\x03\xe8goodbye"), 1000);
    check_refused(CLOSE, STR("\x03\xe8\xce\xba\xed\xa0\x80"), 1007);
    /* What comes behind a close is not looked at. */
    open_socket();
    AUTO_BUF struct buf out = {0};
    put_frame(&out, CLOSE, STR("\x03\xe8"), true);
    put_frame(&out, TEXT, STR("too late"), true);
    send_all(buf_str(&out));
    CHECK_INT(next(NULL), 8);
    CHECK_INT(next(NULL), -1);
    close_socket();
}

TEST(groups_9_and_10_limits)
{
    open_socket();
    AUTO_BUF struct buf message = {0};
    struct str payload;
    while (message.len < WS_MESSAGE_MAX + 1)
        buf_put_char(&message, 'x');
    /* In 16 fragments. */
    for (size_t at = 0; at < WS_MESSAGE_MAX; at += 65536)
        frame((at == 0 ? 2U : 0U) | (at + 65536 == WS_MESSAGE_MAX ? 0x80U : 0U),
              str_slice(buf_str(&message), at, at + 65536));
    CHECK_INT(next(&payload), 2);
    CHECK_INT(payload.len, WS_MESSAGE_MAX);
    frame(BINARY, buf_str(&message));
    CHECK_INT(close_code(), 1009);
    close_socket();
    /* A length of 2^63. */
    open_socket();
    send_all(str_n("\x82\xff\x80\0\0\0\0\0\0\0\1\2\3\4", 14));
    CHECK_INT(close_code(), 1002);
    close_socket();
}

TEST(a_peer_that_never_reads_is_cut_off)
{
    open_socket();
    AUTO_BUF struct buf block = {0};
    while (block.len < 256 << 10)
        buf_put_char(&block, 'x');
    is_silent = true;
    for (int i = 0; i < 64 && closed_count == 0; i++) {
        ws_send(socket_now, false, buf_str(&block));
        step(&fix, 2);
    }
    collect();
    for (int i = 0; i < 100; i++)
        collect();
    CHECK_INT(close_code(), WS_TRY_LATER);
    close_socket();
}

TEST(pings_without_end_fill_nothing)
{
    open_socket();
    AUTO_BUF struct buf pings = {0};
    for (int i = 0; i < 5000; i++)
        put_frame(&pings, PING, STR("0123456789012345678901234567890123456789"), true);
    /* Nobody reads the answers: the server stops reading instead of keeping them. */
    size_t sent = 0;
    for (int stuck = 0; stuck < 200 && sent < 64 << 20;) {
        size_t at = sent % pings.len; /* never from the middle of a frame */
        ssize_t count = write(fix.client, pings.ptr + at, pings.len - at);
        sent += count > 0 ? (size_t)count : 0;
        stuck = count > 0 ? 0 : stuck + 1;
        step(&fix, 1);
    }
    CHECK(sent < 16 << 20);
    CHECK(socket_now != NULL);
    close_socket();
}

TEST(a_greeting_must_be_one)
{
    static const char *const wrong[] = {
        "GET /ws HTTP/1.1\r\n" H "\r\n",
        "GET /ws HTTP/1.1\r\n" H "Connection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        "GET /ws HTTP/1.1\r\n" H "Connection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n\r\n",
        "GET /ws HTTP/1.1\r\n" H "Connection: Upgrade\r\nUpgrade: h2c\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    };
    bool closed;
    fix = (struct fixture){0};
    start(&fix, routes, (struct http_options){0});
    for (size_t i = 0; i < countof(wrong); i++)
        CHECK(says(talk(&fix, str_of(wrong[i]), &closed), "400 Bad Request"));
    CHECK(!closed);
    stop(&fix);
}

TEST(a_stopping_server_says_goodbye)
{
    open_socket();
    http_drain(fix.http, NULL, NULL);
    collect();
    CHECK_INT(close_code(), WS_GOING_AWAY);
    frame(CLOSE, STR("\x03\xe9"));
    CHECK(hung_up);
    close_socket();
}
