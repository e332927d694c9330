/* Searches and edits in the zones. What they need beside a path, and what they find, is JSON: the
 * same words as over HTTP (docs/API.md). */

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "files/grep.h"
#include "files/zones_internal.h"

static int parse(struct str text, struct json_t **ret_asked, struct err *err)
{
    if (json_parse(text, ret_asked, err) < 0)
        return -1;
    if (json_kind(*ret_asked) != JSON_KIND_OBJECT)
        return err_set(err, ERR_INVALID, "what is asked for is not a JSON object");
    return 0;
}

/* A text that must be there. */
static int need(const struct json_t *asked, const char *name, struct str *ret_text, struct err *err)
{
    if (!json_to_str(json_get(asked, name), ret_text))
        return err_set(err, ERR_INVALID, "%s is missing, or not a text", name);
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

static void end_list(struct json_out *out, bool is_truncated)
{
    json_end_array(out);
    json_key(out, "truncated"), json_put_bool(out, is_truncated);
    json_end_object(out);
}

int zones_glob(struct zones *zones, struct str path, struct str asked_json, struct buf *out,
               struct err *err)
{
    AUTO_JSON struct json_t *asked = NULL;
    AUTO_ARENA struct arena arena = {0};
    struct json_out json = {.buf = out};
    struct zone_path at;
    struct files *tree;
    struct str pattern;
    struct files_glob found;
    if (parse(asked_json, &asked, err) < 0 || need(asked, "pattern", &pattern, err) < 0)
        return -1;
    struct files_glob_options options = {.limit = number(asked, "limit", FILES_GLOB_MAX)};
    if (zones_find(zones, path, &at, &tree, err) < 0 ||
        files_glob(tree, str_of(at.below), pattern, &options, &arena, &found, err) < 0)
        return -1;
    json_begin_object(&json);
    json_key(&json, "paths");
    json_begin_array(&json);
    for (size_t i = 0; i < found.count; i++)
        json_put_str(&json, found.paths[i]);
    end_list(&json, found.truncated);
    return 0;
}

static void put_match(struct json_out *out, const struct files_match *match)
{
    json_begin_object(out);
    json_key(out, "path"), json_put_str(out, match->path);
    json_key(out, "line"), json_put_i64(out, (int64_t)match->line);
    if (match->column > 0)
        json_key(out, "column"), json_put_i64(out, (int64_t)match->column);
    json_key(out, "text"), json_put_str(out, match->text);
    json_end_object(out);
}

int zones_grep(struct zones *zones, struct str path, struct str asked_json, struct buf *out,
               struct err *err)
{
    AUTO_JSON struct json_t *asked = NULL;
    AUTO_ARENA struct arena arena = {0};
    struct json_out json = {.buf = out};
    struct zone_path at;
    struct files *tree;
    struct str pattern;
    struct files_grep found;
    if (parse(asked_json, &asked, err) < 0 || need(asked, "pattern", &pattern, err) < 0)
        return -1;
    struct files_grep_options options = {
        .limit = number(asked, "limit", FILES_GREP_MAX),
        .line_max = ZONES_LINE_MAX,
        .ignore_case = flag(asked, "ignoreCase"),
    };
    (void)!json_to_str(json_get(asked, "include"), &options.glob);
    if (zones_find(zones, path, &at, &tree, err) < 0 ||
        files_grep(tree, str_of(at.below), pattern, &options, &arena, &found, err) < 0)
        return -1;
    json_begin_object(&json);
    json_key(&json, "matches");
    json_begin_array(&json);
    for (size_t i = 0; i < found.count; i++)
        put_match(&json, &found.matches[i]);
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
        files_edit(tree, str_of(at.below), old_text, new_text, flag(asked, "all"), &count, err) < 0)
        return -1;
    json_begin_object(&json);
    json_key(&json, "count"), json_put_i64(&json, (int64_t)count);
    json_end_object(&json);
    return 0;
}
