#include "jail/layers_live.h"

#include "base/err.h"
#include "base/sys.h"
#include "jail/layers_internal.h"

void layers_move_done(struct layers_move *move)
{
    arena_done(&move->arena);
}

/* On disk the new stack stands already. */
static int make_plan(struct layers *layers, const char *id, const struct jail_plan *plan,
                     uint32_t number, struct layers_move *ret_move, struct err *err)
{
    struct layers_move move = {.number = number, .plan = *plan};
    (void)snprintf(move.id, sizeof move.id, "%s", id);
    if (layers_plan(layers, id, &move.arena, &move.plan, err) == 0) {
        *ret_move = move;
        CRASH_POINT("live.before_switch");
        return 0;
    }
    layers_move_done(&move);
    struct err undo = {0};
    if (layers_drop_top(layers, id, &undo) < 0)
        return err_wrap(err, "and cannot go back (%.60s)", undo.msg);
    return -1;
}

int layers_begin_checkpoint(struct layers *layers, const char *id, const struct jail_plan *plan,
                            struct layers_move *ret_move, struct err *err)
{
    uint32_t number;
    if (layers_checkpoint(layers, id, &number, err) < 0)
        return -1;
    return make_plan(layers, id, plan, number, ret_move, err);
}

int layers_begin_rollback(struct layers *layers, const char *id, uint32_t number,
                          const struct jail_plan *plan, struct layers_move *ret_move,
                          struct err *err)
{
    if (layers_rollback_keep(layers, id, number, err) < 0)
        return -1;
    return make_plan(layers, id, plan, number, ret_move, err);
}

int layers_keep(struct layers *layers, const struct layers_move *move, struct err *err)
{
    CRASH_POINT("live.after_switch");
    AUTO_BOX struct layer_box box = LAYER_BOX_NONE;
    if (layer_box_open(layers, move->id, false, &box, err) < 0)
        return -1;
    layers_prune(&box);
    return 0;
}

int layers_undo(struct layers *layers, const struct layers_move *move, struct err *err)
{
    return layers_drop_top(layers, move->id, err);
}

/* The jail follows, or the disk goes back. */
static int follow(struct layers *layers, struct jail *jail, const struct layers_move *move,
                  struct err *err)
{
    if (jail_relayer(jail, &move->plan, err) == 0)
        return layers_keep(layers, move, err);
    struct err undo = {0};
    if (layers_undo(layers, move, &undo) < 0)
        return err_wrap(err, "and cannot go back (%.60s)", undo.msg);
    return -1;
}

int layers_checkpoint_live(struct layers *layers, const char *id, struct jail *jail,
                           const struct jail_plan *plan, uint32_t *ret_number, struct err *err)
{
    AUTO_MOVE struct layers_move move = {0};
    if (layers_begin_checkpoint(layers, id, plan, &move, err) < 0)
        return -1;
    if (follow(layers, jail, &move, err) < 0)
        return err_wrap(err, "checkpoint '%s'", id);
    *ret_number = move.number;
    return 0;
}

int layers_rollback_live(struct layers *layers, const char *id, uint32_t number, struct jail *jail,
                         const struct jail_plan *plan, struct err *err)
{
    AUTO_MOVE struct layers_move move = {0};
    if (layers_begin_rollback(layers, id, number, plan, &move, err) < 0)
        return -1;
    if (follow(layers, jail, &move, err) < 0)
        return err_wrap(err, "roll back '%s'", id);
    return 0;
}
