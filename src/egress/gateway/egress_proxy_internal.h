#pragma once

/* What egress_proxy.c, egress_proxy_dns.c and the guests share. */

#include "base/buf.h"
#include "base/map.h"
#include "base/vec.h"
#include "egress/gateway/egress_proxy.h"
#include "egress/gateway/names.h"
#include "egress/net/dial.h"
#include "egress/net/meter.h"

struct dns_ask;
struct relay;
struct talk;
struct timer;
struct watch;

struct egress_proxy_listener {
    struct egress_proxy *proxy;
    enum egress_proxy_socket kind;
    int fd;
    struct watch *watch;
};

struct egress_proxy {
    struct loop *loop;
    struct egress_proxy_options options;
    struct egress_proxy_limits limits; /* filled */
    struct policy *policy;
    struct dial_options dial_options;
    struct dialer *dialer;
    struct names names;
    struct egress_proxy_listener listeners[EGRESS_PROXY_SOCKETS_MAX];
    size_t listener_count;
    struct guest *guests; /* a list */
    struct dns_ask *asks; /* lookups under way; a list */
    size_t guest_count, ask_count;
    bool is_full; /* no connection is taken until one ends */
    struct meter meter;
    struct timer *sweep; /* idle connections; and the meter, while it is dry */
    int64_t swept_ms;
    struct map told; /* refusals that were reported */
    int64_t accepted, blocked;
    int64_t busy_ms; /* when something came or ended last */
};

/* A connection out of the sandbox. FIRST, GREETING, REQUEST and HEAD collect what a client of the
 * proxy says (guest_proxy.c). DIALLING waits for the host. SNIFFING: whom it wants is known and may
 * be reached, what it says first must fit (guest_tunnel.c). PASSING: a relay or a talk has the
 * sockets. TURNED_AWAY: refused, but its first words decide how that is said. LEAVING: all is said,
 * its rest is read so that it gets our answer and not a reset. */
enum { GUEST_FIELDS_MAX = 128 };

enum guest_state {
    GUEST_FIRST,
    GUEST_GREETING,
    GUEST_REQUEST,
    GUEST_HEAD,
    GUEST_DIALLING,
    GUEST_SNIFFING,
    GUEST_PASSING,
    GUEST_TURNED_AWAY,
    GUEST_LEAVING,
};

struct guest {
    struct egress_proxy *proxy;
    struct guest *next, **link;
    enum guest_state state;
    enum egress_proxy_channel channel;
    int fd, outer; /* -1 when a relay or a talk owns them, or before there is one */
    struct watch *watch;
    struct timer *timer; /* the deadline of the state */
    struct buf in;
    struct host host; /* whom it wants; text "" while unknown */
    uint16_t port;
    struct dial *dial;
    bool must_open; /* the policy limits methods or paths: what cannot be read may not pass */
    bool is_http;   /* inside a tunnel or captured: it uses HTTP, so a refusal can be explained */
    bool is_https;  /* opened */
    struct verdict refusal;
    struct relay *relay;
    struct talk *talk;
    int64_t begin_ms;
};

/* guest.c */
void guest_new(struct egress_proxy_listener *listener, int fd);
void guest_free(struct guest *guest);
void guest_set_state(struct guest *guest, enum guest_state state, int64_t deadline_ms);
/* Examines the received bytes again. May free the guest. */
void guest_advance(struct guest *guest);
/* Sends what fits into a fresh socket. False, and the guest is gone, when that fails. */
bool guest_say(struct guest *guest, struct str bytes);
void guest_leave(struct guest *guest, struct str last_words);
void guest_reset(struct guest *guest); /* the guest is gone */
void guest_refuse(struct guest *guest, const struct verdict *verdict);
/* The host cannot be reached. */
void guest_fail(struct guest *guest, const struct err *why);
/* Connects, as far as the policy allows; `done` has the guest as its context. */
void guest_dial(struct guest *guest, const char *scheme, struct str method, struct str path,
                dial_done *done);
/* Hand both sockets over. */
void guest_start_relay(struct guest *guest);
void guest_start_talk(struct guest *guest, bool is_https, bool is_single);
int64_t guest_moved_ms(const struct guest *guest);
bool guest_has_input(const struct guest *guest); /* that was not taken up yet */
void guest_resume(struct guest *guest);

/* guest_proxy.c */
void guest_on_first(struct guest *guest);
void guest_on_greeting(struct guest *guest);
void guest_on_request(struct guest *guest);
void guest_on_head(struct guest *guest);

/* guest_tunnel.c */
void guest_begin_tunnel(struct guest *guest);
void guest_on_sniff(struct guest *guest);
void guest_on_sniff_time(struct guest *guest);
void guest_on_turned_away(struct guest *guest);

/* egress_proxy_dns.c */
int egress_proxy_dns_open(struct egress_proxy_listener *listener, struct err *err) MUST_USE;
void egress_proxy_dns_done(struct egress_proxy *proxy);
/* For TCP: a connection with length-prefixed questions. */
void egress_proxy_dns_accept(struct egress_proxy_listener *listener, int fd);
void egress_proxy_dns_sweep(struct egress_proxy *proxy, int64_t now_ms);

/* egress_proxy.c */
void egress_proxy_tell(struct egress_proxy *proxy, enum egress_proxy_channel channel,
                       const struct verdict *verdict, const char *host, uint16_t port);
void egress_proxy_left(struct egress_proxy *proxy); /* a guest is gone: room for others */
/* Whether its bytes are used up, and in which words. */
bool egress_proxy_is_used_up(const struct egress_proxy *proxy, const struct guest *guest,
                             struct verdict *ret_verdict);
