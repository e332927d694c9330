#include "api/http/download.h"

#include "api/http/flow.h"
#include "api/http/request.h"
#include "base/err.h"

enum range_kind { RANGE_NONE, RANGE_FROM, RANGE_LAST, RANGE_BAD };

/* One range of a Range header. Several at once are answered with the whole file, as RFC 9110
 * allows: no client gets parts that it does not understand. */
struct range {
    enum range_kind kind;
    uint64_t from, to; /* `to` behind the last byte, UINT64_MAX for the end; LAST: `to` bytes */
};

struct download {
    struct request *request; /* until the head is out */
    struct engine *engine;
    struct engine_caller caller;
    struct file_place place;
    struct str path; /* in the request's arena; empty: no file but a stream */
    const char *content_type;
    struct range range;
    struct file_reader *reader;
    struct flow *flow;
    bool is_ended;
};

/* ---- the bytes ----------------------------------------------------------------------------- */

static void download_on_drain(void *ctx)
{
    struct download *download = ctx;
    if (!download->is_ended)
        file_reader_resume(download->reader);
}

static void on_closed(void *ctx)
{
    struct download *download = ctx;
    download->reader = file_reader_free(download->reader);
    free(download);
}

static void on_stop(UNUSED void *ctx, UNUSED bool is_last)
{
    /* A file is finished while the server drains. */
}

static const struct flow_calls flow_calls = {download_on_drain, on_closed, on_stop};

/* No flow was begun: the download ends with its request. */
static void download_drop(struct download *download)
{
    download->reader = file_reader_free(download->reader);
    free(download);
}

/* With the quotation marks that RFC 9110 wants; JSON has it without. */
static void put_etag(struct request *request, const char *etag)
{
    reply_header(request, "ETag", arena_printf(&request->arena, "\"%s\"", etag));
}

static void begin_file(struct download *download, const struct file_info *info)
{
    struct request *request = download->request;
    char etag[FILE_ETAG_SIZE];
    file_etag(info, etag);
    uint64_t from = MIN(download->range.from, info->size);
    uint64_t to = MIN(download->range.to, info->size);
    bool is_part = download->range.kind != RANGE_NONE;
    put_etag(request, etag);
    reply_header(request, "Accept-Ranges", STR("bytes"));
    reply_header(request, "Cache-Control", STR("private, no-cache"));
    /* What a sandbox wrote is never shown by a browser as ours. */
    reply_header(request, "Content-Disposition", STR("attachment"));
    reply_header(request, "Content-Security-Policy", STR("sandbox; default-src 'none'"));
    if (is_part)
        reply_header(request, "Content-Range",
                     arena_printf(&request->arena, "bytes %llu-%llu/%llu", (unsigned long long)from,
                                  (unsigned long long)to - 1, (unsigned long long)info->size));
    download->flow = reply_flow(request, is_part ? 206 : 200, download->content_type,
                                (int64_t)(to - from), &flow_calls, download);
}

static void refuse_range(struct download *download, uint64_t size)
{
    struct err err;
    struct request *request = download->request;
    reply_header(request, "Content-Range",
                 arena_printf(&request->arena, "bytes */%llu", (unsigned long long)size));
    (void)err_set(&err, ERR_INVALID,
                  "the range starts after the end of the file, which has %llu bytes",
                  (unsigned long long)size);
    struct buf body = {0};
    error_body(&body, err_wire_name(err.code), err.msg, download->path, request->id);
    reply_json(request, 416, &body);
}

static void on_head(void *ctx, const struct file_info *info)
{
    struct download *download = ctx;
    if (download->path.len == 0) {
        download->flow =
            reply_flow(download->request, 200, download->content_type, -1, &flow_calls, download);
        return;
    }
    if (download->range.kind == RANGE_FROM && download->range.from >= info->size) {
        refuse_range(download, info->size);
        download_drop(download);
        return;
    }
    begin_file(download, info);
}

static void on_data(void *ctx, struct str bytes)
{
    struct download *download = ctx;
    struct err err;
    if (flow_write(download->flow, bytes, &err) < 0)
        flow_break(download->flow);
    else if (flow_is_full(download->flow))
        file_reader_pause(download->reader);
}

static void download_on_end(void *ctx, const struct err *why)
{
    struct download *download = ctx;
    download->is_ended = true;
    if (download->flow == NULL) {
        struct err none;
        if (why == NULL)
            (void)err_set(&none, ERR_INTERNAL, "the file's metadata is missing");
        reply_error_at(download->request, why == NULL ? &none : why, download->path);
        download_drop(download);
    } else if (why != NULL) {
        flow_break(download->flow);
    } else {
        flow_finish(download->flow);
    }
}

const struct file_reader_calls download_calls = {on_head, on_data, download_on_end};

struct download *download_new(struct request *request, const char *content_type)
{
    struct download *download = mem_alloc(sizeof *download);
    download->request = request;
    download->content_type = content_type;
    download->range.to = UINT64_MAX;
    if (!request->is_held)
        request_hold(request);
    return download;
}

struct file_reader **download_reader(struct download *download)
{
    return &download->reader;
}

void download_fail(struct download *download, const struct err *why)
{
    reply_error_at(download->request, why, download->path);
    download_drop(download);
}

/* ---- files --------------------------------------------------------------------------------- */

static bool read_number(struct str text, uint64_t *ret_n)
{
    int64_t n;
    if (!str_to_i64(text, 0, INT64_MAX, &n))
        return false;
    *ret_n = (uint64_t)n;
    return true;
}

/* What is not understood is passed over, as RFC 9110 wants it. */
static struct range read_range(struct str text)
{
    struct range none = {.kind = RANGE_NONE, .to = UINT64_MAX}, range = none;
    if (!str_starts(text, STR("bytes=")))
        return none;
    text = str_trim(str_slice(text, 6, text.len));
    size_t dash = str_find_char(text, '-');
    struct str first = str_slice(text, 0, dash), last = str_slice(text, dash + 1, text.len);
    if (dash == text.len || str_find_char(text, ',') < text.len)
        return none;
    if (first.len == 0) {
        range.kind = RANGE_LAST;
        return read_number(last, &range.to) ? range : none;
    }
    range.kind = RANGE_FROM;
    if (!read_number(first, &range.from))
        return none;
    if (last.len > 0) {
        if (!read_number(last, &range.to) || range.to < range.from)
            return none;
        range.to++;
    }
    return range;
}

static void download_open_file(struct download *download)
{
    struct err err;
    const struct range *range = &download->range;
    struct file_get get = {.path = download->path, .offset = range->from};
    if (range->to != UINT64_MAX)
        get.limit = range->to - range->from;
    if (engine_file_get(download->engine, &download->caller, &download->place, &get,
                        &download_calls, download, &download->reader, &err) < 0)
        download_fail(download, &err);
}

static bool lists_etag(struct str header, const char *etag)
{
    struct str item;
    while (str_split(&header, ',', &item)) {
        item = str_trim(item);
        if (str_starts(item, STR("W/")))
            item = str_slice(item, 2, item.len);
        if (item.len >= 2 && item.ptr[0] == '"' && item.ptr[item.len - 1] == '"')
            item = str_slice(item, 1, item.len - 1);
        if (str_eq(item, STR("*")) || str_eq(item, str_of(etag)))
            return true;
    }
    return false;
}

/* What the file is decides how it is sent. */
static void download_on_stat(void *ctx, const struct file_answer *answer, const struct err *why)
{
    struct download *download = ctx;
    struct request *request = download->request;
    char etag[FILE_ETAG_SIZE];
    if (why != NULL) {
        download_fail(download, why);
        return;
    }
    file_etag(&answer->info, etag);
    if (lists_etag(request_header(request, "If-None-Match"), etag)) {
        put_etag(request, etag);
        reply_empty(request, 304);
        download_drop(download);
        return;
    }
    struct str if_range = request_header(request, "If-Range");
    if (if_range.len > 0 && !lists_etag(if_range, etag))
        download->range = (struct range){.to = UINT64_MAX};
    if (download->range.kind == RANGE_LAST) {
        uint64_t count = MIN(download->range.to, answer->info.size);
        download->range = (struct range){RANGE_FROM, answer->info.size - count, UINT64_MAX};
    }
    download_open_file(download);
}

void download_file(struct request *request, struct engine *engine,
                   const struct engine_caller *caller, const struct file_place *place,
                   struct str path)
{
    struct download *download = download_new(request, "application/octet-stream");
    download->engine = engine;
    download->caller = *caller;
    download->place = *place;
    download->path = path;
    download->range = read_range(request_header(request, "Range"));
    bool must_look = download->range.kind == RANGE_LAST ||
                     request_header(request, "If-None-Match").len > 0 ||
                     request_header(request, "If-Range").len > 0;
    if (!must_look) {
        download_open_file(download);
        return;
    }
    struct file_request stat = {.op = FILE_STAT, .path = path, .follow = true};
    engine_file(engine, caller, place, &stat, download_on_stat, download);
}
