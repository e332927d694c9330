#include "io/fetch_head.h"

#include "base/arena.h"
#include "base/err.h"

static int broken(struct err *err, const char *what)
{
    return err_set(err, ERR_UNAVAILABLE, "the answer is malformed: %s", what);
}

static int keep_status(struct fetch_head *head, struct arena *arena, struct str line,
                       struct err *err)
{
    int64_t status;
    struct str rest = str_slice(line, 9, line.len);
    if (!str_to_i64(str_slice(rest, 0, 3), 100, 999, &status) ||
        (rest.len > 3 && rest.ptr[3] != ' '))
        return broken(err, "invalid status line");
    /* The head of a 1xx answer counts, but is not kept. */
    head->headers.len = 0;
    head->has_length = head->is_chunked = false;
    head->coding = STR("");
    head->has_status = true;
    head->status = (int)status;
    head->status_text = arena_dup(arena, str_trim(str_slice(rest, 3, rest.len)));
    return 0;
}

static int note_framing(struct fetch_head *head, struct str name, struct str value, struct err *err)
{
    int64_t bytes;
    if (str_eq(name, STR("content-length"))) {
        if (value.len == 0 || value.ptr[0] == '-' || !str_to_i64(value, 0, INT64_MAX, &bytes))
            return broken(err, "Content-Length is not a number");
        if (head->has_length && !str_eq(head->length, value))
            return broken(err, "two Content-Length headers");
        head->has_length = true;
        head->length = value;
    } else if (str_eq(name, STR("transfer-encoding"))) {
        if (!str_eq_nocase(value, STR("chunked")) || head->is_chunked)
            return broken(err, "a transfer coding other than chunked");
        head->is_chunked = true;
    } else if (str_eq(name, STR("content-encoding")) && !str_eq_nocase(value, STR("identity"))) {
        head->coding = value;
    }
    return head->has_length && head->is_chunked ? broken(err, "both Content-Length and chunked")
                                                : 0;
}

static int keep_header(struct fetch_head *head, struct arena *arena, struct str line,
                       struct err *err)
{
    size_t colon = str_find_char(line, ':');
    if (colon == 0 || colon == line.len || line.ptr[0] == ' ' || line.ptr[0] == '\t')
        return broken(err, "a header without a name or folded over two lines");
    if (head->headers.len == FETCH_HEADERS_MAX)
        return err_set(err, ERR_TOO_LARGE, "the answer has more than %d headers",
                       FETCH_HEADERS_MAX);
    struct str name = arena_dup(arena, str_slice(line, 0, colon));
    for (char *c = (char *)name.ptr; *c != '\0'; c++)
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
    struct str value = arena_dup(arena, str_trim(str_slice(line, colon + 1, line.len)));
    *vec_push(&head->headers) = (struct fetch_header){name, value};
    return note_framing(head, name, value, err);
}

int fetch_head_take(struct fetch_head *head, struct arena *arena, struct str line, struct err *err)
{
    head->bytes += line.len;
    if (head->bytes > head->max)
        return err_set(err, ERR_TOO_LARGE, "the answer's head is larger than %zu bytes", head->max);
    if (head->is_done)
        return 0; /* trailers */
    if (str_find_char(line, '\0') < line.len)
        return broken(err, "a NUL byte in its head");
    struct str text = str_trim(line);
    if (str_starts(line, STR("HTTP/1.")))
        return keep_status(head, arena, text, err);
    if (text.len > 0)
        return keep_header(head, arena, str_slice(line, 0, str_find_char(line, '\n')), err);
    head->is_done = head->has_status && head->status >= 200;
    return 0;
}
