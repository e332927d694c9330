#include "cli/zone_search.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/format/json.h"
#include "cli/cli.h"
#include "cli/remote.h"

static void put_lines(const struct json_t *answer, struct buf *text)
{
    remote_put_lines(json_get(answer, "paths"), text);
}

static void put_matches(const struct json_t *answer, struct buf *text)
{
    const struct json_t *matches = json_get(answer, "matches");
    for (size_t i = 0; matches != NULL && i < json_len(matches); i++) {
        const struct json_t *match = json_at(matches, i);
        int64_t line = 0;
        (void)!json_to_i64(json_get(match, "line"), &line);
        cli_put_plain(text, remote_text(match, "path"));
        buf_printf(text, ":%lld:", (long long)line);
        cli_put_plain(text, remote_text(match, "text"));
        buf_put_char(text, '\n');
    }
}

static void put_count(const struct json_t *answer, struct buf *text)
{
    int64_t count = 0;
    (void)!json_to_i64(json_get(answer, "count"), &count);
    buf_printf(text, "%lld\n", (long long)count);
}

static const struct search {
    const char *name;
    const char *members[2]; /* behind the path */
    void (*put)(const struct json_t *answer, struct buf *text);
} searches[] = {
    {"glob", {"pattern"}, put_lines},
    {"grep", {"pattern"}, put_matches},
    {"edit", {"old", "new"}, put_count},
};

static const struct search *search_of(const char *verb)
{
    for (size_t i = 0; i < countof(searches); i++)
        if (strcmp(verb, searches[i].name) == 0)
            return &searches[i];
    return NULL;
}

size_t zone_search_args(const char *verb)
{
    const struct search *search = search_of(verb);
    return search == NULL ? 0 : search->members[1] == NULL ? 3 : 4;
}

static void put_flag(const struct cli_call *call, const char *option, const char *member,
                     struct json_out *out)
{
    if (cli_has(call, option))
        json_key(out, member), json_put_bool(out, true);
}

void zone_search_put(const struct cli_call *call, bool with_path, struct buf *asked)
{
    const struct search *search = search_of(call->args[0]);
    const char *include = cli_value(call, "include");
    struct json_out out = {.buf = asked};
    json_begin_object(&out);
    if (with_path)
        json_key(&out, "path"), json_put_cstr(&out, call->args[1]);
    for (size_t i = 0; i < 2 && search->members[i] != NULL; i++)
        json_key(&out, search->members[i]), json_put_cstr(&out, call->args[2 + i]);
    if (include != NULL)
        json_key(&out, "include"), json_put_cstr(&out, include);
    put_flag(call, "ignore-case", "ignoreCase", &out);
    put_flag(call, "search-all", "searchAll", &out);
    put_flag(call, "all", "all", &out);
    json_end_object(&out);
}

int zone_search_print(const struct cli_call *call, struct str answer, struct err *err)
{
    AUTO_JSON struct json_t *value = NULL;
    AUTO_BUF struct buf text = {0};
    bool is_truncated = false;
    if (json_parse(answer, &value, err) < 0)
        return -1;
    if (cli_has(call, "json")) {
        buf_put(&text, answer);
        buf_put_char(&text, '\n');
    } else {
        search_of(call->args[0])->put(value, &text);
        (void)!json_to_bool(json_get(value, "truncated"), &is_truncated);
    }
    cli_print(buf_str(&text));
    if (is_truncated)
        (void)fputs("sandglass: more results exist: narrow the pattern or the directory\n", stderr);
    return 0;
}
