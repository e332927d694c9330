/* Disk usage: the loop lists the objects, a worker counts their trees.
 *
 * Sandboxes change their trees meanwhile: no link is followed and no mount is crossed, so that a
 * count never leads out of the data directory. A disk that is an image counts as its image. */

#include "engine/du.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/map.h"
#include "engine/answer.h"
#include "engine/command/command_internal.h"
#include "engine/internal.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/volume/volume_internal.h"
#include "io/pool.h"

enum { DEPTH_MAX = 100 };

struct counting {
    struct job job;
    struct engine *engine;
    struct arena arena;
    VEC(struct du_item) items;
    struct answer *answer;
    du_done *done;
};

/* --- On a worker --- */

/* A file of several names counts once over all of them. */
static int64_t bytes_of(const struct stat *st)
{
    bool is_shared = !S_ISDIR(st->st_mode) && st->st_nlink > 1;
    return st->st_blocks * 512 / (is_shared ? (int64_t)st->st_nlink : 1);
}

/* NOLINTNEXTLINE(misc-no-recursion): DEPTH_MAX bounds it */
static int64_t count_tree(int dir_fd, const char *name, dev_t device, int depth)
{
    struct stat st;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || (depth > 0 && st.st_dev != device))
        return 0;
    int64_t bytes = bytes_of(&st);
    if (!S_ISDIR(st.st_mode) || depth == DEPTH_MAX)
        return bytes;
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        fd_close(&fd);
        return bytes;
    }
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): this stream is only ours */
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            bytes += count_tree(fd, entry->d_name, st.st_dev, depth + 1);
    (void)closedir(dir);
    return bytes;
}

static int by_size(const void *a, const void *b)
{
    const struct du_item *one = a, *other = b;
    return (one->bytes < other->bytes) - (one->bytes > other->bytes);
}

static void du_run(struct job *job)
{
    struct counting *counting = (struct counting *)job;
    AUTO_CLOSE int home = open(counting->engine->data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    VEC_EACH (item, &counting->items)
        if (home >= 0 && item->path.len > 0)
            item->bytes += count_tree(home, item->path.ptr, 0, 0);
    if (counting->items.len > 0)
        qsort(counting->items.ptr, counting->items.len, sizeof *counting->items.ptr, by_size);
}

/* --- On the loop --- */

static void du_deliver(struct answer *answer, const struct err *why)
{
    struct counting *counting = answer->data;
    counting->done(answer->ctx, counting->items.ptr, why == NULL ? counting->items.len : 0, why);
    vec_done(&counting->items);
    arena_done(&counting->arena);
    free(counting);
}

static void counted(struct job *job, bool canceled)
{
    struct counting *counting = (struct counting *)job;
    struct err err = {0};
    if (canceled)
        (void)err_set(&err, ERR_UNAVAILABLE, "the server is busy or stopping; try again");
    answer_give(counting->answer, canceled ? &err : NULL);
}

static struct du_item *du_add(struct counting *counting, const char *kind, struct str id,
                              struct str name, const char *state)
{
    struct du_item *item = vec_push(&counting->items);
    *item = (struct du_item){.kind = kind,
                             .id = arena_dup(&counting->arena, id),
                             .name = arena_dup(&counting->arena, name),
                             .state = str_of(state)};
    return item;
}

/* Disks whose sandboxes have gone and that checkpoints and forks stand on: the caller's, each once.
 */
struct kept_disks {
    struct counting *counting;
    const struct sandbox *sandbox;
    struct map seen;
};

static void add_kept(void *ctx, struct str disk)
{
    struct kept_disks *kept = ctx;
    struct counting *counting = kept->counting;
    if (map_put(&kept->seen, disk, kept) == NULL)
        du_add(counting, "kept disk", disk, kept->sandbox->info.name, "")->path =
            arena_printf(&counting->arena, "disks/%.*s", STR_ARG(disk));
}

static void note_owned(void *ctx, struct str disk, UNUSED struct str image)
{
    struct kept_disks *kept = ctx;
    (void)map_put(&kept->seen, disk, kept);
}

static void add_kept_disks(struct counting *counting, struct str tenant)
{
    struct kept_disks kept = {.counting = counting};
    const struct provider_table *table = engine_table(counting->engine, ENGINE_TIER_JAIL);
    if (table == NULL || table->image_disks == NULL)
        return;
    engine_each_disk(counting->engine, ENGINE_TIER_JAIL, note_owned, &kept);
    MAP_EACH (entry, &counting->engine->sandboxes) {
        kept.sandbox = entry->value;
        if (kept.sandbox->info.tier != ENGINE_TIER_JAIL ||
            !str_eq(kept.sandbox->info.tenant, tenant))
            continue;
        table->image_disks(buf_str(&kept.sandbox->image), add_kept, &kept);
        VEC_EACH (checkpoint, &kept.sandbox->checkpoints)
            table->image_disks(str_of(checkpoint->image), add_kept, &kept);
    }
    map_done(&kept.seen);
}

static void add_objects(struct counting *counting, struct str tenant)
{
    struct engine *engine = counting->engine;
    struct arena *arena = &counting->arena;
    MAP_EACH (entry, &engine->sandboxes) {
        const struct sandbox *sandbox = entry->value;
        if (sandbox->is_helper || !str_eq(sandbox->info.tenant, tenant))
            continue;
        struct du_item *item = du_add(counting, "sandbox", sandbox->info.id, sandbox->info.name,
                                      sandbox_state_name(sandbox->info.state));
        if (sandbox->disk[0] != '\0')
            item->path = arena_printf(arena, "disks/%s", sandbox->disk);
    }
    MAP_EACH (entry, &engine->volumes) {
        const struct volume *volume = entry->value;
        if (!str_eq(volume->info.tenant, tenant))
            continue;
        bool is_memory = volume->info.tier == ENGINE_TIER_MEMORY;
        struct du_item *item = du_add(counting, "volume", volume->info.id, volume->info.name,
                                      volume->sandbox[0] == '\0' ? "free" : "in use");
        item->path = arena_printf(arena, "%s/%.*s", is_memory ? "memory-volumes" : "volumes",
                                  STR_ARG(volume->info.id));
    }
    const struct kept_commands *kept = map_get(&engine->kept_commands, tenant);
    du_add(counting, "logs", (struct str){0}, (struct str){0}, "")->bytes =
        kept == NULL ? 0 : (int64_t)kept->bytes;
}

static void add_snapshots(struct counting *counting, const struct engine_caller *caller)
{
    struct engine_page page = {.limit = ENGINE_PAGE_MAX};
    struct snapshot_list list = {0};
    struct err err = {0};
    if (engine_snapshot_list(counting->engine, caller, &page, &counting->arena, &list, &err) < 0)
        return;
    for (size_t i = 0; i < list.count; i++)
        du_add(counting, "snapshot", list.items[i].id, list.items[i].slug,
               snapshot_state_name(list.items[i].state))
            ->bytes = list.items[i].size_bytes;
}

static void add_shared(struct counting *counting)
{
    static const struct {
        const char *kind, *path;
    } shared[] = {{"layers", "layers"},         {"blobs", "blobs"},
                  {"cache", "cache"},           {"runtimes", "runtimes"},
                  {"database", "sandglass.db"}, {"database log", "sandglass.db-wal"}};
    for (size_t i = 0; i < countof(shared); i++)
        du_add(counting, shared[i].kind, (struct str){0}, (struct str){0}, "")->path =
            str_of(shared[i].path);
}

void engine_du(struct engine *engine, const struct engine_caller *caller, du_done *done, void *ctx)
{
    struct counting *counting = mem_alloc(sizeof *counting);
    struct err err = {0};
    counting->job = (struct job){.run = du_run, .done = counted};
    counting->engine = engine;
    counting->done = done;
    counting->answer = answer_new(engine, du_deliver, ctx);
    counting->answer->data = counting;
    if (engine_check_caller(engine, caller, &err) < 0) {
        answer_give(counting->answer, &err);
        return;
    }
    add_objects(counting, caller->tenant);
    add_kept_disks(counting, caller->tenant);
    add_snapshots(counting, caller);
    if (caller->is_operator)
        add_shared(counting);
    if (pool_submit(engine->pool, &counting->job, &err) < 0)
        answer_give(counting->answer, &err);
}
