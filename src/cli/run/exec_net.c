/* The network of a command or an interpreter: a gateway of its own, and what it had to refuse. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "cli/net_arg.h"
#include "cli/policy_arg.h"
#include "cli/run/exec.h"
#include "cli/secret_arg.h"
#include "config/config.h"
#include "egress/gateway/gateway.h"
#include "egress/keys/authority.h"
#include "egress/keys/opened.h"
#include "egress/policy/settings.h"

/* Without a policy nothing is started until a program inside asks a proxy for something: then it
 * has a gateway that answers that there is no network. */
struct exec_net {
    const struct exec_request *request;
    struct exec_result *result;
    struct warden_link *warden;
    struct jail *jail;
    struct gateway *gateway; /* NULL: not needed yet */
    struct gateway_session *session;
    char bundle[PATH_MAX]; /* the file of roots that the jail sees; "": none */
};

enum { BLOCKED_MAX = 256 };

/* Each line of the text becomes a string. */
static void cut_lines(struct buf *text)
{
    for (size_t i = 0; i < text->len; i++)
        if (text->ptr[i] == '\n')
            text->ptr[i] = '\0';
}

int exec_net_read(const struct cli_call *call, const struct config *config,
                  struct exec_request *request, struct err *err)
{
    if (secrets_from_args(call, config, &request->secrets, err) < 0 ||
        policy_from_options(call, config, &request->policy, &request->settings, err) < 0 ||
        secrets_check_policy(request->secrets, request->policy, err) < 0 ||
        net_limits_from_options(call, config, &request->net_limits, err) < 0)
        return -1;
    if (request->policy == NULL) {
        settings_put(SETTINGS_PROXY_PORT, NULL, &request->settings);
        cut_lines(&request->settings);
        return 0;
    }
    policy_put_servers(config, &request->dns_servers);
    buf_put(&request->ca_file, config->egress.ca_file);
    if (opened_any(request->policy, request->secrets))
        request->authority = opened_authority(request->policy, request->secrets);
    const char *roots = request->authority != NULL            ? SETTINGS_OWN_CA_FILE
                        : access(SETTINGS_CA_FILE, R_OK) == 0 ? SETTINGS_CA_FILE
                                                              : NULL;
    settings_put(SETTINGS_PROXY_PORT, roots, &request->settings);
    secrets_put_env(request->secrets, &request->settings);
    cut_lines(&request->settings);
    return 0;
}

void exec_net_set_env(struct exec_request *request)
{
    const struct buf *settings = &request->settings;
    for (size_t at = 0; at < settings->len; at += strlen(settings->ptr + at) + 1)
        exec_set_env(request, settings->ptr + at);
}

static void exec_net_on_blocked(void *ctx, const struct gateway_event *event)
{
    struct exec_net *net = ctx;
    if (net->result->blocked.len >= BLOCKED_MAX)
        return;
    struct exec_blocked *blocked = vec_push(&net->result->blocked);
    (void)snprintf(blocked->host, sizeof blocked->host, "%s", event->host);
    (void)snprintf(blocked->reason, sizeof blocked->reason, "%s", event->reason);
    (void)snprintf(blocked->text, sizeof blocked->text, "%s", event->text);
    blocked->port = event->port;
    /* A raw terminal does not return to the first column at a newline. */
    if (!net->request->json)
        (void)fprintf(stderr, "sandglass: %s%s\n", event->text,
                      net->request->command.tty ? "\r" : "");
}

/* The roots that the jail trusts: the host's, and the authority of its opened connections. The jail
 * sees the file itself, so it is no longer needed by name once the jail exists. */
static int write_bundle(struct exec_net *net, struct err *err)
{
    AUTO_BUF struct buf host = {0}, bundle = {0};
    struct err none;
    const char *dir = getenv("TMPDIR");
    if (authority_read_host_bundle(&host, &none) < 0)
        buf_clear(&host);
    if (authority_put_bundle(net->request->authority, buf_str(&host), &bundle, err) < 0)
        return -1;
    (void)snprintf(net->bundle, sizeof net->bundle, "%s/sandglass-ca-XXXXXX",
                   dir != NULL && dir[0] == '/' ? dir : "/tmp");
    AUTO_CLOSE int fd = mkostemp(net->bundle, O_CLOEXEC);
    if (fd < 0) {
        net->bundle[0] = '\0';
        return err_sys(err, errno, "create the file of root certificates");
    }
    if (fchmod(fd, 0644) < 0)
        return err_sys(err, errno, "create the file of root certificates");
    return fd_write_all(fd, buf_str(&bundle), err);
}

static int open_tls(struct exec_net *net, struct exec_request *request, struct err *err)
{
    struct jail_plan *plan = &request->plan;
    if (request->authority == NULL)
        return 0;
    if (plan->mount_count + 2 > JAIL_MOUNTS_MAX)
        return err_set(err, ERR_INVALID, "more than %d mounts", JAIL_MOUNTS_MAX - 2);
    if (write_bundle(net, err) < 0)
        return -1;
    plan->mounts[plan->mount_count++] =
        (struct jail_mount){.src = net->bundle, .dst = SETTINGS_OWN_CA_FILE};
    /* Programs that read no variables look where the system has its roots. */
    if (access(SETTINGS_CA_FILE, R_OK) == 0)
        plan->mounts[plan->mount_count++] =
            (struct jail_mount){.src = net->bundle, .dst = SETTINGS_CA_FILE};
    const char *roots = request->ca_file.len > 0 ? buf_cstr(&request->ca_file) : NULL;
    return gateway_use_roots(net->gateway, roots, err);
}

static void drop_bundle(struct exec_net *net)
{
    if (net->bundle[0] != '\0')
        (void)unlink(net->bundle);
    net->bundle[0] = '\0';
}

int exec_net_start(struct exec_request *request, struct exec_result *result,
                   struct exec_net **ret_net, struct err *err)
{
    struct exec_net *net = mem_alloc(sizeof *net);
    net->request = request;
    net->result = result;
    *ret_net = net; /* the caller's to free, whatever comes now */
    if (request->policy == NULL)
        return 0;
    if (gateway_start(NULL, &net->gateway, err) < 0)
        return -1;
    request->plan.net = JAIL_NET_GATEWAY;
    request->plan.gateway_port = SETTINGS_PROXY_PORT;
    if (request->secrets != NULL)
        secrets_guard_process();
    return open_tls(net, request, err);
}

struct exec_net *exec_net_free(struct exec_net *net)
{
    if (net == NULL)
        return NULL;
    drop_bundle(net);
    (void)gateway_close(net->session);
    (void)gateway_free(net->gateway);
    free(net);
    return NULL;
}

/* A port that the policy names gets a socket of its own; what has none is refused by the
 * interpreter. */
static int listen_on(struct exec_net *net, struct jail *jail, const uint16_t *ports, size_t count,
                     bool *had, struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        if (had[ports[i]])
            continue;
        had[ports[i]] = true;
        int fd = jail_listen(jail, ports[i], err);
        if (fd < 0 || gateway_add(net->session, EGRESS_PROXY_OPEN, fd, err) < 0)
            return err_wrap(err, "listen for port %d", ports[i]);
    }
    return 0;
}

static int listen_on_all(struct exec_net *net, struct jail *jail, struct err *err)
{
    static bool had[UINT16_MAX + 1];
    const struct policy *policy = net->request->policy;
    had[0] = had[53] = had[80] = had[443] = had[SETTINGS_PROXY_PORT] = true;
    VEC_EACH (rule, &policy->allow)
        if (listen_on(net, jail, rule->ports, rule->port_count, had, err) < 0)
            return -1;
    VEC_EACH (entry, &policy->private)
        if (listen_on(net, jail, &entry->port, 1, had, err) < 0)
            return -1;
    return 0;
}

/* Takes the sockets. */
static int open_session(struct exec_net *net, int sockets[JAIL_SOCKETS], struct err *err)
{
    static const enum egress_proxy_socket kinds[JAIL_SOCKETS] = {
        [JAIL_SOCKET_PROXY] = EGRESS_PROXY_PROXY,     [JAIL_SOCKET_DNS] = EGRESS_PROXY_DNS,
        [JAIL_SOCKET_DNS_TCP] = EGRESS_PROXY_DNS_TCP, [JAIL_SOCKET_HTTP] = EGRESS_PROXY_OPEN,
        [JAIL_SOCKET_HTTPS] = EGRESS_PROXY_OPEN,
    };
    const struct buf *servers = &net->request->dns_servers;
    struct gateway_session_options options = {.policy = net->request->policy,
                                              .dns_servers =
                                                  servers->len > 0 ? buf_cstr(servers) : NULL,
                                              .limits = net->request->net_limits,
                                              .secrets = net->request->secrets,
                                              .authority = net->request->authority,
                                              .on_blocked = exec_net_on_blocked,
                                              .ctx = net};
    int done = gateway_open(net->gateway, &options, &net->session, err);
    for (int i = 0; i < JAIL_SOCKETS; i++) {
        if (done < 0)
            fd_close(&sockets[i]);
        else
            done = gateway_add(net->session, kinds[i], sockets[i], err);
    }
    return done;
}

int exec_net_open(struct exec_net *net, struct warden_link *warden, struct jail *jail,
                  struct err *err)
{
    int sockets[JAIL_SOCKETS];
    net->warden = warden;
    net->jail = jail;
    if (net->gateway == NULL)
        return 0;
    drop_bundle(net);
    for (int i = 0; i < JAIL_SOCKETS; i++)
        sockets[i] = jail_take_socket(jail, (enum jail_socket)i);
    return open_session(net, sockets, err) < 0 ? -1 : listen_on_all(net, jail, err);
}

/* A program wants to go out. Where no gateway can be started, its socket goes, and it is refused by
 * the interpreter. */
static int exec_net_answer(struct exec_net *net, struct err *err)
{
    int sockets[JAIL_SOCKETS];
    if (jail_gateway(net->jail, SETTINGS_PROXY_PORT, sockets, err) < 0)
        return -1;
    if (gateway_start(NULL, &net->gateway, err) == 0)
        return open_session(net, sockets, err);
    for (int i = 0; i < JAIL_SOCKETS; i++)
        fd_close(&sockets[i]);
    return -1;
}

int exec_net_fd(const struct exec_net *net)
{
    return net->gateway != NULL ? gateway_fd(net->gateway) : warden_fd(net->warden);
}

static void on_gateway_wanted(struct exec_net *net)
{
    struct err err = {0};
    /* NOT_FOUND: the jail has ended meanwhile, and the program that asked with it. */
    if (exec_net_answer(net, &err) < 0 && err.code != ERR_NOT_FOUND)
        (void)fprintf(stderr, "sandglass: warning: %s\n", err.msg);
}

void exec_net_step(struct exec_net *net)
{
    struct warden_event event;
    if (net->gateway != NULL)
        (void)gateway_step(net->gateway); /* once it is gone, nothing leaves the sandbox */
    while (net->gateway == NULL && warden_next(net->warden, &event))
        if (event.type == WARDEN_EVENT_WANTS_GATEWAY)
            on_gateway_wanted(net);
        else if (event.type == WARDEN_EVENT_KILLED_LOCKER)
            (void)fprintf(stderr, "sandglass: warning: " JAIL_LOCKS_TEXT "\n");
}
