/* Calls of bridges by the code that a leased worker runs. Only code that makes such calls gets
 * here.
 */

#include "base/clock.h"
#include "base/err.h"
#include "runtime/bridges.h"
#include "tiers/isolate/lease_internal.h"

enum { CALLS_MAX = 64 }; /* of one worker under way */

void lease_drop_calls(struct lease *lease)
{
    for (size_t i = 0; i < CALLS_MAX; i++)
        if (lease->bridging[i].call != NULL)
            lease->bridging[i].call = bridge_call_free(lease->bridging[i].call);
}

static void on_settled(void *ctx, bool is_ok, struct str json)
{
    struct bridging *bridging = ctx;
    struct err err = {0};
    if (worker_answer(bridging->lease->worker, bridging->id, is_ok, json, &err) < 0 &&
        err.code == ERR_TOO_LARGE)
        worker_answer_error(bridging->lease->worker, bridging->id, &err);
    bridging->call = bridge_call_free(bridging->call);
    lease_pump(bridging->lease);
}

static int start_call(struct lease *lease, const struct worker_event *event, struct err *err)
{
    if (lease->services == NULL)
        return err_set(err, ERR_UNSUPPORTED, "not available here");
    if (lease->bridging == NULL)
        lease->bridging = mem_alloc(CALLS_MAX * sizeof *lease->bridging);
    struct bridging *bridging = lease->bridging;
    while (bridging < lease->bridging + CALLS_MAX && bridging->call != NULL)
        bridging++;
    if (bridging == lease->bridging + CALLS_MAX)
        return err_set(err, ERR_LIMIT, "too many calls at once: await some first");
    *bridging = (struct bridging){.lease = lease, .id = event->call};
    return bridge_call_start(lease->leases->set, lease->leases->host->loop, lease->services,
                             event->name, event->text, lease->deadline_ms - clock_now_ms(),
                             on_settled, bridging, &bridging->call, err);
}

void lease_on_bridge(struct lease *lease, const struct worker_event *event)
{
    struct err why = {0}, err = {0};
    if (start_call(lease, event, &why) < 0)
        (void)!worker_refuse(lease->worker, event->call, why.msg, &err);
}

void lease_on_cancel(struct lease *lease, uint64_t id)
{
    for (size_t i = 0; lease->bridging != NULL && i < CALLS_MAX; i++)
        if (lease->bridging[i].call != NULL && lease->bridging[i].id == id)
            lease->bridging[i].call = bridge_call_free(lease->bridging[i].call);
}
