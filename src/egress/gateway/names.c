#include "egress/gateway/names.h"

#include "base/clock.h"

/* 198.18.0.0/15 is reserved for benchmarks inside networks (RFC 2544). No public host has such an
 * address, so the range hides no real host, and the gate refuses it as a literal. */
enum { RANGE_HIGH = 198, RANGE_LOW = 18, FIRST = 1 };

void names_done(struct names *names)
{
    VEC_EACH (entry, &names->entries)
        free(entry->addresses);
    vec_done(&names->entries);
    map_done(&names->by_name);
}

static struct ip address_of(size_t index)
{
    size_t n = index + FIRST;
    return (struct ip){.version = 4,
                       .bytes = {RANGE_HIGH, (unsigned char)(RANGE_LOW + (n >> 16)),
                                 (unsigned char)(n >> 8 & 0xff), (unsigned char)(n & 0xff)}};
}

bool names_address(struct names *names, const struct host *host, struct ip *ret_address,
                   bool *ret_is_new)
{
    uintptr_t known = (uintptr_t)map_get(&names->by_name, host_str(host));
    *ret_is_new = known == 0;
    if (known == 0) {
        if (names->entries.len == NAMES_MAX)
            return false;
        struct names_entry *entry = vec_push(&names->entries);
        entry->host = *host;
        known = names->entries.len;
        (void)map_put(&names->by_name, host_str(host), (void *)known); // NOLINT: a number
    }
    *ret_address = address_of(known - 1);
    return true;
}

struct names_entry *names_find(struct names *names, const struct ip *address)
{
    const unsigned char *b = address->bytes;
    if (address->version != 4 || b[0] != RANGE_HIGH || (b[1] & 0xfe) != RANGE_LOW)
        return NULL;
    size_t n = (size_t)(b[1] - RANGE_LOW) << 16 | (size_t)b[2] << 8 | b[3];
    if (n < FIRST || n - FIRST >= names->entries.len)
        return NULL;
    return &names->entries.ptr[n - FIRST];
}

struct names_entry *names_get(struct names *names, const struct host *host)
{
    uintptr_t known = (uintptr_t)map_get(&names->by_name, host_str(host));
    return known == 0 ? NULL : &names->entries.ptr[known - 1];
}

void names_remember(struct names_entry *entry, const struct ip *addresses, size_t count)
{
    free(entry->addresses);
    entry->addresses = mem_dup(addresses, count * sizeof *addresses);
    entry->address_count = count;
    entry->resolved_ms = clock_now_ms();
}

bool names_is_fresh(const struct names_entry *entry)
{
    return entry->address_count > 0 && clock_now_ms() - entry->resolved_ms < NAMES_FRESH_MS;
}
