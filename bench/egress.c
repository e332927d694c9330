/* The gateway beside no gateway: what it adds to making a jail, to a request on each channel, to a
 * long download, and what a thousand open connections cost.
 *
 * The far server lives in the host's namespace; programs of the "sandbox" (this process) live in a
 * namespace made as a jail's is, and so does the near server, to which they connect directly. */

#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "bench.h"
#include "egress/gateway/gateway.h"
#include "egress_net.h"
#include "jail/client/jail.h"
#include "jail/inside/netns.h"
#include "waiting.h"

enum { REQUESTS = 400, JAILS = 60, CONNECTIONS = 1000, PROXY = 3128 };

static struct err err;
static struct gateway *gateway;
static struct gateway_session *session;
static int far_port, near_port, far_tls_port, near_tls_port;

static void check(int done)
{
    if (done >= 0)
        return;
    (void)fprintf(stderr, "bench: %s\n", err.msg);
    exit(1);
}

/* The gateway's owner: tells a new worker what it may do. */
static atomic_bool leaving;

static void *own_gateway(void *unused)
{
    struct pollfd wait = {.fd = gateway_fd(gateway), .events = POLLIN};
    while (!atomic_load(&leaving))
        if (poll(&wait, 1, 100) > 0)
            (void)gateway_step(gateway);
    return unused;
}

/* Channels. */

static int connect_direct(void)
{
    return net_dial(near_port);
}

static int connect_proxy(const char *request)
{
    int fd = net_dial(PROXY);
    net_send(fd, str_of(request));
    return fd;
}

static int tunnel(int port)
{
    char text[128];
    (void)snprintf(text, sizeof text, "CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n", port);
    int fd = connect_proxy(text);
    net_expect(fd, "\r\n\r\n");
    return fd;
}

static void ask(int fd, int port)
{
    char text[160];
    (void)snprintf(text, sizeof text,
                   "GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n", port);
    net_send(fd, str_of(text));
    net_expect(fd, "ok");
    (void)close(fd);
}

static void run_direct(void *ctx)
{
    (void)ctx;
    ask(connect_direct(), near_port);
}

static void run_proxy(void *ctx)
{
    char text[200];
    (void)ctx;
    (void)snprintf(text, sizeof text,
                   "GET http://127.0.0.1:%d/ HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n", far_port,
                   far_port);
    int fd = connect_proxy(text);
    net_expect(fd, "ok");
    (void)close(fd);
}

static void run_connect(void *ctx)
{
    (void)ctx;
    ask(tunnel(far_port), far_port);
}

static void run_captured(void *ctx)
{
    (void)ctx;
    int fd = net_dial(far_port);
    ask(fd, far_port);
}

static void run_tls_direct(void *ctx)
{
    (void)ctx;
    net_tls_ask(net_dial(near_tls_port), near_tls_port, NET_ROOT_OF_SERVERS);
}

static void run_tls_opened(void *ctx)
{
    (void)ctx;
    int fd = net_dial(far_tls_port);
    net_tls_ask(fd, far_tls_port, NET_ROOT_OF_SANDBOX);
}

/* Rows. */

static void measure_requests(struct bench *bench)
{
    const struct bench_case cases[] = {
        {.name = "request_direct", .run = run_direct},
        {.name = "request_proxy", .peer = "request_direct", .run = run_proxy},
        {.name = "request_connect", .peer = "request_direct", .run = run_connect},
        {.name = "request_captured", .peer = "request_direct", .run = run_captured},
        {.name = "request_tls_direct", .run = run_tls_direct},
        {.name = "request_tls_opened", .peer = "request_tls_direct", .run = run_tls_opened},
    };
    bench_interleaved(bench, cases, countof(cases), REQUESTS);
}

static double download(int fd, int port)
{
    char text[160];
    (void)snprintf(text, sizeof text, "GET /big HTTP/1.0\r\nHost: 127.0.0.1:%d\r\n\r\n", port);
    int64_t begin = clock_now_ns();
    net_send(fd, str_of(text));
    double bytes = (double)net_drain(fd);
    (void)close(fd);
    return bytes / 1e6 / ((double)(clock_now_ns() - begin) / 1e9);
}

/* Bytes that the gate does not read: a line that is no HTTP on a port of its own. */
static double download_raw(int fd)
{
    int64_t begin = clock_now_ns();
    net_send(fd, STR("\x01 big\n"));
    double bytes = (double)net_drain(fd);
    (void)close(fd);
    return bytes / 1e6 / ((double)(clock_now_ns() - begin) / 1e9);
}

static void measure_downloads(struct bench *bench)
{
    double direct = 0, tunnelled = 0, captured = 0, read_along = 0;
    for (int i = 0; i < 3; i++) { /* the best of three: a neighbour can only make it slower */
        double rate = download_raw(connect_direct());
        direct = MAX(direct, rate);
        rate = download_raw(tunnel(far_port));
        tunnelled = MAX(tunnelled, rate);
        int fd = net_dial(far_port);
        rate = download_raw(fd);
        captured = MAX(captured, rate);
        fd = net_dial(far_port);
        rate = download(fd, far_port);
        read_along = MAX(read_along, rate);
    }
    bench_figure(bench, "download_direct", "MB/s", direct, NULL, "1 GiB");
    bench_figure(bench, "download_tunnelled", "MB/s", tunnelled, "download_direct", "CONNECT");
    bench_figure(bench, "download_captured", "MB/s", captured, "download_direct", NULL);
    bench_figure(bench, "download_http", "MB/s", read_along, "download_direct",
                 "HTTP in clear, read along");
}

/* KiB in memory of the worker: the child of our child. */
static double worker_kib(void)
{
    DIR *dir = opendir("/proc");
    double most = 0;
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char path[300], line[256], name[32] = "";
        int parent = 0;
        long resident = 0;
        (void)snprintf(path, sizeof path, "/proc/%s/status", entry->d_name);
        FILE *file = fopen(path, "re");
        while (file != NULL && fgets(line, sizeof line, file) != NULL) {
            (void)sscanf(line, "Name:\t%31s", name);
            (void)sscanf(line, "PPid:\t%d", &parent);
            (void)sscanf(line, "VmRSS:\t%ld", &resident);
        }
        if (file != NULL)
            (void)fclose(file);
        if (strcmp(name, "sandglass") == 0 && parent != getpid() && parent > 1)
            most = MAX(most, (double)resident);
    }
    if (dir != NULL)
        (void)closedir(dir);
    return most;
}

static void measure_many(struct bench *bench)
{
    static int fds[CONNECTIONS];
    double before = worker_kib();
    int64_t begin = clock_now_ns();
    for (int i = 0; i < CONNECTIONS; i++)
        fds[i] = tunnel(far_port);
    for (int i = 0; i < CONNECTIONS; i++)
        net_send(fds[i], STR("\x01 hold\n"));
    for (int i = 0; i < CONNECTIONS; i++)
        net_expect(fds[i], "held");
    double total_ms = (double)(clock_now_ns() - begin) / 1e6;
    double after = worker_kib();
    for (int i = 0; i < CONNECTIONS; i++)
        (void)close(fds[i]);
    bench_figure(bench, "thousand_tunnels", "ms", total_ms, NULL, "opened and used");
    bench_figure(bench, "worker_memory_idle", "KiB", before, NULL, NULL);
    bench_figure(bench, "worker_memory_thousand", "KiB", after, NULL, "1,000 open tunnels");
}

/* Jails from the pool, without a gateway and with one. */
static void measure_jails(struct bench *bench)
{
    static double plain[JAILS], gated[JAILS], opened[JAILS];
    AUTO_WARDEN struct warden_link *warden = NULL;
    check(warden_start(&warden, &err));
    for (int kind = 0; kind < 2; kind++) {
        struct jail_plan plan = {
            .limits = {.memory_bytes = JAIL_UNLIMITED, .cpu_milli = JAIL_UNLIMITED}};
        if (kind == 1) {
            plan.net = JAIL_NET_GATEWAY;
            plan.gateway_port = PROXY;
        }
        check(warden_pool(warden, &plan, 8, 0, &err));
        (void)usleep(100000);
        for (int i = 0; i < JAILS; i++) {
            AUTO_JAIL struct jail *jail = NULL;
            struct gateway_session *own = NULL;
            int64_t begin = clock_now_ns();
            check(jail_make(warden, &plan, &jail, &err));
            (kind == 0 ? plain : gated)[i] = (double)(clock_now_ns() - begin) / 1e3;
            if (kind == 1) {
                begin = clock_now_ns();
                check(gateway_open(gateway, &(struct gateway_session_options){0}, &own, &err));
                for (int k = 0; k < JAIL_SOCKETS; k++)
                    check(gateway_add(own, EGRESS_PROXY_OPEN,
                                      jail_take_socket(jail, (enum jail_socket)k), &err));
                opened[i] = (double)(clock_now_ns() - begin) / 1e3;
                (void)gateway_close(own);
            }
            (void)usleep(20000);
        }
    }
    bench_samples(bench, "jail_pooled", "us", plain, JAILS, NULL, "no network");
    bench_samples(bench, "jail_pooled_gateway", "us", gated, JAILS, "jail_pooled", NULL);
    bench_samples(bench, "gateway_session", "us", opened, JAILS, NULL, "five sockets handed over");
}

static void open_session(int net)
{
    static const enum egress_proxy_socket kinds[JAIL_SOCKETS] = {
        EGRESS_PROXY_PROXY, EGRESS_PROXY_DNS, EGRESS_PROXY_DNS_TCP, EGRESS_PROXY_OPEN,
        EGRESS_PROXY_OPEN};
    AUTO_CLOSE int home = netns_open_own(&err);
    AUTO_BUF struct buf text = {0};
    AUTO_POLICY struct policy *policy = NULL;
    int sockets[JAIL_SOCKETS];
    check(home);
    buf_printf(&text,
               "allow 127.0.0.1:%d|%d; private 127.0.0.1=127.0.0.1:%d, 127.0.0.1=127.0.0.1:%d",
               far_port, far_tls_port, far_port, far_tls_port);
    check(policy_parse(buf_str(&text), POLICY_BY_OPERATOR, &policy, &err));
    struct gateway_session_options options = {.policy = policy,
                                              .limits = {.connections = 2 * CONNECTIONS},
                                              .secrets = net_secrets(far_tls_port),
                                              .authority = net_sandbox_authority()};
    check(gateway_use_roots(gateway, net_roots_file(), &err));
    check(gateway_open(gateway, &options, &session, &err));
    int none = -1;
    check(netns_gateway(net, home, PROXY, &none, sockets, &err));
    for (int i = 0; i < JAIL_SOCKETS; i++)
        check(gateway_add(session, kinds[i], sockets[i], &err));
    const int ports[] = {far_port, far_tls_port};
    for (size_t i = 0; i < countof(ports); i++) {
        int fd = netns_listen(net, home, (uint16_t)ports[i], &err);
        check(fd);
        check(gateway_add(session, EGRESS_PROXY_OPEN, fd, &err));
    }
}

int main(int argc, char **argv)
{
    const char *program = getenv("SANDGLASS_BIN");
    struct rlimit files = {4 * CONNECTIONS + 256, 4 * CONNECTIONS + 256};
    (void)signal(SIGPIPE, SIG_IGN);
    if (program == NULL || geteuid() != 0) {
        (void)fprintf(stderr, "bench: egress needs SANDGLASS_BIN, and root for its namespace\n");
        return 77;
    }
    (void)setrlimit(RLIMIT_NOFILE, &files);
    net_begin();
    pid_t far = net_serve(&far_port, false), far_tls = net_serve(&far_tls_port, true);
    check(gateway_start(program, &gateway, &err));
    struct bench *bench = bench_begin("egress");
    measure_jails(bench);
    AUTO_CLOSE int home = netns_open_own(&err);
    AUTO_CLOSE int net = netns_make(home, &err);
    check(net);
    open_session(net);
    pthread_t owner;
    check(-pthread_create(&owner, NULL, own_gateway, NULL));
    check(netns_enter(net, &err));
    pid_t near = net_serve(&near_port, false), near_tls = net_serve(&near_tls_port, true);
    measure_requests(bench);
    measure_downloads(bench);
    measure_many(bench);
    atomic_store(&leaving, true);
    (void)pthread_join(owner, NULL);
    (void)gateway_close(session);
    (void)gateway_free(gateway);
    const pid_t servers[] = {far, far_tls, near, near_tls};
    for (size_t i = 0; i < countof(servers); i++) {
        (void)kill(servers[i], SIGKILL);
        (void)waitpid(servers[i], NULL, 0);
    }
    net_end();
    return bench_end(bench, argc, argv);
}
