/* The specification of a sandbox: checked, and written as JSON for the store. */

#include "engine/sandbox/spec.h"

#include "base/format/json.h"
#include "base/map.h"
#include "config/config.h"
#include "egress/policy/policy.h"
#include "engine/internal.h"
#include "engine/keyring.h"
#include "runtime/packages.h"
#include "runtime/runtimes.h"

enum { DAY_MS = 86400000 };
#define TIMEOUT_MAX_MS ((int64_t)365 * DAY_MS)

#define NET_BYTES_MAX 1000000000000000

int engine_check_name(struct str name, const char *what, struct err *err)
{
    if (name.len > ENGINE_NAME_MAX)
        return err_set(err, ERR_INVALID, "%s: longer than %d bytes", what, ENGINE_NAME_MAX);
    if (!str_is_utf8(name))
        return err_set(err, ERR_INVALID, "%s: not UTF-8", what);
    for (size_t i = 0; i < name.len; i++)
        if ((unsigned char)name.ptr[i] < 0x20 || name.ptr[i] == 0x7f)
            return err_set(err, ERR_INVALID, "%s: contains a control character", what);
    return 0;
}

int spec_check_env(const struct engine_pairs *env, struct err *err)
{
    size_t bytes = 0;
    if (env->len > ENGINE_ENV_MAX)
        return err_set(err, ERR_INVALID, "env: more than %d variables", ENGINE_ENV_MAX);
    for (size_t i = 0; i < env->len; i++) {
        struct str name = env->items[i].name, value = env->items[i].value;
        bool is_bad = name.len == 0 || char_is_digit(name.ptr[0]);
        for (size_t at = 0; at < name.len && !is_bad; at++) {
            char c = name.ptr[at];
            is_bad =
                !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || char_is_digit(c));
        }
        if (is_bad)
            return err_set(err, ERR_INVALID, "env: '%.*s' is not a valid variable name",
                           (int)MIN(name.len, (size_t)64), name.ptr == NULL ? "" : name.ptr);
        if (str_find_char(value, '\0') != value.len || !str_is_utf8(value))
            return err_set(err, ERR_INVALID, "env.%.*s: must be a string", STR_ARG(name));
        bytes += name.len + value.len;
    }
    if (bytes > ENGINE_ENV_BYTES)
        return err_set(err, ERR_TOO_LARGE, "env: more than %d bytes", ENGINE_ENV_BYTES);
    return 0;
}

int spec_check_metadata(const struct engine_pairs *metadata, struct err *err)
{
    size_t bytes = 0;
    for (size_t i = 0; i < metadata->len; i++) {
        struct engine_pair pair = metadata->items[i];
        if (pair.name.len == 0)
            return err_set(err, ERR_INVALID, "metadata: a key is empty");
        if (engine_check_name(pair.name, "metadata: a key", err) < 0)
            return -1;
        if (!str_is_utf8(pair.value) || str_find_char(pair.value, '\0') != pair.value.len)
            return err_set(err, ERR_INVALID, "metadata.%.*s: must be a string", STR_ARG(pair.name));
        for (size_t other = 0; other < i; other++)
            if (str_eq(pair.name, metadata->items[other].name))
                return err_set(err, ERR_INVALID, "metadata: '%.*s' is given twice",
                               STR_ARG(pair.name));
        bytes += pair.name.len + pair.value.len;
    }
    if (metadata->len > 64 || bytes > ENGINE_METADATA_MAX)
        return err_set(err, ERR_TOO_LARGE, "metadata: more than 64 keys or %d bytes",
                       ENGINE_METADATA_MAX);
    return 0;
}

int spec_check_time(int64_t ms, const char *what, struct err *err)
{
    if (ms < -1 || ms > TIMEOUT_MAX_MS)
        return err_set(err, ERR_INVALID, "%s: must be between 1 and %lld ms, or 0 for no limit",
                       what, (long long)TIMEOUT_MAX_MS);
    return 0;
}

int spec_check_limits(const struct sandbox_limits *limits, struct err *err)
{
    static const struct {
        const char *name;
        size_t offset;
        int64_t min, max;
    } rows[] = {
        {"limits.memoryBytes", offsetof(struct sandbox_limits, memory_bytes), MEMORY_MIN_MB << 20,
         1LL << 40},
        {"limits.diskBytes", offsetof(struct sandbox_limits, disk_bytes), 1 << 20, 1LL << 44},
        {"limits.cpuMilli", offsetof(struct sandbox_limits, cpu_milli), 50, 1024000},
        {"limits.pids", offsetof(struct sandbox_limits, pids), 8, 1024},
        {"limits.execMs", offsetof(struct sandbox_limits, exec_ms), -1, TIMEOUT_MAX_MS},
        {"limits.netConnections", offsetof(struct sandbox_limits, net_connections), 1, 1024},
        {"limits.netBytesPerSecond", offsetof(struct sandbox_limits, net_bytes_per_second), 1024,
         NET_BYTES_MAX},
        {"limits.netBytesTotal", offsetof(struct sandbox_limits, net_bytes_total), 1,
         NET_BYTES_MAX},
        {"limits.netIdleMs", offsetof(struct sandbox_limits, net_idle_ms), 100, DAY_MS},
        {"limits.netTotalMs", offsetof(struct sandbox_limits, net_total_ms), 100, DAY_MS},
        {"limits.netHeadBytes", offsetof(struct sandbox_limits, net_head_bytes), 1024, 1 << 20},
        {"limits.netAnswerBytes", offsetof(struct sandbox_limits, net_answer_bytes), 1,
         NET_BYTES_MAX},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        int64_t value = *(const int64_t *)(const void *)((const char *)limits + rows[i].offset);
        if (value != 0 && (value < rows[i].min || value > rows[i].max))
            return err_set(err, ERR_INVALID, "%s: must be between %lld and %lld", rows[i].name,
                           (long long)rows[i].min, (long long)rows[i].max);
    }
    return 0;
}

int spec_policy(const struct engine_caller *caller, struct str text, struct buf *out,
                struct err *err)
{
    AUTO_POLICY struct policy *policy = NULL;
    enum policy_author author = caller->is_operator ? POLICY_BY_OPERATOR : POLICY_BY_USER;
    if (policy_parse(text.len == 0 ? STR("none") : text, author, &policy, err) < 0)
        return err_wrap(err, "network");
    policy_put(policy, out);
    return 0;
}

int spec_check_secrets(const struct engine *engine, const struct engine_caller *caller,
                       const struct sandbox_secrets *secrets, struct str text, struct err *err)
{
    AUTO_POLICY struct policy *policy = NULL;
    if (secrets->len == 0)
        return 0;
    if (policy_parse(text.len == 0 ? STR("none") : text, POLICY_BY_OPERATOR, &policy, err) < 0)
        return err_wrap(err, "network");
    return keyring_check(engine, caller, secrets, policy, err);
}

static int check_requirements(const struct sandbox_spec *spec, enum engine_tier tier,
                              struct err *err)
{
    const char *argv[PACKAGE_ARGS_MAX];
    const struct runtime *runtime = NULL;
    AUTO_ARENA struct arena arena = {0};
    if (spec->requirement_count == 0)
        return 0;
    if (tier != ENGINE_TIER_JAIL || spec->runtime.len == 0)
        return err_set(err, ERR_UNSUPPORTED,
                       "need the tier 'jail' and a runtime that has a package installer");
    if (spec->requirement_count > PACKAGES_MAX)
        return err_set(err, ERR_INVALID, "at most %d", PACKAGES_MAX);
    for (size_t i = 0; i < spec->requirement_count; i++)
        if (package_check(spec->requirements[i], err) < 0)
            return -1;
    if (runtime_find(spec->runtime, &runtime, err) < 0)
        return -1;
    return package_command(runtime, spec->requirements, spec->requirement_count, &arena, argv, err);
}

int spec_check(struct engine *engine, const struct engine_caller *caller,
               const struct sandbox_spec *spec, struct err *err)
{
    AUTO_BUF struct buf policy = {0};
    enum engine_tier tier = spec_tier(engine, spec->tier);
    const struct provider_table *table = engine_table(engine, tier);
    const struct runtime *runtime = NULL;
    if (spec->runtime.len > 0 && tier == ENGINE_TIER_JAIL) {
        if (runtime_find(spec->runtime, &runtime, err) < 0)
            return err_wrap(err, "runtime");
    } else if (spec->runtime.len > 0 && !str_eq(spec->runtime, str_of(table->runtime)))
        return err_set(err, ERR_UNSUPPORTED,
                       "runtime: the tier '%s' supports only the runtime '%s', not '%.*s'",
                       table->name, table->runtime, (int)MIN(spec->runtime.len, (size_t)32),
                       spec->runtime.ptr);
    if (spec->checkpoints == SANDBOX_CHECKPOINTS_TURN && table->mark == NULL)
        return err_set(err, ERR_UNSUPPORTED,
                       "checkpoints: \"turn\" needs files in /workspace; the tier '%s' has %s",
                       table->name, table->files == NULL ? "none" : "no archives");
    if (spec->snapshot_count > SNAPSHOT_STACK_MAX)
        return err_set(err, ERR_INVALID, "snapshots: at most %d", SNAPSHOT_STACK_MAX);
    if (check_requirements(spec, tier, err) < 0)
        return err_wrap(err, "requirements");
    return engine_check_name(spec->name, "name", err) < 0 || spec_check_env(&spec->env, err) < 0 ||
                   spec_check_metadata(&spec->metadata, err) < 0 ||
                   spec_check_limits(&spec->limits, err) < 0 ||
                   spec_check_time(spec->timeout_ms, "timeoutMs", err) < 0 ||
                   spec_check_time(spec->idle_ms, "idleMs", err) < 0 ||
                   spec_policy(caller, spec->network, &policy, err) < 0 ||
                   spec_check_secrets(engine, caller, &spec->secrets, spec->network, err) < 0
               ? -1
               : 0;
}

bool spec_has_turns(const struct engine *engine, const struct sandbox_spec *spec,
                    enum engine_tier tier)
{
    return engine_table(engine, tier)->mark != NULL &&
           (spec->checkpoints == SANDBOX_CHECKPOINTS_TURN ||
            (spec->checkpoints == SANDBOX_CHECKPOINTS_DEFAULT &&
             engine->config->sandbox.checkpoints == CONFIG_CHECKPOINTS_TURN));
}

void spec_fill_limits(const struct config *config, enum engine_tier tier,
                      struct sandbox_limits *limits)
{
    bool is_isolate = tier == ENGINE_TIER_ISOLATE;
    if (limits->memory_bytes == 0)
        limits->memory_bytes = (is_isolate ? config->isolate.memory_mb : config->jail.memory_mb)
                               << 20;
    if (limits->cpu_milli == 0)
        limits->cpu_milli = (int64_t)(config->jail.cpus * 1000);
    if (limits->pids == 0)
        limits->pids = config->jail.pids;
    if (limits->disk_bytes == 0)
        limits->disk_bytes = config->jail.disk_mb << 20;
}

enum engine_tier spec_tier(const struct engine *engine, enum engine_tier tier)
{
    static const enum engine_tier of_config[] = {
        [CONFIG_TIER_JAIL] = ENGINE_TIER_JAIL,
        [CONFIG_TIER_ISOLATE] = ENGINE_TIER_ISOLATE,
        [CONFIG_TIER_MEMORY] = ENGINE_TIER_MEMORY,
        [CONFIG_TIER_DENO] = ENGINE_TIER_JAIL,
    };
    return tier != ENGINE_TIER_DEFAULT ? tier : of_config[engine->config->sandbox.provider];
}

const struct str *spec_dup_texts(const struct str *texts, size_t count, struct arena *arena)
{
    struct str *items = arena_array(arena, struct str, count + 1);
    for (size_t i = 0; i < count; i++)
        items[i] = arena_dup(arena, texts[i]);
    return items;
}

/* --- Lists of pairs --- */

struct engine_pairs pairs_dup(const struct engine_pairs *pairs, struct arena *arena)
{
    struct engine_pair *items = arena_array(arena, struct engine_pair, pairs->len + 1);
    for (size_t i = 0; i < pairs->len; i++)
        items[i] = (struct engine_pair){arena_dup(arena, pairs->items[i].name),
                                        arena_dup(arena, pairs->items[i].value)};
    return (struct engine_pairs){items, pairs->len};
}

void pairs_put_json(const struct engine_pairs *pairs, struct json_out *out)
{
    json_begin_object(out);
    for (size_t i = 0; i < pairs->len; i++)
        json_key_str(out, pairs->items[i].name), json_put_str(out, pairs->items[i].value);
    json_end_object(out);
}

int pairs_read_json(struct json_t *object, struct arena *arena, struct engine_pairs *ret_pairs,
                    struct err *err)
{
    struct engine_pair *items = arena_array(arena, struct engine_pair, json_len(object) + 1);
    void *iter = NULL;
    struct str key, text;
    struct json_t *value;
    size_t count = 0;
    while (object != NULL && json_next(object, &iter, &key, &value)) {
        if (!json_to_str(value, &text))
            return err_set(err, ERR_INTERNAL, "store: '%.*s' is not a string", STR_ARG(key));
        items[count++] = (struct engine_pair){arena_dup(arena, key), arena_dup(arena, text)};
    }
    *ret_pairs = (struct engine_pairs){items, count};
    return 0;
}

/* --- As JSON --- */

#define INT_KEYS(X)                                                                                \
    X("memoryBytes", limits.memory_bytes)                                                          \
    X("diskBytes", limits.disk_bytes)                                                              \
    X("cpuMilli", limits.cpu_milli)                                                                \
    X("pids", limits.pids)                                                                         \
    X("netConnections", limits.net_connections)                                                    \
    X("netBytesPerSecond", limits.net_bytes_per_second)                                            \
    X("netBytesTotal", limits.net_bytes_total)                                                     \
    X("netIdleMs", limits.net_idle_ms)                                                             \
    X("netTotalMs", limits.net_total_ms)                                                           \
    X("netHeadBytes", limits.net_head_bytes)                                                       \
    X("netAnswerBytes", limits.net_answer_bytes)                                                   \
    X("execMs", limits.exec_ms)                                                                    \
    X("timeoutMs", timeout_ms)                                                                     \
    X("idleMs", idle_ms)

static void put_ports(const struct sandbox_spec *spec, struct json_out *out)
{
    if (spec->port_count == 0)
        return;
    json_key(out, "ports");
    json_begin_array(out);
    for (size_t i = 0; i < spec->port_count; i++) {
        const struct sandbox_port *port = &spec->ports[i];
        json_begin_object(out);
        json_key(out, "port"), json_put_i64(out, port->port);
        json_key(out, "public"), json_put_bool(out, port->is_public);
        json_key(out, "key"), json_put_cstr(out, port->key);
        json_key(out, "createdMs"), json_put_i64(out, port->created_ms);
        json_end_object(out);
    }
    json_end_array(out);
}

static void put_bases(const struct sandbox_spec *spec, struct json_out *out)
{
    if (spec->base_count == 0)
        return;
    json_key(out, "bases");
    json_begin_array(out);
    for (size_t i = 0; i < spec->base_count; i++) {
        json_begin_object(out);
        json_key(out, "id"), json_put_cstr(out, spec->bases[i].id);
        json_key(out, "bytes"), json_put_i64(out, spec->bases[i].bytes);
        json_end_object(out);
    }
    json_end_array(out);
}

void spec_put_json(const struct sandbox_spec *spec, struct json_out *out)
{
    json_begin_object(out);
    json_key(out, "tier"), json_put_cstr(out, engine_tier_name(spec->tier));
    json_key(out, "runtime"), json_put_str(out, spec->runtime);
    json_key(out, "name"), json_put_str(out, spec->name);
    json_key(out, "network"), json_put_str(out, spec->network);
    json_key(out, "kills"), json_put_bool(out, spec->on_timeout == SANDBOX_KILL_AT_TIMEOUT);
    if (spec->checkpoints != SANDBOX_CHECKPOINTS_DEFAULT)
        json_key(out, "turns"), json_put_bool(out, spec->checkpoints == SANDBOX_CHECKPOINTS_TURN);
#define X(key, field) json_key(out, key), json_put_i64(out, spec->field);
    INT_KEYS(X)
#undef X
    json_key(out, "env"), pairs_put_json(&spec->env, out);
    json_key(out, "metadata"), pairs_put_json(&spec->metadata, out);
    if (spec->secrets.len > 0)
        json_key(out, "secrets"), keyring_put_json(&spec->secrets, out);
    json_key(out, "snapshots"), json_put_texts(out, spec->snapshots, spec->snapshot_count);
    if (spec->requirement_count > 0)
        json_key(out, "requirements"),
            json_put_texts(out, spec->requirements, spec->requirement_count);
    put_ports(spec, out);
    put_bases(spec, out);
    json_end_object(out);
}

static struct str text_of(const struct json_t *object, const char *key, struct arena *arena)
{
    struct str text = {0};
    return json_to_str(json_get(object, key), &text) ? arena_dup(arena, text) : (struct str){0};
}

static int64_t number_of(const struct json_t *object, const char *key)
{
    int64_t number = 0;
    return json_to_i64(json_get(object, key), &number) ? number : 0;
}

static const struct str *read_texts(const struct json_t *list, struct arena *arena,
                                    size_t *ret_count)
{
    size_t most = list == NULL ? 0 : json_len(list), count = 0;
    struct str *items = arena_array(arena, struct str, most + 1);
    for (size_t i = 0; i < most; i++)
        if (json_to_str(json_at(list, i), &items[count])) {
            items[count] = arena_dup(arena, items[count]);
            count++;
        }
    *ret_count = count;
    return items;
}

static void read_ports(const struct json_t *list, struct arena *arena, struct sandbox_spec *spec)
{
    size_t count = list == NULL ? 0 : json_len(list);
    struct sandbox_port *ports = arena_array(arena, struct sandbox_port, count + 1);
    for (size_t i = 0; i < count; i++) {
        const struct json_t *item = json_at(list, i);
        struct sandbox_port *port = &ports[spec->port_count];
        struct str key = {0};
        int64_t number = number_of(item, "port");
        if (number < 1 || number > UINT16_MAX || !json_to_str(json_get(item, "key"), &key))
            continue;
        *port = (struct sandbox_port){.port = (uint16_t)number,
                                      .created_ms = number_of(item, "createdMs")};
        (void)!json_to_bool(json_get(item, "public"), &port->is_public);
        (void)snprintf(port->key, sizeof port->key, "%.*s", STR_ARG(key));
        spec->port_count++;
    }
    spec->ports = ports;
}

static void read_bases(const struct json_t *list, struct arena *arena, struct sandbox_spec *spec)
{
    size_t count = list == NULL ? 0 : json_len(list);
    struct sandbox_base *bases = arena_array(arena, struct sandbox_base, count + 1);
    for (size_t i = 0; i < count; i++) {
        const struct json_t *item = json_at(list, i);
        struct sandbox_base *base = &bases[spec->base_count++];
        (void)snprintf(base->id, sizeof base->id, "%.*s", STR_ARG(text_of(item, "id", arena)));
        base->bytes = number_of(item, "bytes");
    }
    spec->bases = bases;
}

int spec_read_json(struct str text, struct arena *arena, struct sandbox_spec *ret_spec,
                   struct err *err)
{
    AUTO_JSON struct json_t *object = NULL;
    struct sandbox_spec spec = {0};
    bool kills = false, has_turns = false;
    if (json_parse(text, &object, err) < 0)
        return err_wrap(err, "store: settings of a sandbox");
    if (!engine_tier_of_name(text_of(object, "tier", arena), &spec.tier))
        spec.tier = ENGINE_TIER_DEFAULT;
    spec.runtime = text_of(object, "runtime", arena);
    spec.name = text_of(object, "name", arena);
    spec.network = text_of(object, "network", arena);
    if (json_to_bool(json_get(object, "kills"), &kills) && kills)
        spec.on_timeout = SANDBOX_KILL_AT_TIMEOUT;
    if (json_to_bool(json_get(object, "turns"), &has_turns))
        spec.checkpoints = has_turns ? SANDBOX_CHECKPOINTS_TURN : SANDBOX_CHECKPOINTS_MANUAL;
#define X(key, field) spec.field = number_of(object, key);
    INT_KEYS(X)
#undef X
    if (pairs_read_json(json_get(object, "env"), arena, &spec.env, err) < 0 ||
        pairs_read_json(json_get(object, "metadata"), arena, &spec.metadata, err) < 0 ||
        keyring_read_json(json_get(object, "secrets"), arena, &spec.secrets, err) < 0)
        return -1;
    spec.snapshots = read_texts(json_get(object, "snapshots"), arena, &spec.snapshot_count);
    spec.requirements =
        read_texts(json_get(object, "requirements"), arena, &spec.requirement_count);
    read_ports(json_get(object, "ports"), arena, &spec);
    read_bases(json_get(object, "bases"), arena, &spec);
    *ret_spec = spec;
    return 0;
}
