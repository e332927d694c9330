/* The tier that runs nothing: file verbs over maps, for tests of applications on machines where
 * jails cannot start. A paused sandbox is saved in blobs; a volume is written to disk whenever its
 * sandbox releases it. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "engine/provider.h"
#include "io/pool.h"
#include "store/blobs.h"
#include "tiers/memory/memory_stream.h"
#include "tiers/memory/memory_tree.h"

#define WORKSPACE "/workspace"
#define ENDING ".tree"

struct volume {
    struct memory_tree tree;
    bool is_loaded;
};

struct provider {
    const struct provider_host *host;
    struct map volumes; /* by id */
    int dir_fd;         /* of the volumes' files */
};

struct place {
    struct provider *provider;
    struct memory_tree tree;
    struct volume *volume; /* the provider's; NULL for none */
    char *volume_id;
    struct memory_op *ops; /* under way */
    struct memory_streams streams;
};

/* --- Opening --- */

static int open_memory(const struct provider_host *host, struct provider **ret_provider,
                       struct err *err)
{
    AUTO_BUF struct buf path = {0};
    buf_printf(&path, "%s/memory-volumes", host->data_dir);
    if (fd_make_dirs(buf_cstr(&path), 0700, err) < 0)
        return -1;
    int fd = open(buf_cstr(&path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", buf_cstr(&path));
    struct provider *provider = mem_alloc(sizeof *provider);
    provider->host = host;
    provider->dir_fd = fd;
    *ret_provider = provider;
    return 0;
}

static void volume_free(struct volume *volume)
{
    if (volume != NULL)
        memory_tree_done(&volume->tree);
    free(volume);
}

static void close_memory(struct provider *provider)
{
    MAP_EACH (entry, &provider->volumes)
        volume_free(entry->value);
    map_done(&provider->volumes);
    fd_close(&provider->dir_fd);
    free(provider);
}

/* --- Volumes --- */

enum volume_op { SAVE, LOAD, DELETE };

struct volume_job {
    struct job job;
    enum volume_op op;
    int dir_fd;
    char name[96];
    struct buf bytes;
    struct volume *volume; /* of LOAD */
    int result;
    struct err err;
    engine_done *done;
    void *ctx;
};

static int run_volume_op(struct volume_job *job)
{
    if (job->op == SAVE)
        return fd_replace_file(job->dir_fd, job->name, buf_str(&job->bytes), 0600, &job->err);
    if (job->op == DELETE)
        return unlinkat(job->dir_fd, job->name, 0) < 0 && errno != ENOENT
                   ? err_sys(&job->err, errno, "remove '%s'", job->name)
                   : 0;
    AUTO_CLOSE int fd = openat(job->dir_fd, job->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? err_sys(&job->err, errno, "open '%s'", job->name)
                  : buf_read_all(&job->bytes, fd, &job->err);
}

static void run_volume_job(struct job *base)
{
    struct volume_job *job = (struct volume_job *)base;
    job->result = run_volume_op(job);
}

static void volume_job_done(struct job *base, bool canceled)
{
    struct volume_job *job = (struct volume_job *)base;
    if (canceled)
        job->result = err_set(&job->err, ERR_CANCELED, "the server is stopping");
    if (job->op == LOAD && job->result == 0) {
        job->result = memory_tree_unpack(&job->volume->tree, buf_str(&job->bytes), &job->err);
        job->volume->is_loaded = job->result == 0;
    }
    job->done(job->ctx, job->result < 0 ? &job->err : NULL);
    buf_done(&job->bytes);
    free(job);
}

static void volume_work(struct provider *provider, enum volume_op op, struct str id,
                        struct volume *volume, engine_done *done, void *ctx)
{
    struct volume_job *job = mem_alloc(sizeof *job);
    struct err err = {0};
    *job = (struct volume_job){.job = {.run = run_volume_job, .done = volume_job_done},
                               .op = op,
                               .dir_fd = provider->dir_fd,
                               .volume = volume,
                               .done = done,
                               .ctx = ctx};
    (void)snprintf(job->name, sizeof job->name, "%.*s" ENDING, STR_ARG(id));
    if (op == SAVE)
        memory_tree_pack(&volume->tree, &job->bytes);
    if (pool_submit(provider->host->pool, &job->job, &err) < 0) {
        done(ctx, &err);
        buf_done(&job->bytes);
        free(job);
    }
}

static void create_volume(struct provider *provider, struct str id, int64_t capacity_bytes,
                          engine_done *done, void *ctx)
{
    AUTO_ARENA struct arena arena = {0};
    struct file_request root = {.op = FILE_MKDIR, .path = STR(WORKSPACE)};
    struct file_answer answer;
    struct err err = {0};
    struct volume *volume = mem_alloc(sizeof *volume);
    volume->is_loaded = true;
    volume->tree.bytes_max = (uint64_t)capacity_bytes;
    if (memory_tree_file(&volume->tree, &root, &arena, &answer, &err) < 0) {
        volume_free(volume);
        done(ctx, &err);
        return;
    }
    volume_free(map_put(&provider->volumes, id, volume));
    volume_work(provider, SAVE, id, volume, done, ctx);
}

static bool volume_is_there(struct provider *provider, struct str id)
{
    char name[96];
    (void)snprintf(name, sizeof name, "%.*s" ENDING, STR_ARG(id));
    return faccessat(provider->dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void delete_volume(struct provider *provider, struct str id, engine_done *done, void *ctx)
{
    volume_free(map_remove(&provider->volumes, id));
    volume_work(provider, DELETE, id, NULL, done, ctx);
}

/* --- Places --- */

struct making {
    struct place *place;
    struct arena arena;
    struct str image;
    const struct str *snapshots;
    size_t snapshot_count, at;
    place_done *done;
    void *ctx;
};

static void place_free(struct place *place)
{
    memory_tree_done(&place->tree);
    free(place->volume_id);
    free(place);
}

static void made(struct making *making, const struct err *why)
{
    if (why != NULL) {
        place_free(making->place);
        making->done(making->ctx, NULL, why);
    } else {
        making->done(making->ctx, making->place, NULL);
    }
    arena_done(&making->arena);
    free(making);
}

static void load_next(struct making *making);

/* A stack: what comes later covers what came before. */
static void on_blob(void *ctx, struct str bytes, const struct err *why)
{
    struct making *making = ctx;
    struct err err = {0};
    if (why == NULL && memory_tree_unpack(&making->place->tree, bytes, &err) < 0)
        why = &err;
    if (why != NULL) {
        made(making, why);
        return;
    }
    making->at++;
    load_next(making);
}

static void load_next(struct making *making)
{
    struct store *store = making->place->provider->host->store;
    bool is_whole = making->image.len > 0; /* an image holds its snapshots' files too */
    if (is_whole && making->at == 0) {
        store_get_blob(store, making->image, on_blob, making);
    } else if (!is_whole && making->at < making->snapshot_count) {
        store_get_blob(store, making->snapshots[making->at], on_blob, making);
    } else {
        AUTO_ARENA struct arena arena = {0};
        struct file_request root = {.op = FILE_MKDIR, .path = STR(WORKSPACE), .make_parents = true};
        struct file_answer answer;
        struct err err = {0};
        made(making, memory_tree_file(&making->place->tree, &root, &arena, &answer, &err) < 0
                         ? &err
                         : NULL);
    }
}

static void on_volume(void *ctx, const struct err *why)
{
    struct making *making = ctx;
    if (why != NULL)
        made(making, why);
    else
        load_next(making);
}

static void memory_create(struct provider *provider, const struct place_spec *spec,
                          place_done *done, void *ctx)
{
    struct making *making = mem_alloc(sizeof *making);
    struct place *place = mem_alloc(sizeof *place);
    place->provider = provider;
    making->place = place;
    making->image = arena_dup(&making->arena, spec->image);
    struct str *snapshots = arena_array(&making->arena, struct str, spec->snapshot_count + 1);
    for (size_t i = 0; i < spec->snapshot_count; i++)
        snapshots[i] = arena_dup(&making->arena, spec->snapshot_images[i]);
    making->snapshots = snapshots;
    making->snapshot_count = spec->snapshot_count;
    making->done = done;
    making->ctx = ctx;
    if (spec->volume.len == 0) {
        load_next(making);
        return;
    }
    struct volume *volume = map_get(&provider->volumes, spec->volume);
    if (volume == NULL) {
        volume = mem_alloc(sizeof *volume);
        volume->tree.bytes_max = (uint64_t)spec->volume_bytes;
        (void)map_put(&provider->volumes, spec->volume, volume);
    }
    place->volume = volume;
    place->volume_id = mem_dup_cstr(arena_dup(&making->arena, spec->volume).ptr);
    if (volume->is_loaded)
        load_next(making);
    else
        volume_work(provider, LOAD, spec->volume, volume, on_volume, making);
}

/* --- Files --- */

static struct memory_tree *tree_of(struct place *place, struct str path)
{
    bool is_volume = str_eq(path, STR(WORKSPACE)) || str_starts(path, STR(WORKSPACE "/"));
    return is_volume && place->volume != NULL ? &place->volume->tree : &place->tree;
}

static void files(struct place *place, const struct file_request *request, file_done *done,
                  void *ctx)
{
    AUTO_ARENA struct arena arena = {0};
    struct file_answer answer = {0};
    struct err err = {0};
    struct memory_tree *tree = tree_of(place, request->path);
    int result = request->op == FILE_MOVE && tree_of(place, request->to) != tree
                     ? err_set(&err, ERR_INVALID, "a file cannot be moved out of its volume")
                     : memory_tree_file(tree, request, &arena, &answer, &err);
    done(ctx, result < 0 ? NULL : &answer, result < 0 ? &err : NULL);
}

static int get_file(struct place *place, const struct file_get *get,
                    const struct file_reader_calls *calls, void *ctx, void **ret_reader,
                    struct err *err)
{
    return memory_reader_open(place->provider->host->loop, tree_of(place, get->path),
                              &place->streams, get, calls, ctx, ret_reader, err);
}

static int memory_put_file(struct place *place, const struct file_put *put,
                           const struct file_writer_calls *calls, void *ctx, void **ret_writer,
                           struct err *err)
{
    return memory_writer_open(place->provider->host->loop, tree_of(place, put->path),
                              &place->streams, put, calls, ctx, ret_writer, err);
}

/* --- Pictures --- */

/* Something under way for a place; the place may go before it is done. */
struct memory_op {
    struct memory_op *next;
    struct place *place; /* NULL once it has ended, and the caller got the answer */
    image_done *image_done;
    engine_done *plain_done;
    void *ctx;
    int64_t size;
};

static struct memory_op *op_new(struct place *place, image_done *image, engine_done *plain,
                                void *ctx)
{
    struct memory_op *op = mem_alloc(sizeof *op);
    *op = (struct memory_op){place->ops, place, image, plain, ctx, 0};
    place->ops = op;
    return op;
}

static void op_tell(struct memory_op *op, struct str image, const struct err *why)
{
    if (op->image_done != NULL)
        op->image_done(op->ctx, image, op->size, why);
    else
        op->plain_done(op->ctx, why);
}

static void op_finish(struct memory_op *op, struct str image, const struct err *why)
{
    if (op->place != NULL) {
        struct memory_op **at = &op->place->ops;
        while (*at != op)
            at = &(*at)->next;
        *at = op->next;
        op_tell(op, image, why);
    }
    free(op);
}

static void cancel_ops(struct place *place)
{
    struct err err = {0};
    (void)err_set(&err, ERR_CANCELED, "the sandbox ended");
    while (place->ops != NULL) {
        struct memory_op *op = place->ops;
        place->ops = op->next;
        op->place = NULL;
        op_tell(op, (struct str){0}, &err);
    }
}

static void end(struct place *place, UNUSED bool keep_image, engine_done *done, void *ctx)
{
    struct provider *provider = place->provider;
    cancel_ops(place);
    memory_streams_end(&place->streams);
    if (place->volume != NULL)
        volume_work(provider, SAVE, str_of(place->volume_id), place->volume, done, ctx);
    else
        done(ctx, NULL);
    place_free(place);
}

static void memory_on_picture(void *ctx, const char *hash, const struct err *why)
{
    op_finish(ctx, why == NULL ? str_of(hash) : (struct str){0}, why);
}

static void take_picture(struct place *place, image_done *done, void *ctx)
{
    struct memory_op *op = op_new(place, done, NULL, ctx);
    struct buf bytes = buf_with_limit(STORE_BLOB_MAX);
    memory_tree_pack(&place->tree, &bytes);
    op->size = (int64_t)bytes.len;
    store_put_blob(place->provider->host->store, &bytes, memory_on_picture, op);
}

static void snapshot(struct place *place, UNUSED struct str id, image_done *done, void *ctx)
{
    take_picture(place, done, ctx);
}

static void memory_resume(UNUSED struct place *place, engine_done *done, void *ctx)
{
    done(ctx, NULL);
}

static void on_rollback(void *ctx, struct str bytes, const struct err *why)
{
    struct memory_op *op = ctx;
    struct memory_tree tree = {0};
    struct err err = {0};
    if (why == NULL && memory_tree_unpack(&tree, bytes, &err) < 0)
        why = &err;
    if (why == NULL && op->place != NULL) {
        memory_tree_done(&op->place->tree);
        op->place->tree = tree;
    } else {
        memory_tree_done(&tree);
    }
    op_finish(op, (struct str){0}, why);
}

static void memory_rollback(struct place *place, struct str image, UNUSED struct str disk,
                            engine_done *done, void *ctx)
{
    store_get_blob(place->provider->host->store, image, on_rollback,
                   op_new(place, NULL, done, ctx));
}

/* --- Clearing up --- */

/* Few and small: read on the thread of the loop. */
static void reclaim(struct provider *provider, UNUSED const struct map *sandboxes,
                    const struct map *volumes, UNUSED const struct map *snapshots,
                    engine_done *done, void *ctx)
{
    int copy = dup(provider->dir_fd);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (dir == NULL) {
        struct err err = {0};
        (void)err_sys(&err, errno, "read the volumes' directory");
        fd_close(&copy);
        done(ctx, &err);
        return;
    }
    rewinddir(dir);
    for (const struct dirent *entry;
         (entry = readdir(dir)) != NULL;) { /* NOLINT(concurrency-mt-unsafe) */
        struct str id = str_of(entry->d_name);
        id = str_ends(id, STR(ENDING)) ? str_slice(id, 0, id.len - strlen(ENDING)) : id;
        if (entry->d_name[0] == '.' || map_has(volumes, id))
            continue;
        log_info("reconcile.volume", LOG_STR("file", entry->d_name));
        (void)unlinkat(provider->dir_fd, entry->d_name, 0);
    }
    (void)closedir(dir);
    done(ctx, NULL);
}

const struct provider_table provider_memory = {
    .name = "memory",
    .tier = ENGINE_TIER_MEMORY,
    .runtime = "none",
    .keeps_images = true,
    .open = open_memory,
    .close = close_memory,
    .sandbox_create = memory_create,
    .sandbox_end = end,
    .files = files,
    .file_get = get_file,
    .reader_flow = memory_reader_flow,
    .reader_free = memory_reader_free,
    .file_put = memory_put_file,
    .writer_write = memory_writer_write,
    .writer_finish = memory_writer_finish,
    .writer_free = memory_writer_free,
    .pause = take_picture,
    .resume = memory_resume,
    .checkpoint = take_picture,
    .rollback = memory_rollback,
    .volume_create = create_volume,
    .volume_exists = volume_is_there,
    .volume_delete = delete_volume,
    .snapshot_create = snapshot,
    .reclaim = reclaim,
};
