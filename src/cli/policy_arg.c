#include "cli/policy_arg.h"

#include <errno.h>
#include <fcntl.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "engine/config.h"

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

static void put_list(const struct config_list *list, const char *between, struct buf *out)
{
    for (size_t i = 0; i < list->len; i++)
        buf_printf(out, "%s%.*s", i > 0 ? between : "", STR_ARG(list->items[i]));
}

void policy_put_servers(const struct config *config, struct buf *out)
{
    put_list(&config->egress.dns_servers, ",", out);
}

void policy_put_private(const struct config *config, struct buf *out)
{
    put_list(&config->egress.private, ", ", out);
}
