#pragma once

/* One sandbox of the tier jail. */

#include "base/buf.h"
#include "base/err.h"
#include "base/hold.h"
#include "base/id.h"
#include "base/map.h"
#include "base/vec.h"
#include "engine/provider.h"
#include "io/loop.h"
#include "jail/client/jail.h"
#include "tiers/jail/layers/sealed.h"

struct context;
struct gateway_session;
struct live_reviving;
struct live_taking;
struct quiescing;
struct rolling;

/* Something asked of a jail, by the number of its events. */
struct asked_op {
    struct asked_op *next;
    uint32_t id;
    /* `event` is borrowed. NULL, with `why`: the place has ended, and no more calls come. */
    void (*on_event)(struct asked_op *op, const struct jail_event *event, const struct err *why);
};

struct place {
    struct hold hold;   /* during call-backs */
    struct place *next; /* of the provider's */
    struct provider *provider;
    struct loop *provider_loop;
    struct arena arena;
    char *id, *volume;
    char disk[ID_SIZE]; /* the disk with its files; "": in memory */
    struct jail_plan plan;
    bool has_snapshots, is_of_session;
    bool forks_plain; /* it has packages of its own that the zygote has imported, too */
    struct jail *jail;
    struct watch *watch;
    struct asked_op *ops;
    struct exec *execs;
    struct context *contexts;
    struct engine_pairs env;        /* of every interpreter */
    struct str runtime;             /* when a run names none */
    const struct str *requirements; /* of that runtime's first run */
    size_t requirement_count;
    int64_t oom_kills;       /* that are known of */
    struct map installed;    /* requirements that were met: packages.c */
    bool is_noted;           /* so are those that its working tree records as installed */
    struct listing *listing; /* the files after the last run; NULL: not known */
    uint64_t version, listing_version;
    struct buf base_image, own_image; /* what it is based on: snapshots; its own saved state */
    struct buf lent;                  /* other disks that hold layers of its jail (disk.h) */
    struct place_sealed sealed;
    struct rolling *rolling;                 /* a rollback under way */
    struct network *network_in_effect;       /* NULL: none yet */
    struct gateway_session *gateway_session; /* NULL: no socket of it leads out */
    bool lost_network;                       /* had one when the gateway died */
    VEC(uint16_t) ports;                     /* that lead to it besides those of every gateway */
    struct net_change *net_change;           /* under way */
    int64_t net_moved;                       /* bytes, by whatever gateway */
    int roots_fd; /* what it trusts in place of the system's file; -1: that one */
    const char *roots_path;
    struct live_taking *taking;     /* its interpreters write down what they hold */
    struct live_reviving *reviving; /* its interpreters continue from saved state */
    struct live_interpreters *live; /* which is this */
    size_t holds; /* no code is run while there are any; has nothing to do with `hold` */
    struct quiescing *quiescing; /* its interpreters are, or are about to be, quiescent */
    bool is_gone;
    bool is_paused;           /* all its processes are frozen */
    bool is_spare;            /* in the pool; it has no id */
    struct timer *gone_timer; /* NULL, or the timer after which the end of the jail is reported */
    struct err gone_err;
};

/* A copy of the place's id, for reports after the place was freed; NULL for a spare. Free it. */
static inline char *place_copy_id(const struct place *place)
{
    return place->id == NULL ? NULL : mem_dup_cstr(place->id);
}

/* place.c */
/* Whether the Linux kernel has killed because memory ran out since the last call: `kills` is the
 * count of the jail now. */
bool place_has_oom_kills(struct place *place, int64_t kills);
/* Remembers `op` until its last event; the id is that of a jail_ask_*. */
void place_add(struct place *place, struct asked_op *op, uint32_t id);
void place_remove(struct place *place, struct asked_op *op);
/* Questions may wait for room: call it after each jail_ask_*. */
void place_watch(struct place *place);

/* Makes a place without a jail; place_take_jail gives it one and watches its events. */
struct place *place_new(struct provider *provider);
int place_take_jail(struct place *place, struct jail *jail, struct err *err) MUST_USE;
/* Replaces the jail of a place and returns the old one; requests to the old one fail with `why`. */
int place_exchange(struct place *place, struct jail *jail, const struct err *why,
                   struct jail **ret_old, struct err *err) MUST_USE;
/* See provider.h: requests that wait for it get the error that it ended. */
void tier_place_end(struct place *place, bool keep_image, engine_done *done, void *ctx);
/* Ends a place that no sandbox has used. */
void place_discard(struct place *place);
/* Frees it, after the current call-back. */
void place_release(struct place *place);

/* create.c: see provider.h */
void tier_place_create(struct provider *provider, const struct place_spec *spec, place_done *done,
                       void *ctx);

/* limit.c */
void tier_limit(struct place *place, const struct sandbox_limits *limits, engine_done *done,
                void *ctx);

/* left.c: see provider.h */
void tier_left_running(struct place *place, count_done *done, void *ctx);
