/* From a TOML tree to `struct config`, by the schema: unknown keys, types, ranges, choices and
 * forms are checked here, and each value is noted with the place it came from. */

#include <stdarg.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"
#include "config/config_schema.h"

/* The map's elements begin with the name they stand under. */
static_assert(offsetof(struct config_provider, name) == 0, "CONFIG_MAP writes the name first");
static_assert(offsetof(struct config_bound_secret, name) == 0, "CONFIG_MAP writes the name first");
static_assert(offsetof(struct config_zones, name) == 0, "CONFIG_MAP writes the name first");

struct reader {
    struct config *config;
    struct err *err;
};

/* One section being read. `table` is NULL where the file has none and the defaults hold. */
struct section {
    const char *in;    /* as the schema names it */
    struct str header; /* as the file names it: "providers.groq.models" */
    struct str path;   /* as messages name it: "providers.groq.models[1]" */
    bool of_array, started;
    void *base;
    const struct toml_table *table;
    struct toml_place place;
};

struct elements {
    void *items;
    size_t len;
};

static int read_section(struct reader *r, struct section *section);

int config_fail(const struct config *config, struct err *err, struct toml_place place,
                struct str path, const char *fmt, ...)
{
    char what[ERR_MSG_MAX];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return err_set(err, ERR_INVALID, "%.*s:%d:%d: %.*s: %s", STR_ARG(config->file), place.line,
                   place.column, STR_ARG(path), what);
}

/* A value's error, at the variable or at the place in the file that it came from. */
PRINTF_LIKE(4, 5)
static int config_read_fail(struct reader *r, const struct config_setting *setting,
                            struct toml_place place, const char *fmt, ...)
{
    char what[ERR_MSG_MAX];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    if (setting->source == CONFIG_FROM_ENV)
        return err_set(r->err, ERR_INVALID, "$%.*s: %s", STR_ARG(setting->env), what);
    return config_fail(r->config, r->err, place, setting->path, "%s", what);
}

static struct str config_read_join(struct reader *r, struct str path, struct str key)
{
    AUTO_BUF struct buf text = {0};
    if (path.len > 0)
        buf_printf(&text, "%.*s.", STR_ARG(path));
    toml_put_key(&text, key);
    return arena_dup(&r->config->arena, buf_str(&text));
}

static struct config_setting *add_setting(struct reader *r, struct section *section,
                                          const struct config_key *key)
{
    struct config *config = r->config;
    struct config_setting *setting = arena_new(&config->arena, struct config_setting);
    *setting = (struct config_setting){
        .key = key,
        .section = section->header,
        .path = config_read_join(r, section->path, str_of(key->name)),
        .field = config_field(section->base, key),
        .env = str_of(key->env),
        .of_array = section->of_array,
        .first = !section->started,
    };
    section->started = true;
    *(config->last_setting == NULL ? &config->settings : &config->last_setting->next) = setting;
    config->last_setting = setting;
    return setting;
}

struct config_setting *config_setting(const struct config *config, const char *path)
{
    struct config_setting *setting = config->settings;
    while (setting != NULL && !str_eq(setting->path, str_of(path)))
        setting = setting->next;
    return setting;
}

bool config_is_default(const struct config *config, const char *path)
{
    const struct config_setting *setting = config_setting(config, path);
    return setting == NULL || setting->source == CONFIG_FROM_DEFAULT;
}

/* Values. */

static const char *expected_kind(enum config_type type)
{
    static const char *const names[] = {
        [CONFIG_STR] = "a string",          [CONFIG_INT] = "an integer",
        [CONFIG_FLOAT] = "a number",        [CONFIG_BOOL] = "true or false",
        [CONFIG_CHOICE] = "a string",       [CONFIG_LIST] = "an array of strings",
        [CONFIG_FREE] = "a table",          [CONFIG_SECRET] = "nothing",
        [CONFIG_TABLE] = "a table",         [CONFIG_TABLES] = "an array of tables",
        [CONFIG_MAP] = "a table of tables",
    };
    return names[type];
}

static int fail_kind(struct reader *r, const struct config_setting *setting,
                     const struct toml_value *value)
{
    return config_read_fail(r, setting, value->place, "expected %s, got %s",
                            expected_kind(setting->key->type), toml_kind_name(value->kind));
}

/* A `~/` path becomes absolute here, so that no other code needs the home directory. */
static struct str absolute(struct reader *r, struct str path)
{
    const char *home = getenv("HOME");
    if (!str_starts(path, STR("~/")) || home == NULL)
        return path;
    return arena_printf(&r->config->arena, "%s/%.*s", home, STR_ARG(str_slice(path, 2, path.len)));
}

static int take_text(struct reader *r, const struct config_setting *setting,
                     const struct toml_value *value, struct str *ret_text)
{
    enum { TEXT_MAX = 4096, SHOWN = 60 };
    if (value->kind != TOML_STR)
        return fail_kind(r, setting, value);
    if (value->str.len > TEXT_MAX)
        return config_read_fail(r, setting, value->place, "longer than %d bytes", TEXT_MAX);
    if (!config_form_matches(setting->key->form, value->str)) {
        AUTO_BUF struct buf shown = {0};
        toml_put_key(&shown, str_slice(value->str, 0, SHOWN));
        return config_read_fail(r, setting, value->place, "expected %s, got %s",
                                config_form_name(setting->key->form), buf_cstr(&shown));
    }
    *ret_text = arena_dup(&r->config->arena, value->str);
    if (setting->key->form == CONFIG_PATH || setting->key->form == CONFIG_DOCS)
        *ret_text = absolute(r, *ret_text);
    return 0;
}

static int take_number(struct reader *r, const struct config_setting *setting,
                       const struct toml_value *value)
{
    const struct config_key *key = setting->key;
    bool is_float = key->type == CONFIG_FLOAT && value->kind == TOML_FLOAT;
    if (key->takes_none && value->kind == TOML_STR && str_eq(value->str, STR("none"))) {
        *(int64_t *)setting->field = 0;
        return 0;
    }
    if (key->takes_none && value->kind != TOML_INT)
        return config_read_fail(r, setting, value->place, "expected an integer or \"none\", got %s",
                                toml_kind_name(value->kind));
    if (value->kind != TOML_INT && !is_float)
        return fail_kind(r, setting, value);
    double n = is_float ? value->real : (double)value->integer;
    if (!(n >= key->min && n <= key->max)) /* not a number fails this too */
        return config_read_fail(r, setting, value->place, "%.15g is out of range: %.15g to %.15g",
                                n, key->min, key->max);
    if (key->type == CONFIG_FLOAT)
        *(double *)setting->field = n;
    else
        *(int64_t *)setting->field = value->integer;
    return 0;
}

static int take_choice(struct reader *r, const struct config_setting *setting,
                       const struct toml_value *value)
{
    if (value->kind != TOML_STR)
        return fail_kind(r, setting, value);
    const char *const *choices = setting->key->choices;
    AUTO_BUF struct buf list = {0};
    for (int i = 0; choices[i] != NULL; i++) {
        if (str_eq(value->str, str_of(choices[i]))) {
            *(int *)setting->field = i; /* the enums of config.h follow the order of choices */
            return 0;
        }
        buf_printf(&list, "%s%s", i > 0 ? ", " : "", choices[i]);
    }
    AUTO_BUF struct buf shown = {0};
    toml_put_key(&shown, str_slice(value->str, 0, 60));
    return config_read_fail(r, setting, value->place, "%s is not one of: %s", buf_cstr(&shown),
                            buf_cstr(&list));
}

static int take_list(struct reader *r, const struct config_setting *setting,
                     const struct toml_value *value)
{
    if (value->kind != TOML_ARRAY)
        return fail_kind(r, setting, value);
    if ((double)value->array->len > setting->key->max)
        return config_read_fail(r, setting, value->place, "more than %.0f items",
                                setting->key->max);
    struct config_list list = {.len = value->array->len};
    list.items = arena_array(&r->config->arena, struct str, list.len);
    for (size_t i = 0; i < list.len; i++)
        if (take_text(r, setting, value->array->items[i], &list.items[i]) < 0)
            return -1;
    *(struct config_list *)setting->field = list;
    return 0;
}

static int take_value(struct reader *r, const struct config_setting *setting,
                      const struct toml_value *value)
{
    switch (setting->key->type) {
    case CONFIG_STR:
        return take_text(r, setting, value, setting->field);
    case CONFIG_INT:
    case CONFIG_FLOAT:
        return take_number(r, setting, value);
    case CONFIG_CHOICE:
        return take_choice(r, setting, value);
    case CONFIG_LIST:
        return take_list(r, setting, value);
    case CONFIG_BOOL:
        if (value->kind != TOML_BOOL)
            return fail_kind(r, setting, value);
        *(bool *)setting->field = value->flag;
        return 0;
    case CONFIG_FREE:
        if (value->kind != TOML_TABLE)
            return fail_kind(r, setting, value);
        *(const struct toml_table **)setting->field = value->table;
        return 0;
    default:
        return config_read_fail(
            r, setting, value->place,
            "secrets are not read from the file; %s names the environment variable that holds it",
            strcmp(setting->key->name, "api_key") == 0 ? "api_key_env"
            : strcmp(setting->key->name, "value") == 0 ? "from"
                                                       : "secret_env");
    }
}

/* Text of the environment, or a default of the schema, as the file would have it. */
static int take_plain(struct reader *r, const struct config_setting *setting, const char *text)
{
    struct toml_value value = {.kind = TOML_STR, .str = str_of(text)};
    struct str s = value.str;
    enum config_type type = setting->key->type;
    int64_t integer;
    double real;
    if (type == CONFIG_INT && str_to_i64(s, INT64_MIN, INT64_MAX, &integer))
        value = (struct toml_value){.kind = TOML_INT, .integer = integer};
    else if (type == CONFIG_FLOAT && str_to_f64(s, &real))
        value = (struct toml_value){.kind = TOML_FLOAT, .real = real};
    else if (type == CONFIG_BOOL && (str_eq(s, STR("true")) || str_eq(s, STR("false"))))
        value = (struct toml_value){.kind = TOML_BOOL, .flag = text[0] == 't'};
    return take_value(r, setting, &value);
}

/* The environment wins over the file, the file over the default; the file is checked always. */
static int read_leaf(struct reader *r, struct section *section, const struct config_key *key)
{
    struct config_setting *setting = add_setting(r, section, key);
    const struct toml_entry *entry =
        section->table == NULL ? NULL : toml_find(section->table, str_of(key->name));
    if (entry != NULL) {
        setting->source = CONFIG_FROM_FILE;
        setting->place = entry->place;
        if (take_value(r, setting, entry->value) < 0)
            return -1;
    }
    const char *env = key->env == NULL ? NULL : getenv(key->env);
    if (env != NULL && env[0] != '\0') {
        setting->source = CONFIG_FROM_ENV;
        return take_plain(r, setting, env);
    }
    if (entry == NULL && key->required)
        return config_read_fail(r, setting, section->place, "missing; %s", key->help);
    if (entry == NULL && key->fallback != NULL)
        return take_plain(r, setting, key->fallback);
    return 0;
}

/* Sections. */

/* Where else a key of this name is at home, or NULL. */
static const char *home_of(struct str name)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (str_eq(str_of(config_keys[i].name), name))
            return config_keys[i].in;
    return NULL;
}

static int fail_unknown(struct reader *r, const struct section *section,
                        const struct toml_entry *entry)
{
    struct nearest nearest = {.word = entry->key};
    CONFIG_KEYS_IN (key, section->in)
        nearest_offer(&nearest, str_of(key->name));
    struct str path = config_read_join(r, section->path, entry->key);
    if (nearest.best.len > 0)
        return config_fail(r->config, r->err, entry->place, path, "unknown key; did you mean %.*s?",
                           STR_ARG(nearest.best));
    const char *home = home_of(entry->key);
    if (home != NULL)
        return config_fail(r->config, r->err, entry->place, path,
                           "unknown key here; move it %s%s%s", home[0] == '\0' ? "" : "into [",
                           home[0] == '\0' ? "to the top of the file, before any section" : home,
                           home[0] == '\0' ? "" : "]");
    return config_fail(r->config, r->err, entry->place, path,
                       "unknown key; 'sandglass config schema' lists all keys");
}

static int check_known(struct reader *r, const struct section *section)
{
    if (section->table == NULL)
        return 0;
    TOML_EACH (entry, section->table) {
        bool known = false;
        CONFIG_KEYS_IN (key, section->in)
            known = known || str_eq(str_of(key->name), entry->key);
        if (!known)
            return fail_unknown(r, section, entry);
    }
    return 0;
}

static int fail_section(struct reader *r, const struct config_key *key, struct str path,
                        const struct toml_value *value)
{
    return config_fail(r->config, r->err, value->place, path, "expected %s, got %s",
                       expected_kind(key->type), toml_kind_name(value->kind));
}

static int allocate(struct reader *r, const struct config_key *key, struct str path,
                    const struct toml_value *value, size_t count, struct elements *ret_elements)
{
    if ((double)count > key->max)
        return config_fail(r->config, r->err, value->place, path, "more than %.0f entries",
                           key->max);
    ret_elements->items = arena_alloc(&r->config->arena, count * key->size);
    ret_elements->len = count;
    return 0;
}

static int read_map(struct reader *r, const struct config_key *key, struct str path,
                    const struct toml_value *value, struct elements *elements)
{
    if (value->kind != TOML_TABLE)
        return fail_section(r, key, path, value);
    if (allocate(r, key, path, value, value->table->len, elements) < 0)
        return -1;
    char *item = elements->items;
    TOML_EACH (entry, value->table) {
        struct str at = config_read_join(r, path, entry->key);
        if (!config_form_matches(CONFIG_NAME, entry->key))
            return config_fail(r->config, r->err, entry->place, at, "expected %s",
                               config_form_name(CONFIG_NAME));
        if (entry->value->kind != TOML_TABLE)
            return config_fail(r->config, r->err, entry->value->place, at,
                               "expected a table, got %s", toml_kind_name(entry->value->kind));
        assert(item != NULL);
        *(struct str *)(void *)item = entry->key;
        struct section inner = {.in = key->opens,
                                .header = at,
                                .path = at,
                                .base = item,
                                .table = entry->value->table,
                                .place = entry->value->place};
        if (read_section(r, &inner) < 0)
            return -1;
        item += key->size;
    }
    return 0;
}

static int read_tables(struct reader *r, const struct config_key *key, struct str header,
                       struct str path, const struct toml_value *value, struct elements *elements)
{
    if (value->kind != TOML_ARRAY)
        return fail_section(r, key, path, value);
    if (allocate(r, key, path, value, value->array->len, elements) < 0)
        return -1;
    for (size_t i = 0; i < value->array->len; i++) {
        const struct toml_value *item = value->array->items[i];
        if (item->kind != TOML_TABLE)
            return fail_section(r, key, path, item);
        struct section inner = {.in = key->opens,
                                .header = header,
                                .path =
                                    arena_printf(&r->config->arena, "%.*s[%zu]", STR_ARG(path), i),
                                .of_array = true,
                                .base = (char *)elements->items + i * key->size,
                                .table = item->table,
                                .place = item->place};
        if (read_section(r, &inner) < 0)
            return -1;
    }
    return 0;
}

static int read_inner(struct reader *r, const struct section *section, const struct config_key *key)
{
    const struct toml_value *value =
        section->table == NULL ? NULL : toml_get(section->table, str_of(key->name));
    struct str path = config_read_join(r, section->path, str_of(key->name));
    struct str header = config_read_join(r, section->header, str_of(key->name));
    void *field = config_field(section->base, key);
    if (key->type == CONFIG_TABLE) {
        if (value != NULL && value->kind != TOML_TABLE)
            return fail_section(r, key, path, value);
        struct section inner = {.in = key->opens, .header = header, .path = path, .base = field};
        inner.table = value == NULL ? NULL : value->table;
        inner.place = value == NULL ? inner.place : value->place;
        return read_section(r, &inner);
    }
    struct elements elements = {0};
    if (value != NULL && key->type == CONFIG_MAP && read_map(r, key, path, value, &elements) < 0)
        return -1;
    if (value != NULL && key->type == CONFIG_TABLES &&
        read_tables(r, key, header, path, value, &elements) < 0)
        return -1;
    memcpy(field, &elements, sizeof elements);
    return 0;
}

/* Plain keys come before sections, so that the settings can be printed as TOML in their order. */
static int read_section(struct reader *r, struct section *section)
{
    if (check_known(r, section) < 0)
        return -1;
    CONFIG_KEYS_IN (key, section->in)
        if (!config_is_section(key) && read_leaf(r, section, key) < 0)
            return -1;
    CONFIG_KEYS_IN (key, section->in)
        if (config_is_section(key) && read_inner(r, section, key) < 0)
            return -1;
    return 0;
}

int config_read(struct config *config, const struct toml_table *root, struct err *err)
{
    struct reader r = {config, err};
    struct section top = {.in = "", .base = config, .table = root, .place = {1, 1}};
    return read_section(&r, &top);
}
