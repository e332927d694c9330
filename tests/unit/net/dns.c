#include "net.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RECORDS_MAX = 64, TYPE_A = 1, TYPE_CNAME = 5, TYPE_AAAA = 28 };

struct record {
    char name[128], answers[512];
    int queries[2]; /* of A and AAAA */
};

struct net_dns {
    int fd;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the records */
    struct record records[RECORDS_MAX];
    int count;
    char address[64];
};

static struct record *find(struct net_dns *dns, const char *name)
{
    for (int i = 0; i < dns->count; i++)
        if (strcmp(dns->records[i].name, name) == 0)
            return &dns->records[i];
    return NULL;
}

/* Labels to "a.b.c"; gives the bytes read. */
static size_t read_name(const unsigned char *bytes, size_t len, char out[256])
{
    size_t at = 0, used = 0;
    while (at < len && bytes[at] != 0 && used + bytes[at] + 1U < 256 && at + bytes[at] < len) {
        if (used > 0)
            out[used++] = '.';
        memcpy(out + used, bytes + at + 1, bytes[at]);
        used += bytes[at];
        at += bytes[at] + 1U;
    }
    out[used] = '\0';
    return at + 1;
}

static void put_u16(struct buf *out, unsigned n)
{
    buf_put_char(out, (char)(n >> 8));
    buf_put_char(out, (char)(n & 0xff));
}

static void put_name(struct buf *out, const char *name)
{
    struct str rest = str_of(name), label;
    while (str_split(&rest, '.', &label)) {
        buf_put_char(out, (char)label.len);
        buf_put(out, label);
    }
    buf_put_char(out, 0);
}

static void put_record(struct buf *out, const char *name, unsigned type, struct str data)
{
    put_name(out, name);
    put_u16(out, type);
    put_u16(out, 1);
    put_u16(out, 0); /* time to live: none */
    put_u16(out, 0);
    put_u16(out, (unsigned)data.len);
    buf_put(out, data);
}

/* The part of "first|second|..." that is due. */
static struct str due(struct record *record, unsigned type)
{
    int *queries = &record->queries[type == TYPE_AAAA];
    struct str rest = str_of(record->answers), part = {0}, chosen = {0};
    for (int i = 0; i <= *queries && str_split(&rest, '|', &part); i++)
        chosen = part;
    (*queries)++;
    return chosen;
}

static int put_answers(struct net_dns *dns, struct record *record, unsigned type, struct buf *out)
{
    int count = 0;
    struct str rest = due(record, type), word;
    while (str_split(&rest, ' ', &word)) {
        char text[128];
        unsigned char bytes[16];
        (void)snprintf(text, sizeof text, "%.*s", STR_ARG(word));
        bool is_v6 = strchr(text, ':') != NULL;
        if (strncmp(text, "cname:", 6) == 0) {
            AUTO_BUF struct buf target = {0};
            put_name(&target, text + 6);
            put_record(out, record->name, TYPE_CNAME, buf_str(&target));
            struct record *next = find(dns, text + 6);
            count += 1 + (next == NULL ? 0 : put_answers(dns, next, type, out));
        } else if (is_v6 == (type == TYPE_AAAA) &&
                   inet_pton(is_v6 ? AF_INET6 : AF_INET, text, bytes) == 1) {
            put_record(out, record->name, type, str_n((char *)bytes, is_v6 ? 16 : 4));
            count++;
        }
    }
    return count;
}

static void answer(struct net_dns *dns, const unsigned char *query, size_t len, struct buf *out)
{
    char name[256];
    size_t name_len = read_name(query + 12, len - 12, name);
    unsigned type = (unsigned)(query[12 + name_len] << 8 | query[13 + name_len]);
    AUTO_BUF struct buf records = {0};
    (void)pthread_mutex_lock(&dns->lock);
    struct record *record = find(dns, name);
    bool is_silent = record != NULL && strcmp(record->answers, "silent") == 0;
    int count = record == NULL ? 0 : put_answers(dns, record, type, &records);
    (void)pthread_mutex_unlock(&dns->lock);
    if (is_silent)
        return;
    buf_put(out, str_n((const char *)query, 2));
    put_u16(out, record == NULL ? 0x8183 : 0x8180); /* NXDOMAIN, or recursion done */
    put_u16(out, 1);
    put_u16(out, (unsigned)count);
    put_u16(out, 0);
    put_u16(out, 0);
    buf_put(out, str_n((const char *)query + 12, name_len + 4));
    buf_put(out, buf_str(&records));
}

static void *serve(void *arg)
{
    struct net_dns *dns = arg;
    for (;;) {
        unsigned char query[1024];
        struct sockaddr_in from;
        socklen_t from_len = sizeof from;
        ssize_t got =
            recvfrom(dns->fd, query, sizeof query, 0, (struct sockaddr *)&from, &from_len);
        if (got <= 1)
            return NULL; /* net_dns_free says goodbye with one byte */
        AUTO_BUF struct buf out = {0};
        if (got > 17)
            answer(dns, query, (size_t)got, &out);
        if (out.len > 0)
            (void)sendto(dns->fd, out.ptr, out.len, 0, (struct sockaddr *)&from, from_len);
    }
}

struct net_dns *net_dns_start(void)
{
    struct net_dns *dns = mem_alloc(sizeof *dns);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    dns->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool good = bind(dns->fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
                getsockname(dns->fd, (struct sockaddr *)&address, &size) == 0;
    assert(good);
    (void)snprintf(dns->address, sizeof dns->address, "127.0.0.1:%d", ntohs(address.sin_port));
    (void)pthread_mutex_init(&dns->lock, NULL);
    (void)pthread_create(&dns->thread, NULL, serve, dns);
    return dns;
}

struct net_dns *net_dns_free(struct net_dns *dns)
{
    if (dns == NULL)
        return NULL;
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    (void)getsockname(dns->fd, (struct sockaddr *)&address, &size);
    (void)sendto(dns->fd, "", 1, 0, (struct sockaddr *)&address, size);
    (void)pthread_join(dns->thread, NULL);
    (void)close(dns->fd);
    (void)pthread_mutex_destroy(&dns->lock);
    free(dns);
    return NULL;
}

const char *net_dns_address(const struct net_dns *dns)
{
    return dns->address;
}

void net_dns_set(struct net_dns *dns, const char *name, const char *answers)
{
    (void)pthread_mutex_lock(&dns->lock);
    struct record *record = find(dns, name);
    if (record == NULL) {
        assert(dns->count < RECORDS_MAX);
        record = &dns->records[dns->count++];
    }
    *record = (struct record){0};
    (void)snprintf(record->name, sizeof record->name, "%s", name);
    (void)snprintf(record->answers, sizeof record->answers, "%s", answers);
    (void)pthread_mutex_unlock(&dns->lock);
}

int net_dns_queries(struct net_dns *dns, const char *name)
{
    (void)pthread_mutex_lock(&dns->lock);
    const struct record *record = find(dns, name);
    int count = record == NULL ? 0 : record->queries[0] + record->queries[1];
    (void)pthread_mutex_unlock(&dns->lock);
    return count;
}
