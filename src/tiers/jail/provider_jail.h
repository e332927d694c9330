#pragma once

/* The provider of the tier jail: what all its places share. */

#include "base/buf.h"
#include "engine/provider.h"
#include "jail/client/jail.h"
#include "runtime/runtimes.h"

struct gateway;
struct jail_disks;
struct jail_layers;
struct warden_request;
struct spares;
struct volumes;
struct watch;

struct provider {
    const struct provider_host *host;
    struct warden_link *warden;
    struct watch *watch;
    struct warden_counts counts; /* what it last said */
    bool is_counting;
    size_t pool_size, made; /* of its pool; jails asked for since that was set */
    struct warden_request *requests;
    struct pool *disk; /* of one thread: layers and volumes want one at a time */
    struct volumes *volumes;
    struct jail_layers *layers;
    struct jail_disks *disks; /* NULL: sandboxes write into memory */
    struct gateway *gateway;  /* from the first sandbox with a network on */
    struct watch *gateway_watch;
    bool has_roots;     /* the gateway knows what to trust */
    bool has_roots_dir; /* and what an earlier server left of its jails' roots is gone */
    struct buf dns_servers;
    struct place *places;
    struct runtime_places runtimes; /* directories of their programs; every jail sees them */
    int kernels_started;            /* that a zygote could have served */
    bool is_zygote_asked, has_zygote, is_plain_asked;
    struct spares *spares;          /* places with an interpreter in each */
    struct live_interpreters *kept; /* what interpreters held, for later */
};
