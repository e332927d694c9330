#include "api/route/route.h"

#include "test.h"

static const struct route table[] = {
    {"GET", "/healthz", NULL, ""},
    {"GET", "/v1/things", NULL, ""},
    {"POST", "/v1/things", NULL, ""},
    {"GET", "/v1/things/{id}", NULL, ""},
    {"DELETE", "/v1/things/{id}", NULL, ""},
    {"GET", "/v1/things/{id}/parts/{part}", NULL, ""},
    {0},
};

static struct route_match find(const char *method, const char *path)
{
    struct route_match match;
    route_find(table, str_of(method), str_of(path), &match);
    return match;
}

TEST(routes_are_found_with_their_parameters)
{
    struct route_match match = find("GET", "/v1/things/a1/parts/b2");
    CHECK(match.route == &table[5]);
    CHECK_INT(match.index, 5);
    CHECK_STR(route_param(&match, "id"), "a1");
    CHECK_STR(route_param(&match, "part"), "b2");
    CHECK_INT(route_param(&match, "other").len, 0);
    CHECK(find("POST", "/v1/things").route == &table[2]);
    CHECK(find("DELETE", "/v1/things/x").route == &table[4]);
}

TEST(head_is_served_by_get)
{
    CHECK(find("HEAD", "/healthz").route == &table[0]);
    CHECK(find("head", "/healthz").route == NULL);
}

TEST(wrong_method_names_the_right_ones)
{
    struct route_match match = find("PUT", "/v1/things");
    CHECK(match.route == NULL && match.path_known);
    CHECK_CSTR(match.allow, "GET, HEAD, POST, OPTIONS");
    match = find("POST", "/v1/things/x");
    CHECK_CSTR(match.allow, "GET, HEAD, DELETE, OPTIONS");
}

TEST(other_paths_are_unknown)
{
    static const char *const paths[] = {"",
                                        "*",
                                        "/",
                                        "/healthz/",
                                        "//healthz",
                                        "/healthz2",
                                        "/v1",
                                        "/v1/things/",
                                        "/v1/things//parts/b",
                                        "/v1/things/a/parts",
                                        "/v1/things/a/parts/b/c",
                                        "/HEALTHZ"};
    for (size_t i = 0; i < countof(paths); i++) {
        struct route_match match = find("GET", paths[i]);
        if (match.route != NULL || match.path_known)
            fail_msg("'%s' was found", paths[i]);
    }
}
