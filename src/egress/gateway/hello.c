#include "egress/gateway/hello.h"

#include "base/buf.h"

enum {
    RECORD_HEAD = 5,
    RECORD_MAX = 16384,
    TYPE_HANDSHAKE = 22,
    CLIENT_HELLO = 1,
    EXTENSION_NAME = 0,
    NAME_HOST = 0,
    RANDOM_SIZE = 32,
    SESSION_MAX = 32,
};

/* A reader that turns `bad` when it runs past its end, and then gives zeros. */
struct reader {
    struct str rest;
    bool bad;
};

static struct str hello_take(struct reader *in, size_t count)
{
    if (in->bad || in->rest.len < count) {
        in->bad = true;
        return (struct str){0};
    }
    struct str part = str_n(in->rest.ptr, count);
    in->rest = str_slice(in->rest, count, in->rest.len);
    return part;
}

static size_t take_number(struct reader *in, size_t size)
{
    struct str part = hello_take(in, size);
    size_t n = 0;
    for (size_t i = 0; i < part.len; i++)
        n = n << 8 | (unsigned char)part.ptr[i];
    return n;
}

/* What its own length, of `size` bytes, says. */
static struct reader take_block(struct reader *in, size_t size)
{
    size_t len = take_number(in, size);
    struct reader block = {.rest = hello_take(in, len)};
    block.bad = in->bad;
    return block;
}

static bool read_names(struct reader *extension, struct hello *hello)
{
    struct reader list = take_block(extension, 2);
    if (hello->has_name || extension->rest.len != 0)
        return false;
    size_t type = take_number(&list, 1);
    struct reader name = take_block(&list, 2);
    if (list.bad || list.rest.len != 0 || type != NAME_HOST || name.rest.len == 0 ||
        name.rest.len >= sizeof hello->space)
        return false;
    memcpy(hello->space, name.rest.ptr, name.rest.len);
    hello->name = str_n(hello->space, name.rest.len);
    hello->has_name = true;
    return true;
}

static bool read_message(struct reader *in, struct hello *hello)
{
    (void)take_number(in, 2); /* version */
    (void)hello_take(in, RANDOM_SIZE);
    struct reader session = take_block(in, 1);
    struct reader ciphers = take_block(in, 2);
    struct reader compressions = take_block(in, 1);
    if (in->bad || session.rest.len > SESSION_MAX || ciphers.rest.len < 2 ||
        ciphers.rest.len % 2 != 0 || compressions.rest.len == 0)
        return false;
    if (in->rest.len == 0)
        return true; /* old and without extensions, so without a name */
    struct reader extensions = take_block(in, 2);
    if (in->bad || in->rest.len != 0)
        return false;
    while (extensions.rest.len > 0) {
        size_t type = take_number(&extensions, 2);
        struct reader extension = take_block(&extensions, 2);
        if (extensions.bad || (type == EXTENSION_NAME && !read_names(&extension, hello)))
            return false;
    }
    return true;
}

/* Appends the payload of one record; false if the record is not part of a handshake. */
static bool take_record(struct reader *in, struct buf *message)
{
    size_t type = take_number(in, 1), major = take_number(in, 1);
    (void)take_number(in, 1);
    size_t len = take_number(in, 2);
    if (type != TYPE_HANDSHAKE || major != 3 || len == 0 || len > RECORD_MAX)
        return false;
    buf_put(message, str_slice(in->rest, 0, len));
    in->rest = str_slice(in->rest, len, in->rest.len);
    return true;
}

/* Even a part must be valid, so that we do not wait for the rest of something else. */
static bool begins_well(struct str bytes)
{
    return (bytes.len < 1 || bytes.ptr[0] == TYPE_HANDSHAKE) &&
           (bytes.len < 2 || bytes.ptr[1] == 3);
}

/* The message is whole: its own length, of three bytes, is there. */
static bool is_whole(const struct buf *message, struct str *ret_body)
{
    struct reader in = {.rest = buf_str(message)};
    (void)take_number(&in, 1);
    struct reader body = take_block(&in, 3);
    if (in.bad)
        return false;
    *ret_body = body.rest;
    return true;
}

enum hello_state hello_read(struct str bytes, struct hello *ret_hello)
{
    AUTO_BUF struct buf message = buf_with_limit(HELLO_MAX);
    struct reader in = {.rest = str_slice(bytes, 0, HELLO_MAX)};
    struct str body;
    /* What comes behind the hello, early data perhaps, is not looked at. */
    while (!is_whole(&message, &body)) {
        if (in.rest.len < RECORD_HEAD)
            return begins_well(in.rest) && bytes.len < HELLO_MAX ? HELLO_MORE : HELLO_BAD;
        if (!take_record(&in, &message) || (message.len > 0 && message.ptr[0] != CLIENT_HELLO))
            return HELLO_BAD;
    }
    struct hello hello = {0};
    struct reader whole = {.rest = body};
    if (!read_message(&whole, &hello))
        return HELLO_BAD;
    *ret_hello = hello;
    ret_hello->name.ptr = ret_hello->space;
    return HELLO_DONE;
}
