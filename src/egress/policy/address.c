#include "egress/policy/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>

#include "base/err.h"
#include "base/sys.h"
#include "io/listen.h"

struct prefix {
    unsigned char bytes[16];
    int bits;
};

/* IANA's special-purpose registry, all that is not globally reachable, and the multicast space. */
static const struct prefix closed_v4[] = {
    {{0}, 8},                 /* this network */
    {{10}, 8},                /* private */
    {{100, 64}, 10},          /* carrier-grade NAT; some metadata services live here */
    {{127}, 8},               /* loopback */
    {{168, 63, 129, 16}, 32}, /* a public number that Azure answers inside its machines */
    {{169, 254}, 16},         /* link-local; metadata of most clouds */
    {{172, 16}, 12},          /* private */
    {{192, 0, 0}, 24},        /* protocol assignments */
    {{192, 0, 2}, 24},        /* documentation */
    {{192, 31, 196}, 24},     /* AS112 */
    {{192, 52, 193}, 24},     /* AMT */
    {{192, 88, 99}, 24},      /* 6to4 relays */
    {{192, 168}, 16},         /* private */
    {{192, 175, 48}, 24},     /* AS112 */
    {{198, 18}, 15},          /* benchmarking */
    {{198, 51, 100}, 24},     /* documentation */
    {{203, 0, 113}, 24},      /* documentation */
    {{224}, 4},               /* multicast */
    {{240}, 4},               /* reserved, broadcast */
};

/* Only 2000::/3 is handed out to the Internet; these are its exceptions. */
static const struct prefix closed_v6[] = {
    {{0x20, 0x01, 0, 2}, 48},                /* benchmarking */
    {{0x20, 0x01, 0, 3}, 32},                /* AMT */
    {{0x20, 0x01, 0, 4, 0x01, 0x12}, 48},    /* AS112 */
    {{0x20, 0x01, 0, 0x10}, 28},             /* ORCHID */
    {{0x20, 0x01, 0, 0x20}, 28},             /* ORCHIDv2 */
    {{0x20, 0x01, 0, 0x30}, 28},             /* drone identities */
    {{0x20, 0x01, 0x0d, 0xb8}, 32},          /* documentation */
    {{0x26, 0x20, 0, 0x4f, 0x80, 0x00}, 48}, /* AS112 */
    {{0x3f, 0xff}, 20},                      /* documentation */
};

static const struct prefix global_v6 = {{0x20}, 3};
static const struct prefix teredo = {{0x20, 0x01, 0, 0}, 32};
static const struct prefix six_to_four = {{0x20, 0x02}, 16};
static const struct prefix mapped = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96};
static const struct prefix nat64 = {{0, 0x64, 0xff, 0x9b}, 96};

static bool is_within(const unsigned char *bytes, const struct prefix *prefix)
{
    int whole = prefix->bits / 8, rest = prefix->bits % 8;
    if (memcmp(bytes, prefix->bytes, (size_t)whole) != 0)
        return false;
    if (rest == 0)
        return true;
    unsigned mask = 0xffU << (8 - rest) & 0xffU;
    return (bytes[whole] & mask) == (prefix->bytes[whole] & mask);
}

static bool is_in_any(const unsigned char *bytes, const struct prefix *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_within(bytes, &list[i]))
            return true;
    return false;
}

#ifdef SG_FAULTS
enum { TEST_PREFIXES_MAX = 16 };
static struct {
    struct prefix prefix;
    int version;
} test_public[TEST_PREFIXES_MAX];
static size_t test_public_count;
static bool test_public_read;

void ip_test_public(const char *prefixes)
{
    test_public_read = true;
    test_public_count = 0;
    struct str rest = str_of(prefixes), word;
    while (str_split(&rest, ' ', &word)) {
        if (word.len == 0)
            continue;
        size_t slash = str_find_char(word, '/');
        struct ip ip;
        int64_t bits;
        bool good = ip_parse(str_slice(word, 0, slash), &ip) &&
                    str_to_i64(str_slice(word, slash + 1, word.len), 0, ip.version == 4 ? 32 : 128,
                               &bits) &&
                    test_public_count < TEST_PREFIXES_MAX;
        assert(good);
        memcpy(test_public[test_public_count].prefix.bytes, ip.bytes, sizeof ip.bytes);
        test_public[test_public_count].prefix.bits = (int)bits;
        test_public[test_public_count++].version = ip.version;
    }
}

static bool is_public_for_tests(const struct ip *ip)
{
    if (!test_public_read) {
        const char *given = getenv("SG_TEST_PUBLIC");
        ip_test_public(given == NULL ? "" : given);
    }
    for (size_t i = 0; i < test_public_count; i++)
        if (test_public[i].version == ip->version && is_within(ip->bytes, &test_public[i].prefix))
            return true;
    return false;
}
#else
static bool is_public_for_tests(UNUSED const struct ip *ip)
{
    return false;
}
#endif

static bool is_public_v4(const unsigned char *bytes)
{
    return !is_in_any(bytes, closed_v4, countof(closed_v4));
}

static bool is_public_v6(const unsigned char *bytes)
{
    if (is_within(bytes, &mapped) || is_within(bytes, &nat64))
        return is_public_v4(bytes + 12);
    if (!is_within(bytes, &global_v6))
        return false;
    if (is_within(bytes, &six_to_four))
        return is_public_v4(bytes + 2);
    if (is_within(bytes, &teredo)) {
        /* The server stands in the clear, the client's address with its bits turned. */
        unsigned char client[4];
        for (int i = 0; i < 4; i++)
            client[i] = (unsigned char)~bytes[12 + i];
        return is_public_v4(bytes + 4) && is_public_v4(client);
    }
    return !is_in_any(bytes, closed_v6, countof(closed_v6));
}

bool ip_is_public(const struct ip *ip)
{
    if (is_public_for_tests(ip))
        return true;
    if (ip->version == 4)
        return is_public_v4(ip->bytes);
    return ip->version == 6 && is_public_v6(ip->bytes);
}

/* inet_pton is strict in glibc and lax elsewhere; four parts are quickly read by ourselves. */
static bool parse_v4(struct str text, struct ip *ret_ip)
{
    struct ip ip = {.version = 4};
    struct str part;
    int parts = 0;
    while (str_split(&text, '.', &part)) {
        int64_t n;
        bool padded = part.len > 1 && part.ptr[0] == '0';
        if (parts == 4 || padded || part.len == 0 || part.ptr[0] == '-' ||
            !str_to_i64(part, 0, 255, &n))
            return false;
        ip.bytes[parts++] = (unsigned char)n;
    }
    if (parts != 4)
        return false;
    *ret_ip = ip;
    return true;
}

static bool parse_v6(struct str text, struct ip *ret_ip)
{
    struct ip ip = {.version = 6};
    struct str allowed = STR("0123456789abcdefABCDEF:.");
    char cstr[IP_TEXT_SIZE];
    if (text.len >= sizeof cstr)
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (str_find_char(allowed, text.ptr[i]) == allowed.len)
            return false;
    memcpy(cstr, text.ptr, text.len);
    cstr[text.len] = '\0';
    if (inet_pton(AF_INET6, cstr, ip.bytes) != 1)
        return false;
    *ret_ip = ip;
    return true;
}

bool ip_parse(struct str text, struct ip *ret_ip)
{
    if (text.len == 0)
        return false;
    if (str_find_char(text, ':') < text.len)
        return parse_v6(text, ret_ip);
    return parse_v4(text, ret_ip);
}

void ip_format(const struct ip *ip, char out[IP_TEXT_SIZE])
{
    const char *text =
        inet_ntop(ip->version == 4 ? AF_INET : AF_INET6, ip->bytes, out, IP_TEXT_SIZE);
    assert(text != NULL);
}

bool ip_eq(const struct ip *a, const struct ip *b)
{
    return a->version == b->version && memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

struct addr ip_to_addr(const struct ip *ip, uint16_t port)
{
    struct addr addr = {0};
    if (ip->version == 4) {
        addr.sa.v4.sin_family = AF_INET;
        addr.sa.v4.sin_port = htons(port);
        memcpy(&addr.sa.v4.sin_addr, ip->bytes, 4);
        addr.len = sizeof addr.sa.v4;
    } else {
        addr.sa.v6.sin6_family = AF_INET6;
        addr.sa.v6.sin6_port = htons(port);
        memcpy(&addr.sa.v6.sin6_addr, ip->bytes, 16);
        addr.len = sizeof addr.sa.v6;
    }
    return addr;
}

static bool from_sockaddr(const struct sockaddr *sa, struct ip *ret_ip)
{
    struct ip ip = {0};
    if (sa != NULL && sa->sa_family == AF_INET) {
        ip.version = 4;
        memcpy(ip.bytes, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
    } else if (sa != NULL && sa->sa_family == AF_INET6) {
        ip.version = 6;
        memcpy(ip.bytes, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
    } else {
        return false;
    }
    *ret_ip = ip;
    return true;
}

int ip_own_list(struct ip out[IP_OWN_MAX], size_t *ret_count, struct err *err)
{
    struct ifaddrs *list = NULL;
    if (SYS(getifaddrs(&list)) < 0)
        return err_sys(err, errno, "list this machine's addresses");
    size_t count = 0;
    bool fits = true;
    for (const struct ifaddrs *at = list; at != NULL && fits; at = at->ifa_next) {
        struct ip ip;
        if (!from_sockaddr(at->ifa_addr, &ip))
            continue;
        fits = count < IP_OWN_MAX;
        if (fits)
            out[count++] = ip;
    }
    freeifaddrs(list);
    if (!fits)
        return err_set(err, ERR_LIMIT, "this machine has more than %d addresses", IP_OWN_MAX);
    *ret_count = count;
    return 0;
}
