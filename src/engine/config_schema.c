/* Every key of config.toml: the one place from which come validation, defaults, `config show`,
 * `config schema` and docs/CONFIG.md. Limits are those of the threat model's table. */

#include "engine/config_schema.h"

#include "base/buf.h"
#include "engine/config.h"

static const char *const log_formats[] = {"text", "json", NULL};
static const char *const log_levels[] = {"error", "warn", "info", "debug", NULL};
static const char *const tiers[] = {"jail", "isolate", "memory", NULL};
static const char *const modes[] = {"lazy", "warm", NULL};

#define AT(type, field) .offset = offsetof(struct type, field)
#define NUMBER(low, high, value)                                                                   \
    .type = CONFIG_INT, .min = (low), .max = (high), .fallback = (value)
#define CHOICE(list, value) .type = CONFIG_CHOICE, .choices = (list), .fallback = (value)
#define TEXT(what) .type = CONFIG_STR, .form = (what), .max = 4096
#define MANY(what, most) .type = CONFIG_LIST, .form = (what), .max = (most)

enum { DAY_SECONDS = 86400, YEAR_MINUTES = 525600, TERABYTE_MB = 1 << 20, COUNT_MAX = 1000000 };

#define PETABYTE 1e15

const struct config_key config_keys[] = {
    {"", "default_model", TEXT(CONFIG_MODEL), AT(config, default_model),
     .help = "Model that is used when none is asked for, as PROVIDER/MODEL"},

    {"", "providers", CONFIG_MAP, AT(config, providers), .opens = "providers.*",
     .size = sizeof(struct config_provider), .max = 64,
     .help = "Model providers: one table [providers.NAME] each"},
    {"providers.*", "base_url", TEXT(CONFIG_URL), AT(config_provider, base_url),
     .note = "the provider's own", .help = "Where its API answers"},
    {"providers.*", "api_key_env", TEXT(CONFIG_VARIABLE), AT(config_provider, api_key_env),
     .note = "NAME_API_KEY", .help = "Environment variable that holds the key"},
    {"providers.*", "api_key", CONFIG_SECRET, AT(config_provider, api_key),
     .help = "The key; from the environment only, then wiped there"},
    {"providers.*", "options", CONFIG_FREE, AT(config_provider, options),
     .help = "Passed on to the provider as it is"},
    {"providers.*", "models", CONFIG_TABLES, AT(config_provider, models),
     .opens = "providers.*.models[]", .size = sizeof(struct config_model), .max = 256,
     .help = "Models to offer; all of them when none is listed"},
    {"providers.*.models[]", "id", TEXT(CONFIG_ANY), AT(config_model, id), .required = true,
     .help = "The provider's name for it"},
    {"providers.*.models[]", "label", TEXT(CONFIG_ANY), AT(config_model, label), .note = "the id",
     .help = "Name shown to people"},

    {"", "server", CONFIG_TABLE, AT(config, server), .opens = "server",
     .help = "The daemon: where it listens, where it stores, what it accepts"},
    {"server", "listen", TEXT(CONFIG_ADDRESS), AT(config_server, listen),
     .fallback = "127.0.0.1:7070", .env = "SANDGLASS_LISTEN",
     .help = "Address of the HTTP server, or unix:/PATH; anything but loopback needs a token"},
    {"server", "data_dir", TEXT(CONFIG_PATH), AT(config_server, data_dir), .env = "SANDGLASS_HOME",
     .note = "/var/lib/sandglass as root, else $XDG_DATA_HOME/sandglass",
     .help = "Directory of everything that is kept; deleting it removes every trace"},
    {"server", "token_file", TEXT(CONFIG_PATH), AT(config_server, token_file),
     .note = "data_dir/token", .help = "File with the access token; made at first start"},
    {"server", "log_format", CHOICE(log_formats, "text"), AT(config_server, log_format),
     .env = "SANDGLASS_LOG_FORMAT", .help = "key=value lines, or one JSON object a line"},
    {"server", "log_level", CHOICE(log_levels, "info"), AT(config_server, log_level),
     .env = "SANDGLASS_LOG_LEVEL", .help = "Least important level that is logged"},
    {"server", "max_connections", NUMBER(1, 65536, "1024"), AT(config_server, max_connections),
     .help = "Open connections"},
    {"server", "max_connections_per_address", NUMBER(1, 65536, "64"),
     AT(config_server, max_connections_per_address), .help = "Open connections of one address"},
    {"server", "host_names", MANY(CONFIG_OWN_HOST, 32), AT(config_server, host_names),
     .help = "Further host names by which clients may call the server"},
    {"server", "domain", TEXT(CONFIG_OWN_HOST), AT(config_server, domain),
     .help = "Exposed ports are PORT-SANDBOX.DOMAIN; DNS must lead *.DOMAIN here. With a port, as "
             "box.example.com:443, when clients see another one than the server"},
    {"server", "tls_cert", TEXT(CONFIG_PATH), AT(config_server, tls_cert),
     .help = "PEM file with the certificate chain; the server then speaks TLS too"},
    {"server", "tls_key", TEXT(CONFIG_PATH), AT(config_server, tls_key),
     .help = "PEM file with the certificate's key, not readable by others"},
    {"server", "tls_listen", TEXT(CONFIG_ADDRESS), AT(config_server, tls_listen),
     .note = "the same port: the first byte of a connection decides",
     .help = "Address for TLS alone"},
    {"server", "unix_socket", TEXT(CONFIG_PATH), AT(config_server, unix_socket),
     .help = "Unix socket to serve beside the address"},
    {"server", "cors_origins", MANY(CONFIG_URL, 32), AT(config_server, cors_origins),
     .help = "Origins whose pages may use the API from a browser, as https://app.example.com"},
    {"server", "header_timeout_seconds", NUMBER(1, 600, "10"),
     AT(config_server, header_timeout_seconds), .help = "Time until the headers are complete"},
    {"server", "body_idle_seconds", NUMBER(1, 3600, "30"), AT(config_server, body_idle_seconds),
     .help = "Silence within a body before the connection is closed"},
    {"server", "keep_alive_seconds", NUMBER(1, 3600, "60"), AT(config_server, keep_alive_seconds),
     .help = "Silence between requests before the connection is closed"},
    {"server", "drain_seconds", NUMBER(0, 3600, "10"), AT(config_server, drain_seconds),
     .help = "Time that running work gets when the daemon is asked to stop"},

    {"", "sandbox", CONFIG_TABLE, AT(config, sandbox), .opens = "sandbox",
     .help = "Sandboxes of sessions; without this section they have no packages of their own and "
             "no documents are indexed"},
    {"sandbox", "enabled", .type = CONFIG_BOOL, AT(config_sandbox, enabled), .fallback = "false",
     .note = "true when the section is there",
     .help = "Packages and document search for sessions; false, by word, also means that no "
             "tools are offered"},
    {"sandbox", "provider", CHOICE(tiers, "jail"), AT(config_sandbox, provider),
     .help = "Tier of session sandboxes"},
    {"sandbox", "mode", CHOICE(modes, "lazy"), AT(config_sandbox, mode),
     .help = "Make a session's sandbox at first use, or with the session"},
    {"sandbox", "region", TEXT(CONFIG_NAME), AT(config_sandbox, region), .fallback = "local",
     .help = "Name of the place where sandboxes run, as reported to clients"},
    {"sandbox", "volume_ttl_minutes", NUMBER(1, YEAR_MINUTES, "30"),
     AT(config_sandbox, volume_ttl_minutes), .help = "A volume lives this long after its last use"},
    {"sandbox", "volume_capacity_mb", NUMBER(1, TERABYTE_MB, "300"),
     AT(config_sandbox, volume_capacity_mb), .help = "Size of one volume"},
    {"sandbox", "timeout_seconds", NUMBER(1, DAY_SECONDS, "300"),
     AT(config_sandbox, timeout_seconds), .help = "A session's sandbox is paused after this time"},
    {"sandbox", "memory_mb", NUMBER(16, TERABYTE_MB, "1280"), AT(config_sandbox, memory_mb),
     .help = "Memory of a session's sandbox"},
    {"sandbox", "idle_seconds", NUMBER(1, DAY_SECONDS, "300"), AT(config_sandbox, idle_seconds),
     .help = "A session without work becomes dormant after this time"},
    {"sandbox", "dependencies", CONFIG_TABLES, AT(config_sandbox, dependencies),
     .opens = "sandbox.dependencies[]", .size = sizeof(struct config_dependency), .max = 256,
     .help = "Packages that are installed in every session's sandbox"},
    {"sandbox.dependencies[]", "package", TEXT(CONFIG_PACKAGE), AT(config_dependency, package),
     .required = true, .help = "npm name, or pypi:NAME"},
    {"sandbox.dependencies[]", "version", TEXT(CONFIG_VERSION), AT(config_dependency, version),
     .note = "the newest", .help = "Exact version"},
    {"sandbox.dependencies[]", "docs", MANY(CONFIG_URL, 64), AT(config_dependency, docs),
     .help = "Pages to index for search_docs"},
    {"sandbox.dependencies[]", "secret_env", TEXT(CONFIG_VARIABLE),
     AT(config_dependency, secret_env),
     .help = "Environment variable with the package's key; sandboxes see a placeholder"},
    {"sandbox.dependencies[]", "secret", CONFIG_SECRET, AT(config_dependency, secret),
     .help = "That key; from the environment only, then wiped there"},
    {"sandbox.dependencies[]", "hosts", MANY(CONFIG_HOST, 64), AT(config_dependency, hosts),
     .help = "Hosts that the package may reach and the key may be sent to"},

    {"", "jail", CONFIG_TABLE, AT(config, jail), .opens = "jail",
     .help = "What a jail gets that asks for nothing else"},
    {"jail", "memory_mb", NUMBER(16, TERABYTE_MB, "512"), AT(config_jail, memory_mb),
     .help = "Memory, with no swap"},
    {"jail", "pids", NUMBER(8, 1024, "256"), AT(config_jail, pids),
     .help = "Processes and threads"},
    {"jail", "cpus", .type = CONFIG_FLOAT, .min = 0.05, .max = 1024, .fallback = "1",
     AT(config_jail, cpus), .help = "Processor time, in cores"},
    {"jail", "pool", NUMBER(0, 512, "64"), AT(config_jail, pool),
     .help = "Jails with these limits that wait ready made, at most; about 0.4 MB each"},
    {"jail", "pool_idle_ms", NUMBER(0, 24 * 3600 * 1000, "60000"), AT(config_jail, pool_idle_ms),
     .help = "Time without a request after which only one waits; 0: all wait for ever"},
    {"jail", "template", .type = CONFIG_BOOL, AT(config_jail, template), .fallback = "true",
     .help = "Fork Python kernels from a process that has imported its packages; about 60 MB"},
    {"jail", "template_at_start", .type = CONFIG_BOOL, AT(config_jail, template_at_start),
     .fallback = "true", .env = "SANDGLASS_TEMPLATE_AT_START",
     .help = "Make that process when the server starts, which takes a processor about a second; "
             "else with its second Python kernel"},
    {"jail", "template_imports", MANY(CONFIG_NAME, 64), AT(config_jail, template_imports),
     .note = "json, numpy, pandas and matplotlib",
     .help = "What that process imports; packages that are not there are left out"},
    {"jail", "kernels", NUMBER(0, 64, "4"), AT(config_jail, kernels),
     .help = "Kernels that wait in jails of their own, at most: of Python, forked, about 5 MB "
             "each, from the template on; of Node two, about 45 MB each, from the second one on; "
             "one after `pool_idle_ms`"},

    {"", "isolate", CONFIG_TABLE, AT(config, isolate), .opens = "isolate",
     .help = "What a JavaScript isolate gets that asks for nothing else"},
    {"isolate", "memory_mb", NUMBER(1, 2048, "16"), AT(config_isolate, memory_mb),
     .help = "Memory of one isolate"},
    {"isolate", "timeout_ms", NUMBER(1, 600000, "3000"), AT(config_isolate, timeout_ms),
     .help = "Time of one evaluation"},
    {"isolate", "code_max_chars", NUMBER(1, 16 << 20, "12000"), AT(config_isolate, code_max_chars),
     .help = "Length of the code"},
    {"isolate", "console_lines", NUMBER(0, 100000, "100"), AT(config_isolate, console_lines),
     .help = "Kept lines of console output"},
    {"isolate", "result_depth", NUMBER(1, 60, "10"), AT(config_isolate, result_depth),
     .help = "Levels of the result that are shown"},
    {"isolate", "result_items", NUMBER(1, 100000, "200"), AT(config_isolate, result_items),
     .help = "Items of each array or object of the result that are shown"},

    {"", "limits", CONFIG_TABLE, AT(config, limits), .opens = "limits",
     .help = "What one tenant may have at a time, whatever its tokens say; 0: no limit"},
    {"limits", "sandboxes", NUMBER(0, COUNT_MAX, "10000"), AT(config_limits, sandboxes),
     .help = "Sandboxes, with those that are stopped and not deleted"},
    {"limits", "sessions", NUMBER(0, COUNT_MAX, "10000"), AT(config_limits, sessions),
     .help = "Sessions"},
    {"limits", "volumes", NUMBER(0, COUNT_MAX, "10000"), AT(config_limits, volumes),
     .help = "Volumes, with those of sessions"},
    {"limits", "snapshots", NUMBER(0, COUNT_MAX, "500"), AT(config_limits, snapshots),
     .help = "Snapshots"},
    {"limits", "checkpoints", NUMBER(0, COUNT_MAX, "2000"), AT(config_limits, checkpoints),
     .help = "Checkpoints in all of its sandboxes; one sandbox has 32 at most"},
    {"limits", "commands", NUMBER(0, COUNT_MAX, "20000"), AT(config_limits, commands),
     .help = "Commands that are over and are kept with their logs; the oldest go"},

    {"", "egress", CONFIG_TABLE, AT(config, egress), .opens = "egress",
     .help = "The gate through which everything leaves"},
    {"egress", "dns_servers", MANY(CONFIG_ADDRESS, 8), AT(config_egress, dns_servers),
     .help = "Name servers as ADDRESS:PORT; none for those of the system"},
    {"egress", "private", MANY(CONFIG_ANY, 256), AT(config_egress, private),
     .help = "Addresses that are not public and may be reached all the same, each for one host and "
             "port, as HOST=ADDRESS:PORT"},
    {"egress", "ca_file", TEXT(CONFIG_PATH), AT(config_egress, ca_file), .note = "the system's",
     .help = "File of the certificates (PEM) that TLS to hosts trusts, instead of the system's"},

    {"egress", "connections", NUMBER(1, 1024, "1024"), AT(config_egress, connections),
     .help = "Connections of one sandbox at once; the next ones wait"},
    {"egress", "bytes_per_second", NUMBER(0, PETABYTE, "0"), AT(config_egress, bytes_per_second),
     .help = "Bytes of both directions that one sandbox may move in a second; 0: no limit"},
    {"egress", "bytes_total", NUMBER(0, PETABYTE, "0"), AT(config_egress, bytes_total),
     .help = "Bytes of both directions that one sandbox may move in its life; 0: no limit"},
    {"egress", "head_seconds", NUMBER(1, 3600, "10"), AT(config_egress, head_seconds),
     .help = "Time in which a connection must say what it wants"},
    {"egress", "idle_seconds", NUMBER(1, DAY_SECONDS, "300"), AT(config_egress, idle_seconds),
     .help = "A connection on which nothing moves ends after this time"},
    {"egress", "total_seconds", NUMBER(1, DAY_SECONDS, "86400"), AT(config_egress, total_seconds),
     .help = "A connection ends after this time"},
    {"egress", "head_bytes", NUMBER(1024, 1 << 20, "65536"), AT(config_egress, head_bytes),
     .help = "Bytes of the head of an HTTP message that the gate reads"},
    {"egress", "answer_bytes", NUMBER(0, PETABYTE, "0"), AT(config_egress, answer_bytes),
     .help = "Bytes of the body of an HTTP answer that the gate reads; 0: no limit, and 4 MiB for "
             "an isolate's fetch, which never takes more"},

    {"", "packages", CONFIG_TABLE, AT(config, packages), .opens = "packages",
     .help = "Where packages and added runtimes come from: what the groups npm and pypi stand for"},
    {"packages", "npm_registry", TEXT(CONFIG_URL), AT(config_packages, npm_registry),
     .note = "npm's own on this machine", .help = "Registry of npm packages"},
    {"packages", "pypi_index", TEXT(CONFIG_URL), AT(config_packages, pypi_index),
     .note = "pip's own on this machine", .help = "Index of Python packages, as for pip"},

    {"", "secrets", CONFIG_MAP, AT(config, bound_secrets), .opens = "secrets.*",
     .size = sizeof(struct config_bound_secret), .max = 64,
     .help = "Keys that sandboxes use and never see: one table [secrets.NAME] each, given to a "
             "sandbox by --secret NAME"},
    {"secrets.*", "from", TEXT(CONFIG_ANY), AT(config_bound_secret, from), .required = true,
     .help = "Where the value is: env:VARIABLE or file:/PATH"},
    {"secrets.*", "value", CONFIG_SECRET, AT(config_bound_secret, value),
     .help = "That value; never in this file, from the environment it is wiped"},
    {"secrets.*", "hosts", MANY(CONFIG_OWN_HOST, 16), AT(config_bound_secret, hosts),
     .required = true,
     .help = "Exact hosts that it may be sent to, over https; port 443 when none is named"},
    {"secrets.*", "headers", MANY(CONFIG_ANY, 8), AT(config_bound_secret, headers),
     .note = "Authorization, X-Api-Key", .help = "Request headers in which it may be sent"},
    {"secrets.*", "variable", TEXT(CONFIG_VARIABLE), AT(config_bound_secret, variable),
     .note = "NAME in capitals",
     .help = "Environment variable that holds the placeholder in a sandbox"},
    {"secrets.*", "tenants", MANY(CONFIG_ANY, 64), AT(config_bound_secret, tenants),
     .note = "holders of the scope admin",
     .help = "Tenants of a server whose sandboxes may be given it; * for all"},

    {"", "zones", CONFIG_MAP, AT(config, zones), .opens = "zones.*",
     .size = sizeof(struct config_zones), .max = 64,
     .help =
         "Directories of this machine that clients of the server use as zones, by /v1/zones/NAME "
         "(docs/ZONES.md): one table [zones.NAME] each, with root, or with workspace, cache or "
         "both"},
    {"zones.*", "root", TEXT(CONFIG_PATH), AT(config_zones, root),
     .help = "Directory that has both zones in it, as workspace and cache; they are made"},
    {"zones.*", "workspace", TEXT(CONFIG_PATH), AT(config_zones, workspace),
     .help = "Directory that is /workspace"},
    {"zones.*", "cache", TEXT(CONFIG_PATH), AT(config_zones, cache),
     .help = "Directory that is /cache"},
    {"zones.*", "read_only", .type = CONFIG_BOOL, AT(config_zones, read_only), .fallback = "false",
     .help = "Refuse what changes something"},
    {"zones.*", "tenants", MANY(CONFIG_ANY, 64), AT(config_zones, tenants),
     .note = "holders of the scope admin", .help = "Tenants that may use them; * for all"},

    {"", "bridges", CONFIG_TABLE, AT(config, bridges), .opens = "bridges",
     .help = "Functions of the host that JavaScript may call"},
    {"bridges", "weather_url", TEXT(CONFIG_URL), AT(config_bridges, weather_url),
     .fallback = "https://api.open-meteo.com",
     .help = "Service behind api.getWeather; one that speaks Open-Meteo's API"},
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
