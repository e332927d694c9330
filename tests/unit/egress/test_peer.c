/* A connection that ends at another address than the one that was judged is not used, whichever
 * code makes it: the gateway's own, and libcurl's for isolates. No ordinary kernel does that, so
 * connect() is this program's here and leads astray on demand. */

#include "gate_test.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "egress/net/dial.h"

static bool leads_astray; /* ok.test's connections to evil.test */

int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
    struct sockaddr_in to;
    if (leads_astray && addr->sa_family == AF_INET && len == sizeof to) {
        memcpy(&to, addr, sizeof to);
        if (to.sin_addr.s_addr == inet_addr("127.0.0.2"))
            to.sin_addr.s_addr = inet_addr("127.0.0.3");
        return (int)syscall(SYS_connect, fd, &to, sizeof to);
    }
    return (int)syscall(SYS_connect, fd, addr, len);
}

/* The server may have taken the connection; it has heard nothing. */
static void check_unheard(struct stage *stage)
{
    AUTO_BUF struct buf log = {0};
    net_server_log(stage->evil, &log);
    CHECK_INT(log.len, 0);
}

struct dialled {
    bool is_done, has_fd;
    enum err_code code;
};

static void on_dialled(void *ctx, const struct dial_answer *answer)
{
    struct dialled *dialled = ctx;
    int fd = answer->fd;
    *dialled = (struct dialled){true, fd >= 0, answer->why == NULL ? ERR_NONE : answer->why->code};
    fd_close(&fd);
}

static struct dialled dial_ok(struct stage *stage)
{
    struct err err = {0};
    struct dial_options options = {.dns_servers = net_dns_address(stage->dns)};
    struct dialer *dialer = dialer_new(stage->loop, &options);
    struct dialled dialled = {0};
    struct host host;
    CHECK_OK(host_parse(STR("ok.test"), &host, &err));
    struct dial_request request = {.policy = stage->policy,
                                   .scheme = "http",
                                   .host = &host,
                                   .port = (uint16_t)stage->port,
                                   .method = STR("GET"),
                                   .path = STR("/")};
    struct dial *dial = dial_start(dialer, &request, on_dialled, &dialled);
    while (!dialled.is_done && loop_step(stage->loop))
        (void)usleep(200);
    (void)dial_free(dial);
    (void)dialer_free(dialer);
    return dialled;
}

TEST(the_gateway_leaves_a_peer_that_is_another)
{
    AUTO_STAGE struct stage stage = {0};
    leads_astray = false;
    stage_open(&stage);
    CHECK(dial_ok(&stage).has_fd);
    leads_astray = true;
    struct dialled dialled = dial_ok(&stage);
    CHECK(!dialled.has_fd && dialled.code != ERR_NONE);
    check_unheard(&stage);
}

TEST(a_fetch_leaves_a_peer_that_is_another)
{
    AUTO_STAGE struct stage stage = {0};
    AUTO_OUTCOME struct outcome outcome = {0};
    leads_astray = false;
    stage_open(&stage);
    stage_fetch(&stage, "http://ok.test:PORT/", (struct gate_request){0}, &outcome);
    CHECK_INT(outcome.status, 200);
    leads_astray = true;
    stage_fetch(&stage, "http://ok.test:PORT/", (struct gate_request){0}, &outcome);
    CHECK(!outcome.has_answer);
    CHECK(strstr(outcome.why.msg, "was not checked") != NULL);
    check_unheard(&stage);
}
