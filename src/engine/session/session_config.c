/* What the configuration gives to the sandbox of a session: its memory, the packages of
 * [[sandbox.dependencies]], their keys and their hosts.
 *
 * It is looked up whenever a sandbox is made, so that a session which was made before the server
 * was restarted with another configuration has what that one says. What the session asks for itself
 * wins: its memory, secrets of the same name, and a network of "none". */

#include "base/log.h"
#include "base/map.h"
#include "config/config.h"
#include "egress/keys/opened.h"
#include "egress/keys/secrets.h"
#include "egress/policy/policy.h"
#include "engine/internal.h"
#include "engine/sandbox/spec.h"
#include "engine/session/session_internal.h"
#include "runtime/runtimes.h"

enum { ISOLATE_MEMORY_MAX_MB = 2048, ISOLATE_PACKAGES_MB = 128 };

/* --- Packages --- */

static void add_packages(const struct engine *engine, struct arena *arena,
                         struct sandbox_spec *spec)
{
    const struct engine_dependencies *built = &engine->dependencies;
    if (spec->tier != ENGINE_TIER_JAIL || built->slug[0] == '\0' ||
        strcmp(built->state, "ready") != 0)
        return;
    struct str *list = arena_array(arena, struct str, spec->snapshot_count + 1);
    list[0] = arena_dup(arena, str_of(built->slug));
    for (size_t i = 0; i < spec->snapshot_count; i++) {
        if (str_eq(spec->snapshots[i], list[0]))
            return;
        list[i + 1] = spec->snapshots[i];
    }
    spec->snapshots = list;
    spec->snapshot_count++;
}

/* --- Hosts --- */

static void put_hosts(const struct config_sandbox *config, struct buf *out)
{
    for (size_t i = 0; i < config->dependencies.len; i++) {
        const struct config_list *hosts = &config->dependencies.items[i].hosts;
        for (size_t k = 0; k < hosts->len; k++)
            buf_printf(out, "%s%.*s", out->len > 0 ? ", " : "", STR_ARG(hosts->items[k]));
    }
}

/* 1 when the dependencies' hosts were added, 0 when the session wants no network or there are none.
 */
static int add_hosts(const struct config *config, struct arena *arena, struct sandbox_spec *spec,
                     struct err *err)
{
    AUTO_BUF struct buf hosts = {0}, text = {0};
    AUTO_POLICY struct policy *own = NULL;
    put_hosts(&config->sandbox, &hosts);
    if (spec->network.len > 0 && policy_parse(spec->network, POLICY_BY_OPERATOR, &own, err) < 0)
        return err_wrap(err, "network");
    if (hosts.len == 0 || (own != NULL && own->mode == POLICY_NONE))
        return 0;
    if (own != NULL)
        policy_put(own, &text);
    if (own != NULL && own->mode == POLICY_PUBLIC)
        buf_printf(&text, "; allow %s", buf_cstr(&hosts));
    else if (own != NULL) {
        spec->network = arena_printf(arena, "allow %s; %s", buf_cstr(&hosts), buf_cstr(&text));
        return 1;
    } else {
        buf_printf(&text, "allow %s", buf_cstr(&hosts));
    }
    spec->network = arena_dup(arena, buf_str(&text));
    return 1;
}

/* --- Keys --- */

static bool has_secret(const struct sandbox_secrets *secrets, struct str name)
{
    for (size_t i = 0; i < secrets->len; i++)
        if (str_eq(secrets->items[i].name, name))
            return true;
    return false;
}

/* A session whose network denies a key's host goes without that key. */
static bool can_be_sent(const struct config_bound_secret *bound, const struct policy *policy)
{
    struct secret_rule rule;
    struct err err = {0};
    return config_secret_rule(bound, &rule, &err) == 0 &&
           opened_check_rule(&rule, policy, "", &err) == 0;
}

static int add_secrets(const struct config *config, struct arena *arena, struct sandbox_spec *spec,
                       struct err *err)
{
    AUTO_POLICY struct policy *policy = NULL;
    size_t most = spec->secrets.len + config->dependency_secrets.len, count = 0;
    struct sandbox_secret *list = arena_array(arena, struct sandbox_secret, most + 1);
    if (policy_parse(spec->network, POLICY_BY_OPERATOR, &policy, err) < 0)
        return err_wrap(err, "network");
    for (; count < spec->secrets.len; count++)
        list[count] = spec->secrets.items[count];
    for (size_t i = 0; i < config->dependency_secrets.len; i++) {
        const struct config_bound_secret *bound = &config->dependency_secrets.items[i];
        if (!has_secret(&spec->secrets, bound->variable) && can_be_sent(bound, policy))
            list[count++] = (struct sandbox_secret){.config = bound->name};
    }
    spec->secrets = (struct sandbox_secrets){list, count};
    return 0;
}

/* --- All of it --- */

/* An isolate's own default is far smaller than a jail's, and too small for most packages. */
int64_t session_memory(const struct engine *engine, enum engine_tier tier)
{
    const struct config *config = engine->config;
    int64_t mb = config->sandbox.memory_mb;
    if (tier == ENGINE_TIER_ISOLATE && !config_is_default(config, "sandbox.memory_mb"))
        mb = MIN(mb, ISOLATE_MEMORY_MAX_MB);
    else if (tier == ENGINE_TIER_ISOLATE)
        mb = MAX(config->isolate.memory_mb,
                 config->sandbox.dependencies.len > 0 ? ISOLATE_PACKAGES_MB : 0);
    return mb << 20;
}

struct str session_runtime(const struct engine *engine, const struct sandbox_spec *spec)
{
    const struct config_sandbox *config = &engine->config->sandbox;
    if (spec->runtime.len > 0 || spec_tier(engine, spec->tier) != ENGINE_TIER_JAIL)
        return spec->runtime;
    return config->runtime.len > 0                ? config->runtime
           : config->provider == CONFIG_TIER_DENO ? STR("deno")
                                                  : (struct str){0};
}

int session_fill_spec(const struct session *session, struct arena *arena, struct sandbox_spec *spec,
                      struct err *err)
{
    const struct config *config = session->engine->config;
    if (spec->limits.memory_bytes == 0)
        spec->limits.memory_bytes = session_memory(session->engine, spec->tier);
    if (!config->sandbox.enabled)
        return 0;
    add_packages(session->engine, arena, spec);
    int has_hosts = add_hosts(config, arena, spec, err);
    return has_hosts > 0 ? add_secrets(config, arena, spec, err) : has_hosts;
}

/* --- For the operator --- */

void engine_each_warning(const struct engine *engine, void (*call)(void *ctx, struct str text),
                         void *ctx)
{
    const struct config *config = engine->config;
    const struct runtime *runtime = NULL;
    struct sandbox_spec spec = {0};
    struct err err = {0};
    for (size_t i = 0; i < config->warnings.len; i++)
        call(ctx, config->warnings.items[i]);
    struct str name = session_runtime(engine, &spec);
    if (name.len > 0 && runtime_find(name, &runtime, &err) < 0) {
        (void)err_wrap(&err, "sandbox.%s",
                       config->sandbox.runtime.len > 0 ? "runtime" : "provider");
        call(ctx, str_of(err.msg));
    }
    session_each_missing(engine, call, ctx);
}
