#include "jail/wire/wire.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/fd_pass.h"
#include "base/sys.h"

static const uint32_t null_text = UINT32_MAX;

void wire_begin(struct buf *out, uint32_t type, uint32_t id)
{
    buf_clear(out);
    wire_put_u32(out, type);
    wire_put_u32(out, id);
}

void wire_put_u32(struct buf *out, uint32_t n)
{
    buf_put(out, str_n((const char *)&n, sizeof n));
}

void wire_put_i64(struct buf *out, int64_t n)
{
    buf_put(out, str_n((const char *)&n, sizeof n));
}

void wire_put_cstr(struct buf *out, const char *text)
{
    if (text == NULL) {
        wire_put_u32(out, null_text);
        return;
    }
    size_t len = strlen(text);
    wire_put_u32(out, (uint32_t)len);
    buf_put(out, str_n(text, len + 1));
}

void wire_put_bytes(struct buf *out, struct str bytes)
{
    wire_put_u32(out, (uint32_t)bytes.len);
    buf_put(out, bytes);
}

void wire_put_err(struct buf *out, const struct err *err)
{
    wire_put_u32(out, (uint32_t)err->code);
    wire_put_u32(out, (uint32_t)err->sys);
    wire_put_cstr(out, err->msg);
}

static const char *wire_take(struct wire_in *in, size_t len)
{
    if (in->bad || in->rest.len < len) {
        in->bad = true;
        return NULL;
    }
    const char *at = in->rest.ptr;
    in->rest = str_slice(in->rest, len, in->rest.len);
    return at;
}

uint32_t wire_get_u32(struct wire_in *in)
{
    uint32_t n = 0;
    const char *at = wire_take(in, sizeof n);
    if (at != NULL)
        memcpy(&n, at, sizeof n);
    return n;
}

int64_t wire_get_i64(struct wire_in *in)
{
    int64_t n = 0;
    const char *at = wire_take(in, sizeof n);
    if (at != NULL)
        memcpy(&n, at, sizeof n);
    return n;
}

const char *wire_get_cstr(struct wire_in *in)
{
    uint32_t len = wire_get_u32(in);
    if (in->bad || len == null_text)
        return NULL;
    const char *text = len >= WIRE_MAX ? NULL : wire_take(in, (size_t)len + 1);
    if (text == NULL || text[len] != '\0' || memchr(text, '\0', len) != NULL) {
        in->bad = true;
        return NULL;
    }
    return text;
}

struct str wire_get_bytes(struct wire_in *in)
{
    uint32_t len = wire_get_u32(in);
    const char *at = wire_take(in, len);
    return at == NULL ? (struct str){0} : str_n(at, len);
}

void wire_get_err(struct wire_in *in, struct err *ret_err)
{
    uint32_t code = wire_get_u32(in);
    int sys = (int)wire_get_u32(in);
    const char *text = wire_get_cstr(in);
    (void)err_set(ret_err, code < ERR_COUNT ? (enum err_code)code : ERR_INTERNAL, "%s",
                  text == NULL ? "the failure came without a reason" : text);
    ret_err->sys = sys;
}

struct wire_in wire_open(struct str packet, struct wire_head *ret_head)
{
    struct wire_in in = {.rest = packet};
    ret_head->type = wire_get_u32(&in);
    ret_head->id = wire_get_u32(&in);
    return in;
}

bool wire_ended(const struct wire_in *in)
{
    return !in->bad && in->rest.len == 0;
}

static ssize_t send_packet(int fd, struct str packet, const int *fds, size_t fd_count, int flags)
{
    struct iovec part = {.iov_base = (void *)(uintptr_t)packet.ptr, .iov_len = packet.len};
    assert(fd_count <= WIRE_FDS_MAX && packet.len <= WIRE_MAX);
    return fd_send(fd, &part, 1, fds, fd_count, flags);
}

int wire_send(int fd, struct str packet, const int *fds, size_t fd_count, struct err *err)
{
    if (send_packet(fd, packet, fds, fd_count, 0) < 0)
        return err_sys(err, errno, "send");
    return 0;
}

int wire_try_send(int fd, struct str packet, const int *fds, size_t fd_count, struct err *err)
{
    if (send_packet(fd, packet, fds, fd_count, MSG_DONTWAIT) >= 0)
        return 1;
    return errno == EAGAIN ? 0 : err_sys(err, errno, "send");
}

void wire_close_fds(int fds[WIRE_FDS_MAX])
{
    for (int i = 0; i < WIRE_FDS_MAX; i++)
        fd_close(&fds[i]);
}

ssize_t wire_recv(int fd, char *space, int fds[WIRE_FDS_MAX], bool wait, struct err *err)
{
    struct iovec part = {.iov_base = space, .iov_len = WIRE_MAX};
    size_t count = 0;
    for (int i = 0; i < WIRE_FDS_MAX; i++)
        fds[i] = -1;
    ssize_t got = fd_recv(fd, &part, 1, fds, WIRE_FDS_MAX, &count, wait ? 0 : MSG_DONTWAIT);
    if (got < 0 && errno == ECONNRESET)
        return 0;
    if (got < 0 && errno == EMSGSIZE)
        return err_set(err, ERR_TOO_LARGE, "the message has more than %d bytes or %d descriptors",
                       WIRE_MAX, WIRE_FDS_MAX);
    return got < 0 ? err_sys(err, errno, "receive") : got;
}
