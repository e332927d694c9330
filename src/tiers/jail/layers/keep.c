#include "tiers/jail/layers/keep.h"

#include <errno.h>
#include <fcntl.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/vec.h"
#include "engine/provider.h"
#include "io/pool.h"
#include "jail/client/jail.h"
#include "tiers/jail/code/quiesce.h"
#include "tiers/jail/layers/disk.h"
#include "tiers/jail/layers/layer_tree.h"
#include "tiers/jail/layers/layers.h"
#include "tiers/jail/place.h"
#include "tiers/jail/provider_jail.h"
#include "tiers/jail/warden.h"

enum {
    MERGE_AT = 64, /* with this many own layers, the next copy merges them */
};

/* --- Keeping: seal, and leave it there; seal, copy, sync; or freeze, copy, let go on, sync --- */

static void on_let_go(struct warden_request *request, UNUSED const struct warden_event *event,
                      const struct err *why)
{
    AUTO_MEM char *sandbox = request->ctx;
    if (why != NULL)
        log_warn("jail.thaw", LOG_ID("sandbox", str_of(sandbox)), LOG_STR("error", why->msg));
}

static void let_go_on(struct keeping *keeping)
{
    struct err err = {0};
    uint32_t number = 0;
    if (keeping->is_frozen && keeping->place != NULL &&
        jail_ask_freeze(keeping->place->jail, false, &number, &err) == 0)
        (void)tier_warden_asked(keeping->provider, number, on_let_go,
                                place_copy_id(keeping->place));
    keeping->is_frozen = false;
}

static void keeping_free(struct keeping *keeping)
{
    for (struct keeping **at = &keeping->provider->layers->keepings; *at != NULL; at = &(*at)->next)
        if (*at == keeping) {
            *at = keeping->next;
            break;
        }
    tier_layers_end(keeping->provider, &keeping->fresh);
    VEC_EACH (fd, &keeping->sources)
        fd_close(fd);
    vec_done(&keeping->sources);
    fd_close(&keeping->new_fd);
    buf_done(&keeping->skipped_names);
    tier_disks_return(keeping->provider, &keeping->lent);
    buf_done(&keeping->merged);
    buf_done(&keeping->below);
    free(keeping);
}

/* What the place had written in this life before. */
static int64_t bytes_below(const struct keeping *keeping)
{
    const struct place *place = keeping->place;
    return place == NULL || keeping->merged.len > 0
               ? 0
               : place->sealed.bytes + place->sealed.left_bytes;
}

/* From now on the copy is the base of the place, unless it has changed meanwhile. */
static void stand(struct keeping *keeping)
{
    struct place *place = keeping->place;
    struct err err = {0};
    layer_ids ids = {0};
    if (!keeping->is_sealed || place == NULL || keeping->version != place->sealed.version)
        return;
    if (keeping->skipped > 0 && place->disk[0] != '\0')
        return; /* what the copy lacks is only there */
    AUTO_BUF struct buf own = {0};
    buf_put(&own, buf_str(&place->own_image)); /* `ids` point into it */
    if (keeping->merged.len == 0)
        (void)!tier_layers_add(&ids, buf_str(&own), &err);
    *vec_push(&ids) = str_of(keeping->fresh.id);
    tier_seal_kept(place, &ids, (int64_t)(keeping->bytes - keeping->merged_bytes),
                   (int64_t)keeping->bytes);
    if (keeping->merged.len > 0) {
        place->sealed.bytes = (int64_t)keeping->bytes;
        place->sealed.left_bytes = 0;
    }
    vec_done(&ids);
    tier_layers_told(place);
    tier_layers_squash(place);
}

/* What the copy does not have is said, in the log and to the engine. */
static void tell_skipped(struct keeping *keeping)
{
    const struct place *place = keeping->place;
    const struct provider_host *host = keeping->provider->host;
    AUTO_BUF struct buf text = {0};
    struct str rest = buf_str(&keeping->skipped_names), name;
    if (keeping->how == JAIL_KEEP_SQUASH || place == NULL || place->id == NULL)
        return;
    if (keeping->skipped > 0)
        buf_printf(&text, "%llu could not be copied and %s missing from the copy:",
                   (unsigned long long)keeping->skipped, keeping->skipped == 1 ? "is" : "are");
    for (size_t i = 0; rest.len > 0 && str_split(&rest, '\n', &name); i++)
        buf_printf(&text, "%s /%.*s", i > 0 ? "," : "", (int)MIN(name.len, (size_t)200), name.ptr);
    if (keeping->skipped > LAYER_SKIPPED_MAX)
        buf_put_cstr(&text, ", ...");
    if (keeping->skipped > 0)
        log_warn("jail.keep", LOG_ID("sandbox", str_of(place->id)),
                 LOG_INT("skipped", (int64_t)keeping->skipped));
    host->on_skipped(host->engine, str_of(place->id), buf_str(&text));
}

static void keep_finish(struct keeping *keeping, const struct err *why)
{
    AUTO_BUF struct buf image = {0};
    image_done *done = keeping->done;
    void *ctx = keeping->ctx;
    int64_t bytes =
        keeping->is_left ? keeping->left_bytes : (int64_t)keeping->bytes + bytes_below(keeping);
    if (why == NULL && keeping->how == JAIL_KEEP_SQUASH)
        tier_squashed(keeping);
    else if (why == NULL)
        stand(keeping);
    if (why == NULL)
        tell_skipped(keeping);
    if (why != NULL || keeping->how != JAIL_KEEP_PAUSE)
        let_go_on(keeping);
    else if (keeping->place != NULL)
        keeping->place->is_paused = true;
    if (why == NULL && keeping->is_left)
        buf_put(&image, buf_str(&keeping->below));
    else if (why == NULL)
        buf_printf(&image, "%s/%s", buf_cstr(&keeping->below), keeping->fresh.id);
    if (why != NULL || keeping->place == NULL)
        tier_layers_sweep_soon(keeping->provider);
    struct err copy = why == NULL ? (struct err){0} : *why;
    keeping_free(keeping);
    if (done != NULL)
        done(ctx, buf_str(&image), bytes, why == NULL ? NULL : &copy);
}

/* On a worker. */

static void keeping_done(struct job *base, bool canceled)
{
    struct keeping *keeping = (struct keeping *)base;
    if (canceled)
        keeping->result = err_set(&keeping->err, ERR_CANCELED, "the server is stopping");
    if (keeping->result < 0 || keeping->is_copied) {
        keep_finish(keeping, keeping->result < 0 ? &keeping->err : NULL);
        return;
    }
    keeping->is_copied = true;
    if (keeping->how != JAIL_KEEP_PAUSE)
        let_go_on(keeping);
    keeping_submit(keeping);
}

void keeping_submit(struct keeping *keeping)
{
    struct err err = {0};
    keeping->job = (struct job){.run = keeping_run, .done = keeping_done};
    if (pool_submit(keeping->provider->layers->pool, &keeping->job, &err) < 0)
        keep_finish(keeping, &err);
}

/* Chooses the layers below the new one. A long stack is merged into one layer of hard links; so are
 * layers on disks for a snapshot, because a snapshot must not keep disks. */
static void choose_below(struct keeping *keeping, const struct place *place)
{
    struct err err = {0};
    layer_ids base = {0}, own = {0};
    (void)!tier_layers_add(&own, buf_str(&place->own_image), &err);
    bool merges = own.len >= MERGE_AT;
    if (keeping->how == JAIL_KEEP_WHOLE) {
        (void)!tier_layers_add(&base, buf_str(&place->base_image), &err);
        VEC_EACH (id, &own)
            merges |= tier_layers_is_on_disk(*id);
    }
    VEC_EACH (id, &own)
        if (!merges)
            *vec_push(&base) = *id;
    tier_layers_put(&base, &keeping->below);
    if (merges)
        tier_layers_put(&own, &keeping->merged);
    tier_disks_lend(keeping->provider, buf_str(&keeping->merged), "", &keeping->lent, NULL, NULL);
    vec_done(&own);
    vec_done(&base);
}

static int gather(struct keeping *keeping, const struct place *place, struct err *err)
{
    choose_below(keeping, place);
    VEC_EACH (layer, &place->sealed.fresh) {
        int copy = SYS(fcntl(layer->fd, F_DUPFD_CLOEXEC, 3));
        if (copy < 0)
            return err_sys(err, errno, "keep a descriptor");
        *vec_push(&keeping->sources) = copy;
    }
    return 0;
}

static void on_layer(struct warden_request *request, const struct warden_event *event,
                     const struct err *why)
{
    struct keeping *keeping = request->ctx;
    struct err err = {0};
    if (why != NULL) {
        keep_finish(keeping, why);
        return;
    }
    int done = keeping->place == NULL ? err_set(&err, ERR_GONE, "the sandbox ended")
                                      : gather(keeping, keeping->place, &err);
    *vec_push(&keeping->sources) = event->fd;
    if (done == 0)
        keeping_submit(keeping);
    else
        keep_finish(keeping, &err);
}

static void ask_layer(struct keeping *keeping)
{
    struct err err = {0};
    uint32_t number = 0;
    if (keeping->place == NULL)
        (void)err_set(&err, ERR_GONE, "the sandbox ended");
    else if (jail_ask_layer(keeping->place->jail, &number, &err) == 0) {
        (void)tier_warden_asked(keeping->provider, number, on_layer, keeping);
        return;
    }
    keep_finish(keeping, &err);
}

static void on_synced(void *ctx, const struct err *why)
{
    keep_finish(ctx, why);
}

/* Files on a disk stay there: a pause has nothing to copy. */
static void sync_disk(struct keeping *keeping)
{
    keeping->is_left = true;
    keeping->left_bytes = bytes_below(keeping);
    buf_put(&keeping->below, buf_str(&keeping->place->own_image));
    tier_disk_sync(keeping->place, on_synced, keeping);
}

static void on_frozen(struct warden_request *request, UNUSED const struct warden_event *event,
                      const struct err *why)
{
    struct keeping *keeping = request->ctx;
    if (why != NULL) {
        keep_finish(keeping, why);
        return;
    }
    keeping->is_frozen = true;
    if (keeping->how == JAIL_KEEP_PAUSE && keeping->place != NULL &&
        keeping->place->disk[0] != '\0')
        sync_disk(keeping);
    else
        ask_layer(keeping);
}

/* Init changes no files on its own. If commands run, the jail must be frozen first. */
static void freeze(struct keeping *keeping)
{
    struct place *place = keeping->place;
    const char *no_freeze = place->provider->warden == NULL
                                ? "the warden process is not running"
                                : warden_host(place->provider->warden)->no_freeze;
    struct err err = {0};
    uint32_t number = 0;
    if (no_freeze[0] == '\0' || keeping->how == JAIL_KEEP_PAUSE) {
        if (jail_ask_freeze(place->jail, true, &number, &err) == 0) {
            (void)tier_warden_asked(place->provider, number, on_frozen, keeping);
            return;
        }
    } else if (place->execs == NULL) {
        ask_layer(keeping);
        return;
    } else {
        (void)err_set(&err, ERR_UNSUPPORTED,
                      "commands are running and this host cannot freeze them: %s", no_freeze);
    }
    keep_finish(keeping, &err);
}

/* --- Sealing --- */

/* Nothing is copied: the image names the sealed layers in their place. */
static void keep_leave(struct keeping *keeping)
{
    struct place *place = keeping->place;
    struct err err = {0};
    layer_ids own = {0};
    keeping->is_left = true;
    (void)!tier_layers_add(&own, buf_str(&place->own_image), &err);
    tier_layers_put(&own, &keeping->below);
    vec_done(&own);
    tier_layers_told(place);
    tier_layers_squash(place);
    keep_finish(keeping, NULL);
}

static void on_sealed(struct warden_request *request, const struct warden_event *event,
                      const struct err *why)
{
    struct keeping *keeping = request->ctx;
    struct place *place = keeping->place;
    struct err err = {0};
    bool is_ours = place != NULL && place->sealed.version == keeping->version;
    AUTO_CLOSE int fd = why == NULL ? event->fd : -1;
    if (is_ours) {
        jail_release(place->jail);
        place_watch(place);
        tier_go_back(place); /* a run that was held up may end it */
        is_ours = keeping->place != NULL && place->sealed.version == keeping->version;
    }
    if (is_ours && why != NULL) {
        log_debug("jail.seal", LOG_ID("sandbox", str_of(place->id)), LOG_STR("error", why->msg));
        freeze(keeping); /* nothing has changed: it is copied while frozen */
        return;
    }
    if (!is_ours) {
        (void)err_set(&err, ERR_GONE, "the sandbox ended or was rolled back");
        keep_finish(keeping, why != NULL ? why : &err);
        return;
    }
    tier_seal_taken(place, fd_take(&fd), event->layer);
    CRASH_POINT("seal.taken");
    if (keeping->how == JAIL_KEEP_CHECKPOINT && tier_seal_leave(place, &keeping->left_bytes)) {
        keep_leave(keeping);
        return;
    }
    keeping->version = place->sealed.version;
    keeping->is_sealed = true;
    if (gather(keeping, place, &err) == 0)
        keeping_submit(keeping);
    else
        keep_finish(keeping, &err);
}

bool tier_layers_is_keeping(const struct place *place)
{
    for (const struct keeping *at = place->provider->layers->keepings; at != NULL; at = at->next)
        if (at->place == place && at->how != JAIL_KEEP_SQUASH)
            return true;
    return false;
}

static bool is_kept_already(const struct keeping *keeping)
{
    for (const struct keeping *other = keeping->next; other != NULL; other = other->next)
        if (other->place == keeping->place && other->how != JAIL_KEEP_SQUASH)
            return true;
    return false;
}

/* A pause freezes the jail anyway. */
static bool can_seal(const struct keeping *keeping)
{
    const struct place *place = keeping->place;
    return keeping->how != JAIL_KEEP_PAUSE && !is_kept_already(keeping) &&
           place->provider->warden != NULL && place->rolling == NULL;
}

static bool seal(struct keeping *keeping, uint32_t processes)
{
    struct place *place = keeping->place;
    struct err err = {0};
    uint32_t number = 0;
    if (!can_seal(keeping) || tier_seal_ask(place, processes, &number, &err) < 0)
        return false;
    keeping->version = place->sealed.version;
    (void)tier_warden_asked(place->provider, number, on_sealed, keeping);
    return true;
}

static void on_quiesced(void *ctx, int count)
{
    struct keeping *keeping = ctx;
    if (count >= 0 && seal(keeping, (uint32_t)count))
        return;
    tier_go_back(keeping->place);
    if (keeping->place != NULL) { /* a run that was held up may have ended it */
        freeze(keeping);
        return;
    }
    struct err err = {0};
    (void)err_set(&err, ERR_GONE, "the sandbox ended");
    keep_finish(keeping, &err);
}

struct keeping *keeping_new(struct provider *provider, struct place *place, enum jail_keep how)
{
    struct jail_layers *layers = provider->layers;
    struct keeping *keeping = mem_alloc(sizeof *keeping);
    *keeping = (struct keeping){.provider = provider,
                                .place = place,
                                .how = how,
                                .new_fd = -1,
                                .dir_fd = layers->dir_fd,
                                .trash_fd = layers->trash_fd,
                                .next = layers->keepings};
    layers->keepings = keeping;
    tier_layers_begin(provider, &keeping->fresh);
    return keeping;
}

void tier_layers_keep(struct place *place, enum jail_keep how, image_done *done, void *ctx)
{
    struct keeping *keeping = keeping_new(place->provider, place, how);
    keeping->done = done;
    keeping->ctx = ctx;
    if (can_seal(keeping))
        tier_quiesce(place, on_quiesced, keeping);
    else
        freeze(keeping);
}

void tier_layers_take(struct provider *provider, int dir_fd, image_done *done, void *ctx)
{
    struct keeping *keeping = keeping_new(provider, NULL, JAIL_KEEP_WHOLE);
    keeping->done = done;
    keeping->ctx = ctx;
    buf_put_cstr(&keeping->below, JAIL_IMAGE);
    *vec_push(&keeping->sources) = dir_fd;
    keeping_submit(keeping);
}

void tier_layers_each_kept(struct provider *provider, void (*mark)(void *ctx, struct str image),
                           void *ctx)
{
    for (const struct keeping *keeping = provider->layers->keepings; keeping != NULL;
         keeping = keeping->next) {
        mark(ctx, buf_str(&keeping->below));
        mark(ctx, buf_str(&keeping->merged));
    }
}

void tier_layers_leave(struct place *place, const struct err *why)
{
    for (struct keeping *keeping = place->provider->layers->keepings; keeping != NULL;) {
        struct keeping *next = keeping->next;
        if (keeping->place == place) {
            image_done *done = keeping->done;
            keeping->place = NULL;
            keeping->done = NULL;
            atomic_store(&keeping->job.cancel, true);
            if (done != NULL)
                done(keeping->ctx, (struct str){0}, 0, why);
        }
        keeping = next;
    }
}
