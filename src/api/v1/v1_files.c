/* Files of a sandbox, a session or a volume: the verbs that speak JSON. Bytes are v1_bytes.c's. */

#include "api/http/metrics.h"
#include "api/http/sign.h"
#include "api/v1/v1.h"
#include "base/clock.h"

/* "/v1/volumes/ID/files": which kind of place the path names. */
struct file_place v1_place(const struct request *request)
{
    struct str id = request_param(request, "id");
    const char *pattern = request->match.route->pattern;
    if (str_starts(str_of(pattern), STR("/v1/volumes/")))
        return (struct file_place){.volume = id};
    if (str_starts(str_of(pattern), STR("/v1/sessions/")))
        return (struct file_place){.session = id};
    return (struct file_place){.sandbox = id};
}

void v1_put_file(struct json_out *out, const struct file_info *info)
{
    char etag[FILE_ETAG_SIZE];
    json_begin_object(out);
    json_key(out, "path"), json_put_str(out, info->path);
    json_key(out, "type"), json_put_cstr(out, file_type_name(info->type));
    json_key(out, "size"), json_put_i64(out, (int64_t)info->size);
    json_key(out, "mode"), json_put_i64(out, info->mode & 07777);
    v1_put_date(out, "modifiedAt", info->mtime_ns / 1000000);
    if (info->target.len > 0)
        json_key(out, "target"), json_put_str(out, info->target);
    if (info->type == FILE_REGULAR) {
        file_etag(info, etag);
        json_key(out, "etag"), json_put_cstr(out, etag);
    }
    json_end_object(out);
}

/* ---- JSON verbs ---------------------------------------------------------------------------- */

struct verb_call {
    struct request *request;
    enum file_op op;
    struct str path;
};

static void put_entries(struct json_out *out, const struct file_answer *answer, bool paths_alone)
{
    json_key(out, paths_alone ? "paths" : "entries");
    json_begin_array(out);
    for (size_t i = 0; i < answer->entry_count; i++) {
        if (paths_alone)
            json_put_str(out, answer->entries[i].path);
        else
            v1_put_file(out, &answer->entries[i]);
    }
    json_end_array(out);
    json_key(out, "truncated"), json_put_bool(out, answer->truncated);
}

static void put_matches(struct json_out *out, const struct file_answer *answer)
{
    json_key(out, "matches");
    json_begin_array(out);
    for (size_t i = 0; i < answer->match_count; i++) {
        const struct file_match *match = &answer->matches[i];
        json_begin_object(out);
        json_key(out, "path"), json_put_str(out, match->path);
        json_key(out, "line"), json_put_i64(out, (int64_t)match->line);
        if (!match->is_context)
            json_key(out, "column"), json_put_i64(out, (int64_t)match->column);
        json_key(out, "text"), json_put_str(out, match->text);
        if (match->is_context)
            json_key(out, "context"), json_put_bool(out, true);
        json_end_object(out);
    }
    json_end_array(out);
    json_key(out, "truncated"), json_put_bool(out, answer->truncated);
}

static void put_answer(struct json_out *out, enum file_op op, const struct file_answer *answer)
{
    json_begin_object(out);
    if (op == FILE_LIST || op == FILE_GLOB)
        put_entries(out, answer, op == FILE_GLOB);
    else if (op == FILE_GREP)
        put_matches(out, answer);
    else
        json_key(out, "file"), v1_put_file(out, &answer->info);
    if (op == FILE_EDIT || op == FILE_DELETE)
        json_key(out, "count"), json_put_i64(out, (int64_t)answer->count);
    json_end_object(out);
}

static const char *tier_of(struct request *request)
{
    struct api *api = request->rules->ctx;
    struct engine_caller caller = request_caller(request);
    struct file_place place = v1_place(request);
    struct err err;
    struct sandbox_info sandbox;
    struct session_info session;
    struct volume_info volume;
    enum engine_tier tier = ENGINE_TIER_DEFAULT;
    if (place.sandbox.len > 0 &&
        engine_sandbox_get(api->engine, &caller, place.sandbox, &sandbox, &err) == 0)
        tier = sandbox.tier;
    else if (place.session.len > 0 &&
             engine_session_get(api->engine, &caller, place.session, &session, &err) == 0)
        tier = session.tier;
    else if (place.volume.len > 0 &&
             engine_volume_get(api->engine, &caller, place.volume, &volume, &err) == 0)
        tier = volume.tier;
    return tier == ENGINE_TIER_DEFAULT ? "none" : engine_tier_name(tier);
}

static void on_verb(void *ctx, const struct file_answer *answer, const struct err *why)
{
    static const char *const names[FILE_OP_COUNT] = {"stat",  "list", "read",   "write", "append",
                                                     "mkdir", "move", "delete", "chmod", "symlink",
                                                     "edit",  "glob", "grep"};
    struct verb_call *call = ctx;
    struct v1_answer text;
    v1_observe(call->request, METRICS_FILE, tier_of(call->request), names[call->op], why);
    if (why != NULL) {
        reply_error_at(call->request, why, call->path);
        return;
    }
    if (call->op == FILE_DELETE) {
        reply_empty(call->request, 204);
        return;
    }
    put_answer(v1_begin(&text), call->op, answer);
    v1_reply(call->request, 200, &text);
}

static void files_ask(struct request *request, struct api *api, const struct file_request *file)
{
    struct engine_caller caller = request_caller(request);
    struct file_place place = v1_place(request);
    struct verb_call *call = arena_new(&request->arena, struct verb_call);
    *call = (struct verb_call){request, file->op, file->path};
    request_hold(request);
    engine_file(api->engine, &caller, &place, file, on_verb, call);
}

static void verb(struct request *request, void *ctx, enum file_op op)
{
    const struct json_t *body = request->json;
    struct str path = v1_str(body, "path");
    struct file_request file = {
        .op = op,
        .path = path.len > 0 ? path : STR("/workspace"),
        .to = v1_str(body, op == FILE_SYMLINK_MAKE ? "target" : "to"),
        .after = v1_str(body, "after"),
        .pattern = v1_str(body, "pattern"),
        .include = v1_str(body, "include"),
        .old_text = v1_str(body, "old"),
        .new_text = v1_str(body, "new"),
        .if_match = request_header(request, "If-Match"),
        .limit = (size_t)v1_int(body, "limit", 0),
        .mode = (uint32_t)v1_int(body, "mode", 0),
        .context = (uint32_t)v1_int(body, "context", 0),
        .follow = v1_bool(body, "follow", true),
        .recursive = v1_bool(body, "recursive", false),
        .make_parents = v1_bool(body, "parents", true),
        .replace = v1_bool(body, "replace", false),
        .all = v1_bool(body, "all", false),
        .ignore_case = v1_bool(body, "ignoreCase", false),
        .search_all = v1_bool(body, "searchAll", false),
    };
    files_ask(request, ctx, &file);
}

#define VERB(name, op)                                                                             \
    static void name(struct request *request, void *ctx)                                           \
    {                                                                                              \
        verb(request, ctx, op);                                                                    \
    }
VERB(stat_it, FILE_STAT)
VERB(list, FILE_LIST)
VERB(glob, FILE_GLOB)
VERB(grep, FILE_GREP)
VERB(edit, FILE_EDIT)
VERB(make_dir, FILE_MKDIR)
VERB(move_it, FILE_MOVE)
VERB(chmod_it, FILE_CHMOD)
VERB(symlink_it, FILE_SYMLINK_MAKE)

bool v1_path(struct request *request, struct str *ret_path)
{
    struct err err;
    if (request_query(request, "path", ret_path) && ret_path->len > 0)
        return true;
    (void)err_set(&err, ERR_INVALID, "path is missing: ?path=/workspace/FILE");
    reply_error_at(request, &err, STR("path"));
    return false;
}

static void files_remove_it(struct request *request, void *ctx)
{
    struct file_request file = {.op = FILE_DELETE,
                                .recursive = request_query_bool(request, "recursive")};
    if (v1_path(request, &file.path))
        files_ask(request, ctx, &file);
}

/* ---- signed URLs --------------------------------------------------------------------------- */

static void sign(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct str method = request_str(request, "method");
    int64_t expires_s = clock_date_ms() / 1000 + request_int(request, "expiresSeconds", 3600);
    struct str route = str_slice(request->path, 0, request->path.len - strlen("/sign"));
    AUTO_BUF struct buf url = {0};
    request_put_origin(request, &url);
    sign_url(api, method.len == 0 ? STR("GET") : method, route, str_of(request->caller.tenant),
             request_str(request, "path"), expires_s, &url);
    struct v1_answer answer;
    struct json_out *out = v1_begin(&answer);
    json_begin_object(out);
    json_key(out, "url"), json_put_str(out, buf_str(&url));
    v1_put_date(out, "expiresAt", expires_s * 1000);
    json_end_object(out);
    v1_reply(request, 200, &answer);
}

/* clang-format off */
static const struct route_query delete_query[] = {
    {"path", JSON({"type": "string", "maxLength": 4096}), "Absolute path in the sandbox"},
    {"recursive", JSON({"type": "boolean"}), "Delete a directory with its contents"}, {0},
};

#define NOUN "files"
#define M_PATH JSON("path": {"type": "string", "maxLength": 4096, "description": "Absolute path; default /workspace"})
#define M_LIMIT JSON("limit": {"type": "integer", "minimum": 1, "maximum": 10000})

#define FOUND "Paths are absolute, as the other routes expect them."

/* The same routes for each kind of place. */
#define ROUTES(place) \
    {"DELETE", place "/files", files_remove_it, "Delete a file or directory", SCOPE_FILES, NOUN, \
     .query = delete_query, .gives = FORM_NONE, .status = 204, .errors = V1_FILE_FAILS, \
     .example = "?path=/workspace/hello.txt"}, \
    {"POST", place "/files/stat", stat_it, "Show a file's metadata", SCOPE_FILES, NOUN, \
     .request = V1_BODY(M_PATH "," JSON("follow": {"type": "boolean", "description": "Follow a symbolic link (default true)"})), \
     .response = "FileAnswer", .errors = V1_FILE_FAILS, .example = "-d '{\"path\": \"/workspace/hello.txt\"}'"}, \
    {"POST", place "/files/list", list, "List a directory", SCOPE_FILES, NOUN, \
     .request = V1_BODY(M_PATH "," JSON("recursive": {"type": "boolean"}) "," M_LIMIT "," \
        JSON("after": {"type": "string", "description": "Continue after this entry"})), \
     .response = "FileList", .errors = V1_FILE_FAILS, .example = "-d '{\"path\": \"/workspace\"}'"}, \
    {"POST", place "/files/glob", glob, "Find files by pattern", SCOPE_FILES, NOUN, .details = FOUND, \
     .request = V1_NEEDS(JSON(["pattern"]), M_PATH "," M_LIMIT "," V1_M_SEARCH_ALL "," \
        JSON("pattern": {"type": "string", "maxLength": 4096, "description": "**, *, ?, [a-z], {a,b}"})), \
     .response = "PathList", .errors = V1_FILE_FAILS | E(INVALID_PATTERN) | E(PATTERN_TOO_COMPLEX), \
     .example = "-d '{\"pattern\": \"**/*.txt\"}'"}, \
    {"POST", place "/files/grep", grep, "Find lines by regular expression", SCOPE_FILES, NOUN, .details = FOUND, \
     .request = V1_NEEDS(JSON(["pattern"]), M_PATH "," M_LIMIT "," V1_M_SEARCH_ALL "," \
        JSON("pattern": {"type": "string", "maxLength": 4096}) "," JSON("ignoreCase": {"type": "boolean"}) "," \
        JSON("include": {"type": "string", "description": "A glob: search only these files"}) "," \
        JSON("context": {"type": "integer", "minimum": 0, "maximum": 20, "description": "Lines around a match"})), \
     .response = "MatchList", .errors = V1_FILE_FAILS | E(INVALID_PATTERN) | E(PATTERN_TOO_COMPLEX), \
     .example = "-d '{\"pattern\": \"hel+o\"}'"}, \
    {"POST", place "/files/edit", edit, "Replace text in a file", SCOPE_FILES, NOUN, \
     .details = "The old text must occur exactly once, unless all is set.", \
     .request = V1_NEEDS(JSON(["path", "old", "new"]), M_PATH "," JSON("old": {"type": "string", "minLength": 1}) "," \
        JSON("new": {"type": "string"}) "," JSON("all": {"type": "boolean"})), \
     .response = "EditAnswer", .errors = V1_FILE_FAILS | E(NO_MATCH) | E(AMBIGUOUS_MATCH), \
     .example = "-d '{\"path\": \"/workspace/hello.txt\", \"old\": \"hello\", \"new\": \"bye\"}'"}, \
    {"POST", place "/files/mkdir", make_dir, "Create a directory", SCOPE_FILES, NOUN, \
     .request = V1_NEEDS(JSON(["path"]), M_PATH "," JSON("parents": {"type": "boolean", "description": "true"}) "," \
        JSON("mode": {"type": "integer", "minimum": 0, "maximum": 4095})), \
     .response = "FileAnswer", .errors = V1_FILE_FAILS, .example = "-d '{\"path\": \"/workspace/dir\"}'"}, \
    {"POST", place "/files/move", move_it, "Move a file or directory", SCOPE_FILES, NOUN, \
     .request = V1_NEEDS(JSON(["path", "to"]), M_PATH "," JSON("to": {"type": "string", "maxLength": 4096}) "," \
        JSON("replace": {"type": "boolean"})), \
     .response = "FileAnswer", .errors = V1_FILE_FAILS, \
     .example = "-d '{\"path\": \"/workspace/hello.txt\", \"to\": \"/workspace/moved.txt\"}'"}, \
    {"POST", place "/files/chmod", chmod_it, "Set a file's permission bits", SCOPE_FILES, NOUN, \
     .request = V1_NEEDS(JSON(["path", "mode"]), M_PATH "," \
        JSON("mode": {"type": "integer", "minimum": 0, "maximum": 4095, "description": "In decimal: 493 is 0755"})), \
     .response = "FileAnswer", .errors = V1_FILE_FAILS, \
     .example = "-d '{\"path\": \"/workspace/hello.txt\", \"mode\": 420}'"}, \
    {"POST", place "/files/symlink", symlink_it, "Create a symbolic link", SCOPE_FILES, NOUN, \
     .request = V1_NEEDS(JSON(["path", "target"]), M_PATH "," JSON("target": {"type": "string", "maxLength": 4096})), \
     .response = "FileAnswer", .errors = V1_FILE_FAILS, \
     .example = "-d '{\"path\": \"/workspace/link\", \"target\": \"hello.txt\"}'"}, \
    {"POST", place "/files/sign", sign, "Create a URL that needs no token", SCOPE_FILES, NOUN, \
     .details = "For one file and one method, until it expires. An expired URL is rejected with its expiry date; a URL " \
                "that was changed, or is used for another file or method, is rejected as a wrong signature.", \
     .request = V1_NEEDS(JSON(["path"]), M_PATH "," JSON("method": {"type": "string", "enum": ["GET", "PUT"]}) "," \
        JSON("expiresSeconds": {"type": "integer", "minimum": 1, "maximum": 604800})), \
     .response = "SignedUrl", .example = "-d '{\"path\": \"/workspace/hello.txt\"}'"}

const struct route v1_file_routes[] = {
    ROUTES("/v1/sandboxes/{id}"),
    ROUTES("/v1/sessions/{id}"),
    ROUTES("/v1/volumes/{id}"),
    {0},
};
/* clang-format on */
