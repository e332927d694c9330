#pragma once

/* WebSocket, the server's side (wslay, included only in ws.c).
 *
 * Messages come whole, text as checked UTF-8; fragments, pings and the closing handshake are dealt
 * with here. No extension is offered. A socket lives until `on_closed`, which comes once. Belongs
 * to the loop's thread. */

#include "base/str.h"

struct err;
struct request;
struct ws;

enum {
    WS_MESSAGE_MAX = 1 << 20, /* longer ones end the socket with 1009 */
    WS_UNSENT_MAX = 4 << 20,  /* a peer that lets more wait is cut off with 1013 */
    WS_PING_MS = 30000,       /* twice without an answer: the peer has gone */
};

/* Closing codes of RFC 6455 that we send ourselves. */
enum {
    WS_NORMAL = 1000,
    WS_GOING_AWAY = 1001,
    WS_POLICY = 1008,
    WS_INTERNAL = 1011,
    WS_TRY_LATER = 1013,
};

struct ws_calls {
    void (*on_message)(void *ctx, bool is_text, struct str bytes);
    void (*on_drain)(void *ctx); /* may be NULL; room again after ws_is_full */
    void (*on_closed)(void *ctx);
};

/* Answers the request with 101. INVALID when it does not ask for a WebSocket properly: then the
 * reply is still due. What is sent before the client is there waits. `calls` is borrowed. */
int ws_accept(struct request *request, const struct ws_calls *calls, void *ctx, struct ws **ret_ws,
              struct err *err) MUST_USE;
void ws_send(struct ws *ws, bool is_text, struct str bytes);
bool ws_is_full(const struct ws *ws);
/* No more messages come until ws_resume. */
void ws_pause(struct ws *ws);
void ws_resume(struct ws *ws);
/* Says goodbye and waits for the other side's; `why` is for people, at most 123 bytes. */
void ws_close(struct ws *ws, int code, const char *why);
