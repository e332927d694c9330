/* The network of a command or a kernel: a gateway of its own, and what it had to refuse. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "cli/exec.h"
#include "cli/net_arg.h"
#include "cli/policy_arg.h"
#include "cli/secret_arg.h"
#include "egress/authority.h"
#include "egress/gateway.h"
#include "egress/opened.h"
#include "egress/settings.h"
#include "engine/config.h"

struct exec_net {
    const struct exec_request *request;
    struct exec_result *result;
    struct gateway *gateway;
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

static void put_placeholders(const struct secrets *secrets, struct buf *out)
{
    for (size_t i = 0; i < secrets_count(secrets); i++) {
        const struct secret_entry *entry = secrets_at(secrets, i);
        buf_printf(out, "%s=%s\n", entry->rule.name, entry->placeholder);
    }
}

int exec_net_read(const struct cli_call *call, const struct config *config,
                  struct exec_request *request, struct err *err)
{
    if (secrets_from_args(call, config, &request->secrets, err) < 0 ||
        policy_from_options(call, config, &request->policy, &request->settings, err) < 0 ||
        secrets_check_policy(request->secrets, request->policy, err) < 0 ||
        net_limits_from_options(call, config, &request->net_limits, err) < 0)
        return -1;
    if (request->policy == NULL)
        return 0;
    policy_put_servers(config, &request->dns_servers);
    buf_put(&request->ca_file, config->egress.ca_file);
    if (opened_any(request->policy, request->secrets))
        request->authority = opened_authority(request->policy, request->secrets);
    const char *roots = request->authority != NULL            ? SETTINGS_OWN_CA_FILE
                        : access(SETTINGS_CA_FILE, R_OK) == 0 ? SETTINGS_CA_FILE
                                                              : NULL;
    settings_put(SETTINGS_PROXY_PORT, roots, &request->settings);
    put_placeholders(request->secrets, &request->settings);
    cut_lines(&request->settings);
    return 0;
}

void exec_net_set_env(struct exec_request *request)
{
    const struct buf *settings = &request->settings;
    for (size_t at = 0; at < settings->len; at += strlen(settings->ptr + at) + 1)
        exec_set_env(request, settings->ptr + at);
}

static void on_blocked(void *ctx, const struct gateway_event *event)
{
    struct exec_net *net = ctx;
    if (net->result->blocked.len >= BLOCKED_MAX)
        return;
    struct exec_blocked *blocked = vec_push(&net->result->blocked);
    (void)snprintf(blocked->host, sizeof blocked->host, "%s", event->host);
    (void)snprintf(blocked->reason, sizeof blocked->reason, "%s", event->reason);
    (void)snprintf(blocked->text, sizeof blocked->text, "%s", event->text);
    blocked->port = event->port;
    /* A raw terminal does not go back to the first column by itself. */
    if (!net->request->json)
        (void)fprintf(stderr, "sandglass: %s%s\n", event->text,
                      net->request->command.tty ? "\r" : "");
}

/* The roots that the jail trusts: the host's, and the authority of its opened connections. The jail
 * sees the file itself, so it is no longer needed by name once the jail stands. */
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
        return err_sys(err, errno, "make a file of roots");
    }
    if (fchmod(fd, 0644) < 0)
        return err_sys(err, errno, "make a file of roots");
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
    if (request->policy == NULL)
        return 0;
    struct gateway *gateway = NULL;
    if (gateway_start(NULL, &gateway, err) < 0)
        return -1;
    request->plan.net = JAIL_NET_GATEWAY;
    request->plan.gateway_port = SETTINGS_PROXY_PORT;
    struct exec_net *net = mem_alloc(sizeof *net);
    net->request = request;
    net->result = result;
    net->gateway = gateway;
    if (request->secrets != NULL)
        secrets_guard_process();
    *ret_net = net; /* the caller's to free, whatever comes now */
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

/* A port that the policy names gets a socket of its own; what has none is refused by the kernel. */
static int listen_on(struct exec_net *net, struct jail *jail, const uint16_t *ports, size_t count,
                     bool *had, struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        if (had[ports[i]])
            continue;
        had[ports[i]] = true;
        int fd = jail_listen(jail, ports[i], err);
        if (fd < 0 || gateway_add(net->session, PORTER_OPEN, fd, err) < 0)
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

int exec_net_open(struct exec_net *net, struct jail *jail, struct err *err)
{
    static const enum porter_socket kinds[JAIL_SOCKETS] = {
        [JAIL_SOCKET_PROXY] = PORTER_PROXY,     [JAIL_SOCKET_DNS] = PORTER_DNS,
        [JAIL_SOCKET_DNS_TCP] = PORTER_DNS_TCP, [JAIL_SOCKET_HTTP] = PORTER_OPEN,
        [JAIL_SOCKET_HTTPS] = PORTER_OPEN,
    };
    if (net == NULL)
        return 0;
    drop_bundle(net);
    struct gateway_session_options options = {
        .policy = net->request->policy,
        .dns_servers =
            net->request->dns_servers.len > 0 ? buf_cstr(&net->request->dns_servers) : NULL,
        .limits = net->request->net_limits,
        .secrets = net->request->secrets,
        .authority = net->request->authority,
        .on_blocked = on_blocked,
        .ctx = net};
    if (gateway_open(net->gateway, &options, &net->session, err) < 0)
        return -1;
    for (int i = 0; i < JAIL_SOCKETS; i++) {
        int fd = jail_take_socket(jail, (enum jail_socket)i);
        if (gateway_add(net->session, kinds[i], fd, err) < 0)
            return -1;
    }
    return listen_on_all(net, jail, err);
}

int exec_net_fd(const struct exec_net *net)
{
    return net == NULL ? -1 : gateway_fd(net->gateway);
}

void exec_net_step(struct exec_net *net)
{
    if (net != NULL)
        (void)gateway_step(net->gateway); /* once it is gone, nothing leaves the sandbox */
}
