/* Snapshots as archives, in and out. */

#include "api/http/download.h"
#include "api/v1/v1.h"

struct upload {
    struct request *request; /* NULL once answered or gone */
    struct snapshot_writer *writer;
    bool is_whole;
};

static void snapshot_bytes_on_drain(void *ctx)
{
    struct upload *upload = ctx;
    if (upload->request != NULL && !upload->is_whole)
        request_resume_body(upload->request);
}

static void upload_free(struct upload *upload)
{
    upload->writer = snapshot_writer_free(upload->writer);
    free(upload);
}

static void on_uploaded(void *ctx, const struct snapshot_info *snapshot, const struct err *why)
{
    struct upload *upload = ctx;
    bool is_whole = upload->is_whole;
    v1_snapshot_done(upload->request, snapshot, why);
    if (is_whole)
        upload_free(upload); /* else on_abort comes with the end of the request */
}

static const struct snapshot_writer_calls writer_calls = {snapshot_bytes_on_drain, on_uploaded};

static int on_bytes(void *ctx, struct str bytes, UNUSED struct err *err)
{
    struct upload *upload = ctx;
    if (!snapshot_writer_write(upload->writer, bytes))
        request_pause_body(upload->request);
    return 0;
}

static void on_whole(void *ctx)
{
    struct upload *upload = ctx;
    upload->is_whole = true;
    request_hold(upload->request);
    snapshot_writer_finish(upload->writer);
}

static void on_abort(void *ctx)
{
    upload_free(ctx);
}

static const struct body_sink upload_sink = {on_bytes, on_whole, on_abort};

static void upload(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct str slug = {0}, form = {0};
    struct engine_caller caller = request_caller(request);
    struct upload *up = mem_alloc(sizeof *up);
    up->request = request;
    (void)request_query(request, "slug", &slug);
    (void)request_query(request, "form", &form);
    if (caller.key.len > 0) /* the bytes are the engine's to hash */
        caller.request_hash =
            arena_printf(&request->arena, "%.*s\n%.*s\n", STR_ARG(slug), STR_ARG(form));
    enum snapshot_form kind = str_eq(form, STR("export")) ? SNAPSHOT_EXPORT : SNAPSHOT_TAR;
    if (engine_snapshot_upload(api->engine, &caller, slug, kind, &writer_calls, up, &up->writer,
                               &err) < 0) {
        free(up);
        reply_error(request, &err);
        return;
    }
    request_take_body(request, &upload_sink, up);
}

static void download(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct engine_caller caller = request_caller(request);
    struct download *down = download_new(request, "application/zstd");
    if (engine_snapshot_download(api->engine, &caller, request_param(request, "id"),
                                 &download_calls, down, download_reader(down), &err) < 0)
        download_fail(down, &err);
}

/* clang-format off */
static const struct route_query upload_query[] = {
    {"slug", JSON({"type": "string", "maxLength": 64}), "Unique name in this tenant"},
    {"form", JSON({"type": "string", "enum": ["tar", "export"]}),
     "tar: plain, gzip or zstd, with paths from the root; export: a file from /export (default tar)"},
    {0},
};

#define NOUN "snapshots"

const struct route v1_snapshot_byte_routes[] = {
    {"POST", "/v1/snapshots/upload", upload, "Create a snapshot from an archive", SCOPE_FILES, NOUN,
     .query = upload_query, .takes = FORM_BYTES, .response = "Snapshot", .status = 201,
     .details = "The archive is unpacked in a separate sandbox, where `/usr` and other directories of the runtime are read-only: at most 1.5 GiB, 200,000 entries and 200 times the size of the archive. An export is checked against its manifest. A rejected archive leaves nothing behind.",
     .errors = E(CONFLICT) | E(TOO_LARGE) | E(UNSUPPORTED) | E(NO_SPACE) | E(READ_ONLY) | E(BUSY) |
               E(LIMIT), .is_create = true,
     .example = "?form=tar -T tree.tar"},
    {"GET", "/v1/snapshots/{id}/export", download, "Export a snapshot", SCOPE_FILES, NOUN,
     .details = "A tar.zst with a manifest, for /v1/snapshots/upload?form=export of any server.",
     .gives = FORM_BYTES, .errors = E(NOT_FOUND) | E(CONFLICT) | E(UNSUPPORTED) | E(LIMIT),
     .example = "-o snapshot.tar.zst"},
    {0},
};
/* clang-format on */
