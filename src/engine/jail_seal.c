/* Sealing what a jail has written: it goes on with an empty layer, and what it wrote is copied to
 * disk behind that.
 *
 * Once an image on disk holds a sealed layer, the next root of the jail is made of the image, and
 * the memory is given back. Until then it is held, so only so much is sealed. */

#include <sys/fsuid.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/tree.h"
#include "engine/jail_layers.h"

enum { SEAL_BYTES_MAX = 64 << 20, SEAL_PART = 4 };

/* What may be held beside that which is written from now on: a part of what the sandbox may write,
 * so that a file that it replaces fits besides. */
static int64_t most_bytes(const struct place *place)
{
    return place->sealed.stale_bytes +
           MIN((int64_t)SEAL_BYTES_MAX, place->plan.limits.disk_bytes / SEAL_PART);
}

int jail_seal_ask(struct place *place, uint32_t *ret_number, struct err *err)
{
    AUTO_MEM struct jail_plan *plan = mem_dup(&place->plan, sizeof place->plan);
    AUTO_ARENA struct arena arena = {0};
    if (jail_layers_replan(place, buf_str(&place->own_image), &arena, plan, err) < 0 ||
        jail_hold(place->jail, err) < 0)
        return -1;
    if (jail_ask_seal(place->jail, plan, place->sealed.fresh.len, most_bytes(place), ret_number,
                      err) == 0) {
        /* What the place stands on may be made into one before the answer comes. */
        buf_clear(&place->sealed.asked);
        buf_put(&place->sealed.asked, buf_str(&place->own_image));
        return 0;
    }
    jail_release(place->jail);
    return -1;
}

/* --- Giving memory back --- */

struct emptying {
    struct job job; /* first */
    char *sandbox;
    place_fds fds;
    struct err err;
};

/* As its owner, for this thread's files alone: nobody else exists on that filesystem, so that
 * nobody else may move anything in it. */
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

void jail_seal_taken(struct place *place, int fd)
{
    struct place_sealed *sealed = &place->sealed;
    if (sealed->stale.len > 0)
        empty(place);
    /* Then the root before had layers that this one has not. */
    if (!str_starts(buf_str(&sealed->asked), buf_str(&sealed->mounted)))
        jail_layers_sweep_soon(place->provider);
    buf_clear(&sealed->mounted);
    buf_put(&sealed->mounted, buf_str(&sealed->asked));
    *vec_push(&sealed->fresh) = fd;
    sealed->version++;
}

void jail_seal_kept(struct place *place, struct str image, int64_t sealed_bytes, int64_t bytes)
{
    struct place_sealed *sealed = &place->sealed;
    VEC_EACH (fd, &sealed->fresh)
        *vec_push(&sealed->stale) = *fd;
    vec_done(&sealed->fresh);
    sealed->fresh = (place_fds){0};
    sealed->stale_bytes += sealed_bytes;
    sealed->bytes = bytes;
    jail_layers_stand(place, image);
    sealed->version++;
}

void jail_seal_forget(struct place *place)
{
    uint32_t version = place->sealed.version;
    close_all(&place->sealed.fresh);
    close_all(&place->sealed.stale);
    buf_done(&place->sealed.mounted);
    buf_done(&place->sealed.asked);
    place->sealed = (struct place_sealed){.version = version + 1};
}
