/* Files of a sandbox, a session or a volume: raw bytes, archives and changes, as they come. */

#include "api/http/download.h"
#include "api/http/events.h"
#include "api/v1/v1.h"

/* ---- bytes out ----------------------------------------------------------------------------- */

static void bytes_read_file(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct str path;
    struct engine_caller caller = request_caller(request);
    struct file_place place = v1_place(request);
    if (v1_path(request, &path))
        download_file(request, api->engine, &caller, &place, path);
}

static void read_tar(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct engine_caller caller = request_caller(request);
    struct file_place place = v1_place(request);
    struct file_get get = {.as_tar = true};
    if (!v1_path(request, &get.path))
        return;
    struct download *download = download_new(request, "application/x-tar");
    if (engine_file_get(api->engine, &caller, &place, &get, &download_calls, download,
                        download_reader(download), &err) < 0)
        download_fail(download, &err);
}

/* ---- bytes in ------------------------------------------------------------------------------ */

struct upload {
    struct request *request;
    struct file_writer *writer;
    struct str path;
    bool is_tar, is_whole;
};

static void bytes_on_drain(void *ctx)
{
    struct upload *upload = ctx;
    if (!upload->is_whole)
        request_resume_body(upload->request);
}

static void upload_free(struct upload *upload)
{
    upload->writer = file_writer_free(upload->writer);
    free(upload);
}

static void on_stored(void *ctx, const struct file_answer *answer, const struct err *why)
{
    struct upload *upload = ctx;
    struct request *request = upload->request;
    bool is_whole = upload->is_whole;
    struct v1_answer text;
    if (why != NULL) {
        reply_error_at(request, why, upload->path);
    } else {
        struct json_out *out = v1_begin(&text);
        json_begin_object(out);
        if (upload->is_tar)
            json_key(out, "count"), json_put_i64(out, (int64_t)answer->count);
        else
            json_key(out, "file"), v1_put_file(out, &answer->info);
        json_end_object(out);
        v1_reply(request, answer->created ? 201 : 200, &text);
    }
    if (is_whole)
        upload_free(upload); /* else upload_abort comes with the end of the request */
}

static const struct file_writer_calls writer_calls = {bytes_on_drain, on_stored};

static int upload_bytes(void *ctx, struct str bytes, UNUSED struct err *err)
{
    struct upload *upload = ctx;
    if (!file_writer_write(upload->writer, bytes))
        request_pause_body(upload->request);
    return 0;
}

static void upload_whole(void *ctx)
{
    struct upload *upload = ctx;
    upload->is_whole = true;
    request_hold(upload->request);
    file_writer_finish(upload->writer);
}

static void upload_abort(void *ctx)
{
    upload_free(ctx);
}

static const struct body_sink upload_sink = {upload_bytes, upload_whole, upload_abort};

/* Clients write an etag with quotation marks, as RFC 9110 has it, or as they got it in JSON. */
static struct str unquoted(struct str etag)
{
    bool is_quoted = etag.len >= 2 && etag.ptr[0] == '"' && etag.ptr[etag.len - 1] == '"';
    return is_quoted ? str_slice(etag, 1, etag.len - 1) : etag;
}

static void write_in(struct request *request, struct api *api, bool is_tar)
{
    struct err err;
    struct engine_caller caller = request_caller(request);
    struct file_place place = v1_place(request);
    bool must_be_new = request_query_bool(request, "new");
    struct file_put put = {.as_tar = is_tar,
                           .make_parents = true,
                           .must_be_new = must_be_new,
                           .tar = must_be_new ? FILE_TAR_NEW : FILE_TAR_MERGE,
                           .if_match = unquoted(request_header(request, "If-Match")),
                           .mode = (uint32_t)request_query_int(request, "mode", 0)};
    if (!v1_path(request, &put.path))
        return;
    struct upload *upload = mem_alloc(sizeof *upload);
    *upload = (struct upload){.request = request, .path = put.path, .is_tar = is_tar};
    if (engine_file_put(api->engine, &caller, &place, &put, &writer_calls, upload, &upload->writer,
                        &err) < 0) {
        free(upload);
        reply_error_at(request, &err, put.path);
        return;
    }
    request_take_body(request, &upload_sink, upload);
}

static void write_file(struct request *request, void *ctx)
{
    write_in(request, ctx, false);
}

static void write_tar(struct request *request, void *ctx)
{
    write_in(request, ctx, true);
}

/* ---- changes ------------------------------------------------------------------------------- */

struct watching {
    struct events *events;
    struct file_watcher *watcher;
};

static void watch_closed(void *ctx)
{
    struct watching *watching = ctx;
    watching->watcher = file_watcher_free(watching->watcher);
    free(watching);
}

static const struct events_calls watch_events = {.on_closed = watch_closed};

static void on_change(void *ctx, const struct file_event *event)
{
    static const char *const names[] = {"created", "modified", "deleted", "moved", "overflow"};
    struct watching *watching = ctx;
    AUTO_BUF struct buf data = {0};
    struct json_out out = {.buf = &data};
    json_begin_object(&out);
    v1_put_str(&out, "path", event->path);
    if (event->from.len > 0)
        json_key(&out, "from"), json_put_str(&out, event->from);
    json_key(&out, "type"), json_put_cstr(&out, event->is_directory ? "directory" : "file");
    json_end_object(&out);
    events_put(watching->events, names[event->change], (struct str){0}, buf_str(&data));
}

static void watch_end(void *ctx, const struct err *why)
{
    struct watching *watching = ctx;
    AUTO_BUF struct buf data = {0};
    struct json_out out = {.buf = &data};
    json_begin_object(&out);
    json_key(&out, "reason"), json_put_cstr(&out, why == NULL ? "the end" : why->msg);
    json_end_object(&out);
    events_put(watching->events, "end", (struct str){0}, buf_str(&data));
    events_end(watching->events);
}

static const struct file_watch_calls watch_calls = {on_change, watch_end};

static void watch_it(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct str path;
    struct engine_caller caller = request_caller(request);
    struct file_place place = v1_place(request);
    if (!v1_path(request, &path))
        return;
    struct watching *watching = mem_alloc(sizeof *watching);
    if (engine_file_watch(api->engine, &caller, &place, path,
                          request_query_bool(request, "recursive"), &watch_calls, watching,
                          &watching->watcher, &err) < 0) {
        free(watching);
        reply_error_at(request, &err, path);
        return;
    }
    watching->events = events_new(request, &watch_events, watching);
}

/* clang-format off */
#define SIGNED \
    {"expires", JSON({"type": "integer"}), "Of a signed URL"}, \
    {"tenant", JSON({"type": "string"}), "Of a signed URL"}, \
    {"signature", JSON({"type": "string"}), "Of a signed URL"}
static const struct route_query read_query[] = {
    {"path", JSON({"type": "string", "maxLength": 4096}), "Absolute path in the sandbox"}, SIGNED, {0},
};
static const struct route_query write_query[] = {
    {"path", JSON({"type": "string", "maxLength": 4096}), "Absolute path in the sandbox"},
    {"mode", JSON({"type": "integer", "minimum": 0, "maximum": 4095}), "Permission bits, as a decimal number"},
    {"new", JSON({"type": "boolean"}), "Fail if the file exists"}, SIGNED, {0},
};
static const struct route_query watch_query[] = {
    {"path", JSON({"type": "string", "maxLength": 4096}), "Absolute path in the sandbox"},
    {"recursive", JSON({"type": "boolean"}), "Include subdirectories"}, {0},
};

#define NOUN "files"

/* The same routes for each kind of place. */
#define ROUTES(place) \
    {"GET", place "/files", bytes_read_file, "Read a file", SCOPE_FILES, NOUN, \
     .details = "Raw bytes; supports Range, If-Range and If-None-Match.", .query = read_query, \
     .gives = FORM_BYTES, .errors = V1_FILE_FAILS, .is_signed = true, .example = "?path=/workspace/hello.txt"}, \
    {"PUT", place "/files", write_file, "Write a file", SCOPE_FILES, NOUN, \
     .details = "Raw bytes of any length. Readers see the old file until the upload is complete; missing directories " \
                "are created. With If-Match it replaces only the version with this ETag. 201 when the file is new.", \
     .query = write_query, .takes = FORM_BYTES, .response = "FileAnswer", .errors = V1_FILE_FAILS | E(NO_MATCH), \
     .is_signed = true, .example = "?path=/workspace/hello.txt --data-binary hello"}, \
    {"GET", place "/tar", read_tar, "Read a tree as a tar archive", SCOPE_FILES, NOUN, \
     .query = read_query, .gives = FORM_BYTES, .errors = V1_FILE_FAILS, \
     .example = "?path=/workspace -o tree.tar"}, \
    {"PUT", place "/tar", write_tar, "Unpack a tar archive into a directory", SCOPE_FILES, NOUN, \
     .details = "Plain, gzip or zstd. If the directory exists, files replace files, directories are " \
                "merged, and a failed request changes nothing; with new=true the directory must not exist.", \
     .query = write_query, .takes = FORM_BYTES, .response = "Count", .errors = V1_FILE_FAILS, \
     .example = "?path=/workspace/tree -T tree.tar"}, \
    {"GET", place "/watch", watch_it, "Watch a directory for changes", SCOPE_FILES, NOUN, \
     .details = "created, modified, deleted, moved; overflow when some were lost.", \
     .query = watch_query, .gives = FORM_EVENTS, .errors = V1_FILE_FAILS, \
     .example = "?path=/workspace --max-time 1 -N"}

const struct route v1_byte_routes[] = {
    ROUTES("/v1/sandboxes/{id}"),
    ROUTES("/v1/sessions/{id}"),
    ROUTES("/v1/volumes/{id}"),
    {0},
};
/* clang-format on */
