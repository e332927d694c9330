#include "egress/gateway/socks.h"

#include "base/err.h"

enum { CONNECT = 1, TYPE_V4 = 1, TYPE_NAME = 3, TYPE_V6 = 4, NO_METHOD = 0xff };

static unsigned byte_at(struct str bytes, size_t at)
{
    return (unsigned char)bytes.ptr[at];
}

size_t socks_read_greeting(struct str bytes, unsigned char *ret_method)
{
    if (bytes.len < 1)
        return 0;
    *ret_method = NO_METHOD;
    if (byte_at(bytes, 0) != SOCKS_VERSION)
        return bytes.len;
    if (bytes.len < 2 || bytes.len < 2 + byte_at(bytes, 1))
        return 0;
    size_t end = 2 + byte_at(bytes, 1);
    for (size_t i = 2; i < end; i++)
        if (byte_at(bytes, i) == 0)
            *ret_method = 0;
    return end;
}

/* Length of the address, or 0 for a type that is none. */
static size_t address_size(struct str bytes)
{
    switch (byte_at(bytes, 3)) {
    case TYPE_V4:
        return 4;
    case TYPE_V6:
        return 16;
    case TYPE_NAME:
        return 1 + byte_at(bytes, 4);
    default:
        return 0;
    }
}

/* Addresses as bytes take the same way as addresses as text. */
static int read_host(struct str bytes, struct host *ret_host, struct err *err)
{
    unsigned type = byte_at(bytes, 3);
    if (type == TYPE_NAME)
        return host_parse(str_n(bytes.ptr + 5, byte_at(bytes, 4)), ret_host, err);
    struct ip ip = {.version = type == TYPE_V4 ? 4 : 6};
    memcpy(ip.bytes, bytes.ptr + 4, type == TYPE_V4 ? 4 : 16);
    char text[IP_TEXT_SIZE], shown[IP_TEXT_SIZE + 2];
    ip_format(&ip, text);
    (void)snprintf(shown, sizeof shown, type == TYPE_V4 ? "%s" : "[%s]", text);
    return host_parse(str_of(shown), ret_host, err);
}

size_t socks_read_request(struct str bytes, struct host *ret_host, uint16_t *ret_port,
                          enum socks_reply *ret_reply, struct err *err)
{
    if (bytes.len < 5)
        return 0;
    size_t size = address_size(bytes);
    *ret_reply = SOCKS_FAILED;
    if (byte_at(bytes, 0) != SOCKS_VERSION || byte_at(bytes, 2) != 0) {
        (void)err_set(err, ERR_INVALID, "this is not SOCKS version 5");
        return bytes.len;
    }
    if (size == 0) {
        *ret_reply = SOCKS_NO_ADDRESS_TYPE;
        (void)err_set(err, ERR_INVALID, "unknown SOCKS address type %u", byte_at(bytes, 3));
        return bytes.len;
    }
    size_t end = 4 + size + 2;
    if (bytes.len < end)
        return 0;
    if (byte_at(bytes, 1) != CONNECT) {
        *ret_reply = SOCKS_NO_COMMAND;
        (void)err_set(err, ERR_UNSUPPORTED, "only the SOCKS command CONNECT is supported");
        return end;
    }
    struct host host;
    if (read_host(bytes, &host, err) < 0) {
        *ret_reply = SOCKS_NOT_ALLOWED;
        return end;
    }
    *ret_host = host;
    *ret_port = (uint16_t)(byte_at(bytes, end - 2) << 8 | byte_at(bytes, end - 1));
    *ret_reply = SOCKS_OK;
    return end;
}

void socks_put_reply(enum socks_reply reply, unsigned char out[SOCKS_REPLY_SIZE])
{
    memset(out, 0, SOCKS_REPLY_SIZE);
    out[0] = SOCKS_VERSION;
    out[1] = (unsigned char)reply;
    out[3] = TYPE_V4;
}
