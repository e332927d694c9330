/* SipHash-1-3 for map keys. Its own file, so that programs without OpenSSL can use maps. */

#include "base/sip.h"
#include "base/id.h"

static uint64_t rotate(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

static void mix(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

static const uint64_t *process_key(void)
{
    static uint64_t key[2];
    static bool drawn;
    if (!drawn) {
        /* Not guarded against two threads: the loop thread fills maps before workers start. */
        id_random(key, sizeof key);
        drawn = true;
    }
    return key;
}

uint64_t sip_hash(struct str bytes)
{
    const uint64_t *key = process_key();
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
                     key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u};
    size_t whole = bytes.len & ~(size_t)7;
    for (size_t i = 0; i < whole; i += 8) {
        uint64_t word;
        memcpy(&word, bytes.ptr + i, sizeof word);
        v[3] ^= word;
        mix(v);
        v[0] ^= word;
    }
    uint64_t last = (uint64_t)bytes.len << 56;
    for (size_t i = whole; i < bytes.len; i++)
        last |= (uint64_t)(unsigned char)bytes.ptr[i] << (8 * (i - whole));
    v[3] ^= last;
    mix(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    mix(v);
    mix(v);
    mix(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
