#include "jail/warden/net_stock.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "jail/inside/netns.h"

enum { TRACES_MAX = 8 << 10 }; /* of one file; the longest has four thousand bytes */

/* Packets over loopback; failed attempts, in both families; labels, which live on for seconds.
 * Every other counter moves only together with one of these. */
static const char *const files[NET_FILES] = {
    "/proc/thread-self/net/dev", "/proc/thread-self/net/ip6_flowlabel",
    "/proc/thread-self/net/snmp", "/proc/thread-self/net/snmp6"};

static void net_close(struct net *net)
{
    for (size_t i = 0; i < NET_FILES; i++)
        if (net->files[i] > 0)
            fd_close(&net->files[i]);
    if (net->fd > 0)
        fd_close(&net->fd);
    if (net->proxy_fd > 0)
        fd_close(&net->proxy_fd);
    *net = (struct net){0};
}

/* In the namespace. */
static int open_files(struct net *net, struct err *err)
{
    net->proxy_fd = netns_open_proxy(JAIL_PROXY_PORT, err);
    if (net->proxy_fd < 0)
        return -1;
    for (size_t i = 0; i < NET_FILES; i++) {
        int fd = SYS(open(files[i], O_RDONLY | O_CLOEXEC));
        if (fd < 0 && errno == ENOENT)
            continue; /* a kernel without IPv6 */
        if (fd < 0)
            return err_sys(err, errno, "open '%s'", files[i]);
        net->files[i] = fd;
    }
    return 0;
}

static ssize_t net_stock_read_file(const struct net *net, size_t i, char *space)
{
    if (net->files[i] == 0)
        return 0;
    ssize_t got = SYS(pread(net->files[i], space, TRACES_MAX, 0));
    return got == TRACES_MAX ? -1 : got; /* truncated: what follows is unknown */
}

/* What all namespaces begin with: learnt from the first. */
static int learn_fresh(struct net_stock *stock, const struct net *net, struct err *err)
{
    if (stock->fresh != NULL)
        return 0;
    char *fresh = mem_alloc(NET_FILES * TRACES_MAX);
    for (size_t i = 0; i < NET_FILES; i++)
        if (net_stock_read_file(net, i, fresh + i * TRACES_MAX) < 0) {
            free(fresh);
            return err_sys(err, errno, "read '%s'", files[i]);
        }
    stock->fresh = fresh;
    return 0;
}

static bool is_like_new(const struct net_stock *stock, const struct net *net)
{
    char space[TRACES_MAX];
    for (size_t i = 0; i < NET_FILES; i++) {
        const char *fresh = stock->fresh + i * TRACES_MAX;
        ssize_t got = net_stock_read_file(net, i, space);
        if (got < 0 || memcmp(space, fresh, (size_t)got) != 0 || fresh[got] != '\0')
            return false;
    }
    return true;
}

static int net_stock_make(struct net_stock *stock, struct net *ret_net, struct err *err)
{
    struct net net = {.fd = netns_make(stock->home_fd, err)};
    if (net.fd < 0 || netns_enter(net.fd, err) < 0)
        return -1;
    int done = open_files(&net, err);
    struct err back = {0};
    if (netns_enter(stock->home_fd, &back) < 0) {
        *err = back;
        done = err_wrap(err, "return to the first network namespace");
    }
    if (done < 0 || learn_fresh(stock, &net, err) < 0) {
        net_close(&net);
        return -1;
    }
    *ret_net = net;
    return 0;
}

/* Looks at one that was used; false: it was no longer as new and is gone. */
static bool wash(struct net_stock *stock, struct net *ret_net)
{
    struct net net = stock->used[--stock->used_count];
    if (!is_like_new(stock, &net)) {
        net_close(&net);
        return false;
    }
    *ret_net = net;
    return true;
}

int net_take(struct net_stock *stock, struct net *ret_net, struct err *err)
{
    if (stock->ready_count > 0) {
        *ret_net = stock->ready[--stock->ready_count];
        return 0;
    }
    while (stock->used_count > 0)
        if (wash(stock, ret_net))
            return 0;
    return net_stock_make(stock, ret_net, err);
}

void net_give_back(struct net_stock *stock, struct net *net, bool is_clean)
{
    if (!is_clean || net->fd <= 0 || stock->used_count == NET_STOCK_MAX) {
        net_close(net);
        return;
    }
    stock->used[stock->used_count++] = *net;
    *net = (struct net){0};
}

bool net_stock_step(struct net_stock *stock, size_t count, size_t keep)
{
    struct err err;
    struct net *next = &stock->ready[stock->ready_count];
    if (stock->ready_count > MAX(count, keep)) {
        net_close(&stock->ready[--stock->ready_count]);
        return true;
    }
    if (stock->ready_count < MIN(count, (size_t)NET_STOCK_MAX)) {
        bool had = stock->used_count > 0;
        bool got = had ? wash(stock, next) : net_stock_make(stock, next, &err) == 0;
        stock->ready_count += got;
        return had || got;
    }
    if (stock->ready_count + stock->used_count <= MAX(count, keep))
        return false;
    net_close(&stock->used[--stock->used_count]);
    return true;
}

void net_stock_done(struct net_stock *stock)
{
    while (stock->ready_count > 0)
        net_close(&stock->ready[--stock->ready_count]);
    while (stock->used_count > 0)
        net_close(&stock->used[--stock->used_count]);
    free(stock->fresh);
    stock->fresh = NULL;
}
