#pragma once

/* Only for the rewrite*.c files. */

#include "egress/keys/http1.h"
#include "egress/keys/rewrite.h"
#include "egress/keys/scrub.h"

/* The client's side. HEAD: reading a head (request_head). BODY: its body (request_body). WAIT: the
 * request is through, its answer is not (finish_exchange leads back to HEAD). PASS: both sides pass
 * bytes on, after a 101. OVER: nothing is read any more. */
enum request_state { REQUEST_HEAD, REQUEST_BODY, REQUEST_WAIT, REQUEST_PASS, REQUEST_OVER };
/* The server's side. NONE: no request is open, nothing may come. HEAD, BODY. DONE: the answer is
 * complete, the request's body not yet. */
enum answer_state { ANSWER_NONE, ANSWER_HEAD, ANSWER_BODY, ANSWER_DONE };

/* A WebSocket's frames from the server. */
struct frames {
    unsigned char head[10];
    size_t have; /* bytes of the head */
    bool in_payload;
    uint64_t left; /* of the payload */
};

struct rewrite {
    struct rewrite_options options;
    struct scrub *scrub; /* for heads and bodies */
    struct scrub *mask;  /* after a 101 */
    struct buf to_server, to_client;
    char why[VERDICT_TEXT_SIZE];
    const char *reason; /* of a refusal, machine-readable; NULL: none */
    bool is_cut;

    enum request_state request_state;
    struct http1_head request;
    struct http1_body request_body;
    /* Of the request at hand. */
    bool is_http10, is_head, wants_upgrade, wants_close;

    enum answer_state answer_state;
    struct http1_head answer;
    struct http1_body answer_body;
    uint64_t answer_bytes;             /* of its body, that came */
    enum http1_framing client_framing; /* of the body as it is sent on */
    bool is_collected;                 /* into `collected`, with its head, until it is complete */
    struct buf collected_head, collected;
    int interim_count;
    bool server_closes, client_closes;
    struct frames frames;
};

/* The head at hand is complete: writes it for the server or refuses it. */
void rewrite_request_head(struct rewrite *rewrite);
/* Why it is refused: a status, one word for programs, a sentence. */
void rewrite_refuse(struct rewrite *rewrite, int status, const char *reason, const char *text);
/* The answer failed on the server's side: 502 while nothing was sent, else the client is cut off.
 */
void rewrite_bad_gateway(struct rewrite *rewrite, const char *reason, const char *text);
/* Request and answer are both complete. */
void rewrite_finish(struct rewrite *rewrite);
void rewrite_end(struct rewrite *rewrite, const char *why);

/* After a 101: bytes from the server. */
void rewrite_pass_frames(struct rewrite *rewrite, struct str bytes);

void rewrite_put_chunk(struct buf *out, struct str data);
