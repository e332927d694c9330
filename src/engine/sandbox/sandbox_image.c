/* Images and disks of a sandbox: which ones it uses, and which ones are no longer needed. */

#include "base/id.h"
#include "base/map.h"
#include "engine/internal.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/sandbox/variables.h"
#include "store/store.h"

void sandbox_set_image(struct sandbox *sandbox, struct str image)
{
    buf_clear(&sandbox->image);
    buf_put(&sandbox->image, image);
}

/* Pointers change when the vector grows: the list that callers see is rebuilt. */
static void show_checkpoints(struct sandbox *sandbox)
{
    sandbox->shown.len = 0;
    VEC_EACH (checkpoint, &sandbox->checkpoints)
        *vec_push(&sandbox->shown) =
            (struct sandbox_checkpoint){.id = str_of(checkpoint->id),
                                        .name = str_of(checkpoint->name),
                                        .created_ms = checkpoint->created_ms};
    sandbox->info.checkpoints = sandbox->shown.ptr;
    sandbox->info.checkpoint_count = sandbox->shown.len;
}

void sandbox_add_checkpoint(struct sandbox *sandbox, struct str id, struct str name,
                            struct str image, int64_t size_bytes, int64_t created_ms)
{
    struct checkpoint *checkpoint = vec_push(&sandbox->checkpoints);
    (void)snprintf(checkpoint->id, sizeof checkpoint->id, "%.*s", STR_ARG(id));
    checkpoint->name = mem_alloc(name.len + 1);
    if (name.len > 0)
        memcpy(checkpoint->name, name.ptr, name.len);
    checkpoint->image = mem_alloc(image.len + 1);
    if (image.len > 0)
        memcpy(checkpoint->image, image.ptr, image.len);
    checkpoint->created_ms = created_ms;
    checkpoint->size_bytes = size_bytes;
    checkpoint->variables = NULL;
    checkpoint->kept = NULL;
    show_checkpoints(sandbox);
}

void sandbox_cut_checkpoints(struct sandbox *sandbox, size_t count)
{
    while (sandbox->checkpoints.len > count) {
        struct checkpoint last = vec_pop(&sandbox->checkpoints);
        sandbox_release_image(sandbox->engine, sandbox->info.tier, str_of(last.image));
        free(last.name);
        free(last.image);
        free(last.variables);
        (void)variables_free(last.kept);
    }
    show_checkpoints(sandbox);
}

static bool is_used(const struct engine *engine, enum engine_tier tier, struct str image)
{
    MAP_EACH (entry, &engine->sandboxes) {
        const struct sandbox *sandbox = entry->value;
        if (sandbox->info.tier != tier)
            continue;
        if (str_eq(buf_str(&sandbox->image), image))
            return true;
        VEC_EACH (checkpoint, &sandbox->checkpoints)
            if (str_eq(str_of(checkpoint->image), image))
                return true;
    }
    return false;
}

/* Deleted once it is no longer used. */
void sandbox_release_image(struct engine *engine, enum engine_tier tier, struct str image)
{
    const struct provider_table *table = engine_table(engine, tier);
    if (image.len == 0 || table->image_delete == NULL || engine->providers[tier] == NULL ||
        is_used(engine, tier, image))
        return;
    table->image_delete(engine->providers[tier], image);
}

static void drop_disk(struct sandbox *sandbox)
{
    struct engine *engine = sandbox->engine;
    enum engine_tier tier = sandbox->info.tier;
    char disk[ID_SIZE];
    memcpy(disk, sandbox->disk, sizeof disk);
    sandbox->disk[0] = '\0';
    if (disk[0] != '\0' && engine->providers[tier] != NULL)
        engine_table(engine, tier)->disk_delete(engine->providers[tier], str_of(disk));
}

void sandbox_want_disk(struct sandbox *sandbox)
{
    enum engine_tier tier = sandbox->info.tier;
    const struct provider_table *table = engine_table(sandbox->engine, tier);
    struct provider *provider = NULL;
    struct err ignored = {0};
    if (sandbox->is_helper || sandbox->disk[0] != '\0' || table->has_disks == NULL ||
        engine_provider(sandbox->engine, tier, &provider, &ignored) < 0 ||
        !table->has_disks(provider))
        return;
    id_new(sandbox->disk);
    sandbox->is_disk_new = sandbox->info.is_on_disk = true;
}

void sandbox_skipped(struct engine *engine, struct str id, struct str text)
{
    struct sandbox *sandbox = map_get(&engine->sandboxes, id);
    if (sandbox == NULL)
        return;
    buf_clear(&sandbox->skipped);
    buf_put(&sandbox->skipped, text);
    sandbox->info.skipped = buf_str(&sandbox->skipped);
}

/* Its place is made of it now. A lease on the row's image ends when the place stands elsewhere. */
void sandbox_stand(struct engine *engine, struct str id, struct str image, struct str disk)
{
    struct sandbox *sandbox = map_get(&engine->sandboxes, id);
    if (sandbox == NULL || sandbox->is_helper || sandbox->disk[0] == '\0')
        return;
    AUTO_BUF struct buf old = sandbox->image;
    sandbox->image = (struct buf){0};
    sandbox_set_image(sandbox, image);
    (void)snprintf(sandbox->disk, sizeof sandbox->disk, "%.*s", STR_ARG(disk));
    struct store_batch *batch = store_begin(engine->store);
    sandbox_save(sandbox, batch);
    sandbox_commit(sandbox, batch, STORE_QUICK, NULL);
    sandbox_release_image(engine, sandbox->info.tier, buf_str(&old));
}

void sandbox_drop_images(struct sandbox *sandbox)
{
    AUTO_BUF struct buf image = sandbox->image;
    sandbox->image = (struct buf){0};
    sandbox_cut_checkpoints(sandbox, 0);
    sandbox_release_image(sandbox->engine, sandbox->info.tier, buf_str(&image));
    sandbox->bases.len = 0;
    drop_disk(sandbox);
}

void sandbox_forget_image(struct sandbox *sandbox)
{
    if (sandbox->disk[0] != '\0')
        return; /* the disk's layers are above this image */
    AUTO_BUF struct buf image = sandbox->image;
    sandbox->image = (struct buf){0};
    sandbox_release_image(sandbox->engine, sandbox->info.tier, buf_str(&image));
}

struct str sandbox_last_image(const struct sandbox *sandbox)
{
    if (sandbox->disk[0] != '\0' || sandbox->image.len > 0 || sandbox->checkpoints.len == 0)
        return buf_str(&sandbox->image);
    return str_of(vec_last(&sandbox->checkpoints)->image);
}
