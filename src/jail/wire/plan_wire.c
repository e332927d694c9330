/* A plan as a message. */

#include "base/err.h"
#include "jail/wire/warden.h"

void plan_put(struct buf *out, const struct jail_plan *plan)
{
    const struct jail_limits *limits = &plan->limits;
    const int64_t numbers[] = {limits->memory_bytes, limits->pids,        limits->cpu_milli,
                               limits->disk_bytes,   limits->disk_inodes, limits->tmp_bytes,
                               limits->tmp_inodes,   limits->nofile};
    for (size_t i = 0; i < countof(numbers); i++)
        wire_put_i64(out, numbers[i]);
    wire_put_cstr(out, plan->hostname);
    wire_put_cstr(out, plan->base);
    wire_put_cstr(out, plan->workspace);
    wire_put_cstr(out, plan->disk);
    wire_put_u32(out, (uint32_t)plan->disk_layer_count);
    for (size_t i = 0; i < plan->disk_layer_count; i++)
        wire_put_u32(out, plan->disk_layers[i]);
    wire_put_u32(out, plan->overlay);
    wire_put_u32(out, (uint32_t)plan->net);
    wire_put_u32(out, plan->gateway_port);
    wire_put_u32(out, (uint32_t)plan->mount_count);
    for (size_t i = 0; i < plan->mount_count; i++) {
        wire_put_cstr(out, plan->mounts[i].src);
        wire_put_cstr(out, plan->mounts[i].dst);
        wire_put_u32(out, plan->mounts[i].writable);
    }
    wire_put_u32(out, (uint32_t)plan->layer_count);
    for (size_t i = 0; i < plan->layer_count; i++)
        wire_put_cstr(out, plan->layers[i]);
}

static void get_limits(struct wire_in *in, struct jail_limits *limits)
{
    limits->memory_bytes = wire_get_i64(in);
    limits->pids = wire_get_i64(in);
    limits->cpu_milli = wire_get_i64(in);
    limits->disk_bytes = wire_get_i64(in);
    limits->disk_inodes = wire_get_i64(in);
    limits->tmp_bytes = wire_get_i64(in);
    limits->tmp_inodes = wire_get_i64(in);
    limits->nofile = wire_get_i64(in);
}

static void get_mounts(struct wire_in *in, struct jail_plan *plan)
{
    plan->mount_count = wire_get_u32(in);
    if (plan->mount_count > JAIL_MOUNTS_MAX)
        in->bad = true;
    for (size_t i = 0; i < plan->mount_count && !in->bad; i++) {
        plan->mounts[i].src = wire_get_cstr(in);
        plan->mounts[i].dst = wire_get_cstr(in);
        plan->mounts[i].writable = wire_get_u32(in) != 0;
    }
    plan->layer_count = wire_get_u32(in);
    if (plan->layer_count > JAIL_LAYERS_MAX)
        in->bad = true;
    for (size_t i = 0; i < plan->layer_count && !in->bad; i++)
        plan->layers[i] = wire_get_cstr(in);
}

static void get_disk(struct wire_in *in, struct jail_plan *plan)
{
    plan->disk = wire_get_cstr(in);
    plan->disk_layer_count = wire_get_u32(in);
    if (plan->disk_layer_count > JAIL_DISK_LAYERS_MAX)
        in->bad = true;
    for (size_t i = 0; i < plan->disk_layer_count && !in->bad; i++)
        plan->disk_layers[i] = wire_get_u32(in);
}

int plan_get(struct wire_in *in, struct jail_plan *ret_plan, struct err *err)
{
    struct jail_plan plan = {0};
    get_limits(in, &plan.limits);
    plan.hostname = wire_get_cstr(in);
    plan.base = wire_get_cstr(in);
    plan.workspace = wire_get_cstr(in);
    get_disk(in, &plan);
    plan.overlay = wire_get_u32(in) != 0;
    plan.net = (enum jail_net)wire_get_u32(in);
    plan.gateway_port = (uint16_t)wire_get_u32(in);
    get_mounts(in, &plan);
    if (!wire_ended(in) || plan.hostname == NULL)
        return err_set(err, ERR_INVALID, "the plan is malformed");
    if (jail_plan_check(&plan, err) < 0)
        return -1;
    *ret_plan = plan;
    return 0;
}
