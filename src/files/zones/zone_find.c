/* Searches and edits in the zones. Their arguments besides the path, and their results, are JSON
 * with the same members as over HTTP (docs/API.md). */

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/format/json.h"
#include "files/grep.h"
#include "files/zones/zones_internal.h"

static int parse(struct str text, struct json_t **ret_asked, struct err *err)
{
    if (json_parse(text, ret_asked, err) < 0)
        return -1;
    if (json_kind(*ret_asked) != JSON_KIND_OBJECT)
        return err_set(err, ERR_INVALID, "the request is not a JSON object");
    return 0;
}

/* A text that must be there. */
static int need(const struct json_t *asked, const char *name, struct str *ret_text, struct err *err)
{
    if (!json_to_str(json_get(asked, name), ret_text))
        return err_set(err, ERR_INVALID, "%s is missing or not a string", name);
    return 0;
}

static bool flag(const struct json_t *asked, const char *name)
{
    bool is_set = false;
    (void)!json_to_bool(json_get(asked, name), &is_set);
    return is_set;
}

static size_t number(const struct json_t *asked, const char *name, size_t most)
{
    int64_t n = 0;
    (void)!json_to_i64(json_get(asked, name), &n);
    return n <= 0 ? 0 : MIN((size_t)n, most);
}

/* What both searches begin with; `asked` holds the texts. */
struct search {
    struct json_t *asked;
    struct files *tree;
    struct zone_path at;
    struct str pattern;
    size_t limit;
};

static void search_done(struct search *search)
{
    search->asked = json_free(search->asked);
}

static int search_init(struct search *search, struct zones *zones, struct str path,
                       struct str asked_json, size_t most, struct err *err)
{
    if (parse(asked_json, &search->asked, err) < 0 ||
        need(search->asked, "pattern", &search->pattern, err) < 0)
        return -1;
    search->limit = number(search->asked, "limit", most);
    return zones_find(zones, path, &search->at, &search->tree, err);
}

static void begin_list(struct json_out *out, const char *name)
{
    json_begin_object(out);
    json_key(out, name);
    json_begin_array(out);
}

static void end_list(struct json_out *out, bool is_truncated)
{
    json_end_array(out);
    json_key(out, "truncated"), json_put_bool(out, is_truncated);
    json_end_object(out);
}

/* As the other verbs take it. */
static void put_path(struct json_out *out, const struct search *search, struct str found)
{
    AUTO_BUF struct buf path = {0};
    buf_printf(&path, "/%s", search->at.zone == ZONE_CACHE ? "cache" : "workspace");
    if (strcmp(search->at.below, ".") != 0)
        buf_printf(&path, "/%s", search->at.below);
    if (!str_starts(found, STR("./"))) /* else it is what was searched */
        buf_printf(&path, "/%.*s", STR_ARG(found));
    json_put_str(out, buf_str(&path));
}

int zones_glob(struct zones *zones, struct str path, struct str asked_json, struct buf *out,
               struct err *err)
{
    AUTO(search_done) struct search search = {0};
    AUTO_ARENA struct arena arena = {0};
    struct json_out json = {.buf = out};
    struct files_glob found;
    if (search_init(&search, zones, path, asked_json, FILES_GLOB_MAX, err) < 0)
        return -1;
    struct files_glob_options options = {.limit = search.limit,
                                         .skip_usual = !flag(search.asked, "searchAll")};
    if (files_glob(search.tree, str_of(search.at.below), search.pattern, &options, &arena, &found,
                   err) < 0)
        return -1;
    begin_list(&json, "paths");
    for (size_t i = 0; i < found.count; i++)
        put_path(&json, &search, found.paths[i]);
    end_list(&json, found.truncated);
    return 0;
}

static void put_match(struct json_out *out, const struct search *search,
                      const struct files_match *match)
{
    json_begin_object(out);
    json_key(out, "path"), put_path(out, search, match->path);
    json_key(out, "line"), json_put_i64(out, (int64_t)match->line);
    if (match->column > 0)
        json_key(out, "column"), json_put_i64(out, (int64_t)match->column);
    json_key(out, "text"), json_put_str(out, match->text);
    json_end_object(out);
}

int zones_grep(struct zones *zones, struct str path, struct str asked_json, struct buf *out,
               struct err *err)
{
    AUTO(search_done) struct search search = {0};
    AUTO_ARENA struct arena arena = {0};
    struct json_out json = {.buf = out};
    struct files_grep found;
    if (search_init(&search, zones, path, asked_json, FILES_GREP_MAX, err) < 0)
        return -1;
    struct files_grep_options options = {
        .limit = search.limit,
        .line_max = ZONES_LINE_MAX,
        .ignore_case = flag(search.asked, "ignoreCase"),
        .skip_usual = !flag(search.asked, "searchAll"),
    };
    (void)!json_to_str(json_get(search.asked, "include"), &options.glob);
    AUTO_BUF struct buf at = {0}; /* with a dot, which only the path of a single file keeps */
    buf_printf(&at, "./%s", search.at.below);
    if (files_grep(search.tree, buf_str(&at), search.pattern, &options, &arena, &found, err) < 0)
        return -1;
    begin_list(&json, "matches");
    for (size_t i = 0; i < found.count; i++)
        put_match(&json, &search, &found.matches[i]);
    end_list(&json, found.truncated);
    return 0;
}

int zones_edit(struct zones *zones, struct str path, struct str asked_json, struct buf *out,
               struct err *err)
{
    AUTO_JSON struct json_t *asked = NULL;
    struct json_out json = {.buf = out};
    struct zone_path at;
    struct files *tree;
    struct str old_text, new_text;
    uint64_t count;
    if (parse(asked_json, &asked, err) < 0 || need(asked, "old", &old_text, err) < 0 ||
        need(asked, "new", &new_text, err) < 0)
        return -1;
    if (old_text.len == 0)
        return err_set(err, ERR_INVALID, "old is empty");
    if (zones_find(zones, path, &at, &tree, err) < 0 ||
        zone_path_refuse_zone(&at, path, "edited", err) < 0 ||
        files_edit(tree, str_of(at.below), old_text, new_text, flag(asked, "all"), &count, err) < 0)
        return -1;
    json_begin_object(&json);
    json_key(&json, "count"), json_put_i64(&json, (int64_t)count);
    json_end_object(&json);
    return 0;
}
