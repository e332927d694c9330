#include "engine/jail_layers.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "base/sys.h"
#include "engine/jail_keep.h"
#include "engine/layer_tree.h"

enum {
    LAYERS_MAX = 120, /* of one root */
    MERGE_AT = 64,    /* so many of its own become one at the next copy: nobody did it before */
};

/* --- Images --- */

/* What is there already is left out: a snapshot and a sandbox made from it may share layers. */
int jail_layers_add(layer_ids *ids, struct str image, struct err *err)
{
    struct str rest = image, part;
    if (image.len == 0)
        return 0;
    if (!str_split(&rest, '/', &part) || !str_eq(part, STR(JAIL_IMAGE)))
        return err_set(err, ERR_INVALID, "'%.40s' is no image of the tier 'jail'", image.ptr);
    while (rest.len > 0 && str_split(&rest, '/', &part)) {
        bool is_known = false;
        VEC_EACH (id, ids)
            is_known |= str_eq(*id, part);
        if (!id_is_valid(part))
            return err_set(err, ERR_INVALID, "an image names a layer that cannot be");
        if (!is_known)
            *vec_push(ids) = part;
    }
    return ids->len > LAYERS_MAX
               ? err_set(err, ERR_LIMIT, "more than %d layers in one root", LAYERS_MAX)
               : 0;
}

static void put_image(const layer_ids *ids, struct buf *out)
{
    buf_put_cstr(out, JAIL_IMAGE);
    VEC_EACH (id, ids)
        buf_printf(out, "/%.*s", STR_ARG(*id));
}

static int set_layers(const struct provider *provider, const layer_ids *ids, struct arena *arena,
                      struct jail_plan *plan, struct err *err)
{
    plan->layer_count = 0;
    if (ids->len > LAYERS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d layers in one root", LAYERS_MAX);
    VEC_EACH (id, ids)
        plan->layers[plan->layer_count++] =
            arena_printf(arena, "%s/layers/%.*s", provider->host->data_dir, STR_ARG(*id)).ptr;
    return 0;
}

int jail_layers_replan(struct place *place, struct str image, struct arena *arena,
                       struct jail_plan *plan, struct err *err)
{
    layer_ids ids = {0};
    int done = jail_layers_add(&ids, buf_str(&place->base_image), err);
    if (done == 0)
        done = jail_layers_add(&ids, image, err);
    if (done == 0)
        done = set_layers(place->provider, &ids, arena, plan, err);
    vec_done(&ids);
    return done;
}

void jail_layers_stand(struct place *place, struct str image)
{
    buf_clear(&place->own_image);
    buf_put(&place->own_image, image);
}

int jail_layers_plan(struct place *place, const struct place_spec *spec, struct err *err)
{
    layer_ids ids = {0};
    int done = 0;
    for (size_t i = 0; done == 0 && i < spec->snapshot_count; i++)
        done = jail_layers_add(&ids, spec->snapshot_images[i], err);
    if (done == 0 && ids.len > 0)
        put_image(&ids, &place->base_image);
    vec_done(&ids);
    if (done < 0)
        return -1;
    jail_layers_stand(place, spec->image);
    return jail_layers_replan(place, spec->image, &place->arena, &place->plan, err);
}

bool jail_layers_exist(struct provider *provider, struct str image)
{
    layer_ids ids = {0};
    struct err err = {0};
    bool all = jail_layers_add(&ids, image, &err) == 0;
    VEC_EACH (id, &ids) {
        char name[ID_SIZE + 64];
        (void)snprintf(name, sizeof name, "%.*s", STR_ARG(*id));
        all = all && faccessat(provider->layers->dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    }
    vec_done(&ids);
    return all;
}

/* --- Keeping: seal, copy, sync; or freeze, copy, let go on, sync --- */

static void on_let_go(struct request *request, UNUSED const struct warden_event *event,
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
        (void)jail_warden_asked(keeping->provider, number, on_let_go,
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
    jail_layers_end(keeping->provider, &keeping->fresh);
    VEC_EACH (fd, &keeping->sources)
        fd_close(fd);
    vec_done(&keeping->sources);
    fd_close(&keeping->new_fd);
    buf_done(&keeping->merged);
    buf_done(&keeping->below);
    free(keeping);
}

/* What the place had written in this life before. */
static int64_t bytes_below(const struct keeping *keeping)
{
    return keeping->place == NULL || keeping->merged.len > 0 ? 0 : keeping->place->sealed.bytes;
}

/* From now on the place stands on what was kept, unless something else came between. */
static void stand(struct keeping *keeping, int64_t bytes)
{
    struct place *place = keeping->place;
    AUTO_BUF struct buf image = {0};
    if (!keeping->is_sealed || place == NULL || keeping->version != place->sealed.version)
        return;
    if (keeping->merged.len == 0)
        buf_put(&image, buf_str(&place->own_image));
    buf_printf(&image, "%s/%s", image.len == 0 ? JAIL_IMAGE : "", keeping->fresh.id);
    jail_seal_kept(place, buf_str(&image), (int64_t)(keeping->bytes - keeping->merged_bytes),
                   bytes);
    jail_layers_squash(place);
}

static void finish(struct keeping *keeping, const struct err *why)
{
    AUTO_BUF struct buf image = {0};
    image_done *done = keeping->done;
    void *ctx = keeping->ctx;
    int64_t bytes = (int64_t)keeping->bytes + bytes_below(keeping);
    if (why == NULL && keeping->how == JAIL_KEEP_SQUASH)
        jail_squashed(keeping);
    else if (why == NULL)
        stand(keeping, bytes);
    if (why != NULL || keeping->how != JAIL_KEEP_PAUSE)
        let_go_on(keeping);
    else if (keeping->place != NULL)
        keeping->place->is_paused = true;
    if (why == NULL)
        buf_printf(&image, "%s/%s", buf_cstr(&keeping->below), keeping->fresh.id);
    if (why != NULL || keeping->place == NULL)
        jail_layers_sweep_soon(keeping->provider);
    struct err copy = why == NULL ? (struct err){0} : *why;
    keeping_free(keeping);
    if (done != NULL)
        done(ctx, buf_str(&image), bytes, why == NULL ? NULL : &copy);
}

/* On a worker. */

static int open_layer(int dir_fd, const char *name, struct err *err)
{
    int fd = SYS(openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    return fd < 0 ? err_sys(err, errno, "open the layer '%s'", name) : fd;
}

static int lay_all(struct keeping *keeping, struct err *err)
{
    struct layer_laying laying = {.target_fd = keeping->new_fd,
                                  .trash_fd = keeping->trash_fd,
                                  .owner = layer_tree_owner(),
                                  .links = true,
                                  .cancel = &keeping->job.cancel};
    layer_ids ids = {0};
    int done = jail_layers_add(&ids, buf_str(&keeping->merged), err);
    for (size_t i = 0; done == 0 && i < ids.len; i++) {
        char name[ID_SIZE + 64];
        (void)snprintf(name, sizeof name, "%.*s", STR_ARG(ids.ptr[i]));
        AUTO_CLOSE int fd = open_layer(keeping->dir_fd, name, err);
        done = fd < 0 ? -1 : layer_lay(&laying, fd, err);
    }
    vec_done(&ids);
    laying.links = false;
    keeping->merged_bytes = laying.bytes;
    for (size_t i = 0; done == 0 && i < keeping->sources.len; i++) {
        laying.above_fds = keeping->sources.ptr + i + 1;
        laying.above_count = keeping->sources.len - i - 1;
        done = layer_lay(&laying, keeping->sources.ptr[i], err);
    }
    if (done < 0)
        return -1;
    keeping->bytes = laying.bytes;
    keeping->entries = laying.entries;
    return 0;
}

static int copy(struct keeping *keeping, struct err *err)
{
    char name[ID_SIZE + 8];
    (void)snprintf(name, sizeof name, ".new-%s", keeping->fresh.id);
    if (SYS(mkdirat(keeping->dir_fd, name, (mode_t)0700)) < 0)
        return err_sys(err, errno, "make a layer");
    keeping->new_fd = open_layer(keeping->dir_fd, name, err);
    return keeping->new_fd < 0 ? -1 : lay_all(keeping, err);
}

/* What is acknowledged survives a power cut, so the disk has it first. */
static int place_layer(struct keeping *keeping, struct err *err)
{
    char name[ID_SIZE + 8];
    (void)snprintf(name, sizeof name, ".new-%s", keeping->fresh.id);
    CRASH_POINT("keep.copied");
    if (layer_sync(keeping->new_fd, keeping->entries, err) < 0)
        return -1;
    if (SYS(renameat(keeping->dir_fd, name, keeping->dir_fd, keeping->fresh.id)) < 0)
        return err_sys(err, errno, "place a layer");
    if (keeping->how == JAIL_KEEP_SQUASH)
        CRASH_POINT("squash.placed");
    CRASH_POINT("keep.placed");
    return SYS(fsync(keeping->dir_fd)) < 0 ? err_sys(err, errno, "sync the layers") : 0;
}

static void run_keeping(struct job *base)
{
    struct keeping *keeping = (struct keeping *)base;
    keeping->result =
        keeping->is_copied ? place_layer(keeping, &keeping->err) : copy(keeping, &keeping->err);
}

static void keeping_done(struct job *base, bool canceled)
{
    struct keeping *keeping = (struct keeping *)base;
    if (canceled)
        keeping->result = err_set(&keeping->err, ERR_CANCELED, "the server stops");
    if (keeping->result < 0 || keeping->is_copied) {
        finish(keeping, keeping->result < 0 ? &keeping->err : NULL);
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
    keeping->job = (struct job){.run = run_keeping, .done = keeping_done};
    if (pool_submit(keeping->provider->layers->pool, &keeping->job, &err) < 0)
        finish(keeping, &err);
}

/* What the place stands on. Long stacks become one layer, of links to what is there. */
static void choose_below(struct keeping *keeping, const struct place *place)
{
    struct err err = {0};
    layer_ids base = {0}, own = {0};
    (void)!jail_layers_add(&own, buf_str(&place->own_image), &err);
    if (keeping->how == JAIL_KEEP_WHOLE)
        (void)!jail_layers_add(&base, buf_str(&place->base_image), &err);
    bool merges = own.len >= MERGE_AT;
    VEC_EACH (id, &own)
        if (!merges)
            *vec_push(&base) = *id;
    put_image(&base, &keeping->below);
    if (merges)
        put_image(&own, &keeping->merged);
    vec_done(&own);
    vec_done(&base);
}

static int gather(struct keeping *keeping, const struct place *place, struct err *err)
{
    choose_below(keeping, place);
    VEC_EACH (fd, &place->sealed.fresh) {
        int copy = SYS(fcntl(*fd, F_DUPFD_CLOEXEC, 3));
        if (copy < 0)
            return err_sys(err, errno, "keep a descriptor");
        *vec_push(&keeping->sources) = copy;
    }
    return 0;
}

static void on_layer(struct request *request, const struct warden_event *event,
                     const struct err *why)
{
    struct keeping *keeping = request->ctx;
    struct err err = {0};
    if (why != NULL) {
        finish(keeping, why);
        return;
    }
    int done = keeping->place == NULL ? err_set(&err, ERR_GONE, "the sandbox ended")
                                      : gather(keeping, keeping->place, &err);
    *vec_push(&keeping->sources) = event->fd;
    if (done == 0)
        keeping_submit(keeping);
    else
        finish(keeping, &err);
}

static void ask_layer(struct keeping *keeping)
{
    struct err err = {0};
    uint32_t number = 0;
    if (keeping->place == NULL)
        (void)err_set(&err, ERR_GONE, "the sandbox ended");
    else if (jail_ask_layer(keeping->place->jail, &number, &err) == 0) {
        (void)jail_warden_asked(keeping->provider, number, on_layer, keeping);
        return;
    }
    finish(keeping, &err);
}

static void on_frozen(struct request *request, UNUSED const struct warden_event *event,
                      const struct err *why)
{
    struct keeping *keeping = request->ctx;
    if (why != NULL) {
        finish(keeping, why);
        return;
    }
    keeping->is_frozen = true;
    ask_layer(keeping);
}

/* Init alone does nothing that it was not asked for; with commands only a frozen jail stands
 * still. */
static void freeze(struct keeping *keeping)
{
    struct place *place = keeping->place;
    const char *no_freeze = place->provider->warden == NULL
                                ? "there is no warden"
                                : warden_host(place->provider->warden)->no_freeze;
    struct err err = {0};
    uint32_t number = 0;
    if (no_freeze[0] == '\0' || keeping->how == JAIL_KEEP_PAUSE) {
        if (jail_ask_freeze(place->jail, true, &number, &err) == 0) {
            (void)jail_warden_asked(place->provider, number, on_frozen, keeping);
            return;
        }
    } else if (place->execs == NULL) {
        ask_layer(keeping);
        return;
    } else {
        (void)err_set(&err, ERR_UNSUPPORTED,
                      "commands are running and this host cannot freeze them: %s", no_freeze);
    }
    finish(keeping, &err);
}

/* --- Sealing --- */

static void on_sealed(struct request *request, const struct warden_event *event,
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
    }
    if (is_ours && why != NULL) {
        log_debug("jail.seal", LOG_ID("sandbox", str_of(place->id)), LOG_STR("error", why->msg));
        freeze(keeping); /* nothing has changed: it is copied while it stands still */
        return;
    }
    if (!is_ours) {
        (void)err_set(&err, ERR_GONE, "the sandbox ended or was rolled back");
        finish(keeping, why != NULL ? why : &err);
        return;
    }
    jail_seal_taken(place, fd_take(&fd));
    keeping->version = place->sealed.version;
    keeping->is_sealed = true;
    if (gather(keeping, place, &err) == 0)
        keeping_submit(keeping);
    else
        finish(keeping, &err);
}

static bool is_kept_already(const struct keeping *keeping)
{
    for (const struct keeping *other = keeping->next; other != NULL; other = other->next)
        if (other->place == keeping->place && other->how != JAIL_KEEP_SQUASH)
            return true;
    return false;
}

/* A pause stands still anyway. */
static bool seal(struct keeping *keeping)
{
    struct place *place = keeping->place;
    struct err err = {0};
    uint32_t number = 0;
    if (keeping->how == JAIL_KEEP_PAUSE || is_kept_already(keeping) ||
        place->provider->warden == NULL || place->rolling != NULL ||
        jail_seal_ask(place, &number, &err) < 0)
        return false;
    keeping->version = place->sealed.version;
    (void)jail_warden_asked(place->provider, number, on_sealed, keeping);
    return true;
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
    jail_layers_begin(provider, &keeping->fresh);
    return keeping;
}

void jail_layers_keep(struct place *place, enum jail_keep how, image_done *done, void *ctx)
{
    struct keeping *keeping = keeping_new(place->provider, place, how);
    keeping->done = done;
    keeping->ctx = ctx;
    if (!seal(keeping))
        freeze(keeping);
}

void jail_layers_take(struct provider *provider, int dir_fd, image_done *done, void *ctx)
{
    struct keeping *keeping = keeping_new(provider, NULL, JAIL_KEEP_WHOLE);
    keeping->done = done;
    keeping->ctx = ctx;
    buf_put_cstr(&keeping->below, JAIL_IMAGE);
    *vec_push(&keeping->sources) = dir_fd;
    keeping_submit(keeping);
}

void jail_layers_each_kept(struct provider *provider, void (*mark)(void *ctx, struct str image),
                           void *ctx)
{
    for (const struct keeping *keeping = provider->layers->keepings; keeping != NULL;
         keeping = keeping->next) {
        mark(ctx, buf_str(&keeping->below));
        mark(ctx, buf_str(&keeping->merged));
    }
}

void jail_layers_leave(struct place *place, const struct err *why)
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
