#pragma once

/* The network of a place: its gateway session, the certificates that it trusts, its ports. */

#include "engine/provider.h"

struct authority;
struct buf;

/* network.c */
void tier_network_set(struct place *place, struct network *network, engine_done *done, void *ctx);
/* A program in this jail of the warden tries to connect, and the jail has no gateway yet. */
void tier_network_wanted(struct provider *provider, uint32_t number);
/* The place is ending: requests that wait for a change get an error. */
void tier_network_end(struct place *place, const struct err *why);
void tier_network_stop(struct provider *provider);

/* roots.c */
/* A mount of its own roots, for a place whose connections are opened from the start. */
void tier_roots_plan(struct place *place);
/* The host's roots and this one. */
int tier_roots_bundle(struct authority *authority, struct buf *out, struct err *err) MUST_USE;
int tier_roots_write(struct place *place, struct str bundle, struct err *err) MUST_USE;
void tier_roots_end(struct place *place);

/* port.c */
void tier_port(struct place *place, uint16_t port, port_done *done, void *ctx);
