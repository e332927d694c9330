#include "engine/jail_layers.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "base/sys.h"
#include "engine/layer_tree.h"

enum {
    LAYERS_MAX = 120, /* of one root */
    MERGE_AT = 8,     /* so many of its own become one at the next copy */
};

/* --- Images --- */

#define IMAGE "layers"

/* What is there already is left out: a snapshot and a sandbox made from it may share layers. */
int jail_layers_add(layer_ids *ids, struct str image, struct err *err)
{
    struct str rest = image, part;
    if (image.len == 0)
        return 0;
    if (!str_split(&rest, '/', &part) || !str_eq(part, STR(IMAGE)))
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
    buf_put_cstr(out, IMAGE);
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

/* --- Keeping: freeze, copy, let go on, sync --- */

struct keeping {
    struct job job; /* first */
    struct jail_fresh fresh;
    struct keeping *next;
    struct provider *provider;
    struct place *place; /* NULL: it has gone, and nobody waits */
    enum jail_keep how;
    bool is_frozen, is_copied;
    int source_fd, new_fd, dir_fd, trash_fd;
    struct buf merged; /* image of the frozen ones that become part of it */
    struct buf below;  /* image that the new layer stands on */
    uint64_t bytes, entries;
    int result;
    struct err err;
    image_done *done;
    void *ctx;
};

static void on_let_go(UNUSED struct request *request, UNUSED const struct warden_event *event,
                      const struct err *why)
{
    if (why != NULL)
        log_warn("jail.thaw", LOG_STR("error", why->msg));
}

static void let_go_on(struct keeping *keeping)
{
    struct err err = {0};
    uint32_t number = 0;
    if (keeping->is_frozen && keeping->place != NULL &&
        jail_ask_freeze(keeping->place->jail, false, &number, &err) == 0)
        (void)jail_warden_asked(keeping->provider, number, on_let_go, NULL);
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
    fd_close(&keeping->source_fd);
    fd_close(&keeping->new_fd);
    buf_done(&keeping->merged);
    buf_done(&keeping->below);
    free(keeping);
}

static void finish(struct keeping *keeping, const struct err *why)
{
    AUTO_BUF struct buf image = {0};
    image_done *done = keeping->done;
    void *ctx = keeping->ctx;
    int64_t bytes = (int64_t)keeping->bytes;
    if (why != NULL || keeping->how != JAIL_KEEP_PAUSE)
        let_go_on(keeping);
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
    if (done < 0 || layer_lay(&laying, keeping->source_fd, err) < 0)
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
    CRASH_POINT("keep.placed");
    return SYS(fsync(keeping->dir_fd)) < 0 ? err_sys(err, errno, "sync the layers") : 0;
}

static void run_keeping(struct job *base)
{
    struct keeping *keeping = (struct keeping *)base;
    keeping->result =
        keeping->is_copied ? place_layer(keeping, &keeping->err) : copy(keeping, &keeping->err);
}

static void submit(struct keeping *keeping);

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
    submit(keeping);
}

static void submit(struct keeping *keeping)
{
    struct err err = {0};
    keeping->job = (struct job){.run = run_keeping, .done = keeping_done};
    if (pool_submit(keeping->provider->layers->pool, &keeping->job, &err) < 0)
        finish(keeping, &err);
}

static void on_layer(struct request *request, const struct warden_event *event,
                     const struct err *why)
{
    struct keeping *keeping = request->ctx;
    struct err gone = {0};
    if (why == NULL)
        keeping->source_fd = event->fd;
    if (why == NULL && keeping->place == NULL) {
        (void)err_set(&gone, ERR_GONE, "the sandbox ended");
        why = &gone;
    }
    if (why == NULL)
        submit(keeping);
    else
        finish(keeping, why);
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

/* Long stacks become one layer, of links to what is there. */
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

void jail_layers_keep(struct place *place, enum jail_keep how, image_done *done, void *ctx)
{
    struct jail_layers *layers = place->provider->layers;
    struct keeping *keeping = mem_alloc(sizeof *keeping);
    *keeping = (struct keeping){.provider = place->provider,
                                .place = place,
                                .how = how,
                                .source_fd = -1,
                                .new_fd = -1,
                                .dir_fd = layers->dir_fd,
                                .trash_fd = layers->trash_fd,
                                .next = layers->keepings,
                                .done = done,
                                .ctx = ctx};
    layers->keepings = keeping;
    jail_layers_begin(place->provider, &keeping->fresh);
    choose_below(keeping, place);
    freeze(keeping);
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
            done(keeping->ctx, (struct str){0}, 0, why);
        }
        keeping = next;
    }
}
