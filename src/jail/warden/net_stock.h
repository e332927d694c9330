#pragma once

/* Network namespaces, made ahead and used again.
 *
 * Making one takes longer than the rest of a jail and taking it apart keeps a kernel worker busy
 * for as long. Most programs never touch a network: a namespace in which no packet went over
 * loopback and nothing was even tried is as good as a new one. Without either nothing can be left
 * behind: sockets and names end with their processes, and settings need a capability that no jail
 * holds in it. */

#include "base/base.h"

struct err;

enum { NET_FILES = 4, NET_STOCK_MAX = 256 };

/* One namespace: itself, its counters, kept open because finding them costs more than reading them,
 * and the socket on JAIL_PROXY_PORT, to which programs inside connect to reach the network. 0 or
 * -1: not available. */
struct net {
    int fd;
    int files[NET_FILES];
    int proxy_fd;
};

struct net_stock {
    int home_fd; /* where this process lives between two steps; borrowed */
    struct net ready[NET_STOCK_MAX];
    size_t ready_count;
    struct net used[NET_STOCK_MAX]; /* their jails are gone; not looked at yet */
    size_t used_count;
    char *fresh; /* the counters of an unused one */
};

void net_stock_done(struct net_stock *stock);

/* Takes a network that cannot be distinguished from a new one. */
int net_take(struct net_stock *stock, struct net *ret_net, struct err *err) MUST_USE;
/* Takes one back; `is_clean` false when something may still run in it: then it is released. */
void net_give_back(struct net_stock *stock, struct net *net, bool is_clean);
/* One step towards `count` that are ready, at most `keep` that might be: one looked at, made or let
 * go. Says whether there was something to do. */
bool net_stock_step(struct net_stock *stock, size_t count, size_t keep);
