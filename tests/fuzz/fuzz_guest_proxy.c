/* What a program says first to the proxy: CONNECT, a request in absolute form, SOCKS. Byte 0 says
 * in what pieces it comes. It ends in one result, the same for pieces of any size: more must
 * come, a refusal in words that fit into a status line, or a canonical host and a port to reach. A
 * tunnel gets what stands behind the head and nothing of it; a request is kept whole, to be read
 * again.
 *
 * The functions of guest.c and guest_tunnel.c are defined here instead, so that what was understood
 * is seen without sockets. */

#include "fuzz.h"

#include "base/err.h"
#include "egress/gateway/egress_proxy_internal.h"
#include "egress/gateway/socks.h"
#include "egress/keys/http1.h"
#include "io/http_words.h"

enum { HEAD_BYTES = 4096 };

enum ending { WAITS, TUNNELS, DIALS, REFUSED, FAILED, LEFT };

struct seen {
    struct guest guest; /* first: the functions below find the rest by it */
    enum ending ending;
    size_t said, rest; /* bytes told to the client, bytes that were not taken up */
    char words[300];
};

static struct seen *seen_of(struct guest *guest)
{
    return (struct seen *)guest;
}

static void end(struct guest *guest, enum ending ending, const char *words)
{
    struct seen *seen = seen_of(guest);
    assert(seen->ending == WAITS);
    seen->ending = ending;
    (void)snprintf(seen->words, sizeof seen->words, "%s", words);
}

void guest_set_state(struct guest *guest, enum guest_state state, UNUSED int64_t deadline_ms)
{
    guest->state = state;
}

void guest_advance(struct guest *guest)
{
    static void (*const steps[])(struct guest * guest) = {
        [GUEST_FIRST] = guest_on_first,
        [GUEST_GREETING] = guest_on_greeting,
        [GUEST_REQUEST] = guest_on_request,
        [GUEST_HEAD] = guest_on_head,
    };
    assert(guest->state < countof(steps));
    steps[guest->state](guest);
}

bool guest_say(struct guest *guest, struct str bytes)
{
    seen_of(guest)->said += bytes.len;
    return true;
}

void guest_leave(struct guest *guest, struct str last_words)
{
    seen_of(guest)->said += last_words.len;
    end(guest, LEFT, "");
}

void guest_refuse(struct guest *guest, const struct verdict *verdict)
{
    assert(!verdict_is_allowed(verdict));
    end(guest, REFUSED, verdict->text);
}

void guest_fail(struct guest *guest, const struct err *why)
{
    assert(why->code == ERR_INVALID || why->code == ERR_TOO_LARGE);
    end(guest, FAILED, why->msg);
}

void guest_begin_tunnel(struct guest *guest)
{
    assert(guest->channel == EGRESS_PROXY_BY_CONNECT || guest->channel == EGRESS_PROXY_BY_SOCKS);
    end(guest, TUNNELS, "");
}

void guest_dial(struct guest *guest, const char *scheme, struct str method, struct str path,
                UNUSED dial_done *done)
{
    assert(strcmp(scheme, "http") == 0 && http_is_token(method));
    assert(!str_eq(method, STR("CONNECT")));
    assert(path.len > 0 && path.ptr[0] == '/' && http_is_visible(path));
    end(guest, DIALS, "");
}

void guest_start_talk(UNUSED struct guest *guest, UNUSED bool is_https, UNUSED bool is_single)
{
    abort(); /* nothing is ever dialled here */
}

static void listen_to(struct seen *seen, struct egress_proxy *proxy, struct str bytes, size_t step)
{
    seen->guest.proxy = proxy;
    seen->guest.fd = seen->guest.outer = -1;
    while (bytes.len > 0 && seen->ending == WAITS) {
        buf_put(&seen->guest.in, str_slice(bytes, 0, step));
        bytes = str_slice(bytes, MIN(step, bytes.len), bytes.len);
        guest_advance(&seen->guest);
    }
    seen->rest = seen->guest.in.len + bytes.len;
}

static void check_words(const char *words)
{
    assert(words[0] != '\0');
    for (size_t i = 0; words[i] != '\0'; i++)
        assert(words[i] >= 0x20 && words[i] < 0x7f);
}

/* The end of the first empty line. */
static size_t head_len(struct str bytes)
{
    return str_find(bytes, STR("\r\n\r\n")) + 4;
}

static void check_target(const struct seen *seen, struct str bytes)
{
    const struct guest *guest = &seen->guest;
    struct host again;
    struct err err = {0};
    int result = host_parse(host_str(&guest->host), &again, &err);
    assert(result == 0 && strcmp(again.text, guest->host.text) == 0);
    assert(guest->port > 0 || guest->channel == EGRESS_PROXY_BY_SOCKS); /* no policy lets 0 out */
    if (seen->ending == DIALS)
        assert(seen->rest == bytes.len);
    else if (guest->channel == EGRESS_PROXY_BY_CONNECT)
        assert(seen->rest == bytes.len - head_len(bytes));
}

static void check(const struct seen *seen, struct str bytes)
{
    if (seen->ending == REFUSED || seen->ending == FAILED)
        check_words(seen->words);
    else if (seen->ending == TUNNELS || seen->ending == DIALS)
        check_target(seen, bytes);
    else if (seen->ending == WAITS)
        assert(seen->rest <= HEAD_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct str bytes = str_n((const char *)data + 1, size - 1);
    struct egress_proxy proxy = {.limits = {.head_bytes = HEAD_BYTES}};
    struct seen whole = {0}, cut = {0};
    listen_to(&whole, &proxy, bytes, MAX(bytes.len, (size_t)1));
    listen_to(&cut, &proxy, bytes, (size_t)data[0] + 1);
    check(&whole, bytes);
    assert(cut.ending == whole.ending && strcmp(cut.words, whole.words) == 0);
    assert(cut.said == whole.said && cut.guest.channel == whole.guest.channel);
    assert(strcmp(cut.guest.host.text, whole.guest.host.text) == 0);
    assert(cut.guest.port == whole.guest.port);
    /* Of what is turned away nothing is used. */
    bool goes_on = whole.ending != REFUSED && whole.ending != FAILED && whole.ending != LEFT;
    assert(!goes_on || cut.rest == whole.rest);
    buf_done(&whole.guest.in);
    buf_done(&cut.guest.in);
    return 0;
}
