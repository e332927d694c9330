/* Layers that nobody names any more: found by comparing the directory with everything that names
 * one, and removed once the store has forgotten them too. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/tree.h"
#include "engine/internal.h"
#include "engine/jail_layers.h"

enum { SWEEP_AFTER_MS = 50, COPIERS = 2, COPY_QUEUE = 4096 };

void jail_layers_begin(struct provider *provider, struct jail_fresh *fresh)
{
    id_new(fresh->id);
    fresh->next = provider->layers->fresh;
    provider->layers->fresh = fresh;
}

void jail_layers_end(struct provider *provider, struct jail_fresh *fresh)
{
    for (struct jail_fresh **at = &provider->layers->fresh; *at != NULL; at = &(*at)->next)
        if (*at == fresh) {
            *at = fresh->next;
            return;
        }
}

/* --- Who names what --- */

static void mark_image(void *ctx, struct str image)
{
    struct map *named = ctx;
    struct err err = {0};
    layer_ids ids = {0};
    (void)!jail_layers_add(&ids, image, &err);
    VEC_EACH (id, &ids)
        (void)map_put(named, *id, named);
    vec_done(&ids);
}

static void mark_all(struct provider *provider, struct map *named)
{
    engine_each_image(provider->host->engine, ENGINE_TIER_JAIL, mark_image, named);
    for (const struct place *place = provider->places; place != NULL; place = place->next) {
        mark_image(named, buf_str(&place->base_image));
        mark_image(named, buf_str(&place->own_image));
        mark_image(named, buf_str(&place->sealed.mounted));
        mark_image(named, buf_str(&place->sealed.asked));
    }
    jail_layers_each_kept(provider, mark_image, named);
    for (const struct jail_fresh *fresh = provider->layers->fresh; fresh != NULL;
         fresh = fresh->next)
        (void)map_put(named, str_of(fresh->id), named);
}

/* --- On the disk's thread --- */

struct sweep {
    struct job job; /* first */
    int dir_fd, trash_fd;
    VEC(char *) doomed; /* what nobody named when the directory was read */
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
        sweep->result = err_set(&sweep->err, ERR_CANCELED, "the server stops");
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

/* Read here and now: a layer that is begun after this was not there to be found. */
static void find_doomed(struct provider *provider, struct sweep *sweep)
{
    AUTO_MAP struct map named = {0};
    AUTO_CLOSE int fd = SYS(openat(sweep->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry = NULL;
    if (dir == NULL)
        return;
    (void)fd_take(&fd); /* the stream's now */
    mark_all(provider, &named);
    while ((entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        const char *name = entry->d_name;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && strcmp(name, ".trash") != 0 &&
            !is_named(&named, name))
            *vec_push(&sweep->doomed) = mem_dup_cstr(name);
    }
    (void)closedir(dir);
}

void jail_layers_reclaim(struct provider *provider, engine_done *done, void *ctx)
{
    struct err err = {0};
    struct sweep *sweep = mem_alloc(sizeof *sweep);
    *sweep = (struct sweep){.job = {.run = run_sweep, .done = sweep_done},
                            .dir_fd = provider->layers->dir_fd,
                            .trash_fd = provider->layers->trash_fd,
                            .done = done,
                            .ctx = ctx};
    find_doomed(provider, sweep);
    if (pool_submit(provider->disk, &sweep->job, &err) < 0)
        sweep_done(&sweep->job, true);
}

/* --- When --- */

/* The rows that named a layer are rewritten about now: once the store has that, it may go. */
struct barrier {
    struct provider *provider; /* NULL: closed */
};

static void on_barrier(void *ctx, const struct err *why)
{
    struct barrier *barrier = ctx;
    struct provider *provider = barrier->provider;
    free(barrier);
    if (provider == NULL)
        return;
    provider->layers->barrier = NULL;
    if (why == NULL)
        jail_layers_reclaim(provider, NULL, NULL);
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
    provider->layers->barrier = barrier;
    store_commit(store_begin(store), STORE_DURABLE, on_barrier, barrier);
}

void jail_layers_sweep_soon(struct provider *provider)
{
    struct jail_layers *layers = provider->layers;
    if (layers->sweep_timer == NULL)
        layers->sweep_timer = timer_new(provider->host->loop, on_sweep_time, provider);
    if (!timer_is_set(layers->sweep_timer))
        timer_set(layers->sweep_timer, SWEEP_AFTER_MS, 0);
}

/* --- Opening and closing --- */

static int open_dir(int dir_fd, const char *name, struct err *err)
{
    if (SYS(mkdirat(dir_fd, name, (mode_t)0700)) < 0 && errno != EEXIST)
        return err_sys(err, errno, "make '%s'", name);
    int fd = SYS(openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    return fd < 0 ? err_sys(err, errno, "open '%s'", name) : fd;
}

int jail_layers_open(struct provider *provider, struct err *err)
{
    struct jail_layers *layers = mem_alloc(sizeof *layers);
    *layers = (struct jail_layers){.dir_fd = -1, .trash_fd = -1};
    provider->layers = layers;
    AUTO_CLOSE int home = SYS(open(provider->host->data_dir, O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (home < 0)
        return err_sys(err, errno, "open '%s'", provider->host->data_dir);
    layers->dir_fd = open_dir(home, "layers", err);
    if (layers->dir_fd < 0)
        return -1;
    layers->trash_fd = open_dir(layers->dir_fd, ".trash", err);
    if (layers->trash_fd < 0)
        return -1;
    return pool_open(provider->host->loop, COPIERS, COPY_QUEUE, &layers->pool, err);
}

void jail_layers_close(struct provider *provider)
{
    struct jail_layers *layers = provider->layers;
    if (layers == NULL)
        return;
    layers->pool = pool_free(layers->pool);
    layers->sweep_timer = timer_free(layers->sweep_timer);
    if (layers->barrier != NULL)
        layers->barrier->provider = NULL;
    fd_close(&layers->dir_fd);
    fd_close(&layers->trash_fd);
    free(layers);
    provider->layers = NULL;
}
