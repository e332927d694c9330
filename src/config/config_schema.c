/* Every key of config.toml: the one place from which come validation, defaults, `config show`,
 * `config schema` and docs/CONFIG.md. Limits are those of the threat model's table. */

#include "config/config_schema.h"

#include "base/buf.h"
#include "config/config.h"
#include "runtime/memory_end.h"

static const char *const search_models[] = {"minilm", "none", NULL};
static const char *const log_formats[] = {"text", "json", NULL};
static const char *const log_levels[] = {"error", "warn", "info", "debug", NULL};
static const char *const providers[] = {"jail", "isolate", "memory", "deno", NULL};
static const char *const modes[] = {"lazy", "warm", NULL};
static const char *const checkpoints[] = {"manual", "turn", NULL};

#define AT(type, field) .offset = offsetof(struct type, field)
#define NUMBER(low, high, value)                                                                   \
    .type = CONFIG_INT, .min = (low), .max = (high), .fallback = (value)
/* A time limit: 0 and "none" mean no limit. */
#define TIME(high, value)                                                                          \
    .type = CONFIG_INT, .min = 0, .max = (high), .takes_none = true, .fallback = (value)
#define CHOICE(list, value) .type = CONFIG_CHOICE, .choices = (list), .fallback = (value)
#define TEXT(what) .type = CONFIG_STR, .form = (what), .max = 4096
#define MANY(what, most) .type = CONFIG_LIST, .form = (what), .max = (most)

enum {
    DAY_SECONDS = 86400,
    YEAR_SECONDS = 365 * DAY_SECONDS,
    YEAR_MINUTES = 525600,
    YEAR_HOURS = 8760,
    YEAR_DAYS = 365,
    TERABYTE_MB = 1 << 20,
    COUNT_MAX = 1000000
};

#define PETABYTE 1e15

const struct config_key config_keys[] = {
    {"", "default_model", TEXT(CONFIG_MODEL), AT(config, default_model),
     .help = "Model used when a request names none, as PROVIDER/MODEL"},

    {"", "providers", CONFIG_MAP, AT(config, providers), .opens = "providers.*",
     .size = sizeof(struct config_provider), .max = 64,
     .help = "Model providers: one table [providers.NAME] each"},
    {"providers.*", "base_url", TEXT(CONFIG_URL), AT(config_provider, base_url),
     .note = "the provider's default", .help = "URL of its API"},
    {"providers.*", "api_key_env", TEXT(CONFIG_VARIABLE), AT(config_provider, api_key_env),
     .note = "NAME_API_KEY", .help = "Environment variable that holds the key"},
    {"providers.*", "api_key", CONFIG_SECRET, AT(config_provider, api_key),
     .help = "The key; read from the environment only, then removed from it"},
    {"providers.*", "options", CONFIG_FREE, AT(config_provider, options),
     .help = "Passed to the provider unchanged"},
    {"providers.*", "models", CONFIG_TABLES, AT(config_provider, models),
     .opens = "providers.*.models[]", .size = sizeof(struct config_model), .max = 256,
     .help = "Models to offer; all of them when none is listed"},
    {"providers.*.models[]", "id", TEXT(CONFIG_ANY), AT(config_model, id), .required = true,
     .help = "The provider's name for it"},
    {"providers.*.models[]", "label", TEXT(CONFIG_ANY), AT(config_model, label), .note = "the id",
     .help = "Display name"},

    {"", "server", CONFIG_TABLE, AT(config, server), .opens = "server",
     .help = "The daemon: addresses, storage and connection limits"},
    {"server", "listen", TEXT(CONFIG_ADDRESS), AT(config_server, listen),
     .fallback = "127.0.0.1:7070", .env = "SANDGLASS_LISTEN",
     .help = "Address of the HTTP server, or unix:/PATH; an address other than loopback needs a "
             "token file"},
    {"server", "data_dir", TEXT(CONFIG_PATH), AT(config_server, data_dir), .env = "SANDGLASS_HOME",
     .note = "/var/lib/sandglass as root, else $XDG_DATA_HOME/sandglass",
     .help = "Data directory; all data is below it"},
    {"server", "token_file", TEXT(CONFIG_PATH), AT(config_server, token_file),
     .note = "data_dir/token", .help = "File with the access token; created at first start"},
    {"server", "log_format", CHOICE(log_formats, "text"), AT(config_server, log_format),
     .env = "SANDGLASS_LOG_FORMAT", .help = "key=value lines, or one JSON object per line"},
    {"server", "log_level", CHOICE(log_levels, "info"), AT(config_server, log_level),
     .env = "SANDGLASS_LOG_LEVEL", .help = "Minimum level that is logged"},
    {"server", "max_connections", NUMBER(1, 65536, "1024"), AT(config_server, max_connections),
     .help = "Maximum open connections"},
    {"server", "max_connections_per_address", NUMBER(1, 65536, "64"),
     AT(config_server, max_connections_per_address),
     .help = "Maximum open connections from one address"},
    {"server", "host_names", MANY(CONFIG_OWN_HOST, 32), AT(config_server, host_names),
     .help = "Additional host names by which clients may call the server"},
    {"server", "domain", TEXT(CONFIG_OWN_HOST), AT(config_server, domain),
     .help = "Exposed ports are PORT-SANDBOX.DOMAIN; DNS must resolve *.DOMAIN to this server. Add "
             "a port, as in box.example.com:443, if clients use another port than the server"},
    {"server", "tls_cert", TEXT(CONFIG_PATH), AT(config_server, tls_cert),
     .help = "PEM file with the certificate chain; the server then accepts TLS too"},
    {"server", "tls_key", TEXT(CONFIG_PATH), AT(config_server, tls_key),
     .help = "PEM file with the certificate's key, not readable by others"},
    {"server", "tls_listen", TEXT(CONFIG_ADDRESS), AT(config_server, tls_listen),
     .note = "the same port: the first byte of a connection decides",
     .help = "Address for TLS only"},
    {"server", "unix_socket", TEXT(CONFIG_PATH), AT(config_server, unix_socket),
     .help = "Unix socket to serve in addition to the address"},
    {"server", "cors_origins", MANY(CONFIG_URL, 32), AT(config_server, cors_origins),
     .help = "Origins whose pages may use the API from a browser, as https://app.example.com"},
    {"server", "header_timeout_seconds", NUMBER(1, 600, "10"),
     AT(config_server, header_timeout_seconds), .help = "Time limit for receiving the headers"},
    {"server", "body_idle_seconds", NUMBER(1, 3600, "30"), AT(config_server, body_idle_seconds),
     .help = "Time without data of a body before the connection is closed"},
    {"server", "reader_idle_seconds", TIME(DAY_SECONDS, "3600"),
     AT(config_server, reader_idle_seconds),
     .help = "Time without progress in sending a stream or a file before the connection is closed"},
    {"server", "keep_alive_seconds", NUMBER(1, 3600, "60"), AT(config_server, keep_alive_seconds),
     .help = "Idle time between requests before the connection is closed"},
    {"server", "drain_seconds", NUMBER(0, 3600, "10"), AT(config_server, drain_seconds),
     .help = "Time for running requests to finish when the daemon stops"},

    {"", "sandbox", CONFIG_TABLE, AT(config, sandbox), .opens = "sandbox",
     .help = "Sandboxes of sessions; without this section they have no packages and no documents "
             "are indexed"},
    {"sandbox", "enabled", .type = CONFIG_BOOL, AT(config_sandbox, enabled), .fallback = "false",
     .note = "true if the section exists",
     .help = "Packages and document search for sessions; an explicit false also disables the tools "
             "for models"},
    {"sandbox", "provider", CHOICE(providers, "jail"), AT(config_sandbox, provider),
     .help = "What sessions run in: a jail, an isolate (JavaScript and TypeScript), memory (only "
             "files, for tests), or deno, which is a jail with the runtime deno"},
    {"sandbox", "runtime", TEXT(CONFIG_ANY), AT(config_sandbox, runtime),
     .note = "deno if provider is deno, else python3",
     .help = "Runtime of session sandboxes that are jails, used when a call names no language; see "
             "`sandglass runtime ls`"},
    {"sandbox", "mode", CHOICE(modes, "lazy"), AT(config_sandbox, mode),
     .help = "Create a session's sandbox at first use, or with the session"},
    {"sandbox", "region", TEXT(CONFIG_NAME), AT(config_sandbox, region), .fallback = "local",
     .help = "Name of the region where sandboxes run, as reported to clients"},
    {"sandbox", "volume_ttl_minutes", NUMBER(1, YEAR_MINUTES, "30"),
     AT(config_sandbox, volume_ttl_minutes),
     .help = "A session's volume is deleted this long after its last use"},
    {"sandbox", "volume_capacity_mb", NUMBER(1, TERABYTE_MB, "300"),
     AT(config_sandbox, volume_capacity_mb), .help = "Size of one volume"},
    {"sandbox", "timeout_seconds", TIME(YEAR_SECONDS, "300"), AT(config_sandbox, timeout_seconds),
     .help = "Time limit of a code execution in a session if the call sets none; if not set, "
             "isolates use isolate.timeout_ms"},
    {"sandbox", "memory_mb", NUMBER(MEMORY_MIN_MB, TERABYTE_MB, "1280"),
     AT(config_sandbox, memory_mb), .help = "Memory of a session's sandbox"},
    {"sandbox", "idle_seconds", TIME(YEAR_SECONDS, "300"), AT(config_sandbox, idle_seconds),
     .help = "After this time without work a session becomes dormant and a sandbox is paused. A "
             "running command or cell, an attached client and an open connection to a port count "
             "as work"},
    {"sandbox", "checkpoints", CHOICE(checkpoints, "manual"), AT(config_sandbox, checkpoints),
     .help = "turn: save /workspace before each call that may change files, for undo and diff"},
    {"sandbox", "checkpoint_count", NUMBER(1, 100, "20"), AT(config_sandbox, checkpoint_count),
     .help = "Automatic checkpoints kept for a sandbox or session; the oldest are deleted first"},
    {"sandbox", "checkpoint_mb", NUMBER(1, 256, "64"), AT(config_sandbox, checkpoint_mb),
     .help = "A larger /workspace gets no automatic checkpoints"},
    {"sandbox", "keep_variables_mb", NUMBER(0, TERABYTE_MB, "256"),
     AT(config_sandbox, keep_variables_mb),
     .help = "Memory kept of Python interpreters, for a dormant session (variables return on "
             "resume) and for all checkpoints of a sandbox (rollback restores them); 0: none"},
    {"sandbox", "keep_variables_total_mb", NUMBER(0, TERABYTE_MB, "0"),
     AT(config_sandbox, keep_variables_total_mb),
     .help = "The same for all sessions and sandboxes together; above it, the oldest entries of "
             "the tenant that uses most are dropped. 0: an eighth of the machine's memory"},
    {"sandbox", "undo_tool", .type = CONFIG_BOOL, AT(config_sandbox, undo_tool),
     .fallback = "false",
     .help = "Offer models the tool undo, for sessions and sandboxes with automatic checkpoints"},
    {"sandbox", "dependencies", CONFIG_TABLES, AT(config_sandbox, dependencies),
     .opens = "sandbox.dependencies[]", .size = sizeof(struct config_dependency), .max = 256,
     .help = "Packages to install in every session's sandbox"},
    {"sandbox.dependencies[]", "package", TEXT(CONFIG_PACKAGE), AT(config_dependency, package),
     .required = true, .help = "npm name, or pypi:NAME"},
    {"sandbox.dependencies[]", "version", TEXT(CONFIG_VERSION), AT(config_dependency, version),
     .note = "the newest", .help = "Exact version"},
    {"sandbox.dependencies[]", "docs", MANY(CONFIG_DOCS, 64), AT(config_dependency, docs),
     .help = "Documentation for search_docs: URLs of pages (Markdown, HTML, text), files and "
             "directories of the server, or \"package\": README, docs/ and declarations of the "
             "installed package"},
    {"sandbox.dependencies[]", "secret_env", TEXT(CONFIG_VARIABLE),
     AT(config_dependency, secret_env),
     .help = "Environment variable with the package's key; sandboxes see only a placeholder"},
    {"sandbox.dependencies[]", "secret", CONFIG_SECRET, AT(config_dependency, secret),
     .help = "That key; read from the environment only, then removed from it"},
    {"sandbox.dependencies[]", "hosts", MANY(CONFIG_HOST, 64), AT(config_dependency, hosts),
     .help = "Hosts that sessions may reach for it, on ports 443 and 80 if none is named; the key "
             "is sent only to exact hosts, over https"},
    {"sandbox.dependencies[]", "headers", MANY(CONFIG_ANY, 8), AT(config_dependency, headers),
     .note = "Authorization, X-Api-Key", .help = "Request headers in which the key may be sent"},

    {"", "jail", CONFIG_TABLE, AT(config, jail), .opens = "jail", .help = "Defaults of a jail"},
    {"jail", "memory_mb", NUMBER(MEMORY_MIN_MB, TERABYTE_MB, "512"), AT(config_jail, memory_mb),
     .help = "Memory, with no swap"},
    {"jail", "disk_mb", NUMBER(1, TERABYTE_MB, "4096"), AT(config_jail, disk_mb),
     .help = "Size of the files that a sandbox may write, /tmp included; allocated on the host as "
             "used"},
    {"jail", "pids", NUMBER(8, 1024, "256"), AT(config_jail, pids),
     .help = "Processes and threads"},
    {"jail", "cpus", .type = CONFIG_FLOAT, .min = 0.05, .max = 1024, .fallback = "1",
     AT(config_jail, cpus), .help = "Processor time, in cores"},
    {"jail", "command_seconds", TIME(YEAR_SECONDS, "0"), AT(config_jail, command_seconds),
     .help = "Time limit of a foreground command if neither the call nor its sandbox sets one; "
             "detached commands and terminals have no limit"},
    {"jail", "pool", NUMBER(0, 512, "64"), AT(config_jail, pool),
     .help = "Maximum number of jails with these limits kept ready; about 0.4 MB each"},
    {"jail", "pool_idle_ms", NUMBER(0, 24 * 3600 * 1000, "60000"), AT(config_jail, pool_idle_ms),
     .help = "Time without a request after which only one is kept ready; 0: all are kept"},
    {"jail", "zygote", .type = CONFIG_BOOL, AT(config_jail, zygote), .fallback = "true",
     .help = "Fork Python interpreters from a process that has imported its packages; about 60 MB"},
    {"jail", "zygote_at_start", .type = CONFIG_BOOL, AT(config_jail, zygote_at_start),
     .fallback = "true", .env = "SANDGLASS_ZYGOTE_AT_START",
     .help = "Start that process with the server, which takes about a second of processor time; "
             "otherwise it starts with the second Python interpreter"},
    {"jail", "python_packages", MANY(CONFIG_NAME, 64), AT(config_jail, python_packages),
     .note = "numpy, pandas and matplotlib",
     .help = "Python modules of this machine that sandboxes of the runtime python3 use. `make run` "
             "installs the Debian packages of missing ones (python3-NAME); `sandglass doctor`, "
             "`sandglass runtime packages` and a warning at start list them; [] for none"},
    {"jail", "zygote_imports", MANY(CONFIG_NAME, 64), AT(config_jail, zygote_imports),
     .note = "json and `python_packages`",
     .help = "What that process imports; missing packages are skipped"},
    {"jail", "kernels", NUMBER(0, 64, "4"), AT(config_jail, interpreters),
     .help = "Maximum number of interpreters kept ready, each in its own jail. Python: forked from "
             "the zygote, about 5 MB each. Node: two, about 45 MB each, from the second start on. "
             "After `pool_idle_ms` only one is kept"},

    {"", "isolate", CONFIG_TABLE, AT(config, isolate), .opens = "isolate",
     .help = "Defaults of a JavaScript isolate"},
    {"isolate", "memory_mb", NUMBER(MEMORY_MIN_MB, 1024, "16"), AT(config_isolate, memory_mb),
     .help = "Memory of one isolate"},
    {"isolate", "timeout_ms", TIME(DAY_SECONDS * 1000.0, "3000"), AT(config_isolate, timeout_ms),
     .help = "Time limit of a run if neither the call nor its sandbox sets one"},
    {"isolate", "code_max_chars", NUMBER(1, 16 << 20, "12000"), AT(config_isolate, code_max_chars),
     .help = "Maximum length of the code"},
    {"isolate", "console_lines", NUMBER(0, 100000, "100"), AT(config_isolate, console_lines),
     .help = "Maximum lines of console output that are kept"},
    {"isolate", "result_depth", NUMBER(1, 60, "10"), AT(config_isolate, result_depth),
     .help = "Maximum nesting levels of the result that are shown"},
    {"isolate", "result_items", NUMBER(1, 100000, "200"), AT(config_isolate, result_items),
     .help = "Maximum items of each array or object of the result that are shown"},

    {"", "limits", CONFIG_TABLE, AT(config, limits), .opens = "limits",
     .help = "Limits per tenant, for all its tokens together; 0: no limit"},
    {"limits", "sandboxes", NUMBER(0, COUNT_MAX, "10000"), AT(config_limits, sandboxes),
     .help = "Sandboxes, including stopped ones that are not deleted"},
    {"limits", "sessions", NUMBER(0, COUNT_MAX, "10000"), AT(config_limits, sessions),
     .help = "Sessions"},
    {"limits", "volumes", NUMBER(0, COUNT_MAX, "10000"), AT(config_limits, volumes),
     .help = "Volumes, including those of sessions"},
    {"limits", "snapshots", NUMBER(0, COUNT_MAX, "500"), AT(config_limits, snapshots),
     .help = "Snapshots"},
    {"limits", "checkpoints", NUMBER(0, COUNT_MAX, "2000"), AT(config_limits, checkpoints),
     .help = "Checkpoints of all its sandboxes, also automatic ones; one sandbox has at most 32 "
             "others"},
    {"limits", "commands", NUMBER(0, COUNT_MAX, "20000"), AT(config_limits, commands),
     .help = "Ended commands that are kept with their logs; the oldest are deleted first"},
    {"limits", "approvals", NUMBER(0, COUNT_MAX, "1000"), AT(config_limits, approvals),
     .help = "Approvals that wait for a decision"},

    {"", "logs", CONFIG_TABLE, AT(config, logs), .opens = "logs",
     .help = "Stored output of commands. Clients that follow a running command get all of its "
             "output; these limits are for later reads"},
    {"logs", "stream_mb", NUMBER(1, 1024, "8"), AT(config_logs, stream_mb),
     .help =
         "Stored output of each stream of a command (standard output, standard error, terminal): "
         "one half from its beginning, one from its end; the gap is marked. A client that follows "
         "may be behind by half of this size before the command waits for it"},
    {"logs", "total_mb", NUMBER(1, TERABYTE_MB, "1024"), AT(config_logs, total_mb),
     .help = "Stored output of all ended commands; above it, the oldest entries of the tenant that "
             "uses most are dropped"},
    {"logs", "keep_hours", NUMBER(1, YEAR_HOURS, "24"), AT(config_logs, keep_hours),
     .help = "Ended commands are kept this long, with their logs"},
    {"logs", "stalled_seconds", NUMBER(0, DAY_SECONDS, "3600"), AT(config_logs, stalled_seconds),
     .help = "A client that follows and reads nothing for this long, while the command waits for "
             "it, is disconnected with an error event, and the command continues; 0: never"},

    {"", "retention", CONFIG_TABLE, AT(config, retention), .opens = "retention",
     .help = "Days after which sandboxes outside sessions are deleted automatically; 0: never. "
             "Each deletion is an event and a line in the log (sandbox.retention)"},
    {"retention", "stopped_days", NUMBER(0, YEAR_DAYS, "7"), AT(config_retention, stopped_days),
     .help = "Days since it stopped; deletes its record and its commands"},
    {"retention", "failed_days", NUMBER(0, YEAR_DAYS, "30"), AT(config_retention, failed_days),
     .help = "Days since it failed"},
    {"retention", "paused_days", NUMBER(0, YEAR_DAYS, "0"), AT(config_retention, paused_days),
     .help = "Days since a paused sandbox was last used; its files are deleted too"},

    {"", "approvals", CONFIG_TABLE, AT(config, approvals), .opens = "approvals",
     .help = "Requests for a person's decision (docs/APPROVALS.md)"},
    {"approvals", "expire_hours", NUMBER(1, 720, "24"), AT(config_approvals, expire_hours),
     .help = "Default expiry of a request"},
    {"approvals", "keep_days", NUMBER(0, 10 * YEAR_DAYS, "365"), AT(config_approvals, keep_days),
     .help = "Approvals that ended are deleted after this time; 0: never"},

    {"", "search", CONFIG_TABLE, AT(config, search), .opens = "search",
     .help = "The search in documentation and saved modules (docs/SEARCH.md)"},
    {"search", "model", CHOICE(search_models, "minilm"), AT(config_search, model),
     .help = "Model that compares meaning, if it was added ('sandglass model add minilm'); none: "
             "only words are compared"},
    {"search", "threads", NUMBER(0, 64, "0"), AT(config_search, threads),
     .help = "Threads of the model's process; 0: one for each processor, at most 4"},
    {"search", "refresh_hours", NUMBER(1, 8760, "24"), AT(config_search, refresh_hours),
     .help = "Hours after which a page of documentation is requested again"},
    {"search", "retry_seconds", NUMBER(1, 86400, "30"), AT(config_search, retry_seconds),
     .help = "Seconds after which a page that failed is requested again; doubles each time, up to "
             "one hour"},

    {"", "egress", CONFIG_TABLE, AT(config, egress), .opens = "egress",
     .help = "The egress proxy, through which all outgoing connections go"},
    {"egress", "dns_servers", MANY(CONFIG_ADDRESS, 8), AT(config_egress, dns_servers),
     .help = "Name servers as ADDRESS:PORT; [] for those of the system"},
    {"egress", "private", MANY(CONFIG_ANY, 256), AT(config_egress, private),
     .help =
         "Addresses of hosts that are not public, as HOST=ADDRESS:PORT: connections to HOST:PORT "
         "go to ADDRESS without a DNS query; the sandbox's policy must allow the host as well"},
    {"egress", "ca_file", TEXT(CONFIG_PATH), AT(config_egress, ca_file), .note = "the system's",
     .help = "File of trusted certificates (PEM) for TLS to hosts, instead of the system's"},

    {"egress", "connections", NUMBER(1, 1024, "1024"), AT(config_egress, connections),
     .help = "Maximum open connections of one sandbox; further ones wait"},
    {"egress", "bytes_per_second", NUMBER(0, PETABYTE, "0"), AT(config_egress, bytes_per_second),
     .help = "Maximum bytes per second of one sandbox, both directions; 0: no limit"},
    {"egress", "bytes_total", NUMBER(0, PETABYTE, "0"), AT(config_egress, bytes_total),
     .help = "Maximum bytes of one sandbox in its lifetime, both directions; 0: no limit"},
    {"egress", "head_seconds", NUMBER(1, 3600, "10"), AT(config_egress, head_seconds),
     .help = "Time limit for the first request or TLS hello of a connection"},
    {"egress", "idle_seconds", NUMBER(1, DAY_SECONDS, "300"), AT(config_egress, idle_seconds),
     .help = "A connection without traffic is closed after this time"},
    {"egress", "total_seconds", NUMBER(1, DAY_SECONDS, "86400"), AT(config_egress, total_seconds),
     .help = "A connection is closed after this time"},
    {"egress", "head_bytes", NUMBER(1024, 1 << 20, "65536"), AT(config_egress, head_bytes),
     .help = "Maximum size of HTTP headers that the proxy reads"},
    {"egress", "answer_bytes", NUMBER(0, PETABYTE, "0"), AT(config_egress, answer_bytes),
     .help = "Maximum size of an HTTP response body that the proxy reads; 0: no limit, except for "
             "fetch in an isolate, whose maximum is always 4 MiB"},

    {"", "packages", CONFIG_TABLE, AT(config, packages), .opens = "packages",
     .help =
         "Sources of packages and installed runtimes; the groups npm and pypi allow these hosts"},
    {"packages", "npm_registry", TEXT(CONFIG_URL), AT(config_packages, npm_registry),
     .note = "npm's setting on this machine", .help = "Registry of npm packages"},
    {"packages", "pypi_index", TEXT(CONFIG_URL), AT(config_packages, pypi_index),
     .note = "pip's setting on this machine",
     .help = "Index of Python packages, as in pip's index-url"},

    {"", "secrets", CONFIG_MAP, AT(config, bound_secrets), .opens = "secrets.*",
     .size = sizeof(struct config_bound_secret), .max = 64,
     .help = "Keys that sandboxes can use but not read: one table [secrets.NAME] each, given to a "
             "sandbox by --secret NAME"},
    {"secrets.*", "from", TEXT(CONFIG_ANY), AT(config_bound_secret, from), .required = true,
     .help = "Source of the value: env:VARIABLE or file:/PATH"},
    {"secrets.*", "value", CONFIG_SECRET, AT(config_bound_secret, value),
     .help = "That value; never in this file; removed from the environment after reading"},
    {"secrets.*", "hosts", MANY(CONFIG_OWN_HOST, 16), AT(config_bound_secret, hosts),
     .required = true,
     .help = "Exact hosts that it may be sent to, over https; port 443 if none is named"},
    {"secrets.*", "headers", MANY(CONFIG_ANY, 8), AT(config_bound_secret, headers),
     .note = "Authorization, X-Api-Key", .help = "Request headers in which it may be sent"},
    {"secrets.*", "variable", TEXT(CONFIG_VARIABLE), AT(config_bound_secret, variable),
     .note = "NAME in capitals",
     .help = "Environment variable that holds the placeholder in a sandbox"},
    {"secrets.*", "tenants", MANY(CONFIG_ANY, 64), AT(config_bound_secret, tenants),
     .note = "tokens with the scope admin",
     .help = "Tenants whose sandboxes may use it; * for all"},

    {"", "zones", CONFIG_MAP, AT(config, zones), .opens = "zones.*",
     .size = sizeof(struct config_zones), .max = 64,
     .help = "Directories of this machine that clients of the server can use as zones at "
             "/v1/zones/NAME (docs/ZONES.md): one table [zones.NAME] each, with root, or with "
             "workspace, cache or both"},
    {"zones.*", "root", TEXT(CONFIG_PATH), AT(config_zones, root),
     .help =
         "Directory that contains both zones, as workspace and cache; they are created if missing"},
    {"zones.*", "workspace", TEXT(CONFIG_PATH), AT(config_zones, workspace),
     .help = "Directory for /workspace"},
    {"zones.*", "cache", TEXT(CONFIG_PATH), AT(config_zones, cache),
     .help = "Directory for /cache"},
    {"zones.*", "read_only", .type = CONFIG_BOOL, AT(config_zones, read_only), .fallback = "false",
     .help = "Refuse all changes"},
    {"zones.*", "tenants", MANY(CONFIG_ANY, 64), AT(config_zones, tenants),
     .note = "tokens with the scope admin", .help = "Tenants that may use it; * for all"},

    {"", "bridges", CONFIG_TABLE, AT(config, bridges), .opens = "bridges",
     .help = "Host functions that JavaScript may call"},
    {"bridges", "weather_url", TEXT(CONFIG_URL), AT(config_bridges, weather_url),
     .fallback = "https://api.open-meteo.com",
     .help = "Service for api.getWeather; must implement Open-Meteo's API"},
};

const size_t config_key_count = countof(config_keys);

const struct config_key *config_next_key(const struct config_key *after, const char *section)
{
    const struct config_key *key = after == NULL ? config_keys : after + 1;
    while (key < config_keys + config_key_count && strcmp(key->in, section) != 0)
        key++;
    return key < config_keys + config_key_count ? key : NULL;
}

const char *config_source_name(enum config_source source)
{
    static const char *const names[] = {"default", "file", "environment"};
    return names[source];
}
