/* Verbs from a pipe, one after the other: the worker of programs that cannot confine themselves. */

#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "files/zones/zones.h"

enum { LINE_MAX_BYTES = 128, VERB_MAX_BYTES = 16 };

static int do_read(struct zones *zones, struct str path, UNUSED struct str data, struct buf *out,
                   struct err *err)
{
    return zones_read(zones, path, out, err);
}

static int do_write(struct zones *zones, struct str path, struct str data, struct buf *out,
                    struct err *err)
{
    bool created;
    if (zones_write(zones, path, data, &created, err) < 0)
        return -1;
    buf_put_char(out, created ? '1' : '0');
    return 0;
}

static int do_delete(struct zones *zones, struct str path, UNUSED struct str data,
                     UNUSED struct buf *out, struct err *err)
{
    return zones_delete(zones, path, false, err);
}

static int do_delete_all(struct zones *zones, struct str path, UNUSED struct str data,
                         UNUSED struct buf *out, struct err *err)
{
    return zones_delete(zones, path, true, err);
}

static int do_exists(struct zones *zones, struct str path, UNUSED struct str data, struct buf *out,
                     struct err *err)
{
    bool exists;
    if (zones_exists(zones, path, &exists, err) < 0)
        return -1;
    buf_put_char(out, exists ? '1' : '0');
    return 0;
}

static int do_list(struct zones *zones, struct str path, UNUSED struct str data, struct buf *out,
                   struct err *err)
{
    return zones_list(zones, path, out, err);
}

static int do_resolve(struct zones *zones, struct str path, UNUSED struct str data, struct buf *out,
                      struct err *err)
{
    return zones_resolve(zones, path, out, err);
}

static const struct verb {
    const char *name;
    int (*run)(struct zones *zones, struct str path, struct str data, struct buf *out,
               struct err *err);
} verbs[] = {
    {"read", do_read},       {"write", do_write},
    {"delete", do_delete},   {"delete_all", do_delete_all},
    {"exists", do_exists},   {"list", do_list},
    {"resolve", do_resolve}, {"glob", zones_glob},
    {"grep", zones_grep},    {"edit", zones_edit},
};

struct question {
    const struct verb *verb;
    size_t path_len, data_len;
};

static int bad_line(struct str line, struct err *err)
{
    return err_set(err, ERR_INVALID, "'%.*s' is not a request: VERB PATH-BYTES DATA-BYTES",
                   STR_ARG(line));
}

static int parse_line(struct str line, struct question *ret_question, struct err *err)
{
    struct str rest = line, word, path_len, data_len;
    int64_t path, data;
    if (!str_split(&rest, ' ', &word) || !str_split(&rest, ' ', &path_len) ||
        !str_split(&rest, ' ', &data_len) || rest.len > 0 ||
        !str_to_i64(path_len, 0, FILES_PATH_MAX * 2, &path) ||
        !str_to_i64(data_len, 0, ZONES_FILE_MAX + 1, &data))
        return bad_line(line, err);
    for (size_t i = 0; i < countof(verbs); i++)
        if (str_eq(word, str_of(verbs[i].name))) {
            *ret_question = (struct question){&verbs[i], (size_t)path, (size_t)data};
            return 0;
        }
    return bad_line(line, err);
}

/* Reads until `in` has `need` bytes; false at the end of it all. */
static int zone_serve_fill(int fd, struct buf *in, size_t need, bool *ret_is_there, struct err *err)
{
    while (in->len < need) {
        char *space;
        if (buf_reserve(in, 64 << 10, &space, err) < 0)
            return -1;
        ssize_t count = read(fd, space, 64 << 10);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return err_sys(err, errno, "read a request");
        if (count == 0) {
            *ret_is_there = false;
            return 0;
        }
        buf_commit(in, (size_t)count);
    }
    *ret_is_there = true;
    return 0;
}

static int zone_serve_read_line(int fd, struct buf *in, struct str *ret_line, bool *ret_is_there,
                                struct err *err)
{
    size_t end;
    while ((end = str_find_char(buf_str(in), '\n')) == in->len) {
        if (in->len > LINE_MAX_BYTES)
            return err_set(err, ERR_INVALID, "a request's line has more than %d bytes",
                           LINE_MAX_BYTES);
        if (zone_serve_fill(fd, in, in->len + 1, ret_is_there, err) < 0)
            return -1;
        if (!*ret_is_there)
            return in->len == 0 ? 0 : err_set(err, ERR_INVALID, "the input ends within a request");
    }
    *ret_line = str_slice(buf_str(in), 0, end);
    *ret_is_there = true;
    return 0;
}

static int zone_serve_answer(struct zones *zones, const struct question *question, struct str bytes,
                             int fd, struct err *err)
{
    AUTO_BUF struct buf head = {0};
    AUTO_BUF struct buf out = buf_with_limit(ZONES_FILE_MAX + 1);
    struct str path = str_slice(bytes, 0, question->path_len);
    struct str data = str_slice(bytes, question->path_len, bytes.len);
    struct err why = {0};
    struct str body;
    if (question->verb->run(zones, path, data, &out, &why) == 0) {
        body = buf_str(&out);
        buf_printf(&head, "ok %zu\n", body.len);
    } else {
        body = str_of(why.msg);
        buf_printf(&head, "error %s %zu\n", err_wire_name(why.code), body.len);
    }
    if (fd_write_all(fd, buf_str(&head), err) < 0)
        return -1;
    return fd_write_all(fd, body, err);
}

int zones_serve(struct zones *zones, int in_fd, int out_fd, struct err *err)
{
    AUTO_BUF struct buf in = buf_with_limit(ZONES_FILE_MAX + (256 << 10));
    for (;;) {
        struct str line;
        struct question question;
        bool is_there = false;
        if (zone_serve_read_line(in_fd, &in, &line, &is_there, err) < 0)
            return -1;
        if (!is_there)
            return 0;
        size_t head = line.len + 1;
        if (parse_line(line, &question, err) < 0 ||
            zone_serve_fill(in_fd, &in, head + question.path_len + question.data_len, &is_there,
                            err) < 0)
            return -1;
        if (!is_there)
            return err_set(err, ERR_INVALID, "the input ends within a request");
        size_t all = head + question.path_len + question.data_len;
        if (zone_serve_answer(zones, &question, str_slice(buf_str(&in), head, all), out_fd, err) <
            0)
            return -1;
        buf_consume(&in, all);
    }
}
