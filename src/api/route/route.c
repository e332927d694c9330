#include "api/route/route.h"

#include "base/err.h"
#include "base/format/json.h"
#include "base/format/schema.h"
#include "base/vec.h"

static const char *const scope_names[SCOPE_COUNT] = {"admin", "read",    "run",
                                                     "files", "approve", "open"};

const char *scope_name(enum route_scope scope)
{
    return scope_names[scope];
}

bool scope_of_name(struct str name, enum route_scope *ret_scope)
{
    for (size_t i = 0; i < SCOPE_OPEN; i++) {
        if (str_eq(name, str_of(scope_names[i]))) {
            *ret_scope = (enum route_scope)i;
            return true;
        }
    }
    return false;
}

/* ---- finding ------------------------------------------------------------------------------- */

static void add_param(struct route_match *match, struct str name, struct str value)
{
    assert(match->param_count < ROUTE_PARAMS_MAX);
    match->params[match->param_count].name = name;
    match->params[match->param_count++].value = value;
}

static bool match_segment(struct str want, struct str got, struct route_match *match)
{
    if (want.len <= 2 || want.ptr[0] != '{')
        return str_eq(want, got);
    if (got.len == 0)
        return false;
    add_param(match, str_slice(want, 1, want.len - 1), got);
    return true;
}

static bool match_path(const char *pattern, struct str path, struct route_match *match)
{
    struct str wants = str_slice(str_of(pattern), 1, strlen(pattern));
    struct str gots = str_slice(path, 1, path.len);
    match->param_count = 0;
    for (;;) {
        struct str want = str_slice(wants, 0, str_find_char(wants, '/'));
        if (str_ends(want, STR("...}"))) {
            add_param(match, str_slice(want, 1, want.len - 4), gots);
            return true;
        }
        struct str got = str_slice(gots, 0, str_find_char(gots, '/'));
        if (!match_segment(want, got, match))
            return false;
        bool wants_end = want.len == wants.len, gots_end = got.len == gots.len;
        if (wants_end || gots_end)
            return wants_end && gots_end;
        wants = str_slice(wants, want.len + 1, wants.len);
        gots = str_slice(gots, got.len + 1, gots.len);
    }
}

static bool fits_method(const struct route *route, struct str method)
{
    return str_eq(str_of(route->method), method) || strcmp(route->method, "*") == 0;
}

static bool fits_path(const struct route *route, struct str path, struct route_match *match)
{
    /* Most rows end here: the literal start is known and differs. */
    if (route->literal > path.len || memcmp(route->pattern, path.ptr, route->literal) != 0)
        return false;
    return match_path(route->pattern, path, match);
}

static void add_allowed(struct route_match *match, const char *method)
{
    size_t len = strlen(match->allow);
    bool get = strcmp(method, "GET") == 0;
    (void)snprintf(match->allow + len, sizeof match->allow - len, "%s%s%s", len > 0 ? ", " : "",
                   method, get ? ", HEAD" : "");
}

/* Nothing fits: is it the path, or only the method? */
static void find_allowed(const struct route *table, struct str path, struct route_match *ret_match)
{
    struct route_match scratch;
    for (size_t i = 0; table[i].pattern != NULL; i++) {
        if (!fits_path(&table[i], path, &scratch))
            continue;
        ret_match->path_known = true;
        add_allowed(ret_match, table[i].method);
    }
    if (ret_match->path_known)
        add_allowed(ret_match, "OPTIONS");
}

void route_find(const struct route *table, struct str method, struct str path,
                struct route_match *ret_match)
{
    struct str wanted = str_eq(method, STR("HEAD")) ? STR("GET") : method;
    *ret_match = (struct route_match){0};
    if (path.len == 0 || path.ptr[0] != '/')
        return;
    for (size_t i = 0; table[i].pattern != NULL; i++) {
        if (fits_method(&table[i], wanted) && fits_path(&table[i], path, ret_match)) {
            ret_match->route = &table[i];
            ret_match->index = i;
            ret_match->path_known = true;
            return;
        }
    }
    ret_match->param_count = 0;
    find_allowed(table, path, ret_match);
}

struct str route_param(const struct route_match *match, const char *name)
{
    for (size_t i = 0; i < match->param_count; i++)
        if (str_eq(match->params[i].name, str_of(name)))
            return match->params[i].value;
    return (struct str){0};
}

/* ---- the joined table ---------------------------------------------------------------------- */

static int complete_row(struct route *row, struct err *err)
{
    row->literal = str_find_char(str_of(row->pattern), '{');
    if (row->request == NULL)
        return 0;
    if (json_parse(str_of(row->request), &row->schema, err) < 0 ||
        schema_check_schema(row->schema, err) < 0)
        return err_wrap(err, "%s %s", row->method, row->pattern);
    return 0;
}

int routes_new(const struct route *const *tables, struct route **ret_routes, struct err *err)
{
    VEC(struct route) all = {0};
    for (; *tables != NULL; tables++)
        for (const struct route *row = *tables; row->pattern != NULL; row++)
            *vec_push(&all) = *row;
    (void)vec_push(&all);
    for (size_t i = 0; i + 1 < all.len; i++) {
        if (complete_row(&all.ptr[i], err) < 0) {
            (void)routes_free(all.ptr);
            return -1;
        }
    }
    *ret_routes = all.ptr;
    return 0;
}

struct route *routes_free(struct route *routes)
{
    for (size_t i = 0; routes != NULL && routes[i].pattern != NULL; i++)
        routes[i].schema = json_free(routes[i].schema);
    free(routes);
    return NULL;
}
