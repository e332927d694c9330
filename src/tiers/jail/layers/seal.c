/* Seals what a jail has written; it continues with an empty layer. What was sealed on a disk stays
 * there, as part of the image, while that holds no more than a part of the disk. Else, and in
 * memory, it is copied behind the seal.
 *
 * Once an image holds a copy of a sealed layer, the next root of the jail is made of the image, and
 * the room is given back. Until then it is held, so only so much is sealed. */

#include <sys/fsuid.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/tree.h"
#include "base/vec.h"
#include "io/pool.h"
#include "jail/client/jail.h"
#include "tiers/jail/layers/disk.h"
#include "tiers/jail/layers/keep.h"
#include "tiers/jail/layers/layers.h"
#include "tiers/jail/layers/sealed.h"
#include "tiers/jail/place.h"
#include "tiers/jail/provider_jail.h"

enum {
    SEAL_BYTES_MAX = 64 << 20,
    SEAL_PART = 4,
    STACK_MAX = 64,  /* of parts of an image that grows by layers left on the disk */
    UNTOLD_MAX = 24, /* layers of the disk that no row names: JAIL_DISK_LAYERS_MAX can be found */
};

static int64_t part_of(const struct place *place)
{
    return place->plan.limits.disk_bytes / SEAL_PART;
}

/* What may be held beside that which is written from now on: a part of what the sandbox may write,
 * so that a file that it replaces fits besides. As much may have been left on the disk before. */
static int64_t most_bytes(const struct place *place)
{
    int64_t part = part_of(place);
    bool has_left = tier_layers_top(buf_str(&place->own_image), str_of(place->disk)) >= 0;
    return place->sealed.stale_bytes + (place->disk[0] == '\0' ? MIN((int64_t)SEAL_BYTES_MAX, part)
                                                               : part + (has_left ? part : 0));
}

static int seal_ask(struct place *place, struct str image, const struct jail_seal *seal,
                    uint32_t *ret_number, struct err *err)
{
    AUTO_MEM struct jail_plan *plan = mem_dup(&place->plan, sizeof place->plan);
    AUTO_ARENA struct arena arena = {0};
    if (tier_layers_replan(place, image, &arena, plan, err) < 0 ||
        jail_hold(place->jail, seal->processes, err) < 0)
        return -1;
    if (jail_ask_seal(place->jail, plan, seal, ret_number, err) == 0) {
        /* The base of the place may be merged before the answer comes. */
        buf_clear(&place->sealed.asked);
        buf_put(&place->sealed.asked, image);
        return 0;
    }
    jail_release(place->jail);
    return -1;
}

int tier_seal_ask(struct place *place, uint32_t processes, uint32_t *ret_number, struct err *err)
{
    if (place->sealed.unsynced + place->sealed.fresh.len >= UNTOLD_MAX)
        return err_set(err, ERR_LIMIT, "earlier sealed layers are not yet stored on the disk");
    return seal_ask(place, buf_str(&place->own_image),
                    &(struct jail_seal){.kept = place->sealed.fresh.len,
                                        .most_bytes = most_bytes(place),
                                        .processes = processes},
                    ret_number, err);
}

int tier_seal_ask_back(struct place *place, struct str image, uint32_t *ret_number, struct err *err)
{
    return seal_ask(place, image,
                    &(struct jail_seal){.kept = JAIL_SEAL_NONE, .most_bytes = INT64_MAX},
                    ret_number, err);
}

/* --- Giving memory back --- */

struct emptying {
    struct job job; /* first */
    char *sandbox;
    place_fds fds;
    struct err err;
};

/* Uses the owner's id, only for file access of this thread: no other user exists on that
 * filesystem, so no other user can move anything in it. */
static void run_emptying(struct job *job)
{
    struct emptying *emptying = (struct emptying *)job;
    VEC_EACH (fd, &emptying->fds) {
        struct stat st;
        if (fstat(*fd, &st) < 0)
            continue;
        gid_t group = (gid_t)setfsgid(st.st_gid);
        uid_t user = (uid_t)setfsuid(st.st_uid);
        (void)!tree_reclaim(*fd, &emptying->err);
        (void)setfsuid(user);
        (void)setfsgid(group);
    }
}

static void close_all(place_fds *fds)
{
    VEC_EACH (fd, fds)
        fd_close(fd);
    vec_done(fds);
    *fds = (place_fds){0};
}

static void emptied(struct job *job, UNUSED bool canceled)
{
    struct emptying *emptying = (struct emptying *)job;
    if (emptying->err.code != ERR_NONE)
        log_warn("jail.seal", LOG_ID("sandbox", str_of(emptying->sandbox)),
                 LOG_STR("error", emptying->err.msg));
    close_all(&emptying->fds);
    free(emptying->sandbox);
    free(emptying);
}

static void empty(struct place *place)
{
    struct err err = {0};
    struct emptying *emptying = mem_alloc(sizeof *emptying);
    *emptying = (struct emptying){.job = {.run = run_emptying, .done = emptied},
                                  .sandbox = place_copy_id(place),
                                  .fds = place->sealed.stale};
    place->sealed.stale = (place_fds){0};
    place->sealed.stale_bytes = 0;
    if (pool_submit(place->provider->layers->pool, &emptying->job, &err) < 0)
        emptied(&emptying->job, true);
}

/* --- What came of it --- */

/* The root is made of the image that was asked for and of all layers that are in none. Those of the
 * root before that nobody names any more are swept. */
static void note_root(struct place *place)
{
    struct place_sealed *sealed = &place->sealed;
    AUTO_BUF struct buf root = {0};
    buf_put(&root, buf_str(&sealed->asked));
    VEC_EACH (layer, &sealed->fresh)
        if (place->disk[0] != '\0')
            buf_printf(&root, "%s/%s.%u", root.len == 0 ? JAIL_IMAGE : "", place->disk,
                       layer->number);
    if (!str_starts(buf_str(&root), buf_str(&sealed->mounted)))
        tier_disks_trim_soon(place->provider, buf_str(&sealed->mounted));
    buf_clear(&sealed->mounted);
    buf_put(&sealed->mounted, buf_str(&root));
}

void tier_seal_taken(struct place *place, int fd, uint32_t number)
{
    struct place_sealed *sealed = &place->sealed;
    sealed->going_bytes = place->disk[0] != '\0' ? sealed->stale_bytes : 0;
    if (sealed->stale.len > 0)
        empty(place);
    sealed->stale_bytes = 0;
    *vec_push(&sealed->fresh) = (struct sealed_layer){fd, number};
    note_root(place);
    sealed->version++;
}

void tier_seal_stand(struct place *place, const layer_ids *ids, int64_t above)
{
    AUTO_BUF struct buf image = {0};
    tier_layers_put(ids, &image);
    if (tier_layers_top(buf_str(&image), str_of(place->disk)) < above)
        buf_printf(&image, "/%s.%lld!", place->disk, (long long)above);
    tier_layers_stand(place, buf_str(&image));
}

static void close_fresh(struct place_sealed *sealed)
{
    VEC_EACH (layer, &sealed->fresh)
        fd_close(&layer->fd);
    vec_done(&sealed->fresh);
    sealed->fresh = (sealed_layers){0};
}

void tier_seal_kept(struct place *place, const layer_ids *ids, int64_t sealed_bytes, int64_t bytes)
{
    struct place_sealed *sealed = &place->sealed;
    int64_t above = tier_layers_top(buf_str(&place->own_image), str_of(place->disk));
    VEC_EACH (layer, &sealed->fresh)
        if (place->disk[0] != '\0')
            above = MAX(above, (int64_t)layer->number);
        else
            *vec_push(&sealed->stale) = fd_take(&layer->fd);
    close_fresh(sealed);
    sealed->stale_bytes += sealed_bytes;
    sealed->bytes += bytes;
    tier_seal_stand(place, ids, above);
    sealed->version++;
}

bool tier_seal_leave(struct place *place, int64_t *ret_bytes)
{
    struct place_sealed *sealed = &place->sealed;
    AUTO_ARENA struct arena arena = {0};
    layer_ids ids = {0};
    struct disk_quota_use use;
    struct err err = {0};
    if (place->disk[0] == '\0' ||
        tier_layers_add(&ids, arena_dup(&arena, buf_str(&place->own_image)), &err) < 0)
        return false;
    bool fits = ids.len + sealed->fresh.len <= STACK_MAX && tier_disk_use(place, &use, &err) == 0 &&
                use.used_bytes - sealed->going_bytes <= part_of(place);
    VEC_EACH (layer, &sealed->fresh)
        *vec_push(&ids) = arena_printf(&arena, "%s.%u", place->disk, layer->number);
    if (fits) {
        tier_disk_share(place->provider, place->disk);
        sealed->unsynced += sealed->fresh.len;
        close_fresh(sealed);
        tier_seal_stand(place, &ids, -1);
        sealed->left_bytes = MAX(use.used_bytes - sealed->going_bytes, (int64_t)0);
        sealed->version++;
        *ret_bytes = sealed->bytes + sealed->left_bytes;
    }
    vec_done(&ids);
    return fits;
}

void tier_seal_taken_back(struct place *place, struct str image, uint32_t number)
{
    AUTO_BUF struct buf copy = {0};
    struct err err = {0};
    layer_ids ids = {0};
    buf_put(&copy, image); /* `ids` point into it, and it may be the place's */
    (void)!tier_layers_add(&ids, buf_str(&copy), &err);
    tier_disks_trim_soon(place->provider, buf_str(&place->own_image));
    tier_seal_forget(place);
    tier_seal_stand(place, &ids, number);
    tier_layers_put(&ids, &place->sealed.mounted);
    tier_disk_trim_soon(place);
    vec_done(&ids);
    tier_layers_told_now(place);
}

void tier_seal_forget(struct place *place)
{
    uint32_t version = place->sealed.version;
    tier_told_leave(place);
    close_fresh(&place->sealed);
    close_all(&place->sealed.stale);
    buf_done(&place->sealed.mounted);
    buf_done(&place->sealed.asked);
    place->sealed = (struct place_sealed){.version = version + 1};
}
