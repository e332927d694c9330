#include "cli/policy_arg.h"

#include <errno.h>
#include <fcntl.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "cli/cli.h"
#include "config/config.h"
#include "egress/net/effective.h"

int policy_from_arg(const char *arg, struct policy **ret_policy, struct err *err)
{
    if (!str_ends(str_of(arg), STR(".json")))
        return policy_parse(str_of(arg), POLICY_BY_OPERATOR, ret_policy, err);
    AUTO_BUF struct buf text = buf_with_limit(POLICY_TEXT_MAX + 1);
    AUTO_CLOSE int fd = open(arg, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", arg);
    if (buf_read_all(&text, fd, err) < 0 ||
        policy_parse(buf_str(&text), POLICY_BY_OPERATOR, ret_policy, err) < 0)
        return err_wrap(err, "'%s'", arg);
    return 0;
}

void policy_put_servers(const struct config *config, struct buf *out)
{
    const struct config_list *list = &config->egress.dns_servers;
    buf_put_joined(out, list->items, list->len, ",");
}

void policy_put_private(const struct config *config, struct buf *out)
{
    const struct config_list *list = &config->egress.private;
    buf_put_joined(out, list->items, list->len, ", ");
}

/* Options. */

static int check_plain(const char *option, const char *value, struct err *err)
{
    struct str host = str_of(value);
    bool is_plain = host.len > 0;
    for (size_t i = 0; i < host.len; i++)
        is_plain =
            is_plain && (unsigned char)host.ptr[i] > ' ' && strchr(",;", host.ptr[i]) == NULL;
    if (!is_plain)
        return err_set(err, ERR_INVALID, "--%s: '%s' is not HOST or HOST:PORT", option, value);
    return 0;
}

struct wanted {
    struct buf denied;
    struct group_hosts hosts;
    bool is_public;
};

static void wanted_done(struct wanted *wanted)
{
    buf_done(&wanted->denied);
    group_hosts_done(&wanted->hosts);
}

static int read_option(const char *option, const char *value, const struct group_sources *sources,
                       struct wanted *wanted, struct err *err)
{
    if (check_plain(option, value, err) < 0)
        return -1;
    if (strcmp(option, "deny-host") == 0) {
        buf_printf(&wanted->denied, "%s%s", wanted->denied.len > 0 ? ", " : "", value);
        return 0;
    }
    if (strcmp(value, "public") == 0) {
        wanted->is_public = true;
        return 0;
    }
    struct buf *allow = &wanted->hosts.allow;
    if (group_is_name(str_of(value)))
        return group_expand(str_of(value), sources, &wanted->hosts, err);
    buf_printf(allow, "%s%s", allow->len > 0 ? ", " : "", value);
    return 0;
}

static int read_options(const struct cli_call *call, const struct config *config,
                        struct wanted *wanted, struct err *err)
{
    AUTO_BUF struct buf servers = {0};
    struct group_sources sources;
    config_group_sources(config, &servers, &sources);
    for (size_t i = 0; i < call->given_count; i++) {
        const char *name = call->given[i].option->name;
        if ((strcmp(name, "allow-host") == 0 || strcmp(name, "deny-host") == 0) &&
            read_option(name, call->given[i].value, &sources, wanted, err) < 0)
            return -1;
    }
    return 0;
}

static void put_wanted(const struct wanted *wanted, struct buf *out)
{
    const struct group_hosts *hosts = &wanted->hosts;
    if (wanted->is_public)
        buf_put_cstr(out, "public");
    else
        buf_printf(out, "allow %s", buf_cstr(&hosts->allow));
    if (wanted->denied.len > 0)
        buf_printf(out, "; deny %s", buf_cstr(&wanted->denied));
    if (hosts->private.len > 0)
        buf_printf(out, "; private %s", buf_cstr(&hosts->private));
}

int policy_from_options(const struct cli_call *call, const struct config *config,
                        struct policy **ret_policy, struct buf *settings, struct err *err)
{
    AUTO(wanted_done) struct wanted wanted = {0};
    AUTO_BUF struct buf text = {0};
    AUTO_POLICY struct policy *allowed = NULL;
    if (read_options(call, config, &wanted, err) < 0)
        return -1;
    if (wanted.hosts.allow.len == 0 && !wanted.is_public)
        return wanted.denied.len == 0
                   ? 0
                   : err_set(err, ERR_INVALID,
                             "--deny-host needs --allow-host: no host is allowed; --allow-host "
                             "public allows every public host");
    put_wanted(&wanted, &text);
    if (policy_parse(buf_str(&text), POLICY_BY_OPERATOR, &allowed, err) < 0)
        return err_wrap(err, "--allow-host");
    struct effective_sources sources = {.private = config->egress.private.items,
                                        .private_count = config->egress.private.len};
    if (settings != NULL)
        buf_put(settings, buf_str(&wanted.hosts.settings));
    return policy_effective(allowed, &sources, ret_policy, err);
}

int policy_put_options(const struct cli_call *call, struct buf *out, struct err *err)
{
    AUTO_BUF struct buf allowed = {0}, denied = {0};
    bool is_public = false;
    for (size_t i = 0; i < call->given_count; i++) {
        const char *name = call->given[i].option->name, *value = call->given[i].value;
        bool is_allow = strcmp(name, "allow-host") == 0;
        if (!is_allow && strcmp(name, "deny-host") != 0)
            continue;
        if (check_plain(name, value, err) < 0)
            return -1;
        struct buf *list = is_allow ? &allowed : &denied;
        if (is_allow && strcmp(value, "public") == 0)
            is_public = true;
        else
            buf_printf(list, "%s%s", list->len > 0 ? ", " : "", value);
    }
    if (is_public && allowed.len > 0)
        return err_set(err, ERR_INVALID, "--allow-host public allows every public host already");
    if (is_public)
        buf_put_cstr(out, "public");
    else if (allowed.len > 0)
        buf_printf(out, "allow %s", buf_cstr(&allowed));
    else if (denied.len > 0)
        return err_set(err, ERR_INVALID, "--deny-host needs --allow-host: no host is allowed");
    if (denied.len > 0)
        buf_printf(out, "; deny %s", buf_cstr(&denied));
    return 0;
}
