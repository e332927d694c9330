#pragma once

/* Messages between the daemon, the warden and init: one packet each, a head and checked fields.
 *
 * Numbers are in host order, since both ends are one machine. Text carries its length and a NUL,
 * so that it can be used in place. A reader that runs past the end turns `bad` and gives zeros;
 * it is asked once, at the end. */

#include "base/buf.h"

struct err;

enum { WIRE_MAX = 128 << 10, WIRE_FDS_MAX = 12 };

struct wire_head {
    uint32_t type;
    uint32_t id; /* of the operation; an answer carries the id of its question */
};

void wire_begin(struct buf *out, uint32_t type, uint32_t id);
void wire_put_u32(struct buf *out, uint32_t n);
void wire_put_i64(struct buf *out, int64_t n);
void wire_put_cstr(struct buf *out, const char *text);  /* NULL is distinct from "" */
void wire_put_bytes(struct buf *out, struct str bytes); /* any, NULs included */
void wire_put_err(struct buf *out, const struct err *err);

struct wire_in {
    struct str rest;
    bool bad;
};
struct wire_in wire_open(struct str packet, struct wire_head *ret_head);
uint32_t wire_get_u32(struct wire_in *in);
int64_t wire_get_i64(struct wire_in *in);
const char *wire_get_cstr(struct wire_in *in);
struct str wire_get_bytes(struct wire_in *in);
void wire_get_err(struct wire_in *in, struct err *ret_err);
/* True when every field was there and nothing is left. */
bool wire_ended(const struct wire_in *in);

/* Sends one packet with descriptors; they stay the caller's. */
int wire_send(int fd, struct str packet, const int *fds, size_t fd_count, struct err *err) MUST_USE;
/* The same without waiting: 1 when it went, 0 when the socket is full. */
int wire_try_send(int fd, struct str packet, const int *fds, size_t fd_count,
                  struct err *err) MUST_USE;
/* Takes one packet into `space` (WIRE_MAX bytes); descriptors arrive CLOEXEC, unused ones are -1.
 * Gives its length, 0 when the other end is closed. A packet or list of descriptors that was cut
 * is an error. With `wait` false and nothing there: LIMIT with EAGAIN. */
ssize_t wire_recv(int fd, char *space, int fds[WIRE_FDS_MAX], bool wait, struct err *err) MUST_USE;
void wire_close_fds(int fds[WIRE_FDS_MAX]);
