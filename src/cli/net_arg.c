#include "cli/net_arg.h"

#include "base/buf.h"
#include "base/crypto/secret.h"
#include "base/err.h"
#include "base/format/json.h"
#include "cli/policy_arg.h"
#include "config/config.h"
#include "egress/keys/secrets.h"
#include "runtime/memory_end.h"

int cli_read_size(const char *option, const char *text, int64_t *ret_bytes, struct err *err)
{
    struct str s = str_of(text);
    static const char units[] = "kmgt";
    int shift = 0;
    int64_t n;
    if (str_to_i64(s, 0, INT64_MAX, &n))
        return err_set(err, ERR_INVALID, "--%s '%s' has no unit: write %sm or %sg, for example",
                       option, text, text, text);
    if (s.len > 1 && (s.ptr[s.len - 1] == 'b' || s.ptr[s.len - 1] == 'B'))
        s.len--;
    const char *unit = s.len == 0 ? NULL : strchr(units, s.ptr[s.len - 1] | 0x20);
    if (unit != NULL && *unit != '\0') {
        shift = 10 * (int)(unit - units + 1);
        s.len--;
    }
    if (!str_to_i64(s, 1, INT64_MAX >> shift, &n))
        return err_set(err, ERR_INVALID, "--%s '%s' is not a size like 512m or 2g", option, text);
    *ret_bytes = n << shift;
    return 0;
}

int cli_read_memory(const char *text, bool may_be_none, int64_t *ret_bytes, struct err *err)
{
    int64_t bytes = -1;
    bool is_none = may_be_none && strcmp(text, "none") == 0;
    if (!is_none && cli_read_size("memory", text, &bytes, err) < 0)
        return -1;
    if (!is_none && bytes < MEMORY_MIN_MB << 20)
        return err_set(err, ERR_INVALID, "--memory '%s' is too small: the minimum is %dm", text,
                       MEMORY_MIN_MB);
    *ret_bytes = bytes;
    return 0;
}

/* The number of milliseconds that a text with a unit stands for. */
static bool read_ms(struct str text, double *ret_ms)
{
    static const struct {
        const char *unit;
        double ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    double n;
    for (size_t i = 0; i < countof(units); i++) {
        struct str unit = str_of(units[i].unit);
        if (str_ends(text, unit) && str_to_f64(str_slice(text, 0, text.len - unit.len), &n)) {
            *ret_ms = n * units[i].ms;
            return true;
        }
    }
    return false;
}

int cli_read_time(const char *option, const char *text, int64_t *ret_ms, struct err *err)
{
    double ms;
    if (str_to_f64(str_of(text), &ms))
        return err_set(err, ERR_INVALID, "--%s '%s' has no unit: write %ss or %sm, for example",
                       option, text, text, text);
    if (!read_ms(str_of(text), &ms) || !(ms >= 1 && ms <= 1e12))
        return err_set(err, ERR_INVALID, "--%s '%s' is not a time like 30s or 500ms", option, text);
    *ret_ms = (int64_t)ms;
    return 0;
}

int cli_read_limit(const char *option, const char *text, int64_t *ret_ms, struct err *err)
{
    double ms = -1;
    bool is_zero = strcmp(text, "0") == 0 || (read_ms(str_of(text), &ms) && ms == 0);
    if (strcmp(text, "none") != 0 && !is_zero)
        return cli_read_time(option, text, ret_ms, err);
    *ret_ms = 0;
    return 0;
}

int cli_read_limit_ms(const char *option, const char *text, int64_t *ret_ms, struct err *err)
{
    int64_t ms = 0;
    if (!str_to_i64(str_of(text), 0, INT64_MAX, &ms))
        return cli_read_limit(option, text, ret_ms, err);
    if (ms > CLI_TIME_MAX_MS)
        return err_set(err, ERR_INVALID, "--%s: more than a year; 'none' means no limit", option);
    *ret_ms = ms;
    return 0;
}

/* --- Limits --- */

enum { HEAD_MIN = 1 << 10 };
enum limit_kind { LIMIT_COUNT, LIMIT_SIZE, LIMIT_TIME };

static const struct limit_option {
    const char *option, *member;
    enum limit_kind kind;
    size_t offset;
} limit_options[] = {
    {"net-connections", "netConnections", LIMIT_COUNT,
     offsetof(struct egress_proxy_limits, connections)},
    {"net-rate", "netBytesPerSecond", LIMIT_SIZE,
     offsetof(struct egress_proxy_limits, bytes_per_second)},
    {"net-total", "netBytesTotal", LIMIT_SIZE, offsetof(struct egress_proxy_limits, bytes_total)},
    {"net-idle", "netIdleMs", LIMIT_TIME, offsetof(struct egress_proxy_limits, idle_ms)},
    {"net-time", "netTotalMs", LIMIT_TIME, offsetof(struct egress_proxy_limits, total_ms)},
    {"net-head", "netHeadBytes", LIMIT_SIZE, offsetof(struct egress_proxy_limits, head_bytes)},
    {"net-answer", "netAnswerBytes", LIMIT_SIZE,
     offsetof(struct egress_proxy_limits, answer_bytes)},
};

static int read_limit(const struct limit_option *limit, const char *text, int64_t *ret_value,
                      struct err *err)
{
    if (limit->kind == LIMIT_SIZE) {
        if (cli_read_size(limit->option, text, ret_value, err) < 0)
            return -1;
        if (limit->offset == offsetof(struct egress_proxy_limits, head_bytes) &&
            (*ret_value < HEAD_MIN || *ret_value > EGRESS_PROXY_HEAD_BYTES_MAX))
            return err_set(err, ERR_INVALID, "--%s '%s' is not between 1k and 1m", limit->option,
                           text);
        return 0;
    }
    if (limit->kind == LIMIT_TIME)
        return cli_read_time(limit->option, text, ret_value, err);
    if (!str_to_i64(str_of(text), 1, EGRESS_PROXY_CONNECTIONS, ret_value))
        return err_set(err, ERR_INVALID, "--%s '%s' is not a number from 1 to %d", limit->option,
                       text, EGRESS_PROXY_CONNECTIONS);
    return 0;
}

int net_limits_from_options(const struct cli_call *call, const struct config *config,
                            struct egress_proxy_limits *ret_limits, struct err *err)
{
    const struct config_egress *egress = &config->egress;
    struct egress_proxy_limits limits = {.connections = egress->connections,
                                         .bytes_per_second = egress->bytes_per_second,
                                         .bytes_total = egress->bytes_total,
                                         .head_ms = egress->head_seconds * 1000,
                                         .idle_ms = egress->idle_seconds * 1000,
                                         .total_ms = egress->total_seconds * 1000,
                                         .head_bytes = egress->head_bytes,
                                         .answer_bytes = egress->answer_bytes};
    for (size_t i = 0; i < countof(limit_options); i++) {
        const char *text = cli_value(call, limit_options[i].option);
        int64_t *field = (int64_t *)(void *)((char *)&limits + limit_options[i].offset);
        if (text != NULL && read_limit(&limit_options[i], text, field, err) < 0)
            return -1;
    }
    *ret_limits = limits;
    return 0;
}

bool net_has_limits(const struct cli_call *call)
{
    bool any = false;
    for (size_t i = 0; i < countof(limit_options); i++)
        any |= cli_value(call, limit_options[i].option) != NULL;
    return any;
}

int net_put_limits(const struct cli_call *call, struct json_out *out, struct err *err)
{
    for (size_t i = 0; i < countof(limit_options); i++) {
        const char *text = cli_value(call, limit_options[i].option);
        int64_t value = 0;
        if (text == NULL)
            continue;
        if (read_limit(&limit_options[i], text, &value, err) < 0)
            return -1;
        json_key(out, limit_options[i].member), json_put_i64(out, value);
    }
    return 0;
}

/* --- Secrets --- */

static void put_rule(const struct secret_entry *entry, struct json_out *out)
{
    AUTO_BUF struct buf place = {0};
    const struct secret_rule *rule = &entry->rule;
    json_begin_object(out);
    json_key(out, "name"), json_put_cstr(out, rule->name);
    json_key(out, "value"), json_put_str(out, secret_reveal(entry->value));
    json_key(out, "hosts");
    json_begin_array(out);
    for (size_t i = 0; i < rule->place_count; i++) {
        buf_clear(&place);
        buf_printf(&place, "%s:%d", rule->places[i].host.text, rule->places[i].port);
        json_put_str(out, buf_str(&place));
    }
    json_end_array(out);
    json_key(out, "headers");
    json_begin_array(out);
    for (size_t i = 0; i < rule->header_count; i++)
        json_put_cstr(out, rule->headers[i]);
    json_end_array(out);
    json_end_object(out);
}

static int put_secret(struct secrets *secrets, struct str text, struct json_out *out,
                      struct err *err)
{
    struct secret_rule rule;
    if (str_find_char(text, '=') == text.len) { /* one that the server's configuration has */
        json_begin_object(out);
        json_key(out, "config"), json_put_str(out, text);
        json_end_object(out);
        return 0;
    }
    if (secret_rule_parse(text, &rule, err) < 0 || secrets_load(secrets, &rule, err) < 0)
        return err_wrap(err, "--secret");
    put_rule(secrets_at(secrets, secrets_count(secrets) - 1), out);
    return 0;
}

static int put_secrets(const struct cli_call *call, struct json_out *out, struct err *err)
{
    AUTO_SECRETS struct secrets *secrets = secrets_new();
    bool any = cli_has(call, "no-secrets");
    if (any)
        json_key(out, "secrets"), json_begin_array(out);
    for (size_t i = 0; i < call->given_count; i++) {
        if (strcmp(call->given[i].option->name, "secret") != 0)
            continue;
        if (!any)
            json_key(out, "secrets"), json_begin_array(out);
        any = true;
        if (put_secret(secrets, str_of(call->given[i].value), out, err) < 0)
            return -1;
    }
    if (any)
        json_end_array(out);
    return 0;
}

int net_put_members(const struct cli_call *call, struct json_out *out, struct err *err)
{
    AUTO_BUF struct buf policy = {0};
    const char *network = cli_value(call, "network");
    if (policy_put_options(call, &policy, err) < 0)
        return -1;
    if (network != NULL && policy.len > 0)
        return err_set(err, ERR_INVALID, "--network and --allow-host cannot be combined");
    if (network != NULL)
        buf_put_cstr(&policy, network);
    if (policy.len > 0)
        json_key(out, "network"), json_put_str(out, buf_str(&policy));
    return put_secrets(call, out, err);
}
