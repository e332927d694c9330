#include "api/http/error_path.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/format/json.h"

/* The key that schema_check quotes as JSON: what follows it may hold anything but a quote. */
static struct str unquote(struct arena *arena, struct str text)
{
    AUTO_JSON struct json_t *value = NULL;
    struct err err;
    struct str key = {0};
    size_t end = 1;
    while (end < text.len && text.ptr[end] != '"')
        end += text.ptr[end] == '\\' ? 2 : 1;
    if (end >= text.len || json_parse(str_slice(text, 0, end + 1), &value, &err) < 0 ||
        !json_to_str(value, &key))
        return (struct str){0};
    return arena_dup(arena, key);
}

struct str error_path_of_schema(struct arena *arena, const char *message)
{
    static const char *const words[] = {": unknown property ", " has an unknown property",
                                        " must be ", " must have ", " is missing"};
    struct str text = str_of(message);
    const char *end = NULL;
    if (str_starts(text, STR("unknown property ")))
        return unquote(arena, str_slice(text, sizeof "unknown property " - 1, text.len));
    for (size_t i = 0; i < countof(words); i++) {
        const char *found = strstr(message, words[i]);
        if (found != NULL && (end == NULL || found < end))
            end = found;
    }
    struct str place = str_slice(text, 0, end == NULL ? 0 : (size_t)(end - message));
    if (place.len == 0 || str_eq(place, STR("the value")))
        return (struct str){0};
    if (!str_starts(str_of(end), str_of(words[0])))
        return arena_dup(arena, place);
    struct str key = unquote(arena, str_of(end + strlen(words[0])));
    return arena_printf(arena, "%.*s.%.*s", STR_ARG(place), STR_ARG(key));
}

static bool has_member(const struct json_t *schema, const char *name)
{
    const struct json_t *members = json_get(schema, "properties");
    return members != NULL && json_get(members, name) != NULL;
}

/* "limits" of "limits.pids: not ..." and of "limits[2]: ..."; empty when it is no name. */
static struct str first_name(const char *message)
{
    size_t len = strspn(message, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return str_n(message, len);
}

struct str error_path_of_member(struct arena *arena, struct json_t *schema, const char *message)
{
    char name[64];
    struct str text = str_of(message), key, place = str_slice(text, 0, str_find_char(text, ':'));
    struct str first = first_name(message);
    struct json_t *properties = schema == NULL ? NULL : json_get(schema, "properties"), *member;
    struct str rest = str_slice(place, first.len, place.len);
    if (properties == NULL || first.len == 0 || first.len >= sizeof name || place.len == text.len ||
        (rest.len > 0 && rest.ptr[0] != '.' && rest.ptr[0] != '['))
        return (struct str){0};
    (void)snprintf(name, sizeof name, "%.*s", STR_ARG(first));
    if (has_member(schema, name))
        return arena_dup(arena, place);
    void *iter = NULL;
    while (json_next(properties, &iter, &key, &member))
        if (has_member(member, name))
            return arena_printf(arena, "%.*s.%.*s", STR_ARG(key), STR_ARG(place));
    return (struct str){0};
}
