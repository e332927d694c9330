/* What files/mark.h and files/archive/keep.h do, asked of a jail: whether /workspace has changed,
 * and what differs. */

#include "engine/sandbox/turn.h"
#include "base/err.h"
#include "engine/provider.h"
#include "files/mark.h"
#include "jail/client/files.h"
#include "jail/client/jail.h"
#include "tiers/jail/files/files.h"
#include "tiers/jail/place.h"

struct asking {
    struct asked_op op; /* first */
    struct place *place;
    mark_done *on_mark;
    engine_done *on_diff;
    void *ctx;
};

static void turn_answer(struct asking *asking, const struct files_mark *mark, const struct err *why)
{
    struct asking copy = *asking;
    if (asking->place != NULL)
        place_remove(asking->place, &asking->op);
    free(asking);
    if (copy.on_mark != NULL)
        copy.on_mark(copy.ctx, why == NULL ? mark : NULL, why);
    else if (copy.on_diff != NULL)
        copy.on_diff(copy.ctx, why);
}

static void turn_on_event(struct asked_op *op, const struct jail_event *event,
                          const struct err *why)
{
    struct asking *asking = (struct asking *)op;
    if (event == NULL) {
        asking->place = NULL;
        turn_answer(asking, NULL, why);
    } else if (event->type == JAIL_EVENT_FILE) {
        struct files_mark mark = {event->file->count, {event->file->changed, event->file->moved}};
        turn_answer(asking, &mark, NULL);
    } else {
        struct err err = event->err;
        turn_answer(asking, NULL, &err);
    }
}

static void turn_ask(struct asking *asking, const struct jail_file *question, int fd)
{
    struct err err = {0};
    uint32_t id = 0;
    struct place *place = asking->place;
    asking->op.on_event = turn_on_event;
    if (jail_ask_file(place->jail, question, fd, &id, &err) < 0) {
        asking->place = NULL;
        turn_answer(asking, NULL, &err);
        return;
    }
    place_add(place, &asking->op, id);
    place_watch(place);
}

void tier_mark(struct place *place, mark_done *done, void *ctx)
{
    struct asking *asking = mem_alloc(sizeof *asking);
    struct jail_file question = {.verb = JAIL_FILE_MARK, .path = STR(TURN_ROOT)};
    *asking = (struct asking){.place = place, .on_mark = done, .ctx = ctx};
    turn_ask(asking, &question, -1);
}

void tier_diff(struct place *place, int fd, uint64_t first, bool has_second, engine_done *done,
               void *ctx)
{
    struct asking *asking = mem_alloc(sizeof *asking);
    struct jail_file question = {
        .verb = JAIL_FILE_DIFF, .path = STR(TURN_ROOT), .limit = first, .follow = has_second};
    *asking = (struct asking){.place = place, .on_diff = done, .ctx = ctx};
    turn_ask(asking, &question, fd);
}
