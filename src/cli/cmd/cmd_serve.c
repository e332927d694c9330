/* `sandglass serve`: the configuration, overridden by options; the work is api/server. */

#include <malloc.h>

#include "api/server.h"
#include "base/err.h"
#include "base/vec.h"
#include "cli/cli.h"
#include "cli/cmd/commands.h"
#include "cli/secret_arg.h"
#include "config/config.h"
#include "config/config_schema.h"
#include "tiers/tiers.h"

typedef VEC(const char *) name_list;

static void add_list(const struct config_list *given, name_list *names)
{
    for (size_t i = 0; i < given->len; i++)
        *vec_push(names) = given->items[i].ptr;
}

/* Names of the configuration and of --name, ended by NULL; the strings are borrowed. */
static int collect_names(const struct cli_call *call, const struct config *config, name_list *names,
                         struct err *err)
{
    add_list(&config->server.host_names, names);
    for (size_t i = 0; i < call->given_count; i++) {
        const char *value = call->given[i].value;
        if (strcmp(call->given[i].option->name, "name") != 0)
            continue;
        if (!config_form_matches(CONFIG_OWN_HOST, str_of(value)))
            return err_set(err, ERR_INVALID, "--name must be %s, got '%.60s'",
                           config_form_name(CONFIG_OWN_HOST), value);
        *vec_push(names) = value;
    }
    *vec_push(names) = NULL;
    return 0;
}

static const char *or_null(struct str text)
{
    return text.len == 0 ? NULL : text.ptr;
}

/* Only a server that runs tells of its configuration: one that cannot start says why in one line.
 */
static void print_ready(const char *text, void *ctx)
{
    config_log(ctx);
    cli_print(str_of(text));
}

/* Text of the configuration is NUL-terminated, as all arena text is. */
static struct server_options options_of(const struct cli_call *call, const struct config *config)
{
    const struct config_server *server = &config->server;
    const char *listen = cli_value(call, "listen"), *dir = cli_value(call, "data-dir");
    /* Without a configured token file it is in the data directory, also in one given by --data-dir.
     */
    bool token_moves = dir != NULL && config_is_default(config, "server.token_file");
    return (struct server_options){
        .tiers = tiers_all,
        .config = config,
        .listen = listen == NULL ? server->listen.ptr : listen,
        .data_dir = dir == NULL ? server->data_dir.ptr : dir,
        .token_file = token_moves ? NULL : server->token_file.ptr,
        .tls_cert = or_null(server->tls_cert),
        .tls_key = or_null(server->tls_key),
        .tls_listen = or_null(server->tls_listen),
        .domain = or_null(server->domain),
        .unix_socket = or_null(server->unix_socket),
        .connections_max = (unsigned)server->max_connections,
        .per_address_max = (unsigned)server->max_connections_per_address,
        .head_ms = server->header_timeout_seconds * 1000,
        .body_idle_ms = server->body_idle_seconds * 1000,
        .keep_alive_ms = server->keep_alive_seconds * 1000,
        .reader_idle_ms = server->reader_idle_seconds * 1000,
        .drain_ms = server->drain_seconds * 1000,
        .on_ready = print_ready,
        .ctx = (void *)config,
    };
}

static int serve_serve(const struct cli_call *call, struct err *err)
{
    AUTO_CONFIG struct config *config = NULL;
    if (config_load(cli_value(call, "config"), &config, err) < 0)
        return -1;
    const char *dir = cli_value(call, "data-dir");
    if (dir == NULL ? config->server.data_dir.len == 0 : dir[0] == '\0')
        return err_set(
            err, ERR_INVALID,
            "no data directory: give --data-dir, or set SANDGLASS_HOME or server.data_dir");
    secrets_guard_process(); /* tokens and keys pass through it */
    /* Buffers of 64 KiB come and go with every command: the heap's end shall not move each time. */
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 20);
    (void)mallopt(M_TOP_PAD, 256 << 10);
    log_setup(config->server.log_level, config->server.log_format, 2);
    name_list names = {0}, origins = {0};
    add_list(&config->server.cors_origins, &origins);
    *vec_push(&origins) = NULL;
    struct server_options options = options_of(call, config);
    int code = collect_names(call, config, &names, err);
    options.names = names.ptr;
    options.cors_origins = origins.ptr;
    if (code == 0)
        code = server_run(&options, err);
    vec_done(&names);
    vec_done(&origins);
    return code;
}

static const struct cli_option serve_options[] = {
    {0, "listen", "ADDR",
     "Address to listen on: HOST:PORT, [IPV6]:PORT or unix:/PATH (default 127.0.0.1:7070)"},
    {0, "data-dir", "DIR", "Data directory (default: SANDGLASS_HOME, else /var/lib/sandglass)"},
    {0, "name", "HOST", "Another host name by which clients may call this server",
     .repeated = true},
    {0},
};

const struct cli_verb cmd_serve = {
    .name = "serve",
    .args = "",
    .summary = "Run the server",
    .details = "Prints its address, the file with the bearer token and a first command to try, "
               "then serves until SIGTERM, SIGINT or SIGHUP. On a signal it finishes running "
               "requests for up to server.drain_seconds (10); a second signal ends it at once.",
    .options = serve_options,
    .run = serve_serve,
};
