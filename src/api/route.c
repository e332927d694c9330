#include "api/route.h"

static bool match_segment(struct str want, struct str got, struct route_match *match)
{
    if (want.len > 2 && want.ptr[0] == '{') {
        if (got.len == 0)
            return false;
        assert(match->param_count < ROUTE_PARAMS_MAX);
        match->params[match->param_count].name = str_slice(want, 1, want.len - 1);
        match->params[match->param_count++].value = got;
        return true;
    }
    return str_eq(want, got);
}

static bool match_path(const char *pattern, struct str path, struct route_match *match)
{
    struct str wants = str_slice(str_of(pattern), 1, strlen(pattern));
    struct str gots = str_slice(path, 1, path.len);
    match->param_count = 0;
    for (;;) {
        struct str want = str_slice(wants, 0, str_find_char(wants, '/'));
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

static void add_allowed(struct route_match *match, const char *method)
{
    size_t len = strlen(match->allow);
    bool get = strcmp(method, "GET") == 0;
    (void)snprintf(match->allow + len, sizeof match->allow - len, "%s%s%s", len > 0 ? ", " : "",
                   method, get ? ", HEAD" : "");
}

void route_find(const struct route *table, struct str method, struct str path,
                struct route_match *ret_match)
{
    struct route_match found = {0};
    if (path.len == 0 || path.ptr[0] != '/') {
        *ret_match = found;
        return;
    }
    struct str wanted = str_eq(method, STR("HEAD")) ? STR("GET") : method;
    for (size_t i = 0; table[i].pattern != NULL; i++) {
        struct route_match candidate = {0};
        if (!match_path(table[i].pattern, path, &candidate))
            continue;
        found.path_known = true;
        add_allowed(&found, table[i].method);
        if (found.route != NULL || !str_eq(str_of(table[i].method), wanted))
            continue;
        found.route = &table[i];
        found.index = i;
        found.param_count = candidate.param_count;
        memcpy(found.params, candidate.params, sizeof found.params);
    }
    if (found.path_known)
        add_allowed(&found, "OPTIONS");
    *ret_match = found;
}

struct str route_param(const struct route_match *match, const char *name)
{
    for (size_t i = 0; i < match->param_count; i++)
        if (str_eq(match->params[i].name, str_of(name)))
            return match->params[i].value;
    return (struct str){0};
}
