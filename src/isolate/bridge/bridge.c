#include "isolate/bridge/bridge.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/format/json.h"
#include "base/format/schema.h"
#include "io/loop.h"
#include "isolate/bridge/bridge_internal.h"

/* running -> ended (bridge_done, bridge_fail, the deadline) -> settled (on_timer). A handler may
 * end its call from within `start`, so settling waits for a turn of the loop. */
struct bridge_call {
    const struct bridge *bridge;
    struct loop *loop;
    void *services;
    struct json_t *args;
    struct timer *timer; /* the deadline; once ended: the turn in which `settle` is called */
    int64_t deadline_ms; /* monotonic */
    bool is_started, is_ended, is_ok;
    void *state;
    struct buf answer;
    bridge_settle *settle;
    void *ctx;
};

/* The set. */

static bool is_identifier(const char *name)
{
    for (const char *c = name; *c != '\0'; c++) {
        bool is_letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_';
        if (!is_letter && (c == name || *c < '0' || *c > '9'))
            return false;
    }
    return name[0] != '\0' && strlen(name) <= BRIDGE_NAME_MAX;
}

static const struct bridge_row *find_row(const struct bridge_set *set, struct str name)
{
    for (size_t i = 0; i < set->count; i++)
        if (str_eq(str_of(set->rows[i].bridge->name), name))
            return &set->rows[i];
    return NULL;
}

static void row_done(struct bridge_row *row)
{
    for (size_t i = 0; i < row->param_count; i++)
        row->schemas[i] = json_free(row->schemas[i]);
}

static int read_params(struct bridge_row *row, struct err *err)
{
    const struct bridge *bridge = row->bridge;
    bool saw_optional = false;
    for (size_t i = 0; i < BRIDGE_PARAMS_MAX && bridge->params[i].name != NULL; i++) {
        const struct bridge_param *param = &bridge->params[i];
        if (!is_identifier(param->name) || (saw_optional && !param->is_optional))
            return err_set(
                err, ERR_INVALID,
                "bridge '%s': parameter '%s' has an invalid name or follows an optional one",
                bridge->name, param->name);
        if (json_parse(str_of(param->schema), &row->schemas[i], err) < 0)
            return err_wrap(err, "bridge '%s': parameter '%s'", bridge->name, param->name);
        row->param_count++;
        if (schema_check_schema(row->schemas[i], err) < 0)
            return err_wrap(err, "bridge '%s': parameter '%s'", bridge->name, param->name);
        saw_optional |= param->is_optional;
        row->required_count += !param->is_optional;
    }
    return 0;
}

int bridge_set_add(struct bridge_set *set, const struct bridge *bridge, struct err *err)
{
    struct bridge_row row = {.bridge = bridge};
    if (bridge->name == NULL || !is_identifier(bridge->name))
        return err_set(err, ERR_INVALID,
                       "a bridge's name must be an identifier of at most %d characters",
                       BRIDGE_NAME_MAX);
    if (bridge->start == NULL || bridge->timeout_ms <= 0 || bridge->returns == NULL ||
        bridge->description == NULL)
        return err_set(err, ERR_INVALID, "bridge '%s': its row is incomplete", bridge->name);
    if (find_row(set, str_of(bridge->name)) != NULL)
        return err_set(err, ERR_CONFLICT, "bridge '%s' already exists", bridge->name);
    if (set->count == BRIDGES_MAX)
        return err_set(err, ERR_LIMIT, "more than %d bridges", BRIDGES_MAX);
    if (read_params(&row, err) < 0) {
        row_done(&row);
        return -1;
    }
    set->names[set->count] = bridge->name;
    set->rows[set->count++] = row;
    return 0;
}

int bridge_set_new(const struct bridge *const *rows, struct bridge_set **ret_set, struct err *err)
{
    AUTO_BRIDGE_SET struct bridge_set *set = mem_alloc(sizeof *set);
    for (; *rows != NULL; rows++)
        if (bridge_set_add(set, *rows, err) < 0)
            return -1;
    *ret_set = set;
    set = NULL;
    return 0;
}

struct bridge_set *bridge_set_free(struct bridge_set *set)
{
    if (set == NULL)
        return NULL;
    for (size_t i = 0; i < set->count; i++)
        row_done(&set->rows[i]);
    free(set);
    return NULL;
}

const char *const *bridge_set_names(const struct bridge_set *set)
{
    return set->names;
}

/* Arguments. */

static bool bridge_is_left_out(const struct json_t *value)
{
    return value == NULL || json_kind(value) == JSON_KIND_NULL;
}

/* A lone object's members are named as they are ("latitude"), others behind their parameter
 * ("options.method"). */
static const char *path_of(const struct bridge_row *row, size_t index)
{
    struct str type = {0};
    bool is_object =
        json_to_str(json_get(row->schemas[index], "type"), &type) && str_eq(type, STR("object"));
    return row->param_count == 1 && is_object ? "" : row->bridge->params[index].name;
}

static int check_arg(const struct bridge_row *row, const struct json_t *args, size_t index,
                     struct err *err)
{
    const struct bridge_param *param = &row->bridge->params[index];
    const struct json_t *value = index < json_len(args) ? json_at(args, index) : NULL;
    if (bridge_is_left_out(value))
        return param->is_optional ? 0
                                  : err_set(err, ERR_INVALID, "argument %zu, %s, is missing",
                                            index + 1, param->name);
    const char *path = path_of(row, index);
    if (path[0] == '\0' && json_kind(value) != JSON_KIND_OBJECT)
        path = param->name;
    return schema_check(row->schemas[index], value, path, err);
}

static int check_args(const struct bridge_row *row, const struct json_t *args, struct err *err)
{
    if (json_kind(args) != JSON_KIND_ARRAY)
        return err_set(err, ERR_INVALID, "the arguments must be an array");
    for (size_t i = 0; i < row->param_count; i++)
        if (check_arg(row, args, i, err) < 0)
            return -1;
    if (json_len(args) > row->param_count)
        return err_set(err, ERR_INVALID, "takes %zu argument%s, got %zu", row->param_count,
                       row->param_count == 1 ? "" : "s", json_len(args));
    return 0;
}

const struct json_t *bridge_arg(const struct bridge_call *call, size_t index)
{
    const struct json_t *value = index < json_len(call->args) ? json_at(call->args, index) : NULL;
    return bridge_is_left_out(value) ? NULL : value;
}

void *bridge_services(const struct bridge_call *call)
{
    return call->services;
}

int64_t bridge_left_ms(const struct bridge_call *call)
{
    return MAX(call->deadline_ms - clock_now_ms(), (int64_t)1);
}

void **bridge_state(struct bridge_call *call)
{
    return &call->state;
}

/* Ends. */

static void bridge_stop(struct bridge_call *call)
{
    if (call->is_started && call->bridge->stop != NULL)
        call->bridge->stop(call);
    call->is_started = false;
}

static void bridge_end(struct bridge_call *call, bool is_ok)
{
    assert(!call->is_ended);
    call->is_ended = true;
    call->is_ok = is_ok;
    timer_set(call->timer, 0, 0);
}

static const char *error_name(enum err_code code)
{
    switch (code) {
    case ERR_INVALID:
        return "TypeError";
    case ERR_TIMEOUT:
        return "TimeoutError";
    default:
        return "Error";
    }
}

void bridge_fail(struct bridge_call *call, const struct err *why)
{
    AUTO_BUF struct buf message = {0};
    struct json_out out = {.buf = &call->answer};
    buf_printf(&message, "api.%s: %s", call->bridge->name, why->msg);
    buf_clear(&call->answer);
    json_begin_object(&out);
    json_key(&out, "name"), json_put_cstr(&out, error_name(why->code));
    json_key(&out, "message"), json_put_str(&out, buf_str(&message));
    json_key(&out, "code"), json_put_cstr(&out, err_wire_name(why->code));
    json_end_object(&out);
    bridge_end(call, false);
}

void bridge_done(struct bridge_call *call, struct str json)
{
    struct err err = {0};
    if (json.len > BRIDGE_RESULT_MAX) {
        (void)err_set(&err, ERR_TOO_LARGE, "the result has more than %d bytes", BRIDGE_RESULT_MAX);
        bridge_fail(call, &err);
        return;
    }
    buf_put(&call->answer, json);
    bridge_end(call, true);
}

static void bridge_on_timer(void *ctx)
{
    struct bridge_call *call = ctx;
    if (!call->is_ended) {
        struct err err;
        (void)err_set(&err, ERR_TIMEOUT, "no answer in time");
        bridge_fail(call, &err);
        return;
    }
    bridge_stop(call);
    call->settle(call->ctx, call->is_ok, buf_str(&call->answer));
}

/* Calls. */

static void bridge_begin(struct bridge_call *call)
{
    struct err err = {0};
    call->is_started = true;
    if (call->bridge->start(call, &err) < 0 && !call->is_ended)
        bridge_fail(call, &err);
}

int bridge_call_start(struct bridge_set *set, struct loop *loop, void *services, struct str name,
                      struct str args, int64_t left_ms, bridge_settle *settle, void *ctx,
                      struct bridge_call **ret_call, struct err *err)
{
    loop_assert(loop);
    char shown[BRIDGE_NAME_MAX + 1];
    (void)snprintf(shown, sizeof shown, "%.*s", STR_ARG(name));
    const struct bridge_row *row = find_row(set, name);
    if (row == NULL)
        return err_set(err, ERR_NOT_FOUND, "api.%s is not a function", shown);
    AUTO_JSON struct json_t *parsed = NULL;
    if (args.len > BRIDGE_ARGS_MAX)
        return err_set(err, ERR_INVALID, "api.%s: the arguments have more than %d bytes", shown,
                       BRIDGE_ARGS_MAX);
    if (json_parse(args, &parsed, err) < 0 || check_args(row, parsed, err) < 0) {
        err->code = ERR_INVALID;
        return err_wrap(err, "api.%s", shown);
    }
    struct bridge_call *call = mem_alloc(sizeof *call);
    int64_t limit_ms = MIN(row->bridge->timeout_ms, MAX(left_ms, (int64_t)1));
    call->bridge = row->bridge;
    call->loop = loop;
    call->services = services;
    call->args = parsed;
    parsed = NULL;
    call->settle = settle;
    call->ctx = ctx;
    call->timer = timer_new(loop, bridge_on_timer, call);
    call->deadline_ms = clock_now_ms() + limit_ms;
    timer_set(call->timer, limit_ms, 0);
    *ret_call = call;
    bridge_begin(call);
    return 0;
}

struct bridge_call *bridge_call_free(struct bridge_call *call)
{
    if (call == NULL)
        return NULL;
    bridge_stop(call);
    (void)timer_free(call->timer);
    (void)json_free(call->args);
    buf_done(&call->answer);
    free(call);
    return NULL;
}
