/* /v1/volumes: directories that outlive sandboxes. Their files are v1_files.c's. */

#include "api/v1/v1.h"

static void put_volume(struct json_out *out, const void *thing)
{
    const struct volume_info *volume = thing;
    json_begin_object(out);
    json_key(out, "id"), json_put_str(out, volume->id);
    v1_put_str(out, "name", volume->name);
    v1_put_str(out, "session", volume->session);
    json_key(out, "region"), json_put_str(out, volume->region);
    json_key(out, "tier"), json_put_cstr(out, engine_tier_name(volume->tier));
    json_key(out, "capacityMb"), json_put_i64(out, volume->capacity_bytes >> 20);
    json_key(out, "ttlMs"), json_put_i64(out, volume->ttl_ms);
    v1_put_date(out, "createdAt", volume->created_ms);
    v1_put_date(out, "usedAt", volume->used_ms);
    v1_put_date(out, "expiresAt", volume->expires_ms);
    v1_put_str(out, "sandbox", volume->sandbox);
    json_key(out, "fence"), json_put_i64(out, (int64_t)volume->fence);
    v1_put_pairs(out, "metadata", volume->metadata);
    json_end_object(out);
}

static void on_volume(void *ctx, const struct volume_info *volume, const struct err *why)
{
    v1_reply_one(ctx, put_volume, volume, why);
}

static void v1_volumes_create(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct str tier = request_str(request, "tier");
    struct engine_caller caller = request_caller(request);
    struct volume_spec spec = {.name = request_str(request, "name"),
                               .capacity_bytes = request_int(request, "capacityMb", 0) << 20,
                               .ttl_ms = v1_time(request->json, "ttlMs"),
                               .metadata = v1_pairs(request, request->json, "metadata")};
    if (tier.len > 0 && !engine_tier_of_name(tier, &spec.tier)) {
        (void)err_set(&err, ERR_INVALID, "unknown tier '%.*s'", STR_ARG(tier));
        reply_error(request, &err);
        return;
    }
    request_hold(request);
    engine_volume_create(api->engine, &caller, &spec, on_volume, request);
}

static void v1_volumes_get(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct volume_info volume;
    struct engine_caller caller = request_caller(request);
    int got = engine_volume_get(api->engine, &caller, request_param(request, "id"), &volume, &err);
    on_volume(request, &volume, got < 0 ? &err : NULL);
}

static void v1_volumes_list(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct volume_list found;
    struct engine_page page = v1_page(request);
    struct engine_caller caller = request_caller(request);
    if (engine_volume_list(api->engine, &caller, &page, &request->arena, &found, &err) < 0) {
        reply_error(request, &err);
        return;
    }
    v1_reply_rows(request, "volumes", V1_ROWS(put_volume, found));
}

static void v1_volumes_remove(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    request_hold(request);
    engine_volume_delete(api->engine, &caller, request_param(request, "id"), v1_done, request);
}

/* clang-format off */
#define NOUN "volumes"

const struct route v1_volume_routes[] = {
    {"POST", "/v1/volumes", v1_volumes_create, "Create a volume", SCOPE_FILES, NOUN,
     .request = V1_BODY(JSON("name": {"type": "string", "maxLength": 64}) ","
        JSON("tier": {"type": "string", "enum": ["jail", "isolate", "memory"]}) ","
        JSON("capacityMb": {"type": "integer", "minimum": 1, "maximum": 1048576}) ","
        "\"ttlMs\":" V1_TIME("Delete it this many milliseconds after its last use; default, 0 or none: never") ","
        JSON("metadata": {"type": "object", "additionalProperties": {"type": "string"},
            "description": "Labels to find it by"})),
     .response = "Volume", .status = 201, .errors = E(CONFLICT) | E(UNSUPPORTED) | E(NO_SPACE),
     .is_create = true, .example = "-d '{}'"},
    {"GET", "/v1/volumes", v1_volumes_list, "List volumes", SCOPE_READ, NOUN, .query = v1_page_query,
     .response = "VolumeList", .example = ""},
    {"GET", "/v1/volumes/{id}", v1_volumes_get, "Show a volume", SCOPE_READ, NOUN, .response = "Volume",
     .details = "By id or name.", .errors = E(NOT_FOUND), .example = ""},
    {"DELETE", "/v1/volumes/{id}", v1_volumes_remove, "Delete a volume", SCOPE_FILES, NOUN,
     .details = "Fails while a sandbox uses it.", .gives = FORM_NONE, .status = 204,
     .errors = E(NOT_FOUND) | E(BUSY), .example = ""},
    {0},
};
/* clang-format on */
