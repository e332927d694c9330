/* sandglass sandbox ports|url|hide: servers inside sandboxes of a running server. */

#include "cli/cmd/commands.h"
#include "cli/remote.h"

static const struct remote_column port_columns[] = {
    {"port", "PORT"}, {"public", "PUBLIC"}, {"url", "URL"}, {0}};

static int port_path(const struct cli_call *call, struct buf *out, struct err *err)
{
    AUTO_BUF struct buf id = {0};
    if (remote_find_sandbox(call, call->args[0], true, &id, err) < 0)
        return -1;
    remote_path(out, "/v1/sandboxes/%s/ports", buf_cstr(&id));
    if (call->arg_count > 1)
        remote_path(out, "/%s", call->args[1]);
    return 0;
}

static int ports(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf path = {0};
    if (port_path(call, &path, err) < 0)
        return -1;
    return remote_show(call, "GET", buf_cstr(&path), NULL, "ports", port_columns, err);
}

static int hide(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf path = {0};
    if (port_path(call, &path, err) < 0)
        return -1;
    return remote_show(call, "DELETE", buf_cstr(&path), NULL, NULL, NULL, err);
}

static int url(const struct cli_call *call, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_JSON struct json_t *port = NULL;
    AUTO_BUF struct buf path = {0};
    AUTO_BUF struct buf body = {0};
    struct json_out out = {.buf = &body};
    bool is_public = cli_has(call, "public");
    const char *seconds = cli_value(call, "seconds");
    int64_t n = 0;
    if (seconds != NULL && !str_to_i64(str_of(seconds), 1, INT32_MAX, &n))
        return err_set(err, ERR_INVALID, "--seconds must be a number, got '%.40s'", seconds);
    json_begin_object(&out);
    if (is_public)
        json_key(&out, "public"), json_put_bool(&out, true);
    else if (seconds != NULL)
        json_key(&out, "seconds"), json_put_i64(&out, n);
    json_end_object(&out);
    if (port_path(call, &path, err) < 0)
        return -1;
    const char *method = is_public ? "PUT" : "POST";
    if (cli_has(call, "json"))
        return remote_show(call, method, buf_cstr(&path), buf_cstr(&body), NULL, NULL, err);
    if (remote_open(call, &client, err) < 0 ||
        remote_call(client, method, buf_cstr(&path), buf_cstr(&body), &port, err) < 0)
        return -1;
    cli_print(remote_text(port, is_public ? "url" : "openUrl"));
    cli_print(STR("\n"));
    return EXIT_OK;
}

static const struct cli_option url_options[] = {
    REMOTE_OPTIONS,
    {0, "public", NULL, "Allow access to everyone who knows the address"},
    {0, "seconds", "N", "Lifetime of the address with its token in seconds (default 3600)"},
    {0}};

REMOTE_VERB(cmd_sandbox_ports, "sandbox ports", "SANDBOX", "List the exposed ports of a sandbox",
            remote_only, 1, ports);
REMOTE_VERB(cmd_sandbox_url, "sandbox url", "SANDBOX PORT", "Expose a port and print its address",
            url_options, 2, url);
REMOTE_VERB(cmd_sandbox_hide, "sandbox hide", "SANDBOX PORT",
            "Stop exposing a port and revoke its tokens", remote_only, 2, hide);
