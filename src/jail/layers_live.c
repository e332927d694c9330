#include "jail/layers_live.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/sys.h"
#include "jail/layers_internal.h"

/* On disk the new stack stands already; the jail follows, or the disk goes back. */
static int follow(struct layers *layers, const char *id, struct jail *jail,
                  const struct jail_plan *plan, struct err *err)
{
    AUTO_ARENA struct arena arena = {0};
    struct jail_plan next = *plan;
    CRASH_POINT("live.before_switch");
    if (layers_plan(layers, id, &arena, &next, err) == 0 && jail_relayer(jail, &next, err) == 0) {
        CRASH_POINT("live.after_switch");
        return 0;
    }
    struct err undo = {0};
    if (layers_drop_top(layers, id, &undo) < 0)
        return err_wrap(err, "and cannot go back (%.60s)", undo.msg);
    return -1;
}

int layers_checkpoint_live(struct layers *layers, const char *id, struct jail *jail,
                           const struct jail_plan *plan, uint32_t *ret_number, struct err *err)
{
    uint32_t number;
    if (layers_checkpoint(layers, id, &number, err) < 0)
        return -1;
    if (follow(layers, id, jail, plan, err) < 0)
        return err_wrap(err, "checkpoint '%s'", id);
    *ret_number = number;
    return 0;
}

int layers_rollback_live(struct layers *layers, const char *id, uint32_t number, struct jail *jail,
                         const struct jail_plan *plan, struct err *err)
{
    if (layers_rollback_keep(layers, id, number, err) < 0)
        return -1;
    if (follow(layers, id, jail, plan, err) < 0)
        return err_wrap(err, "roll back '%s'", id);
    AUTO_BOX struct layer_box box = LAYER_BOX_NONE;
    if (layer_box_open(layers, id, false, &box, err) == 0)
        layers_prune(&box);
    return 0;
}
