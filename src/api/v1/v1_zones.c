/* /v1/zones: directories of this machine that the configuration gives out, as /workspace and
 * /cache. The worker of engine/zone.h does the work; here its answers become HTTP's. */

#include "api/v1/v1.h"

/* One request and how its answer is written. */
struct zone_call {
    struct request *request;
    struct str path;
    void (*reply)(struct zone_call *call, struct buf *answer);
};

static void v1_zones_on_answer(void *ctx, struct buf *answer, const struct err *why)
{
    struct zone_call *call = ctx;
    if (why != NULL)
        reply_error_at(call->request, why, call->path);
    else
        call->reply(call, answer);
}

static void zones_ask(struct request *request, const char *verb, struct str path, struct str data,
                      void (*reply)(struct zone_call *call, struct buf *answer))
{
    struct api *api = request->rules->ctx;
    struct engine_caller caller = request_caller(request);
    struct zone_call *call = arena_new(&request->arena, struct zone_call);
    struct zone_question question = {
        .set = request_param(request, "name"), .verb = verb, .path = path, .data = data};
    *call = (struct zone_call){request, path, reply};
    request_hold(request);
    engine_zone_ask(api->engine, &caller, &question, v1_zones_on_answer, call);
}

/* ---- answers ------------------------------------------------------------------------------- */

static void reply_bytes(struct zone_call *call, struct buf *answer)
{
    reply_body(call->request, 200, "application/octet-stream", answer);
}

static void reply_as_it_is(struct zone_call *call, struct buf *answer)
{
    reply_json(call->request, 200, answer);
}

static void reply_nothing(struct zone_call *call, UNUSED struct buf *answer)
{
    reply_empty(call->request, 204);
}

static bool is_yes(const struct buf *answer)
{
    return str_eq(buf_str(answer), STR("1"));
}

static void reply_flag(struct zone_call *call, const char *name, bool flag, int status)
{
    struct v1_answer text;
    struct json_out *out = v1_begin(&text);
    json_begin_object(out);
    json_key(out, name), json_put_bool(out, flag);
    json_end_object(out);
    v1_reply(call->request, status, &text);
}

static void reply_written(struct zone_call *call, struct buf *answer)
{
    bool is_new = is_yes(answer);
    reply_flag(call, "created", is_new, is_new ? 201 : 200);
}

static void reply_exists(struct zone_call *call, struct buf *answer)
{
    reply_flag(call, "exists", is_yes(answer), 200);
}

static void reply_names(struct zone_call *call, struct buf *answer)
{
    struct v1_answer text;
    struct str rest = buf_str(answer), name;
    struct json_out *out = v1_begin(&text);
    json_begin_object(out);
    json_key(out, "names");
    json_begin_array(out);
    while (rest.len > 0 && str_split(&rest, '\0', &name))
        json_put_str(out, name);
    json_end_array(out);
    json_end_object(out);
    v1_reply(call->request, 200, &text);
}

static void reply_path(struct zone_call *call, struct buf *answer)
{
    struct v1_answer text;
    struct json_out *out = v1_begin(&text);
    json_begin_object(out);
    json_key(out, "path"), json_put_str(out, buf_str(answer));
    json_end_object(out);
    v1_reply(call->request, 200, &text);
}

/* ---- questions ----------------------------------------------------------------------------- */

static void list_sets(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct zone_sets sets;
    struct v1_answer text;
    struct engine_caller caller = request_caller(request);
    if (engine_zone_list(api->engine, &caller, &request->arena, &sets, &err) < 0) {
        reply_error(request, &err);
        return;
    }
    struct json_out *out = v1_begin(&text);
    json_begin_object(out);
    json_key(out, "zones");
    json_begin_array(out);
    for (size_t i = 0; i < sets.count; i++) {
        json_begin_object(out);
        json_key(out, "name"), json_put_str(out, sets.items[i].name);
        json_key(out, "workspace"), json_put_bool(out, sets.items[i].has_workspace);
        json_key(out, "cache"), json_put_bool(out, sets.items[i].has_cache);
        json_key(out, "readOnly"), json_put_bool(out, sets.items[i].read_only);
        json_end_object(out);
    }
    json_end_array(out);
    json_end_object(out);
    v1_reply(request, 200, &text);
}

static void zones_read_file(struct request *request, UNUSED void *ctx)
{
    struct str path;
    if (v1_path(request, &path))
        zones_ask(request, "read", path, (struct str){0}, reply_bytes);
}

static void delete_file(struct request *request, UNUSED void *ctx)
{
    struct str path;
    bool is_all = request_query_bool(request, "recursive");
    if (v1_path(request, &path))
        zones_ask(request, is_all ? "delete_all" : "delete", path, (struct str){0}, reply_nothing);
}

/* A verb whose body is what the worker is asked. */
static void ask_json(struct request *request, const char *verb,
                     void (*reply)(struct zone_call *call, struct buf *answer))
{
    struct str path = request_str(request, "path");
    zones_ask(request, verb, path.len > 0 ? path : STR("/workspace"), buf_str(&request->body),
              reply);
}

#define VERB(name, verb, reply)                                                                    \
    static void name(struct request *request, UNUSED void *ctx)                                    \
    {                                                                                              \
        ask_json(request, verb, reply);                                                            \
    }
VERB(exists, "exists", reply_exists)
VERB(list, "list", reply_names)
VERB(resolve, "resolve", reply_path)
VERB(glob, "glob", reply_as_it_is)
VERB(grep, "grep", reply_as_it_is)
VERB(edit, "edit", reply_as_it_is)

/* ---- bytes in ------------------------------------------------------------------------------ */

static int take_bytes(void *ctx, struct str bytes, struct err *err)
{
    struct request *request = ctx;
    if (buf_append(&request->body, bytes, err) < 0)
        return err_set(err, ERR_TOO_LARGE, "a file of a zone may have at most %d bytes",
                       ZONE_FILE_MAX);
    return 0;
}

static void take_end(void *ctx)
{
    struct request *request = ctx;
    struct str path = {0};
    (void)request_query(request, "path", &path);
    zones_ask(request, "write", path, buf_str(&request->body), reply_written);
}

static void take_abort(UNUSED void *ctx)
{
}

static const struct body_sink write_sink = {take_bytes, take_end, take_abort};

static void write_file(struct request *request, UNUSED void *ctx)
{
    struct str path;
    if (!v1_path(request, &path))
        return;
    buf_done(&request->body);
    request->body = buf_with_limit(ZONE_FILE_MAX);
    request_take_body(request, &write_sink, request);
}

/* clang-format off */
static const struct route_query path_query[] = {
    {"path", JSON({"type": "string", "maxLength": 4096}), "Begins with /workspace or /cache"}, {0},
};
static const struct route_query delete_query[] = {
    {"path", JSON({"type": "string", "maxLength": 4096}), "Begins with /workspace or /cache"},
    {"recursive", JSON({"type": "boolean"}), "Delete a directory with its contents"}, {0},
};

#define NOUN "zones"
#define FAILS (E(NOT_FOUND) | E(NOT_A_FILE) | E(NOT_A_DIRECTORY) | E(PATH_ESCAPES) | E(READ_ONLY) | E(CONFLICT) | \
    E(ZONE_NOT_CONFIGURED) | E(NO_SPACE) | E(TOO_LARGE) | E(BUSY) | E(TIMEOUT))
#define M_PATH JSON("path": {"type": "string", "maxLength": 4096, \
    "description": "Begins with /workspace or /cache; default /workspace"})
#define M_LIMIT JSON("limit": {"type": "integer", "minimum": 1, "maximum": 1000})
#define PATTERN_FAILS (FAILS | E(INVALID_PATTERN) | E(PATTERN_TOO_COMPLEX))

const struct route v1_zone_routes[] = {
    {"GET", "/v1/zones", list_sets, "List the zones of this server", SCOPE_READ, NOUN,
     .details = "Directories of the server's machine that its configuration offers by name ([zones.NAME], docs/ZONES.md) to the caller's tenant.",
     .response = "ZoneSets", .example = ""},
    {"GET", "/v1/zones/{name}/files", zones_read_file, "Read a file in a zone", SCOPE_FILES, NOUN,
     .details = "Raw bytes; a file larger than 32 MiB fails with too_large.", .query = path_query,
     .gives = FORM_BYTES, .errors = FAILS, .example = NULL},
    {"PUT", "/v1/zones/{name}/files", write_file, "Write a file in a zone", SCOPE_FILES, NOUN,
     .details = "Raw bytes, at most 32 MiB. Readers see the old file until the upload is complete; missing directories are created. 201 when the file is new.",
     .query = path_query, .takes = FORM_BYTES, .response = "Written", .errors = FAILS, .example = NULL},
    {"DELETE", "/v1/zones/{name}/files", delete_file, "Delete a file or directory in a zone", SCOPE_FILES, NOUN,
     .query = delete_query, .gives = FORM_NONE, .status = 204, .errors = FAILS, .example = NULL},
    {"POST", "/v1/zones/{name}/files/exists", exists, "Check whether a path in a zone exists", SCOPE_FILES, NOUN,
     .request = V1_BODY(M_PATH), .response = "Exists", .errors = FAILS, .example = NULL},
    {"POST", "/v1/zones/{name}/files/list", list, "List a directory in a zone", SCOPE_FILES, NOUN,
     .details = "Names, at most 10,000.", .request = V1_BODY(M_PATH), .response = "NameList",
     .errors = FAILS | E(TOO_MANY_RESULTS), .example = NULL},
    {"POST", "/v1/zones/{name}/files/resolve", resolve, "Get the path on the server's machine of a path in a zone",
     SCOPE_FILES, NOUN, .details = "For programs on that machine; the path need not exist.",
     .request = V1_BODY(M_PATH), .response = "RealPath", .errors = FAILS, .example = NULL},
    {"POST", "/v1/zones/{name}/files/glob", glob, "Find files in a zone by pattern", SCOPE_FILES, NOUN,
     .details = "Paths begin with the zone, as the other routes expect them.",
     .request = V1_NEEDS(JSON(["pattern"]), M_PATH "," M_LIMIT "," V1_M_SEARCH_ALL ","
        JSON("pattern": {"type": "string", "maxLength": 4096, "description": "**, *, ?, [a-z], {a,b}"})),
     .response = "PathList", .errors = PATTERN_FAILS, .example = NULL},
    {"POST", "/v1/zones/{name}/files/grep", grep, "Search the files of a zone for lines", SCOPE_FILES, NOUN,
     .details = "Paths begin with the zone. Lines are cut after 1,024 bytes.",
     .request = V1_NEEDS(JSON(["pattern"]), M_PATH "," M_LIMIT "," V1_M_SEARCH_ALL ","
        JSON("pattern": {"type": "string", "maxLength": 4096}) "," JSON("ignoreCase": {"type": "boolean"}) ","
        JSON("include": {"type": "string", "description": "A glob: search only these files"})),
     .response = "MatchList", .errors = PATTERN_FAILS, .example = NULL},
    {"POST", "/v1/zones/{name}/files/edit", edit, "Replace text in a file in a zone", SCOPE_FILES, NOUN,
     .details = "The old text must occur exactly once, unless all is set.",
     .request = V1_NEEDS(JSON(["path", "old", "new"]), M_PATH "," JSON("old": {"type": "string", "minLength": 1}) ","
        JSON("new": {"type": "string"}) "," JSON("all": {"type": "boolean"})),
     .response = "Count", .errors = FAILS | E(NO_MATCH) | E(AMBIGUOUS_MATCH), .example = NULL},
    {0},
};
/* clang-format on */
