#pragma once

/* SOCKS version 5 as a server reads it (RFC 1928): CONNECT, without a password. */

#include "egress/policy/host.h"

struct err;

enum { SOCKS_VERSION = 5, SOCKS_REQUEST_MAX = 4 + 1 + 255 + 2, SOCKS_REPLY_SIZE = 10 };

enum socks_reply {
    SOCKS_OK = 0,
    SOCKS_FAILED = 1,
    SOCKS_NOT_ALLOWED = 2,
    SOCKS_NO_HOST = 4,
    SOCKS_NO_COMMAND = 7,
    SOCKS_NO_ADDRESS_TYPE = 8,
};

/* Both give the bytes used, 0 when more must come. */

/* What the client offers. `*ret_method` is what to answer: 0, or 0xff for none of ours.
 * Bytes that are no greeting are used up, with 0xff. */
size_t socks_read_greeting(struct str bytes, unsigned char *ret_method);
/* Where it wants to go; `*ret_reply` is SOCKS_OK when that could be read, `err` says what could
 * not. */
size_t socks_read_request(struct str bytes, struct host *ret_host, uint16_t *ret_port,
                          enum socks_reply *ret_reply, struct err *err);
void socks_put_reply(enum socks_reply reply, unsigned char out[SOCKS_REPLY_SIZE]);
