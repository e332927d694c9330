/* sandglass sandbox ports|url|hide: servers inside sandboxes of a running server. */

#include "cli/commands.h"
#include "cli/remote.h"

static const struct remote_column port_columns[] = {
    {"port", "PORT"}, {"public", "PUBLIC"}, {"url", "URL"}, {"path", "PATH"}, {0}};

static void port_path(const struct cli_call *call, struct buf *out)
{
    remote_path(out, "/v1/sandboxes/%s/ports", call->args[0]);
    remote_path(out, "/%s", call->args[1]);
}

static int ports(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf path = {0};
    remote_path(&path, "/v1/sandboxes/%s/ports", call->args[0]);
    return remote_show(call, "GET", buf_cstr(&path), NULL, "ports", port_columns, err);
}

static int hide(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf path = {0};
    port_path(call, &path);
    return remote_show(call, "DELETE", buf_cstr(&path), NULL, NULL, NULL, err);
}

/* What a person puts into a browser: the name where there is one, else the way by path. */
static void print_url(sg_client *client, const struct json_t *port, const char *member)
{
    AUTO_BUF struct buf line = {0};
    struct str address = remote_text(port, member), token = remote_text(port, "token");
    if (address.len > 0)
        buf_put(&line, address);
    else
        buf_printf(&line, "%s%.*s%s%.*s", sg_url(client), STR_ARG(remote_text(port, "path")),
                   token.len > 0 ? "?sandglass_token=" : "", STR_ARG(token));
    buf_put_char(&line, '\n');
    cli_print(buf_str(&line));
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
    port_path(call, &path);
    const char *method = is_public ? "PUT" : "POST";
    if (cli_has(call, "json"))
        return remote_show(call, method, buf_cstr(&path), buf_cstr(&body), NULL, NULL, err);
    if (remote_open(call, &client, err) < 0 ||
        remote_call(client, method, buf_cstr(&path), buf_cstr(&body), &port, err) < 0)
        return -1;
    print_url(client, port, is_public ? "url" : "openUrl");
    return EXIT_OK;
}

static const struct cli_option url_options[] = {
    REMOTE_OPTIONS,
    {0, "public", NULL, "Let everybody in who knows the address"},
    {0, "seconds", "N", "How long the address with its token is good (3600)"},
    {0}};

REMOTE_VERB(cmd_sandbox_ports, "sandbox ports", "ID", "List the exposed ports of a sandbox",
            remote_only, 1, ports);
REMOTE_VERB(cmd_sandbox_url, "sandbox url", "ID PORT", "Expose a port and print its address",
            url_options, 2, url);
REMOTE_VERB(cmd_sandbox_hide, "sandbox hide", "ID PORT", "Hide a port again; its tokens are void",
            remote_only, 2, hide);
