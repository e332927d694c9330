/* WebSocket frames on their way to the client, so that a value can be taken out of each and the end
 * of a message is never held back. A value that a host spreads over several frames is not found. */

#include "egress/keys/rewrite_internal.h"

static size_t head_size(const struct frames *frames)
{
    int len = frames->have < 2 ? 0 : frames->head[1] & 0x7f;
    return 2 + (len == 126 ? 2 : len == 127 ? 8 : 0);
}

static uint64_t payload_size(const struct frames *frames)
{
    size_t size = head_size(frames);
    uint64_t n = 0;
    if (size == 2)
        return frames->head[1] & 0x7f;
    for (size_t i = 2; i < size; i++)
        n = n << 8 | frames->head[i];
    return n;
}

/* Gives false for a frame that cannot be read: compressed, or masked by a server. */
static bool take_head_byte(struct rewrite *rewrite, char c)
{
    struct frames *frames = &rewrite->frames;
    frames->head[frames->have++] = (unsigned char)c;
    if (frames->have < head_size(frames))
        return true;
    if ((frames->head[0] & 0x70) != 0 || (frames->head[1] & 0x80) != 0)
        return false;
    buf_put(&rewrite->to_client, str_n((const char *)frames->head, frames->have));
    frames->left = payload_size(frames);
    frames->in_payload = frames->left > 0;
    frames->have = 0;
    return true;
}

void rewrite_pass_frames(struct rewrite *rewrite, struct str bytes)
{
    struct frames *frames = &rewrite->frames;
    if (scrub_is_idle(rewrite->mask)) {
        buf_put(&rewrite->to_client, bytes);
        return;
    }
    for (size_t i = 0; i < bytes.len;) {
        if (!frames->in_payload) {
            if (!take_head_byte(rewrite, bytes.ptr[i++])) {
                rewrite_fail(rewrite, 502, "answer_invalid",
                             "the host sent a WebSocket frame that cannot be searched");
                return;
            }
            continue;
        }
        size_t count = (size_t)MIN(frames->left, (uint64_t)(bytes.len - i));
        scrub_feed(rewrite->mask, str_slice(bytes, i, i + count), &rewrite->to_client);
        i += count;
        frames->left -= count;
        frames->in_payload = frames->left > 0;
        if (!frames->in_payload)
            scrub_end(rewrite->mask, &rewrite->to_client);
    }
}
