/* The gateway's processes: a worker per sandbox, started by the first connection, ended when idle
 * or killed. */

#include "gate_test.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "egress/gateway/gateway.h"
#include "io/listen.h"

enum { PATIENCE_MS = 120000, IDLE_MS = 2000 };

struct house {
    struct stage stage; /* servers and names; its loop is not run */
    struct gateway *gateway;
    struct gateway_session *session;
    struct addr proxy, dns;
    int blocked;
};

static void on_blocked(void *ctx, const struct gateway_event *event)
{
    struct house *house = ctx;
    CHECK(event->host[0] != '\0' && event->text[0] != '\0' && event->reason[0] != '\0');
    house->blocked++;
}

static int open_dns(struct house *house)
{
    struct err err = {0};
    CHECK_OK(addr_parse(STR("127.0.0.1:0"), &house->dns, &err));
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, &house->dns.sa.any, house->dns.len) == 0 &&
          getsockname(fd, &house->dns.sa.any, &house->dns.len) == 0);
    return fd;
}

static void open_session(struct house *house)
{
    struct err err = {0};
    struct gateway_session_options options = {.policy = house->stage.policy,
                                              .dns_servers = net_dns_address(house->stage.dns),
                                              .proxy_idle_ms = IDLE_MS,
                                              .on_blocked = on_blocked,
                                              .ctx = house};
    CHECK_OK(gateway_open(house->gateway, &options, &house->session, &err));
    CHECK_OK(addr_parse(STR("127.0.0.1:0"), &house->proxy, &err));
    int fd = listen_open(&house->proxy, 16, &err);
    CHECK(fd >= 0);
    CHECK_OK(gateway_add(house->session, EGRESS_PROXY_PROXY, fd, &err));
    CHECK_OK(gateway_add(house->session, EGRESS_PROXY_DNS, open_dns(house), &err));
}

/* The program that is the gateway: the build's, or the copy for another user who runs the test. */
static const char *find_program(void)
{
    static char copy[PATH_MAX];
    const char *dir = getenv("SANDGLASS_COPY");
    if (dir == NULL)
        return getenv("SANDGLASS_BIN");
    (void)snprintf(copy, sizeof copy, "%s/sandglass", dir);
    return copy;
}

static void house_open(struct house *house)
{
    struct err err = {0};
    const char *program = find_program();
    if (program == NULL)
        SKIP("SANDGLASS_BIN names no program to be the gateway");
    (void)setenv("SG_TEST_PUBLIC", "127.0.0.2/32 127.0.0.3/32", 1);
    stage_open(&house->stage);
    CHECK_OK(gateway_start(program, &house->gateway, &err));
    open_session(house);
}

static void house_close(struct house *house)
{
    house->session = gateway_close(house->session);
    house->gateway = gateway_free(house->gateway);
    stage_close(&house->stage);
}
#define AUTO_HOUSE AUTO(house_close)

/* Waits for `fd`, while the owner does its part. */
static bool wait_readable(struct house *house, int fd)
{
    int64_t until = clock_now_ms() + PATIENCE_MS;
    while (clock_now_ms() < until) {
        struct pollfd waits[] = {{.fd = fd, .events = POLLIN},
                                 {.fd = gateway_fd(house->gateway), .events = POLLIN}};
        if (poll(waits, 2, 100) > 0 && waits[1].revents != 0)
            CHECK(gateway_step(house->gateway));
        if (waits[0].revents != 0)
            return true;
    }
    return false;
}

static void request(struct house *house, const char *host, struct buf *got)
{
    AUTO_BUF struct buf text = {0};
    AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char bytes[4096];
    buf_clear(got);
    buf_printf(&text, "GET http://%s:%d/ HTTP/1.1\r\nHost: %s:%d\r\n\r\n", host, house->stage.port,
               host, house->stage.port);
    CHECK(fd >= 0 && connect(fd, &house->proxy.sa.any, house->proxy.len) == 0);
    CHECK(send(fd, text.ptr, text.len, MSG_NOSIGNAL) == (ssize_t)text.len);
    for (;;) {
        CHECK(wait_readable(house, fd));
        ssize_t count = recv(fd, bytes, sizeof bytes, 0);
        if (count <= 0)
            return;
        buf_put(got, str_n(bytes, (size_t)count));
    }
}

/* The last byte of the address that the name gets; -1 for none. */
static int lookup(struct house *house, const char *name)
{
    AUTO_BUF struct buf query = {0};
    AUTO_CLOSE int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    unsigned char answer[512];
    struct str rest = str_of(name), label;
    buf_put(&query, STR("\x01\x02\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"));
    while (str_split(&rest, '.', &label)) {
        buf_put_char(&query, (char)label.len);
        buf_put(&query, label);
    }
    buf_put(&query, STR("\x00\x00\x01\x00\x01"));
    CHECK(fd >= 0 && connect(fd, &house->dns.sa.any, house->dns.len) == 0);
    CHECK(send(fd, query.ptr, query.len, 0) == (ssize_t)query.len);
    CHECK(wait_readable(house, fd));
    ssize_t len = recv(fd, answer, sizeof answer, 0);
    CHECK(len >= 12);
    return answer[7] == 0 ? -1 : answer[len - 1];
}

/* Pids of the children of `parent`. */
static size_t children(int parent, int out[16])
{
    char path[64];
    size_t count = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", parent, parent);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        SKIP("this kernel does not list children");
    while (count < 16 && fscanf(file, "%d", &out[count]) == 1)
        count++;
    (void)fclose(file);
    return count;
}

static size_t workers(int out[16])
{
    int spawners[16];
    size_t count = children(getpid(), spawners);
    CHECK_INT(count, 1);
    return children(spawners[0], out);
}

static void wait_workers(struct house *house, size_t wanted)
{
    int pids[16];
    int64_t until = clock_now_ms() + PATIENCE_MS;
    while (workers(pids) != wanted && clock_now_ms() < until) {
        (void)gateway_step(house->gateway);
        (void)usleep(20000);
    }
    CHECK_INT(workers(pids), wanted);
}

static bool says(const struct buf *got, const char *text)
{
    return strstr(buf_cstr(got), text) != NULL;
}

TEST(a_worker_comes_with_the_first_knock_and_goes_when_idle)
{
    AUTO_HOUSE struct house house = {0};
    AUTO_BUF struct buf got = {0};
    house_open(&house);
    wait_workers(&house, 0);
    request(&house, "ok.test", &got);
    CHECK(says(&got, "200 OK"));
    request(&house, "evil.test", &got);
    CHECK(says(&got, "403 Forbidden"));
    request(&house, "evil.test", &got);
    wait_workers(&house, 1);
    CHECK_INT(house.blocked, 1);
    CHECK_INT(lookup(&house, "ok.test"), 1);
    wait_workers(&house, 0);
    /* The next one knows the names that the first has given addresses to. */
    CHECK_INT(lookup(&house, "ok2.test"), 2);
    CHECK_INT(lookup(&house, "ok.test"), 1);
    CHECK_INT(lookup(&house, "evil.test"), -1);
    CHECK_INT(net_server_hits(house.stage.evil), 0);
}

TEST(a_policy_changes_while_it_runs)
{
    AUTO_HOUSE struct house house = {0};
    AUTO_BUF struct buf got = {0};
    struct err err = {0};
    house_open(&house);
    request(&house, "ok.test", &got);
    CHECK(says(&got, "200 OK"));
    stage_set_policy(&house.stage, "allow evil.test:PORT");
    CHECK_OK(gateway_set_policy(house.session, house.stage.policy, &err));
    request(&house, "ok.test", &got);
    CHECK(says(&got, "403 Forbidden"));
    wait_workers(&house, 0);
    request(&house, "evil.test", &got); /* for the next worker too */
    CHECK(says(&got, "200 OK"));
    CHECK_OK(gateway_set_policy(house.session, NULL, &err));
    request(&house, "evil.test", &got);
    CHECK(says(&got, "this sandbox has no network"));
}

TEST(a_socket_that_comes_while_a_worker_starts_is_served)
{
    AUTO_HOUSE struct house house = {0};
    AUTO_CLOSE int caller = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct err err = {0};
    int before[16], after[16];
    house_open(&house);
    CHECK(caller >= 0 && connect(caller, &house.proxy.sa.any, house.proxy.len) == 0);
    /* The worker has begun, and its owner has not heard of it yet. */
    struct pollfd news = {.fd = gateway_fd(house.gateway), .events = POLLIN};
    CHECK_INT(poll(&news, 1, PATIENCE_MS), 1);
    CHECK_INT(workers(before), 1);
    CHECK_OK(gateway_add(house.session, EGRESS_PROXY_DNS, open_dns(&house), &err));
    CHECK_INT(lookup(&house, "ok.test"), 1);
    CHECK_INT(workers(after), 1);
    CHECK_INT(after[0], before[0]); /* not by the next one */
}

TEST(a_killed_proxy_costs_only_its_own_sandbox)
{
    AUTO_HOUSE struct house house = {0};
    AUTO_BUF struct buf got = {0};
    int pids[16];
    house_open(&house);
    request(&house, "ok.test", &got);
    CHECK_INT(workers(pids), 1);
    CHECK_INT(kill(pids[0], SIGKILL), 0);
    request(&house, "ok.test", &got); /* after a short rest */
    CHECK(says(&got, "200 OK"));
}

TEST(sessions_do_not_mix)
{
    AUTO_HOUSE struct house house = {0};
    AUTO_BUF struct buf got = {0};
    house_open(&house);
    struct house other = {.stage = house.stage, .gateway = house.gateway};
    other.stage.policy = NULL;
    stage_set_policy(&other.stage, "allow evil.test:PORT");
    open_session(&other);
    request(&house, "ok.test", &got);
    CHECK(says(&got, "200 OK"));
    request(&other, "ok.test", &got);
    CHECK(says(&got, "403 Forbidden"));
    request(&other, "evil.test", &got);
    CHECK(says(&got, "200 OK"));
    request(&house, "evil.test", &got);
    CHECK(says(&got, "403 Forbidden"));
    wait_workers(&house, 0);
    other.session = gateway_close(other.session);
    other.stage.policy = policy_free(other.stage.policy);
}

TEST(sockets_have_a_limit)
{
    AUTO_HOUSE struct house house = {0};
    struct err err = {0};
    house_open(&house);
    for (int i = 2; i < EGRESS_PROXY_SOCKETS_MAX; i++)
        CHECK_OK(gateway_add(house.session, EGRESS_PROXY_OPEN,
                             socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), &err));
    CHECK_ERR(gateway_add(house.session, EGRESS_PROXY_OPEN,
                          socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), &err),
              ERR_LIMIT);
}

TEST(everything_ends_with_the_owner)
{
    AUTO_BUF struct buf got = {0};
    int pids[16], before = test_open_fds();
    {
        AUTO_HOUSE struct house house = {0};
        house_open(&house);
        request(&house, "ok.test", &got);
        CHECK_INT(workers(pids), 1);
    }
    CHECK_INT(kill(pids[0], 0), -1);
    CHECK_INT(children(getpid(), pids), 0);
    CHECK_INT(test_open_fds(), before);
}
