#include "kernel/frame.h"

#include "base/buf.h"
#include "base/err.h"

static uint32_t frame_number_at(const char *at, size_t bytes)
{
    uint32_t number = 0;
    for (size_t i = bytes; i-- > 0;)
        number = number << 8 | (unsigned char)at[i];
    return number;
}

bool frame_head(struct str bytes, struct frame *ret_frame, uint32_t *ret_size)
{
    if (bytes.len < FRAME_HEAD)
        return false;
    *ret_size = frame_number_at(bytes.ptr, 4);
    *ret_frame = (struct frame){.type = frame_number_at(bytes.ptr + 4, 2),
                                .flags = frame_number_at(bytes.ptr + 6, 2),
                                .id = frame_number_at(bytes.ptr + 8, 4)};
    return true;
}

ssize_t frame_read(struct str bytes, struct frame *ret_frame, struct err *err)
{
    struct frame frame;
    uint32_t size;
    if (!frame_head(bytes, &frame, &size))
        return 0;
    if (size > FRAME_MAX)
        return err_set(err, ERR_TOO_LARGE,
                       "the interpreter sent a frame of %u bytes, which is too large", size);
    if (bytes.len - FRAME_HEAD < size)
        return 0;
    frame.fields = str_n(bytes.ptr + FRAME_HEAD, size);
    *ret_frame = frame;
    return FRAME_HEAD + (ssize_t)size;
}

bool frame_number(struct frame *frame, uint32_t *ret_number)
{
    if (frame->fields.len < 4)
        return false;
    *ret_number = frame_number_at(frame->fields.ptr, 4);
    frame->fields = str_slice(frame->fields, 4, frame->fields.len);
    return true;
}

bool frame_bytes(struct frame *frame, struct str *ret_bytes)
{
    struct frame rest = *frame;
    uint32_t size;
    if (!frame_number(&rest, &size) || size > rest.fields.len)
        return false;
    *ret_bytes = str_n(rest.fields.ptr, size);
    rest.fields = str_slice(rest.fields, size, rest.fields.len);
    *frame = rest;
    return true;
}

static void frame_put_number(struct buf *out, uint32_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        buf_put_char(out, (char)(number >> (8 * i) & 0xff));
}

static void put_head(struct buf *out, size_t size, uint32_t type, uint32_t id)
{
    assert(size <= FRAME_MAX);
    frame_put_number(out, (uint32_t)size, 4);
    frame_put_number(out, type, 2);
    frame_put_number(out, 0, 2);
    frame_put_number(out, id, 4);
}

void frame_write(struct buf *out, uint32_t type, uint32_t id, const struct str *texts, size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += 4 + texts[i].len;
    put_head(out, size, type, id);
    for (size_t i = 0; i < count; i++) {
        frame_put_number(out, (uint32_t)texts[i].len, 4);
        buf_put(out, texts[i]);
    }
}

void frame_write_numbers(struct buf *out, uint32_t type, uint32_t id, const uint32_t *numbers,
                         size_t count)
{
    put_head(out, 4 * count, type, id);
    for (size_t i = 0; i < count; i++)
        frame_put_number(out, numbers[i], 4);
}
