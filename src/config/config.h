#pragma once

/* The effective configuration: config.toml checked against the schema (config_schema.c), with
 * defaults and the environment filled in. Read once, at start, before threads; constant after that.
 *
 * Keys and tokens are never in the file. They are taken out of the environment while loading: the
 * variable is wiped and unset, the value lives in a `struct secret` and nothing here prints it. */

#include "base/arena.h"
#include "base/log.h"

struct buf;
struct err;
struct group_sources;
struct secret;
struct secret_rule;
struct toml_table;

enum { CONFIG_SIZE_MAX = 1 << 20 };

/* In the order of the schema's choices. */
enum config_tier { CONFIG_TIER_JAIL, CONFIG_TIER_ISOLATE, CONFIG_TIER_MEMORY, CONFIG_TIER_DENO };
enum config_mode { CONFIG_MODE_LAZY, CONFIG_MODE_WARM };
enum config_checkpoints { CONFIG_CHECKPOINTS_MANUAL, CONFIG_CHECKPOINTS_TURN };

#define CONFIG_ARRAY(type)                                                                         \
    struct {                                                                                       \
        type *items;                                                                               \
        size_t len;                                                                                \
    }

struct config_list {
    struct str *items;
    size_t len;
};

struct config_model {
    struct str id;
    struct str label; /* the id when none was given */
};

struct config_provider {
    struct str name;
    struct str base_url; /* empty: the provider's own */
    struct str api_key_env;
    const struct secret *api_key;     /* NULL when the variable is not set */
    const struct toml_table *options; /* NULL when there are none; passed on unread */
    CONFIG_ARRAY(struct config_model) models;
};

struct config_dependency {
    struct str package;      /* npm name, or pypi:name */
    struct str version;      /* empty: the newest */
    struct config_list docs; /* URLs, directories, "package" */
    struct str secret_env;
    const struct secret *secret; /* NULL when no key is configured or the variable is not set */
    struct config_list hosts;    /* that may be reached; where the secret may be sent */
    struct config_list headers;  /* in which it may be sent; empty: the usual ones */
};

struct config_server {
    struct str listen;
    struct str data_dir; /* empty, as token_file, where there is no home directory */
    struct str token_file;
    struct config_list host_names;
    struct str domain;                                     /* empty: exposed ports have no names */
    struct str tls_cert, tls_key, tls_listen, unix_socket; /* empty: none */
    struct config_list cors_origins;
    enum log_format log_format;
    enum log_level log_level;
    int64_t max_connections, max_connections_per_address;
    int64_t header_timeout_seconds, body_idle_seconds, keep_alive_seconds, drain_seconds;
    int64_t reader_idle_seconds;
};

struct config_sandbox {
    bool enabled; /* false: no snapshot, no packages, no indexing of documents */
    bool is_off;  /* by word: no tools either */
    enum config_tier provider;
    struct str runtime; /* empty: the tier's own */
    enum config_mode mode;
    struct str region;
    int64_t volume_ttl_minutes, volume_capacity_mb;
    int64_t timeout_seconds, memory_mb, idle_seconds;
    enum config_checkpoints checkpoints;
    int64_t checkpoint_count, checkpoint_mb;
    int64_t keep_variables_mb;       /* of one session or sandbox; 0: none are kept */
    int64_t keep_variables_total_mb; /* of all; 0: a part of the machine's memory */
    bool undo_tool;
    CONFIG_ARRAY(struct config_dependency) dependencies;
};

struct config_jail {
    int64_t memory_mb, disk_mb, pids;
    int64_t command_seconds; /* of a foreground command; 0: none */
    double cpus;
    int64_t pool, pool_idle_ms;
    bool zygote, zygote_at_start;
    struct config_list python_packages; /* modules that python3 has from the host */
    struct config_list zygote_imports;  /* empty: json and python_packages */
    int64_t interpreters;               /* that wait, forked from it */
};

/* Of one tenant; 0: no limit. */
struct config_limits {
    int64_t sandboxes, sessions, volumes, snapshots, checkpoints;
    int64_t commands;  /* kept when they are over */
    int64_t approvals; /* that wait for a decision */
};

/* Days after which unused sandboxes are deleted; 0: never. */
struct config_retention {
    int64_t stopped_days, failed_days, paused_days;
};

/* Requests for a person's decision. */
struct config_approvals {
    int64_t expire_hours; /* where the request gives no time of its own */
    int64_t keep_days;    /* of those that ended; 0: no limit */
};

enum config_search_model { CONFIG_SEARCH_MINILM, CONFIG_SEARCH_NONE };
struct config_search {
    enum config_search_model model;
    int64_t threads; /* of the embedder; 0: one for each processor, at most 4 */
    int64_t refresh_hours, retry_seconds;
};

/* What is kept of commands' output. */
struct config_logs {
    int64_t stream_mb, total_mb, keep_hours;
    int64_t stalled_seconds; /* 0: a reader may make its command wait without limit */
};

struct config_isolate {
    int64_t memory_mb, timeout_ms, code_max_chars;
    int64_t console_lines, result_depth, result_items;
};

struct config_egress {
    struct config_list dns_servers; /* ADDRESS:PORT; empty: the system's */
    struct config_list private;     /* HOST=ADDRESS:PORT */
    struct str ca_file;             /* roots that TLS trusts; empty: the system's */
    /* Of one sandbox; 0: no limit. */
    int64_t connections, bytes_per_second, bytes_total;
    int64_t head_seconds, idle_seconds, total_seconds;
    int64_t head_bytes, answer_bytes;
};

/* Where packages come from; empty: what the machine's own installers use. */
struct config_packages {
    struct str npm_registry, pypi_index;
};

/* A key that sandboxes use unseen; egress/keys/secrets.h says how. */
struct config_bound_secret {
    struct str name;
    struct str variable;        /* inside; the name in capitals when none was given */
    struct str from;            /* "env:VARIABLE" or "file:/PATH" */
    const struct secret *value; /* from the environment; NULL when it is not set or in a file */
    struct config_list hosts, headers;
    struct config_list tenants; /* that may give it to their sandboxes; "*": all */
};

/* Directories of this machine that the server gives out as zones; engine/zone.h. */
struct config_zones {
    struct str name;
    struct str root;             /* both zones below it; else: */
    struct str workspace, cache; /* empty: not configured */
    bool read_only;
    struct config_list tenants; /* that may use them; "*": all */
};

struct config_bridges {
    struct str weather_url;
};

struct config_setting;
struct config_secret;

struct config {
    struct str file;          /* as it was named or found; empty without a file */
    struct str default_model; /* "provider/model", empty when not set */
    CONFIG_ARRAY(struct config_provider) providers;
    struct config_server server;
    struct config_sandbox sandbox;
    struct config_jail jail;
    struct config_isolate isolate;
    struct config_limits limits;
    struct config_logs logs;
    struct config_retention retention;
    struct config_approvals approvals;
    struct config_search search;
    struct config_egress egress;
    struct config_packages packages;
    CONFIG_ARRAY(struct config_bound_secret) bound_secrets;
    /* Those of [[sandbox.dependencies]], one for each variable, named CONFIG_OF_DEPENDENCY
     * VARIABLE: every session has them. */
    CONFIG_ARRAY(struct config_bound_secret) dependency_secrets;
    struct config_list warnings; /* what an operator should set right; the server works without */
    CONFIG_ARRAY(struct config_zones) zones;
    struct config_bridges bridges;

    /* The loader's: where each value came from, and what is wiped at the end. */
    struct config_setting *settings, *last_setting;
    struct config_secret *secrets;
    struct arena arena;
};

/* Finds the file: `file` (--config, may be NULL), $SANDGLASS_CONFIG, the XDG configuration
 * directory, /etc/sandglass; without one the defaults hold. A file named by the first two must be
 * there. Takes secrets out of the environment, so a second load does not see them again.
 *
 * INVALID ("FILE:LINE:COLUMN: KEY: what is wrong"), NOT_FOUND, FORBIDDEN or TOO_LARGE. */
int config_load(const char *file, struct config **ret_config, struct err *err) MUST_USE;
struct config *config_free(struct config *config);
DEFINE_FREEP(config)
#define AUTO_CONFIG AUTO(config_freep)

/* NULL when the name is not found. */
const struct config_provider *config_provider(const struct config *config, struct str name);

#define CONFIG_OF_DEPENDENCY "dependency:"
/* Of [secrets.NAME] or of a dependency. */
const struct config_bound_secret *config_bound_secret(const struct config *config, struct str name);
/* The same as the rule that --secret would give. INVALID. */
int config_secret_rule(const struct config_bound_secret *secret, struct secret_rule *ret_rule,
                       struct err *err) MUST_USE;

/* What groups of hosts stand for by this configuration. It points into both. */
void config_group_sources(const struct config *config, struct buf *servers,
                          struct group_sources *ret_sources);

/* "*", or the tenant by name. */
bool config_names_tenant(const struct config_list *tenants, struct str tenant);

/* True when neither the file nor the environment set it. `path` is like "server.token_file". */
bool config_is_default(const struct config *config, const char *path);

/* One info line for the whole, at debug one for each setting. */
void config_log(const struct config *config);

/* For people: TOML that would give the same configuration, with where each value came from. */
void config_put_settings(const struct config *config, struct buf *out);
void config_put_settings_json(const struct config *config, struct buf *out);
/* Every key there is, for people, as JSON Schema 2020-12, and as docs/CONFIG.md. */
void config_put_schema(struct buf *out);
void config_put_schema_json(struct buf *out);
void config_put_docs(struct buf *out);
