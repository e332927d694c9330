/* Checkpoints listed, undone and compared: /v1/{sandboxes,sessions}/{id}/{checkpoints,undo,diff}.
 */

#include "api/v1/v1.h"

static void put_turn(struct json_out *out, const void *thing)
{
    const struct turn_info *turn = thing;
    json_begin_object(out);
    json_key(out, "id"), json_put_str(out, turn->id);
    json_key(out, "name"), json_put_null(out);
    v1_put_date(out, "createdAt", turn->created_ms);
    json_key(out, "automatic"), json_put_bool(out, true);
    json_key(out, "before"), json_put_str(out, turn->before);
    json_key(out, "sizeBytes"), json_put_i64(out, turn->size_bytes);
    json_end_object(out);
}

static void turns_list(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err = {0};
    struct turn_list found;
    struct v1_answer answer;
    struct engine_caller caller = request_caller(request);
    struct file_place place = v1_place(request);
    if (engine_turn_list(api->engine, &caller, &place, &request->arena, &found, &err) < 0) {
        reply_error(request, &err);
        return;
    }
    struct json_out *out = v1_begin(&answer);
    json_begin_object(out);
    json_key(out, "mode"), json_put_cstr(out, found.is_on ? "turn" : "manual");
    json_key(out, "checkpoints"), json_begin_array(out);
    for (size_t i = 0; i < found.checkpoint_count; i++)
        v1_put_checkpoint(out, &found.checkpoints[i]);
    for (size_t i = 0; i < found.count; i++)
        put_turn(out, &found.turns[i]);
    json_end_array(out);
    v1_put_str(out, "note", found.note);
    v1_put_date(out, "noteAt", found.note_ms);
    json_end_object(out);
    v1_reply(request, 200, &answer);
}

static void on_undone(void *ctx, const struct turn_info *turn, const struct err *why)
{
    v1_reply_one(ctx, put_turn, turn, why);
}

static void turns_undo(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    struct file_place place = v1_place(request);
    request_hold(request);
    engine_turn_undo(api->engine, &caller, &place, request_str(request, "to"), on_undone, request);
}

/* The text was made inside a sandbox: it is read before it is passed on. */
static void on_diff(void *ctx, struct str json, const struct err *why)
{
    struct request *request = ctx;
    struct err err = {0};
    struct v1_answer answer;
    AUTO_JSON struct json_t *value = NULL;
    if (why == NULL && json_parse(json, &value, &err) < 0) {
        (void)err_set(&err, ERR_INTERNAL, "cannot read the comparison");
        why = &err;
    }
    if (why != NULL) {
        reply_error(request, why);
        return;
    }
    json_put_value(v1_begin(&answer), value);
    v1_reply(request, 200, &answer);
}

static void diff(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    struct file_place place = v1_place(request);
    struct str from = {0}, to = {0};
    (void)request_query(request, "from", &from);
    (void)request_query(request, "to", &to);
    request_hold(request);
    engine_turn_diff(api->engine, &caller, &place, from, to, on_diff, request);
}

/* clang-format off */
static const struct route_query diff_query[] = {
    {"from", JSON({"type": "string", "maxLength": 64}), "Id of an automatic checkpoint; default: the newest"},
    {"to", JSON({"type": "string", "maxLength": 64}), "Id of another automatic checkpoint, or now (the default)"},
    {0},
};

#define NOUN "checkpoints"
#define FAILS (E(NOT_FOUND) | E(GONE) | E(BUSY) | E(CONFLICT) | E(UNSUPPORTED))
#define ROWS(PLACE, OF) \
    {"GET", PLACE "/checkpoints", turns_list, "List the checkpoints of " OF, SCOPE_READ, NOUN, \
     .details = "Manual checkpoints first, then automatic ones with the operation that they precede. " \
                "`note`: why the last automatic checkpoint was not created.", \
     .response = "CheckpointList", .errors = FAILS, .example = ""}, \
    {"POST", PLACE "/undo", turns_undo, "Undo the last file changes in " OF, SCOPE_RUN, NOUN, \
     .details = "Restores /workspace to the newest automatic checkpoint that differs from the " \
                "current files, or to a given one. Programs and variables are not affected. The replaced files are kept " \
                "as a checkpoint before \"undo\".", \
     .request = V1_BODY(JSON("to": {"type": "string", "maxLength": 64, \
        "description": "Id of an automatic checkpoint; default: one step back"})), \
     .response = "Checkpoint", .errors = FAILS, .example = "-d '{}'"}, \
    {"GET", PLACE "/diff", diff, "Compare checkpoints of " OF, SCOPE_READ, NOUN, \
     .details = "Files that were added, changed or deleted below /workspace, with a unified diff for " \
                "text files up to 64 KiB (otherwise null).", \
     .query = diff_query, .response = "Diff", .errors = FAILS, .example = ""}

const struct route v1_turn_routes[] = {
    ROWS("/v1/sandboxes/{id}", "a sandbox"),
    ROWS("/v1/sessions/{id}", "a session"),
    {0},
};
/* clang-format on */
