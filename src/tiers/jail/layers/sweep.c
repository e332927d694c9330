/* Layers that are no longer used: found by comparing the directory with everything that names
 * one, and removed once the store has forgotten them too. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "base/sys.h"
#include "base/tree.h"
#include "base/vec.h"
#include "io/loop.h"
#include "io/pool.h"
#include "store/store.h"
#include "tiers/jail/layers/disk.h"
#include "tiers/jail/layers/layers.h"
#include "tiers/jail/place.h"
#include "tiers/jail/provider_jail.h"

enum { SWEEP_AFTER_MS = 50, COPIERS = 2, COPY_QUEUE = 4096 };

void tier_layers_begin(struct provider *provider, struct jail_fresh *fresh)
{
    id_new(fresh->id);
    fresh->next = provider->layers->fresh;
    provider->layers->fresh = fresh;
}

void tier_layers_end(struct provider *provider, struct jail_fresh *fresh)
{
    for (struct jail_fresh **at = &provider->layers->fresh; *at != NULL; at = &(*at)->next)
        if (*at == fresh) {
            *at = fresh->next;
            return;
        }
}

/* --- Who names what --- */

static void mark_disk(void *ctx, struct str disk)
{
    char key[ID_SIZE + 1];
    (void)snprintf(key, sizeof key, "/%.*s", STR_ARG(disk));
    (void)map_put(ctx, str_of(key), ctx);
}

static void mark_image(void *ctx, struct str image)
{
    struct map *named = ctx;
    struct err err = {0};
    layer_ids ids = {0};
    (void)!tier_layers_add(&ids, image, &err);
    VEC_EACH (id, &ids)
        (void)map_put(named, *id, named);
    vec_done(&ids);
    tier_layers_each_disk(image, mark_disk, named);
}

static void mark_row(void *ctx, struct str disk, UNUSED struct str image)
{
    mark_disk(ctx, disk);
}

bool tier_layers_is_named(const struct map *named, struct str disk)
{
    char key[ID_SIZE + 1];
    (void)snprintf(key, sizeof key, "/%.*s", STR_ARG(disk));
    return map_has(named, str_of(key));
}

void tier_layers_mark(struct provider *provider, struct map *ret_named)
{
    provider->host->each_image(provider->host->engine, ENGINE_TIER_JAIL, mark_image, ret_named);
    provider->host->each_disk(provider->host->engine, ENGINE_TIER_JAIL, mark_row, ret_named);
    for (const struct place *place = provider->places; place != NULL; place = place->next) {
        mark_image(ret_named, buf_str(&place->base_image));
        mark_image(ret_named, buf_str(&place->own_image));
        mark_image(ret_named, buf_str(&place->sealed.mounted));
        mark_image(ret_named, buf_str(&place->sealed.asked));
        mark_image(ret_named, tier_told_image(place));
    }
    if (provider->layers == NULL)
        return;
    tier_layers_each_kept(provider, mark_image, ret_named);
    for (const struct jail_fresh *fresh = provider->layers->fresh; fresh != NULL;
         fresh = fresh->next)
        (void)map_put(ret_named, str_of(fresh->id), ret_named);
}

/* What was named when it began to be true that the store has everything: what is not named any more
 * since then may still be in the store. */
struct marks {
    struct map named, floors;
};

static void marks_take(struct marks *marks, struct provider *provider)
{
    tier_layers_mark(provider, &marks->named);
    tier_disks_mark(provider, &marks->floors);
}

static void marks_done(struct marks *marks)
{
    map_done(&marks->named);
    tier_disks_unmark(&marks->floors);
}

/* --- On the disk's thread --- */

struct sweep {
    struct job job; /* first */
    int dir_fd, trash_fd;
    VEC(char *) doomed; /* unused when the directory was read */
    int result;
    struct err err;
    engine_done *done;
    void *ctx;
};

static int sweep_all(struct sweep *sweep)
{
    VEC_EACH (name, &sweep->doomed) {
        log_debug("jail.sweep", LOG_STR("layer", *name));
        if (tree_discard(sweep->dir_fd, *name, sweep->trash_fd, &sweep->err) < 0 &&
            sweep->err.code != ERR_NOT_FOUND)
            return -1;
        CRASH_POINT("sweep.one");
    }
    return tree_reclaim(sweep->trash_fd, &sweep->err);
}

static void run_sweep(struct job *base)
{
    struct sweep *sweep = (struct sweep *)base;
    sweep->result = sweep_all(sweep);
}

static void sweep_done(struct job *base, bool canceled)
{
    struct sweep *sweep = (struct sweep *)base;
    if (canceled)
        sweep->result = err_set(&sweep->err, ERR_CANCELED, "the server is stopping");
    else if (sweep->result < 0)
        log_warn("jail.sweep", LOG_STR("error", sweep->err.msg));
    if (sweep->done != NULL)
        sweep->done(sweep->ctx, sweep->result < 0 ? &sweep->err : NULL);
    VEC_EACH (name, &sweep->doomed)
        free(*name);
    vec_done(&sweep->doomed);
    free(sweep);
}

/* "ID" or ".new-ID". */
static bool is_named(const struct map *named, const char *name)
{
    struct str id = str_of(name);
    if (str_starts(id, STR(".new-")))
        id = str_slice(id, 5, id.len);
    return map_has(named, id);
}

/* Lists the directory at once, on the loop: layers that are started later are not in the list. */
static void find_doomed(struct sweep *sweep, const struct map *named)
{
    AUTO_CLOSE int fd = SYS(openat(sweep->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry = NULL;
    if (dir == NULL)
        return;
    (void)fd_take(&fd);                      /* the stream's now */
    while ((entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        const char *name = entry->d_name;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && strcmp(name, ".trash") != 0 &&
            !is_named(named, name))
            *vec_push(&sweep->doomed) = mem_dup_cstr(name);
    }
    (void)closedir(dir);
}

static void sweep_marked(struct provider *provider, struct marks *marks, engine_done *done,
                         void *ctx)
{
    struct err err = {0};
    struct sweep *sweep = mem_alloc(sizeof *sweep);
    *sweep = (struct sweep){.job = {.run = run_sweep, .done = sweep_done},
                            .dir_fd = provider->layers->dir_fd,
                            .trash_fd = provider->layers->trash_fd,
                            .done = done,
                            .ctx = ctx};
    tier_layers_mark(provider, &marks->named); /* and what is named now */
    tier_disks_sweep(provider, &marks->named, &marks->floors, done != NULL);
    find_doomed(sweep, &marks->named);
    if (pool_submit(provider->disk, &sweep->job, &err) < 0)
        sweep_done(&sweep->job, true);
}

void tier_layers_reclaim(struct provider *provider, engine_done *done, void *ctx)
{
    struct marks marks = {0};
    marks_take(&marks, provider);
    sweep_marked(provider, &marks, done, ctx);
    marks_done(&marks);
}

/* --- When --- */

/* The rows that named a layer are rewritten about now: once the store has that, it may go. */
struct barrier {
    struct provider *provider; /* NULL: closed */
    struct marks marks;
};

static void on_barrier(void *ctx, const struct err *why)
{
    struct barrier *barrier = ctx;
    struct provider *provider = barrier->provider;
    if (provider != NULL)
        provider->layers->barrier = NULL;
    if (provider != NULL && why == NULL)
        sweep_marked(provider, &barrier->marks, NULL, NULL);
    marks_done(&barrier->marks);
    free(barrier);
}

static void on_sweep_time(void *ctx)
{
    struct provider *provider = ctx;
    struct store *store = provider->host->store;
    struct barrier *barrier = mem_alloc(sizeof *barrier);
    if (provider->layers->barrier != NULL) {
        free(barrier);
        timer_set(provider->layers->sweep_timer, SWEEP_AFTER_MS, 0);
        return;
    }
    barrier->provider = provider;
    marks_take(&barrier->marks, provider);
    provider->layers->barrier = barrier;
    store_commit(store_begin(store), STORE_DURABLE, on_barrier, barrier);
}

void tier_layers_sweep_soon(struct provider *provider)
{
    struct jail_layers *layers = provider->layers;
    if (layers->is_stopping)
        return;
    if (layers->sweep_timer == NULL)
        layers->sweep_timer = timer_new(provider->host->loop, on_sweep_time, provider);
    if (!timer_is_set(layers->sweep_timer))
        timer_set(layers->sweep_timer, SWEEP_AFTER_MS, 0);
}

/* --- Opening and closing --- */

static int sweep_open_dir(int dir_fd, const char *name, struct err *err)
{
    if (SYS(mkdirat(dir_fd, name, (mode_t)0700)) < 0 && errno != EEXIST)
        return err_sys(err, errno, "make '%s'", name);
    int fd = SYS(openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    return fd < 0 ? err_sys(err, errno, "open '%s'", name) : fd;
}

int tier_layers_open(struct provider *provider, struct err *err)
{
    struct jail_layers *layers = mem_alloc(sizeof *layers);
    *layers = (struct jail_layers){.dir_fd = -1, .trash_fd = -1};
    provider->layers = layers;
    AUTO_CLOSE int home = SYS(open(provider->host->data_dir, O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (home < 0)
        return err_sys(err, errno, "open '%s'", provider->host->data_dir);
    layers->dir_fd = sweep_open_dir(home, "layers", err);
    if (layers->dir_fd < 0)
        return -1;
    layers->trash_fd = sweep_open_dir(layers->dir_fd, ".trash", err);
    if (layers->trash_fd < 0)
        return -1;
    return pool_open(provider->host->loop, COPIERS, COPY_QUEUE, &layers->pool, err);
}

/* A sweep that waits for the store must not begin once the pools that it needs are closed: each
 * pool's end runs what was posted to the loop. */
void tier_layers_stop(struct provider *provider)
{
    struct jail_layers *layers = provider->layers;
    if (layers == NULL)
        return;
    layers->is_stopping = true;
    layers->sweep_timer = timer_free(layers->sweep_timer);
    if (layers->barrier != NULL)
        layers->barrier->provider = NULL;
    layers->barrier = NULL;
}

void tier_layers_close(struct provider *provider)
{
    struct jail_layers *layers = provider->layers;
    if (layers == NULL)
        return;
    layers->pool = pool_free(layers->pool);
    fd_close(&layers->dir_fd);
    fd_close(&layers->trash_fd);
    free(layers);
    provider->layers = NULL;
}
