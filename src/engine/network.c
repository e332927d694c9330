#include "engine/network.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "config/config.h"
#include "egress/keys/authority.h"
#include "egress/keys/opened.h"
#include "egress/keys/secrets.h"
#include "egress/net/effective.h"
#include "egress/policy/settings.h"
#include "engine/feed_internal.h"
#include "engine/internal.h"
#include "engine/sandbox/sandbox_internal.h"
#include "io/pool.h"
#include "store/store.h"

enum {
    GROUPS_FRESH_MS = 60000,
    BLOCKED_MAX = 256, /* hosts of one sandbox and policy that are reported */
};

/* --- Groups --- */

struct groups {
    struct engine *engine;
    struct group_hosts hosts[GROUP_COUNT];
    struct err errs[GROUP_COUNT];
    bool is_known;
    int64_t known_ms;
    struct looking *looking;   /* under way */
    struct groups_want *wants; /* who wait for it */
};

struct looking {
    struct job job;
    struct groups *groups; /* NULL: no caller waits any more */
    struct group_sources sources;
    struct buf servers; /* that they point to */
    struct group_hosts hosts[GROUP_COUNT];
    struct err errs[GROUP_COUNT];
};

static void run_look(struct job *job)
{
    struct looking *looking = (struct looking *)job;
    for (size_t i = 0; i < GROUP_COUNT; i++)
        if (group_expand(str_of(group_name(i)), &looking->sources, &looking->hosts[i],
                         &looking->errs[i]) == 0)
            looking->errs[i] = (struct err){0};
}

static void drop_hosts(struct group_hosts hosts[GROUP_COUNT])
{
    for (size_t i = 0; i < GROUP_COUNT; i++)
        group_hosts_done(&hosts[i]);
}

static void call_wants(struct groups *groups)
{
    struct groups_want *next = groups->wants;
    groups->wants = NULL;
    while (next != NULL) {
        struct groups_want *want = next;
        next = want->next;
        want->call(want);
    }
}

static void look_done(struct job *job, bool canceled)
{
    struct looking *looking = (struct looking *)job;
    struct groups *groups = looking->groups;
    if (groups != NULL) {
        groups->looking = NULL;
        groups->known_ms = clock_now_ms();
    }
    if (groups != NULL && !canceled) {
        groups->is_known = true;
        drop_hosts(groups->hosts);
        memcpy(groups->hosts, looking->hosts, sizeof groups->hosts);
        memcpy(groups->errs, looking->errs, sizeof groups->errs);
    } else {
        drop_hosts(looking->hosts);
    }
    buf_done(&looking->servers);
    free(looking);
    if (groups != NULL)
        call_wants(groups);
}

static void look_up(struct groups *groups)
{
    struct err err = {0};
    if (groups->looking != NULL)
        return;
    struct looking *looking = mem_alloc(sizeof *looking);
    looking->job = (struct job){.run = run_look, .done = look_done};
    looking->groups = groups;
    config_group_sources(groups->engine->config, &looking->servers, &looking->sources);
    groups->looking = looking;
    if (pool_submit(groups->engine->pool, &looking->job, &err) < 0)
        look_done(&looking->job, true); /* the next caller tries again */
}

struct groups *network_groups_new(struct engine *engine)
{
    struct groups *groups = mem_alloc(sizeof *groups);
    groups->engine = engine;
    return groups;
}

struct groups *network_groups_free(struct groups *groups)
{
    if (groups == NULL)
        return NULL;
    if (groups->looking != NULL)
        groups->looking->groups = NULL;
    call_wants(groups);
    drop_hosts(groups->hosts);
    free(groups);
    return NULL;
}

static unsigned groups_of(struct str text)
{
    AUTO_POLICY struct policy *policy = NULL;
    struct err err = {0};
    return text.len == 0 || policy_parse(text, POLICY_BY_OPERATOR, &policy, &err) < 0
               ? 0
               : policy_groups(policy);
}

/* Asking is what starts it: a server whose sandboxes name no groups looks nothing up. */
bool network_waits(const struct engine *engine, struct str policy)
{
    struct groups *groups = engine->groups;
    if (groups->is_known || groups_of(policy) == 0)
        return false;
    look_up(groups);
    return groups->looking != NULL;
}

void network_wait(struct engine *engine, struct groups_want *want)
{
    assert(engine->groups->looking != NULL);
    want->next = engine->groups->wants;
    engine->groups->wants = want;
}

static int use_groups(struct engine *engine, unsigned named, struct effective_sources *sources,
                      struct buf *settings, struct err *err)
{
    struct groups *groups = engine->groups;
    if (named == 0)
        return 0;
    if (!groups->is_known || clock_now_ms() - groups->known_ms > GROUPS_FRESH_MS)
        look_up(groups);
    if (!groups->is_known)
        return err_set(err, ERR_BUSY, "the hosts of its groups are being resolved; try again");
    for (size_t i = 0; i < GROUP_COUNT; i++) {
        if ((named & 1U << i) == 0)
            continue;
        if (groups->errs[i].code != ERR_NONE) {
            *err = groups->errs[i];
            return err_wrap(err, "network: group '%s'", group_name(i));
        }
        sources->groups[i] = &groups->hosts[i];
        buf_put(settings, buf_str(&groups->hosts[i].settings));
    }
    return 0;
}

/* --- Making one --- */

static int make_policy(struct engine *engine, struct str text, struct network *network,
                       struct err *err)
{
    const struct config_list *private = &engine->config->egress.private;
    struct effective_sources sources = {.private = private->items, .private_count = private->len};
    AUTO_POLICY struct policy *written = NULL;
    if (policy_parse(text.len == 0 ? STR("none") : text, POLICY_BY_OPERATOR, &written, err) < 0 ||
        use_groups(engine, policy_groups(written), &sources, &network->settings, err) < 0)
        return -1;
    return policy_effective(written, &sources, &network->policy, err);
}

static bool is_same_keys(const struct secrets *a, const struct secrets *b)
{
    if (secrets_count(a) != secrets_count(b))
        return false;
    for (size_t i = 0; i < secrets_count(a); i++) {
        const struct secret_rule *one = &secrets_at(a, i)->rule, *other = &secrets_at(b, i)->rule;
        bool is_same = one->place_count == other->place_count;
        for (size_t k = 0; is_same && k < one->place_count; k++)
            is_same = one->places[k].port == other->places[k].port &&
                      str_eq(host_str(&one->places[k].host), host_str(&other->places[k].host));
        if (!is_same)
            return false;
    }
    return true;
}

/* The sandbox trusts an authority by its file: a new one is made only where other hosts are opened.
 */
static void make_authority(struct network *network, struct network *before)
{
    if (!opened_any(network->policy, network->secrets))
        return;
    bool fits = before != NULL && before->authority != NULL && !opened_any(network->policy, NULL) &&
                !opened_any(before->policy, NULL) &&
                is_same_keys(before->secrets, network->secrets);
    if (fits) {
        network->authority_of =
            network_ref(before->authority_of != NULL ? before->authority_of : before);
        network->authority = before->authority;
    } else {
        network->authority = opened_authority(network->policy, network->secrets);
    }
}

static void fill_limits(const struct engine *engine, const struct sandbox_limits *limits,
                        struct egress_proxy_limits *out)
{
    const struct config_egress *egress = &engine->config->egress;
#define PICK(own, fallback) ((own) != 0 ? (own) : (fallback))
    *out = (struct egress_proxy_limits){
        .connections = PICK(limits->net_connections, egress->connections),
        .bytes_per_second = PICK(limits->net_bytes_per_second, egress->bytes_per_second),
        .bytes_total = PICK(limits->net_bytes_total, egress->bytes_total),
        .head_ms = egress->head_seconds * 1000,
        .idle_ms = PICK(limits->net_idle_ms, egress->idle_seconds * 1000),
        .total_ms = PICK(limits->net_total_ms, egress->total_seconds * 1000),
        .head_bytes = PICK(limits->net_head_bytes, egress->head_bytes),
        .answer_bytes = PICK(limits->net_answer_bytes, egress->answer_bytes),
    };
#undef PICK
}

static int make_secrets(struct engine *engine, const struct network_spec *spec,
                        struct network *network, struct network *before, struct err *err)
{
    if (spec->secrets == NULL) {
        if (before == NULL || before->secrets == NULL)
            return 0;
        network->secrets_of = network_ref(before->secrets_of != NULL ? before->secrets_of : before);
        network->secrets = before->secrets;
        return 0;
    }
    if (keyring_open(engine, spec->tenant, spec->secrets, &network->secrets, err) < 0)
        return -1;
    if (network->secrets != NULL && before != NULL)
        secrets_keep_placeholders(network->secrets, before->secrets);
    return 0;
}

int network_new(struct engine *engine, const struct network_spec *spec, struct network *before,
                struct network **ret_network, struct err *err)
{
    static const struct sandbox_limits none;
    AUTO_NETWORK struct network *network = mem_alloc(sizeof *network);
    network->refs = 1;
    if (make_policy(engine, spec->policy, network, err) < 0 ||
        make_secrets(engine, spec, network, before, err) < 0)
        return -1;
    if (!network_is_offline(network))
        make_authority(network, before);
    fill_limits(engine, spec->limits == NULL ? &none : spec->limits, &network->limits);
    *ret_network = network;
    network = NULL;
    return 0;
}

struct network *network_ref(struct network *network)
{
    network->refs++;
    return network;
}

struct network *network_free(struct network *network)
{
    if (network == NULL || --network->refs > 0)
        return NULL;
    if (network->authority_of == NULL)
        (void)authority_free(network->authority);
    if (network->secrets_of == NULL)
        (void)secrets_free(network->secrets);
    (void)network_free(network->authority_of);
    (void)network_free(network->secrets_of);
    (void)policy_free(network->policy);
    buf_done(&network->settings);
    free(network);
    return NULL;
}

/* --- Variables --- */

static void put_lines(const struct network *network, bool in_jail, struct buf *out)
{
    if (in_jail && network_is_offline(network)) {
        settings_put(SETTINGS_PROXY_PORT, NULL, out); /* the proxy reports: no network */
    } else if (in_jail) {
        const char *roots = network->authority != NULL            ? NETWORK_CA_FILE
                            : access(SETTINGS_CA_FILE, R_OK) == 0 ? SETTINGS_CA_FILE
                                                                  : NULL;
        settings_put(SETTINGS_PROXY_PORT, roots, out);
        buf_put(out, buf_str(&network->settings));
    }
    secrets_put_env(network->secrets, out);
}

struct engine_pairs network_env(const struct network *network, bool in_jail, struct arena *arena)
{
    AUTO_BUF struct buf lines = {0};
    size_t most = 1;
    put_lines(network, in_jail, &lines);
    for (size_t i = 0; i < lines.len; i++)
        most += lines.ptr[i] == '\n';
    struct engine_pair *items = arena_array(arena, struct engine_pair, most);
    struct engine_pairs pairs = {.items = items};
    struct str rest = buf_str(&lines), line;
    while (str_split(&rest, '\n', &line)) {
        size_t equals = str_find_char(line, '=');
        if (equals == line.len)
            continue;
        items[pairs.len].name = arena_dup(arena, str_slice(line, 0, equals));
        items[pairs.len++].value = arena_dup(arena, str_slice(line, equals + 1, line.len));
    }
    return pairs;
}

/* --- News --- */

void network_moved(struct engine *engine, struct str id, int64_t bytes)
{
    struct sandbox *sandbox = map_get(&engine->sandboxes, id);
    if (sandbox != NULL)
        sandbox->net_moved += bytes;
    engine->figures.net_bytes += (uint64_t)MAX(bytes, (int64_t)0);
}

/* "blocked HOST:PORT: why" says who refused, for those who do not know this gate. */
static void put_detail(const char *host, uint16_t port, const char *text, struct buf *out)
{
    AUTO_BUF struct buf head = {0};
    buf_printf(&head, "blocked %s:%d: ", host, port);
    bool has_why = str_starts(str_of(text), buf_str(&head));
    if (port == 0)
        buf_printf(out, "blocked %s by policy", host);
    else
        buf_printf(out, "blocked %s:%d by policy", host, port);
    if (has_why)
        buf_printf(out, ": %s", text + head.len);
}

/* Whether this one is new. A sandbox that tries every name there is gets one last word. */
static bool is_new_block(struct sandbox *sandbox, const char *host, uint16_t port,
                         const char *reason, bool *ret_is_last)
{
    AUTO_BUF struct buf key = {0};
    buf_printf(&key, "%s:%d %s", host, port, reason);
    if (sandbox->blocked.len > BLOCKED_MAX || map_has(&sandbox->blocked, buf_str(&key)))
        return false;
    (void)map_put(&sandbox->blocked, buf_str(&key), sandbox);
    *ret_is_last = sandbox->blocked.len > BLOCKED_MAX;
    return true;
}

void network_blocked(struct engine *engine, struct str id, const char *channel, const char *host,
                     uint16_t port, const char *reason, const char *text)
{
    AUTO_BUF struct buf detail = {0};
    struct sandbox *sandbox = map_get(&engine->sandboxes, id);
    bool is_last = false;
    if (sandbox == NULL || !is_new_block(sandbox, host, port, reason, &is_last))
        return;
    bool is_unresolved = strcmp(reason, verdict_reason_name(VERDICT_NOT_RESOLVED)) == 0;
    if (is_last)
        buf_put_cstr(&detail, "more hosts could not be reached; they are not reported");
    else if (is_unresolved)
        buf_put_cstr(&detail, text);
    else
        put_detail(host, port, text, &detail);
    log_info(is_unresolved ? "network.unresolved" : "network.blocked", LOG_VIEW("sandbox", id),
             LOG_VIEW("detail", buf_str(&detail)), LOG_STR("reason", reason),
             LOG_STR("channel", channel));
    struct store_batch *batch = store_begin(engine->store);
    feed_publish(engine, batch, is_unresolved ? EVENT_NETWORK_UNRESOLVED : EVENT_NETWORK_BLOCKED,
                 sandbox->info.tenant, sandbox->info.id, sandbox->info.id, reason,
                 buf_cstr(&detail));
    store_commit(batch, STORE_QUICK, NULL, NULL);
}
