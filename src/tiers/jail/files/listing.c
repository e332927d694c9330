/* Which files a run has made, changed or deleted: a list before, a list after, both made inside by
 * the jail's init. */

#include "base/buf.h"
#include "base/map.h"
#include "runtime/output.h"
#include "tiers/jail/code/interpreter.h"
#include "tiers/jail/files/files.h"
#include "tiers/jail/place.h"

#define WORKSPACE "/workspace"
#define HIDDEN ".sandglass/" /* what is installed there is no work of the code */

struct listing {
    struct arena arena;
    struct map files; /* by path below the workspace */
    bool is_cut;      /* there are more than a list may hold */
    size_t size;      /* bytes of all paths */
};

/* A list that a sandbox leaves in memory for its next run; a longer one is made again. */
enum { LISTING_KEPT_MAX = 256 << 10 };

struct listed {
    uint64_t size;
    int64_t mtime_ns;
    enum file_type type;
};

struct listing_op {
    listing_done *done; /* NULL: the result is not needed any more */
    void *ctx;
};

struct listing *listing_free(struct listing *listing)
{
    if (listing == NULL)
        return NULL;
    map_done(&listing->files);
    arena_done(&listing->arena);
    free(listing);
    return NULL;
}

static struct listing *listing_new(const struct file_answer *answer)
{
    struct listing *listing = mem_alloc(sizeof *listing);
    listing->is_cut = answer->truncated;
    for (size_t i = 0; i < answer->entry_count; i++) {
        const struct file_info *entry = &answer->entries[i];
        if (entry->type == FILE_DIRECTORY || str_starts(entry->path, STR(HIDDEN)))
            continue;
        struct listed *listed = arena_new(&listing->arena, struct listed);
        *listed = (struct listed){entry->size, entry->mtime_ns, entry->type};
        (void)map_put(&listing->files, entry->path, listed);
        listing->size += sizeof *listed + entry->path.len;
    }
    return listing;
}

static void on_listed(void *ctx, const struct file_answer *answer, UNUSED const struct err *why)
{
    struct listing_op *op = ctx;
    if (op->done != NULL)
        op->done(op->ctx, answer == NULL ? NULL : listing_new(answer));
    free(op);
}

struct listing_op *listing_start(struct place *place, listing_done *done, void *ctx)
{
    struct listing_op *op = mem_alloc(sizeof *op);
    struct file_request request = {.op = FILE_LIST, .path = STR(WORKSPACE), .recursive = true};
    *op = (struct listing_op){done, ctx};
    tier_files(place, &request, on_listed, op);
    return op;
}

void listing_forget(struct listing_op *op)
{
    op->done = NULL;
}

void tier_files_touched(struct place *place)
{
    place->version++;
}

/* Commands and other contexts change files at any time. */
static bool is_alone(const struct place *place)
{
    size_t busy = 0;
    for (const struct context *context = place->contexts; context != NULL; context = context->next)
        busy += context->runs != NULL;
    return busy <= 1 && place->execs == NULL;
}

struct listing *listing_take(struct place *place)
{
    struct listing *listing = place->listing;
    place->listing = NULL;
    if (listing != NULL && place->version == place->listing_version && is_alone(place))
        return listing;
    return listing_free(listing);
}

void listing_keep(struct place *place, struct listing *listing)
{
    place->listing = listing_free(place->listing);
    if (!is_alone(place) || (listing != NULL && listing->size > LISTING_KEPT_MAX)) {
        (void)listing_free(listing);
        return;
    }
    place->listing = listing;
    place->listing_version = place->version;
}

static void listing_tell(struct run_output *output, enum run_change change, struct str path,
                         uint64_t size)
{
    AUTO_BUF struct buf whole = {0};
    buf_printf(&whole, "%s/%.*s", WORKSPACE, STR_ARG(path));
    run_output_add_file(output, change, buf_str(&whole), size);
}

void listing_compare(const struct listing *before, const struct listing *after,
                     struct run_output *output)
{
    if (before == NULL || after == NULL)
        return;
    output->has_files = true;
    /* Truncated lists end at different names: a name that is missing from one may be after its
     * end. */
    bool is_cut = before->is_cut || after->is_cut;
    output->has_more_files |= is_cut;
    MAP_EACH (entry, &after->files) {
        const struct listed *now = entry->value, *then = map_get(&before->files, entry->key);
        if (then == NULL && !is_cut)
            listing_tell(output, RUN_FILE_CREATED, entry->key, now->size);
        else if (then != NULL && (then->size != now->size || then->mtime_ns != now->mtime_ns ||
                                  then->type != now->type))
            listing_tell(output, RUN_FILE_CHANGED, entry->key, now->size);
    }
    MAP_EACH (entry, &before->files)
        if (!is_cut && !map_has(&after->files, entry->key))
            listing_tell(output, RUN_FILE_DELETED, entry->key, 0);
}
