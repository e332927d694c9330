/* /v1/snapshots: immutable file trees that sandboxes boot from. */

#include "api/v1/v1.h"

static void put_packages(struct json_out *out, const struct snapshot_info *snapshot)
{
    json_key(out, "packages");
    json_begin_array(out);
    for (size_t i = 0; i < snapshot->package_count; i++) {
        const struct snapshot_package *package = &snapshot->packages[i];
        json_begin_object(out);
        json_key(out, "package"), json_put_str(out, package->package);
        json_key(out, "version"), json_put_str(out, package->version);
        json_key(out, "importable"), json_put_bool(out, package->is_importable);
        v1_put_str(out, "reason", package->reason);
        json_key(out, "isolate"), json_put_bool(out, package->bundle.len > 0);
        v1_put_str(out, "isolateReason", package->bundle_reason);
        json_end_object(out);
    }
    json_end_array(out);
}

static void put_snapshot(struct json_out *out, const void *thing)
{
    const struct snapshot_info *snapshot = thing;
    json_begin_object(out);
    json_key(out, "id"), json_put_str(out, snapshot->id);
    v1_put_str(out, "slug", snapshot->slug);
    json_key(out, "tier"), json_put_cstr(out, engine_tier_name(snapshot->tier));
    json_key(out, "state"), json_put_cstr(out, snapshot_state_name(snapshot->state));
    json_key(out, "source"), json_put_str(out, snapshot->source);
    v1_put_str(out, "detail", snapshot->detail);
    v1_put_date(out, "createdAt", snapshot->created_ms);
    json_key(out, "sizeBytes"), json_put_i64(out, snapshot->size_bytes);
    json_key(out, "users"), json_put_i64(out, (int64_t)snapshot->users);
    put_packages(out, snapshot);
    json_end_object(out);
}

void v1_snapshot_done(void *ctx, const struct snapshot_info *snapshot, const struct err *why)
{
    v1_reply_one(ctx, put_snapshot, snapshot, why);
}

static void snapshots_create(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    struct engine_pairs wanted = v1_pairs(request, request->json, "dependencies");
    struct snapshot_dependency *dependencies =
        arena_array(&request->arena, struct snapshot_dependency, wanted.len);
    for (size_t i = 0; i < wanted.len; i++)
        dependencies[i] = (struct snapshot_dependency){wanted.items[i].name, wanted.items[i].value};
    struct snapshot_spec spec = {.slug = request_str(request, "slug"),
                                 .dependencies = dependencies,
                                 .dependency_count = wanted.len,
                                 .sandbox = request_str(request, "sandbox"),
                                 .directory = request_str(request, "directory")};
    request_hold(request);
    engine_snapshot_create(api->engine, &caller, &spec, v1_snapshot_done, request);
}

static void snapshots_get(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct snapshot_info snapshot;
    struct engine_caller caller = request_caller(request);
    int got =
        engine_snapshot_get(api->engine, &caller, request_param(request, "id"), &snapshot, &err);
    v1_snapshot_done(request, &snapshot, got < 0 ? &err : NULL);
}

static void snapshots_list(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct snapshot_list found;
    struct engine_page page = v1_page(request);
    struct engine_caller caller = request_caller(request);
    if (engine_snapshot_list(api->engine, &caller, &page, &request->arena, &found, &err) < 0) {
        reply_error(request, &err);
        return;
    }
    v1_reply_rows(request, "snapshots", V1_ROWS(put_snapshot, found));
}

static void snapshots_remove_it(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    request_hold(request);
    engine_snapshot_delete(api->engine, &caller, request_param(request, "id"), v1_done, request);
}

/* clang-format off */
#define NOUN "snapshots"

const struct route v1_snapshot_routes[] = {
    {"POST", "/v1/snapshots", snapshots_create, "Create a snapshot", SCOPE_RUN, NOUN,
     .details = "From exactly one of dependencies, sandbox and directory. Responds when it is complete; /v1/events reports progress. Dependencies are installed in a separate sandbox that reaches only their registries; an existing build of the same dependencies is reused. A directory of the host needs the scope admin.",
     .request = V1_BODY(JSON("slug": {"type": "string", "maxLength": 64}) ","
        JSON("dependencies": {"type": "object", "additionalProperties": {"type": "string"},
            "description": "Package (npm name or pypi:NAME) to version; empty for the newest"}) ","
        JSON("sandbox": {"type": "string", "description": "Its files"}) ","
        JSON("directory": {"type": "string", "maxLength": 4096})),
     .response = "Snapshot", .status = 201,
     .errors = E(NOT_FOUND) | E(CONFLICT) | E(GONE) | E(UNSUPPORTED) | E(NO_SPACE) | E(BUSY) | E(TIMEOUT),
     .is_create = true, .example = "-d '{\"sandbox\": \"'$SANDBOX'\"}'"},
    {"GET", "/v1/snapshots", snapshots_list, "List snapshots", SCOPE_READ, NOUN, .query = v1_page_query,
     .response = "SnapshotList", .example = ""},
    {"GET", "/v1/snapshots/{id}", snapshots_get, "Show a snapshot", SCOPE_READ, NOUN,
     .response = "Snapshot", .errors = E(NOT_FOUND), .example = ""},
    {"DELETE", "/v1/snapshots/{id}", snapshots_remove_it, "Delete a snapshot", SCOPE_RUN, NOUN,
     .details = "Fails while a sandbox uses it or it is being created.", .gives = FORM_NONE,
     .status = 204, .errors = E(NOT_FOUND) | E(CONFLICT) | E(FORBIDDEN), .example = ""},
    {0},
};
/* clang-format on */
