/* The effective configuration, written out: TOML for people, JSON for programs, lines for the log.
 *
 * Secrets are shown as set or not set. Free-form tables are shown by their keys: a provider's
 * options may hold credentials that the schema cannot know of. */

#include "base/buf.h"
#include "base/format/json.h"
#include "config/config.h"
#include "config/config_schema.h"

/* "config.toml:7", "$SANDGLASS_HOME" or "default". */
static void put_origin(const struct config *config, const struct config_setting *setting,
                       struct buf *out)
{
    if (setting->source == CONFIG_FROM_FILE)
        buf_printf(out, "%.*s:%d", STR_ARG(config->file), setting->place.line);
    else if (setting->source == CONFIG_FROM_ENV)
        buf_printf(out, "$%.*s", STR_ARG(setting->env));
    else
        buf_put_cstr(out, "default");
}

static bool has_value(const struct config_setting *setting)
{
    switch (setting->key->type) {
    case CONFIG_STR:
        return ((const struct str *)setting->field)->len > 0;
    case CONFIG_FREE:
    case CONFIG_SECRET:
        return *(const void *const *)setting->field != NULL;
    default:
        return true;
    }
}

static void put_free_keys(struct json_out *out, const struct toml_table *table)
{
    json_begin_array(out);
    TOML_EACH (entry, table)
        json_put_str(out, entry->key);
    json_end_array(out);
}

/* JSON's strings, numbers, booleans and arrays of strings are TOML's too. */
static void config_show_put_value(struct json_out *out, const struct config_setting *setting)
{
    const void *field = setting->field;
    switch (setting->key->type) {
    case CONFIG_STR:
        json_put_str(out, *(const struct str *)field);
        break;
    case CONFIG_INT:
        json_put_i64(out, *(const int64_t *)field);
        break;
    case CONFIG_FLOAT:
        json_put_f64(out, *(const double *)field);
        break;
    case CONFIG_BOOL:
        json_put_bool(out, *(const bool *)field);
        break;
    case CONFIG_CHOICE:
        json_put_cstr(out, setting->key->choices[*(const int *)field]);
        break;
    case CONFIG_LIST:
        json_begin_array(out);
        for (size_t i = 0; i < ((const struct config_list *)field)->len; i++)
            json_put_str(out, ((const struct config_list *)field)->items[i]);
        json_end_array(out);
        break;
    case CONFIG_FREE:
        put_free_keys(out, *(const struct toml_table *const *)field);
        break;
    default:
        json_put_null(out);
        break;
    }
}

static void put_secret_state(const struct config_setting *setting, struct buf *out)
{
    if (has_value(setting))
        buf_printf(out, "set (from %.*s)", STR_ARG(setting->env));
    else if (setting->env.len > 0)
        buf_printf(out, "not set (%.*s is not in the environment)", STR_ARG(setting->env));
    else
        buf_put_cstr(out, "not set");
}

/* One line without its end; what a file could not say is a comment. */
static void config_show_put_line(const struct config *config, const struct config_setting *setting,
                                 struct buf *out)
{
    const struct config_key *key = setting->key;
    struct json_out json = {.buf = out};
    if (key->type == CONFIG_SECRET) {
        buf_printf(out, "# %s: ", key->name);
        put_secret_state(setting, out);
        return;
    }
    if (!has_value(setting)) {
        buf_printf(out, "# %s: not set", key->name);
        if (key->note != NULL)
            buf_printf(out, " (%s)", key->note);
        return;
    }
    if (key->type == CONFIG_FREE) {
        buf_printf(out, "# %s: values not shown; keys:", key->name);
        TOML_EACH (entry, *(const struct toml_table *const *)setting->field) {
            buf_put_char(out, ' ');
            toml_put_key(out, entry->key);
        }
    } else {
        buf_printf(out, "%s = ", key->name);
        config_show_put_value(&json, setting);
    }
    buf_put_cstr(out, "  # ");
    put_origin(config, setting, out);
}

void config_put_settings(const struct config *config, struct buf *out)
{
    if (config->file.len > 0)
        buf_printf(out, "# %.*s\n", STR_ARG(config->file));
    else
        buf_put_cstr(out, "# no config.toml; defaults and environment\n");
    for (const struct config_setting *s = config->settings; s != NULL; s = s->next) {
        if (s->first && s->section.len > 0)
            buf_printf(out, s->of_array ? "\n[[%.*s]]\n" : "\n[%.*s]\n", STR_ARG(s->section));
        config_show_put_line(config, s, out);
        buf_put_char(out, '\n');
    }
}

static void put_setting_json(const struct config *config, const struct config_setting *setting,
                             struct json_out *out)
{
    json_begin_object(out);
    json_key(out, "key"), json_put_str(out, setting->path);
    if (setting->key->type == CONFIG_SECRET) {
        json_key(out, "set"), json_put_bool(out, has_value(setting));
        json_key(out, "env"), json_put_cstr(out, setting->env.len > 0 ? setting->env.ptr : NULL);
    } else if (setting->key->type == CONFIG_FREE && has_value(setting)) {
        json_key(out, "keys"), config_show_put_value(out, setting);
    } else {
        json_key(out, "value");
        if (has_value(setting))
            config_show_put_value(out, setting);
        else
            json_put_null(out);
    }
    json_key(out, "source"), json_put_cstr(out, config_source_name(setting->source));
    if (setting->source != CONFIG_FROM_DEFAULT) {
        AUTO_BUF struct buf origin = {0};
        put_origin(config, setting, &origin);
        json_key(out, "origin"), json_put_str(out, buf_str(&origin));
    }
    json_end_object(out);
}

void config_put_settings_json(const struct config *config, struct buf *out)
{
    struct json_out json = {.buf = out, .pretty = true};
    json_begin_object(&json);
    json_key(&json, "file");
    json_put_cstr(&json, config->file.len > 0 ? config->file.ptr : NULL);
    json_key(&json, "settings");
    json_begin_array(&json);
    for (const struct config_setting *s = config->settings; s != NULL; s = s->next)
        put_setting_json(config, s, &json);
    json_end_array(&json);
    json_end_object(&json);
    buf_put_char(out, '\n');
}

void config_log(const struct config *config)
{
    log_info("config.loaded", LOG_VIEW("file", config->file),
             LOG_INT("providers", config->providers.len),
             LOG_STR("sandbox", config->sandbox.enabled ? "on" : "off"));
    if (!log_is_on(LOG_DEBUG))
        return;
    for (const struct config_setting *s = config->settings; s != NULL; s = s->next) {
        AUTO_BUF struct buf value = {0}, origin = {0};
        struct json_out json = {.buf = &value};
        if (s->key->type == CONFIG_SECRET)
            put_secret_state(s, &value);
        else if (has_value(s))
            config_show_put_value(&json, s);
        put_origin(config, s, &origin);
        log_debug("config.setting", LOG_VIEW("key", s->path), LOG_VIEW("value", buf_str(&value)),
                  LOG_VIEW("origin", buf_str(&origin)));
    }
}
