#pragma once

/* The built-in bridges, and what their handlers work with. */

#include "isolate/bridge/bridge.h"
#include "runtime/hints.h"

struct allowance;
struct gate;
struct host;
struct policy;
struct secrets;
struct verdict;

#define WEATHER_URL_DEFAULT "https://api.open-meteo.com"

/* What bridge_call_start takes as `services`; one for each sandbox, since the policy is its own. */
struct services {
    struct gate *gate;
    struct policy *policy;         /* where api.fetch may go; NULL for nowhere */
    const struct secrets *secrets; /* what api.fetch may use unseen; NULL for none */
    struct allowance *allowance;   /* what its requests have together; NULL for no limits */
    struct hints hints;            /* of the request */
    bool used_hints; /* api.getWeather was called without a place since they were set */
    /* What api.fetch was refused, for logs and events; may be NULL. */
    void (*on_verdict)(void *ctx, const struct verdict *verdict, const struct host *host,
                       uint16_t port);
    void *verdict_ctx;
    const char *remedy; /* how the user can allow a host that was refused; NULL when unknown */
    /* services_set_weather fills these. */
    char *weather_url; /* without a slash at its end */
    struct policy *weather_policy;
};

/* The operator's choice of a weather service, NULL for WEATHER_URL_DEFAULT. The bridge then goes to
 * that host and port, by GET, whatever the sandbox's policy is. An address written in the URL may
 * be private; a name leads to public addresses, or to those of `private` ("HOST=ADDRESS:PORT, ...",
 * may be NULL). */
int services_set_weather(struct services *services, const char *url, const char *private,
                         struct err *err) MUST_USE;
void services_done(struct services *services); /* the gate and the policy stay the caller's */
#define AUTO_SERVICES AUTO(services_done)

/* The table, ending with NULL: a new bridge is a file and a row here. */
extern const struct bridge *const bridges[];
extern const struct bridge bridge_fetch, bridge_weather;
