#include "cli/cmd/installed.h"

#include <unistd.h>

#include "base/err.h"
#include "base/format/json.h"
#include "cli/meter.h"
#include "config/config.h"

/* The configuration, and the data directory that it names. */
static int installed_open(const struct cli_call *call, struct config **ret_config,
                          char ret_data_dir[RUNTIME_PATH_MAX], struct err *err)
{
    if (config_load(cli_value(call, "config"), ret_config, err) < 0)
        return -1;
    if ((*ret_config)->server.data_dir.len == 0)
        return err_set(err, ERR_INVALID, "no home directory: set SANDGLASS_HOME");
    return str_to_cstr((*ret_config)->server.data_dir, ret_data_dir, RUNTIME_PATH_MAX, err);
}

const char *installed_state_name(enum runtime_state state)
{
    static const char *const names[] = {
        [RUNTIME_READY] = "ready", [RUNTIME_ABSENT] = "absent", [RUNTIME_OLD] = "old"};
    return names[state];
}

int installed_list(const struct cli_call *call, const struct installed_kind *kind, struct err *err)
{
    static struct installed look;
    AUTO_CONFIG struct config *config = NULL;
    char data_dir[RUNTIME_PATH_MAX];
    AUTO_BUF struct buf text = {0};
    struct json_out json = {.buf = &text, .pretty = isatty(STDOUT_FILENO) == 1};
    bool as_json = cli_has(call, "json");
    if (installed_open(call, &config, data_dir, err) < 0)
        return -1;
    if (as_json)
        json_begin_array(&json);
    else
        buf_put_cstr(&text, kind->head);
    for (size_t i = 0; (look.row = kind->at(i)) != NULL; i++) {
        kind->look(data_dir, &look);
        if (as_json)
            kind->put_json(&look, &json);
        else
            kind->put_line(&look, &text);
    }
    if (as_json) {
        json_end_array(&json);
        buf_put_char(&text, '\n');
    }
    cli_print(buf_str(&text));
    return EXIT_OK;
}

static void report(const struct cli_call *call, const struct installed_kind *kind,
                   const struct installed *look, const char *what)
{
    AUTO_BUF struct buf text = {0};
    struct json_out json = {.buf = &text, .pretty = isatty(STDOUT_FILENO) == 1};
    if (cli_has(call, "json")) {
        kind->put_json(look, &json);
    } else {
        kind->put_name(look, &text);
        buf_printf(&text, " %s", what);
    }
    buf_put_char(&text, '\n');
    cli_print(buf_str(&text));
}

int installed_add(const struct cli_call *call, const struct installed_kind *kind, struct err *err)
{
    static struct installed look;
    AUTO_CONFIG struct config *config = NULL;
    char data_dir[RUNTIME_PATH_MAX];
    bool added = false;
    struct meter meter = meter_of(call->args[0]);
    struct obtain how = {.data_dir = data_dir,
                         .file = cli_value(call, "file"),
                         .progress = meter_show,
                         .ctx = &meter,
                         .check = kind->check};
    if (installed_open(call, &config, data_dir, err) < 0 ||
        kind->find(str_of(call->args[0]), &look.row, err) < 0)
        return -1;
    how.npm_registry = config->packages.npm_registry;
    int done = kind->add(look.row, &how, &added, err);
    meter_end(&meter);
    if (done < 0)
        return -1;
    kind->look(data_dir, &look);
    report(call, kind, &look, added ? "is ready" : "is already installed");
    return EXIT_OK;
}

int installed_remove(const struct cli_call *call, const struct installed_kind *kind,
                     struct err *err)
{
    static struct installed look;
    AUTO_CONFIG struct config *config = NULL;
    char data_dir[RUNTIME_PATH_MAX];
    if (installed_open(call, &config, data_dir, err) < 0 ||
        kind->find(str_of(call->args[0]), &look.row, err) < 0 ||
        kind->remove(look.row, data_dir, err) < 0)
        return -1;
    kind->look(data_dir, &look);
    report(call, kind, &look, "was removed");
    return EXIT_OK;
}

const struct cli_option installed_add_options[] = {
    {.name = "file",
     .value = "FILE",
     .help = "Take the npm package from this file instead of downloading it"},
    CLI_OPTION_JSON,
    {0},
};
