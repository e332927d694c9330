/* The tool read: lines of a text, or a picture. Files are asked for in pieces, so that a far line
 * of a long file costs time but no memory. */

#include "agent/internal.h"
#include "base/format/base64.h"

enum {
    SCAN_MAX = 64 << 20, /* lines are counted so far into a file */
    LINES_DEFAULT = 2000,
};

struct reading {
    struct str path;
    bool has_range;
    int64_t skip, take; /* lines still to be passed over, and to be given */
    int64_t first, given;
    uint64_t at, size;
    struct buf content;
};

static void tool_read_ask(struct tool_run *run);

static struct str mime_of_picture(struct str bytes)
{
    if (str_starts(bytes, STR("\x89PNG\r\n\x1a\n")))
        return STR("image/png");
    if (str_starts(bytes, STR("\xff\xd8\xff")))
        return STR("image/jpeg");
    if (str_starts(bytes, STR("GIF87a")) || str_starts(bytes, STR("GIF89a")))
        return STR("image/gif");
    if (bytes.len >= 12 && str_starts(bytes, STR("RIFF")) &&
        str_eq(str_slice(bytes, 8, 12), STR("WEBP")))
        return STR("image/webp");
    return (struct str){0};
}

/* Where more follows, the last character may be cut in two. */
static bool is_text(struct str bytes, bool is_cut)
{
    if (str_find_char(bytes, '\0') != bytes.len)
        return false;
    for (size_t cut = 0; cut <= (is_cut ? 3 : 0) && cut <= bytes.len; cut++)
        if (str_is_utf8(str_slice(bytes, 0, bytes.len - cut)))
            return true;
    return false;
}

static void end_picture(struct tool_run *run, const struct reading *reading, struct str mime,
                        struct str bytes)
{
    AUTO_BUF struct buf text = {0};
    AUTO_BUF struct buf coded = {0};
    struct json_out out = {.buf = &text};
    base64_put(bytes, &coded);
    *vec_push(&run->images) = (struct tool_image){mime, arena_dup(&run->arena, buf_str(&coded))};
    json_begin_object(&out);
    json_key(&out, "success"), json_put_bool(&out, true);
    json_key(&out, "path"), json_put_str(&out, reading->path);
    json_key(&out, "mime"), json_put_str(&out, mime);
    json_key(&out, "size"), json_put_i64(&out, (int64_t)reading->size);
    json_end_object(&out);
    tool_end(run, &text);
}

static void end_text(struct tool_run *run, struct reading *reading, bool truncated)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text};
    json_begin_object(&out);
    json_key(&out, "success"), json_put_bool(&out, true);
    json_key(&out, "path"), json_put_str(&out, reading->path);
    json_key(&out, "content"), json_put_str(&out, buf_str(&reading->content));
    json_key(&out, "size"), json_put_i64(&out, (int64_t)reading->size);
    json_key(&out, "startLine"), json_put_i64(&out, reading->first);
    json_key(&out, "lines"), json_put_i64(&out, reading->given);
    json_key(&out, "truncated"), json_put_bool(&out, truncated);
    if (truncated)
        json_key(&out, "nextOffset"), json_put_i64(&out, reading->first + reading->given);
    json_end_object(&out);
    buf_done(&reading->content);
    tool_end(run, &text);
}

static void tool_read_fail(struct tool_run *run, struct reading *reading, const struct err *why,
                           const char *hint)
{
    buf_done(&reading->content);
    tool_fail(run, why, hint);
}

/* One line, or the part of it that the piece holds. False: no more is wanted. */
static bool tool_read_take_line(struct reading *reading, struct str line, bool is_whole)
{
    if (reading->skip > 0) {
        reading->skip -= is_whole;
        return true;
    }
    if (reading->content.len + line.len > TOOL_TEXT_MAX) {
        if (reading->given > 0)
            return false;
        /* A line longer than any answer: its beginning. */
        buf_put(&reading->content, str_slice(line, 0, TOOL_TEXT_MAX - reading->content.len));
        reading->given++;
        return false;
    }
    buf_put(&reading->content, line);
    reading->given += is_whole;
    reading->take -= is_whole;
    return reading->take > 0;
}

/* Gives how many bytes were passed over or given. */
static size_t take_lines(struct reading *reading, struct str bytes)
{
    size_t done = 0;
    while (done < bytes.len) {
        struct str rest = str_slice(bytes, done, bytes.len);
        size_t at = str_find_char(rest, '\n');
        bool is_whole = at < rest.len;
        struct str line = str_slice(rest, 0, is_whole ? at + 1 : at);
        if (!tool_read_take_line(reading, line, is_whole))
            return reading->take > 0 ? done : done + line.len;
        done += line.len;
    }
    return done;
}

static bool ends_open(const struct reading *reading)
{
    const struct buf *content = &reading->content;
    return content->len > 0 && content->ptr[content->len - 1] != '\n';
}

/* The first piece tells what kind of file it is. True when that was the whole answer. */
static bool judge_first(struct tool_run *run, struct reading *reading, struct str bytes)
{
    struct err err = {0};
    struct str mime = mime_of_picture(bytes);
    if (mime.len > 0 && bytes.len == reading->size) {
        buf_done(&reading->content);
        end_picture(run, reading, mime, bytes);
        return true;
    }
    if (!is_text(bytes, bytes.len < reading->size)) {
        (void)err_set(&err, ERR_UNSUPPORTED, "%.*s is not text (%llu bytes)",
                      STR_ARG(reading->path), (unsigned long long)reading->size);
        tool_read_fail(run, reading, &err, "Inspect it with run_code or bash.");
        return true;
    }
    if (!reading->has_range && reading->size > TOOL_TEXT_MAX) {
        (void)err_set(&err, ERR_TOO_LARGE, "%.*s has %llu bytes, more than the limit of %d",
                      STR_ARG(reading->path), (unsigned long long)reading->size, TOOL_TEXT_MAX);
        tool_read_fail(
            run, reading, &err,
            "Read a part: offset is the first line, limit the number of lines; or use grep.");
        return true;
    }
    return false;
}

static void tool_read_on_read(void *ctx, const struct file_answer *answer, const struct err *why)
{
    struct tool_run *run = ctx;
    struct reading *reading = run->state;
    struct err err = {0};
    if (run->is_canceled)
        buf_done(&reading->content);
    if (tool_is_over(run))
        return;
    if (why != NULL) {
        tool_read_fail(run, reading, why, NULL);
        return;
    }
    bool is_first = reading->at == 0;
    reading->size = answer->info.size;
    if (is_first && judge_first(run, reading, answer->bytes))
        return;
    reading->at += answer->bytes.len;
    bool is_end = answer->bytes.len == 0 || !answer->truncated;
    bool is_cut = take_lines(reading, answer->bytes) < answer->bytes.len;
    if (is_cut || is_end || reading->take == 0) {
        if (!is_cut && ends_open(reading))
            reading->given++;
        end_text(run, reading, is_cut || !is_end);
    } else if (reading->at > SCAN_MAX) {
        (void)err_set(&err, ERR_TOO_LARGE, "lines after the first %d MB are not counted",
                      SCAN_MAX >> 20);
        tool_read_fail(run, reading, &err, "Use bash, as in: tail -c +BYTE FILE | head -c 10000");
    } else {
        tool_read_ask(run);
    }
}

static void tool_read_ask(struct tool_run *run)
{
    struct reading *reading = run->state;
    struct file_place place = tool_file_place(run);
    struct file_request request = {
        .op = FILE_READ, .path = reading->path, .offset = reading->at, .limit = FILE_READ_MAX};
    engine_file(run->engine, &run->caller, &place, &request, tool_read_on_read, run);
}

void tool_read(struct tool_run *run)
{
    struct reading *reading = arena_new(&run->arena, struct reading);
    reading->path = tool_arg_path(run, "path");
    reading->has_range = json_get(run->args, "offset") != NULL || json_get(run->args, "limit");
    reading->first = tool_arg_int(run, "offset", 1);
    reading->skip = reading->first - 1;
    reading->take = tool_arg_int(run, "limit", reading->has_range ? LINES_DEFAULT : INT64_MAX);
    run->state = reading;
    tool_read_ask(run);
}
