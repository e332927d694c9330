/* Disk usage of the server. */

#include "api/v1/v1.h"

static void on_counted(void *ctx, const struct du_item *items, size_t count, const struct err *why)
{
    struct v1_answer answer;
    int64_t total = 0;
    if (why != NULL) {
        reply_error(ctx, why);
        return;
    }
    struct json_out *out = v1_begin(&answer);
    json_begin_object(out);
    json_key(out, "items"), json_begin_array(out);
    for (size_t i = 0; i < count; i++) {
        json_begin_object(out);
        json_key(out, "kind"), json_put_cstr(out, items[i].kind);
        v1_put_str(out, "id", items[i].id);
        v1_put_str(out, "name", items[i].name);
        v1_put_str(out, "state", items[i].state);
        json_key(out, "bytes"), json_put_i64(out, items[i].bytes);
        json_end_object(out);
        total += items[i].bytes;
    }
    json_end_array(out);
    json_key(out, "totalBytes"), json_put_i64(out, total);
    json_end_object(out);
    v1_reply(ctx, 200, &answer);
}

static void du(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    request_hold(request);
    engine_du(api->engine, &caller, on_counted, request);
}

/* clang-format off */
const struct route v1_du_routes[] = {
    {"GET", "/v1/du", du, "Show disk usage of the server", SCOPE_READ, "server",
     .details = "Largest first: sandboxes, volumes and snapshots of the tenant, disks of deleted sandboxes that its others use, and the logs of its commands. With the scope admin also shared data: layers (of checkpoints, forks and snapshots), blobs, cache, runtimes and the database.",
     .response = "DiskUse", .example = ""},
    {0},
};
/* clang-format on */
