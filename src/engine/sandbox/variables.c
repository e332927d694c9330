#include "engine/sandbox/variables.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>

#include "base/log.h"
#include "base/map.h"
#include "config/config.h"
#include "engine/internal.h"
#include "engine/provider.h"
#include "engine/sandbox/ledger.h"
#include "engine/sandbox/sandbox_internal.h"

enum {
    PART_OF_MEMORY = 8, /* where the configuration says nothing */
    PART_OF_FILES = 4,  /* of the descriptors that this process may have */
};

struct kept {
    struct engine *engine;
    enum engine_tier tier;
    char *tenant, *group;
    struct live_interpreters *live; /* NULL: dropped */
    struct live_size size;
};

static int64_t most_bytes(const struct engine *engine)
{
    return engine->config->sandbox.keep_variables_mb << 20;
}

static int64_t total_bytes(const struct engine *engine)
{
    int64_t total = engine->config->sandbox.keep_variables_total_mb << 20;
    struct sysinfo machine;
    if (total > 0)
        return total;
    return sysinfo(&machine) < 0
               ? 0
               : (int64_t)machine.totalram * (int64_t)machine.mem_unit / PART_OF_MEMORY;
}

static size_t files_max(void)
{
    struct rlimit files;
    return getrlimit(RLIMIT_NOFILE, &files) < 0 ? 0 : (size_t)(files.rlim_cur / PART_OF_FILES);
}

bool variables_are_wanted(const struct sandbox *sandbox)
{
    const struct engine *engine = sandbox->engine;
    const struct provider_table *table = engine_table(engine, sandbox->info.tier);
    return table->live_take != NULL && table->live_keep != NULL && sandbox->place != NULL &&
           sandbox->info.state == SANDBOX_RUNNING && !sandbox->is_helper && !engine->is_stopping &&
           most_bytes(engine) > 0 && ledger_has_any_state(&sandbox->ledger);
}

void variables_take(struct sandbox *sandbox, live_done *done, void *ctx)
{
    struct live_request request = {.most_bytes = most_bytes(sandbox->engine), .only_used = true};
    engine_table(sandbox->engine, sandbox->info.tier)
        ->live_take(sandbox->place, &request, done, ctx);
}

/* --- Room --- */

static void drop(struct kept *kept)
{
    struct engine *engine = kept->engine;
    struct live_interpreters *live = kept->live;
    if (live == NULL)
        return;
    for (size_t i = 0; i < engine->kept.len; i++)
        if (engine->kept.ptr[i] == kept) {
            vec_remove(&engine->kept, i);
            break;
        }
    kept->live = NULL;
    engine_table(engine, kept->tier)->live_free(live);
}

static void drop_for_room(struct kept *kept)
{
    log_info("variables.dropped", LOG_STR("of", kept->group), LOG_INT("bytes", kept->size.bytes));
    kept->engine->figures.variables.dropped++;
    drop(kept);
}

static void variables_add(struct live_size *sum, const struct live_size *size)
{
    sum->bytes += size->bytes;
    sum->files += size->files;
}

static struct live_size sum_of_all(const struct engine *engine)
{
    struct live_size sum = {0};
    VEC_EACH (each, &engine->kept)
        variables_add(&sum, &(*each)->size);
    return sum;
}

static bool is_of_group(const struct kept *kept, const struct kept *like)
{
    return strcmp(kept->group, like->group) == 0 && strcmp(kept->tenant, like->tenant) == 0;
}

/* The oldest of the group while all of it together is too much; else NULL. */
static struct kept *too_much_of_group(const struct engine *engine, const struct kept *like)
{
    struct live_size sum = {0};
    struct kept *oldest = NULL;
    VEC_EACH (each, &engine->kept)
        if (is_of_group(*each, like)) {
            oldest = oldest == NULL ? *each : oldest;
            variables_add(&sum, &(*each)->size);
        }
    return sum.bytes > most_bytes(engine) ? oldest : NULL;
}

/* What one tenant has. */
struct share {
    struct kept *oldest;
    struct live_size sum;
};

/* One tenant does not push out another's while it has more itself. */
static struct kept *oldest_of_most(const struct engine *engine, bool by_files)
{
    AUTO_ARENA struct arena arena = {0};
    struct map shares = {0};
    const struct share *most = NULL;
    VEC_EACH (each, &engine->kept) {
        struct share *share = map_get(&shares, str_of((*each)->tenant));
        if (share == NULL) {
            share = arena_array(&arena, struct share, 1);
            *share = (struct share){.oldest = *each};
            (void)map_put(&shares, str_of((*each)->tenant), share);
        }
        variables_add(&share->sum, &(*each)->size);
    }
    MAP_EACH (entry, &shares) {
        const struct share *share = entry->value;
        if (most == NULL ||
            (by_files ? share->sum.files > most->sum.files : share->sum.bytes > most->sum.bytes))
            most = share;
    }
    map_done(&shares);
    assert(most != NULL); /* there is too much, so there is something */
    return most->oldest;
}

/* It is on the list already; it may be the one that goes. */
static void make_room(struct engine *engine, const struct kept *kept)
{
    struct kept *old = NULL;
    while ((old = too_much_of_group(engine, kept)) != NULL)
        drop_for_room(old);
    while (sum_of_all(engine).bytes > total_bytes(engine))
        drop_for_room(oldest_of_most(engine, false));
    while (sum_of_all(engine).files > files_max())
        drop_for_room(oldest_of_most(engine, true));
}

/* --- Keeping --- */

struct kept *variables_keep(struct engine *engine, const struct sandbox *sandbox, struct str group,
                            struct live_interpreters *live)
{
    enum engine_tier tier = sandbox->info.tier;
    const struct provider_table *table = engine_table(engine, tier);
    AUTO_BUF struct buf text = {0};
    struct live_interpreters *own = NULL;
    if (live == NULL)
        return NULL;
    if (engine->providers[tier] != NULL && !engine->is_stopping)
        own = table->live_keep(engine->providers[tier], live,
                               MIN(most_bytes(engine), total_bytes(engine)));
    table->live_free(live);
    if (own == NULL)
        return NULL;
    struct kept *kept = mem_alloc(sizeof *kept);
    *kept =
        (struct kept){.engine = engine, .tier = tier, .live = own, .size = table->live_size(own)};
    buf_put(&text, group);
    kept->group = mem_dup_cstr(buf_cstr(&text));
    buf_clear(&text);
    buf_put(&text, sandbox->info.tenant);
    kept->tenant = mem_dup_cstr(buf_cstr(&text));
    *vec_push(&engine->kept) = kept;
    make_room(engine, kept);
    return kept;
}

struct live_interpreters *variables_use(const struct kept *kept)
{
    return kept == NULL || kept->live == NULL
               ? NULL
               : engine_table(kept->engine, kept->tier)->live_ref(kept->live);
}

struct kept *variables_free(struct kept *kept)
{
    if (kept == NULL)
        return NULL;
    drop(kept);
    free(kept->tenant);
    free(kept->group);
    free(kept);
    return NULL;
}

void variables_drop(struct engine *engine, enum engine_tier tier)
{
    for (size_t i = engine->kept.len; i-- > 0;)
        if (engine->kept.ptr[i]->tier == tier)
            drop(engine->kept.ptr[i]);
}

void variables_count(const struct engine *engine, struct variables_figures *figures)
{
    figures->count = engine->kept.len;
    figures->bytes = sum_of_all(engine).bytes;
}
