#include "egress/gateway/dns.h"

#include "base/buf.h"
#include "base/err.h"

enum {
    HEAD = 12,
    FLAG_ANSWER = 0x8000,
    FLAG_OPCODE = 0x7800,
    FLAG_TRUNCATED = 0x0200,
    FLAG_RECURSION_WANTED = 0x0100,
    FLAG_RECURSION_SERVED = 0x0080,
    CLASS_INTERNET = 1,
    TYPE_OPT = 41,
    LABEL_MAX = 63,
    EDNS_SIZE = 1232,
    OPTION_EXTENDED_ERROR = 15,
    EXTENDED_BLOCKED = 15,
    WHY_MAX = 200,
};

static uint16_t dns_number_at(struct str packet, size_t at)
{
    return (uint16_t)((unsigned char)packet.ptr[at] << 8 | (unsigned char)packet.ptr[at + 1]);
}

/* The name at `at` as text, without compression, which a question has no use for. 0 when broken,
 * else where it ends. A label with a dot inside would read as two: it is refused. */
static size_t read_name(struct str packet, size_t at, char text[HOST_TEXT_SIZE], bool *ret_is_text)
{
    size_t len = 0;
    *ret_is_text = true;
    while (at < packet.len) {
        size_t label = (unsigned char)packet.ptr[at++];
        if (label == 0) {
            text[len] = '\0';
            return at;
        }
        if (label > LABEL_MAX || at + label > packet.len || len + label + 1 >= HOST_TEXT_SIZE)
            return 0;
        if (len > 0)
            text[len++] = '.';
        for (size_t i = 0; i < label; i++) {
            char c = packet.ptr[at + i];
            *ret_is_text = *ret_is_text && c > 0x20 && c < 0x7f && c != '.';
            text[len++] = c;
        }
        at += label;
    }
    return 0;
}

/* EDNS is one record behind the question; whatever else stands there is not looked at. */
static bool has_edns(struct str packet, size_t at)
{
    bool one_more = dns_number_at(packet, 6) == 0 && dns_number_at(packet, 8) == 0 &&
                    dns_number_at(packet, 10) == 1;
    return one_more && at + 11 <= packet.len && packet.ptr[at] == 0 &&
           dns_number_at(packet, at + 1) == TYPE_OPT;
}

static void read_question(struct str packet, struct dns_query *query)
{
    char text[HOST_TEXT_SIZE];
    bool is_text;
    struct err err;
    size_t end = read_name(packet, HEAD, text, &is_text);
    query->code = DNS_BAD_FORMAT;
    if (dns_number_at(packet, 4) != 1 || end == 0 || end + 4 > packet.len)
        return;
    query->code = DNS_OK;
    query->type = dns_number_at(packet, end);
    query->class = dns_number_at(packet, end + 2);
    query->question = str_slice(packet, HEAD, end + 4);
    query->has_edns = has_edns(packet, end + 4);
    query->is_host =
        is_text && host_parse(str_of(text), &query->host, &err) == 0 && !host_is_ip(&query->host);
    if (query->class != CLASS_INTERNET)
        query->code = DNS_REFUSED;
}

bool dns_read(struct str packet, struct dns_query *ret_query)
{
    if (packet.len < HEAD || (dns_number_at(packet, 2) & FLAG_ANSWER) != 0)
        return false;
    *ret_query =
        (struct dns_query){.id = dns_number_at(packet, 0), .flags = dns_number_at(packet, 2)};
    if ((ret_query->flags & FLAG_OPCODE) != 0)
        ret_query->code = DNS_NOT_IMPLEMENTED;
    else if ((ret_query->flags & FLAG_TRUNCATED) != 0)
        ret_query->code = DNS_BAD_FORMAT;
    else
        read_question(packet, ret_query);
    return true;
}

static void put_u16(struct buf *out, unsigned n)
{
    buf_put_char(out, (char)(n >> 8 & 0xff));
    buf_put_char(out, (char)(n & 0xff));
}

static void put_u32(struct buf *out, uint32_t n)
{
    put_u16(out, n >> 16);
    put_u16(out, n & 0xffff);
}

static void put_address(const struct ip *address, struct buf *out)
{
    put_u16(out, 0xc000 | HEAD); /* the name in the question */
    put_u16(out, DNS_A);
    put_u16(out, CLASS_INTERNET);
    put_u32(out, DNS_TTL_SECONDS);
    put_u16(out, 4);
    buf_put(out, str_n((const char *)address->bytes, 4));
}

static void put_edns(const char *why, struct buf *out)
{
    struct str text = str_slice(str_of(why), 0, WHY_MAX);
    buf_put_char(out, 0);
    put_u16(out, TYPE_OPT);
    put_u16(out, EDNS_SIZE);
    put_u32(out, 0);
    put_u16(out, why == NULL ? 0 : (unsigned)(6 + text.len));
    if (why == NULL)
        return;
    put_u16(out, OPTION_EXTENDED_ERROR);
    put_u16(out, (unsigned)(2 + text.len));
    put_u16(out, EXTENDED_BLOCKED);
    buf_put(out, text);
}

void dns_put_answer(const struct dns_query *query, enum dns_code code, const struct ip *address,
                    const char *why, struct buf *out)
{
    assert(address == NULL || address->version == 4);
    bool has_question = query->question.len > 0;
    put_u16(out, query->id);
    put_u16(out, FLAG_ANSWER | (query->flags & (FLAG_OPCODE | FLAG_RECURSION_WANTED)) |
                     FLAG_RECURSION_SERVED | (unsigned)code);
    put_u16(out, has_question);
    put_u16(out, address != NULL);
    put_u16(out, 0);
    put_u16(out, query->has_edns);
    buf_put(out, query->question);
    if (address != NULL)
        put_address(address, out);
    if (query->has_edns)
        put_edns(why, out);
}
