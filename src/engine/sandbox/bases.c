/* What forks are based on, and how much of it their tenant is charged for. */

#include "engine/sandbox/bases.h"

#include "base/map.h"
#include "engine/internal.h"
#include "engine/sandbox/sandbox_internal.h"

/* A longer chain of forks adds its oldest entries up. */
enum { BASES_MAX = 64 };

struct looking {
    struct str disk;
    bool is_there;
};

static void bases_look_at(void *ctx, struct str disk)
{
    struct looking *looking = ctx;
    looking->is_there |= str_eq(disk, looking->disk);
}

static bool is_on_disk_of(const struct sandbox *parent, struct str image)
{
    const struct provider_table *table = engine_table(parent->engine, parent->info.tier);
    struct looking looking = {.disk = str_of(parent->disk)};
    if (table->image_disks != NULL && looking.disk.len > 0)
        table->image_disks(image, bases_look_at, &looking);
    return looking.is_there;
}

void bases_copy(sandbox_bases *to, const struct sandbox_base *items, size_t count)
{
    to->len = 0;
    for (size_t i = 0; i < count; i++)
        *vec_push(to) = items[i];
}

void bases_of_fork(const struct sandbox *parent, struct str image, struct str call, int64_t bytes,
                   sandbox_bases *ret_bases)
{
    struct sandbox_base base = {.bytes = bytes};
    struct str id = is_on_disk_of(parent, image) ? str_of(parent->disk) : call;
    (void)snprintf(base.id, sizeof base.id, "%.*s", STR_ARG(id));
    bases_copy(ret_bases, parent->bases.ptr, parent->bases.len);
    if (ret_bases->len >= BASES_MAX) {
        ret_bases->ptr[1].bytes += ret_bases->ptr[0].bytes;
        vec_remove(ret_bases, 0);
    }
    *vec_push(ret_bases) = base;
}

/* The largest of the entries with the same id. */
static void bases_note(struct map *seen, const sandbox_bases *bases)
{
    VEC_EACH (base, bases) {
        const struct sandbox_base *before = map_get(seen, str_of(base->id));
        if (before == NULL || before->bytes < base->bytes)
            (void)map_put(seen, str_of(base->id), base);
    }
}

int64_t bases_bytes(const struct engine *engine, struct str tenant)
{
    struct map seen = {0};
    int64_t sum = 0;
    MAP_EACH (entry, &engine->sandboxes) {
        struct sandbox *sandbox = entry->value;
        if (str_eq(sandbox->info.tenant, tenant))
            bases_note(&seen, &sandbox->bases);
    }
    /* A disk whose sandbox exists is charged with its limit. */
    MAP_EACH (entry, &engine->sandboxes) {
        const struct sandbox *sandbox = entry->value;
        if (sandbox->disk[0] != '\0' && str_eq(sandbox->info.tenant, tenant))
            (void)map_remove(&seen, str_of(sandbox->disk));
    }
    MAP_EACH (entry, &seen)
        sum += ((const struct sandbox_base *)entry->value)->bytes;
    map_done(&seen);
    return sum;
}
