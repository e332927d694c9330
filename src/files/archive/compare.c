/* What differs between two states of a directory. Each side is read once: what a file holds is its
 * digest, and small texts are kept to be shown line by line. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/crypto/sha256.h"
#include "base/err.h"
#include "base/format/json.h"
#include "base/sys.h"
#include "base/vec.h"
#include "files/archive/keep.h"
#include "files/archive/pack.h"
#include "files/archive/unified.h"
#include "files/mark.h"
#include "files/walk.h"

enum { CHUNK = 1 << 16, TEXTS_MAX = 24 << 20, TEXT_OF_ONE_MAX = 32 << 10 };

struct item {
    struct str path;
    bool is_link;
    mode_t mode;
    uint64_t size;
    char digest[SHA256_HEX_SIZE]; /* of the content, or of the link's target */
    struct str text;              /* NULL: not kept */
};

struct side {
    struct arena arena;
    VEC(struct item) items;
    size_t texts;
    struct files *files;
    char chunk[CHUNK];
};

/* The content of one file as it comes. */
struct intake {
    struct side *side;
    struct item *item;
    struct sha256 sha;
    struct buf text;
    uint64_t at;
};

static struct item *add_item(struct side *side, struct str path, struct err *err)
{
    if (side->items.len == FILES_DIFF_ENTRIES_MAX) {
        (void)err_set(err, ERR_TOO_LARGE, "more than %d files to compare", FILES_DIFF_ENTRIES_MAX);
        return NULL;
    }
    while (path.len > 0 && path.ptr[path.len - 1] == '/')
        path.len--;
    struct item *item = vec_push(&side->items);
    *item = (struct item){.path = arena_dup(&side->arena, path)};
    return item;
}

static void compare_take(struct intake *intake, struct str bytes)
{
    sha256_add(&intake->sha, bytes);
    intake->at += bytes.len;
    if (intake->item->size <= FILES_DIFF_TEXT_MAX)
        buf_put(&intake->text, bytes);
}

static void begin_intake(struct intake *intake, struct side *side, struct item *item)
{
    *intake = (struct intake){.side = side, .item = item};
    sha256_init(&intake->sha);
}

static void end_intake(struct intake *intake)
{
    struct str text = buf_str(&intake->text);
    struct side *side = intake->side;
    sha256_hex(&intake->sha, intake->item->digest);
    intake->item->size = intake->at;
    if (intake->at <= FILES_DIFF_TEXT_MAX && side->texts + text.len <= TEXTS_MAX &&
        str_is_utf8(text) && str_find_char(text, '\0') == text.len) {
        intake->item->text = arena_dup(&side->arena, text);
        side->texts += text.len;
    }
    buf_done(&intake->text);
}

static void take_link(struct item *item, const char *target)
{
    struct sha256 sha;
    sha256_init(&sha);
    sha256_add(&sha, str_of(target));
    sha256_hex(&sha, item->digest);
    item->is_link = true;
    item->size = strlen(target);
}

/* --- An archive --- */

static void take_zeros(struct intake *intake, uint64_t count)
{
    static const char zeros[4096];
    while (count > 0) {
        size_t step = (size_t)MIN(count, (uint64_t)sizeof zeros);
        compare_take(intake, str_n(zeros, step));
        count -= step;
    }
}

static int compare_read_file(struct side *side, struct pack_reader *reader, struct item *item,
                             struct err *err)
{
    struct intake intake;
    struct str bytes;
    uint64_t offset = 0, size = item->size;
    int got;
    begin_intake(&intake, side, item);
    while ((got = pack_reader_data(reader, &bytes, &offset, err)) > 0) {
        if (offset > intake.at)
            take_zeros(&intake, MIN(offset, size) - intake.at);
        compare_take(&intake, bytes);
    }
    if (got == 0 && intake.at < size)
        take_zeros(&intake, size - intake.at);
    end_intake(&intake);
    return got;
}

static int read_archive(struct side *side, const struct files_source *source, struct err *err)
{
    AUTO(pack_reader_freep) struct pack_reader *reader = NULL;
    struct pack_entry entry;
    int got;
    if (pack_reader_new(source, UINT64_MAX, &reader, err) < 0)
        return -1;
    while ((got = pack_reader_next(reader, &entry, err)) > 0) {
        if (entry.type != PACK_FILE && entry.type != PACK_SYMLINK)
            continue;
        struct item *item = add_item(side, str_of(entry.path), err);
        if (item == NULL)
            return -1;
        item->mode = entry.mode & 0777;
        item->size = entry.size;
        if (entry.type == PACK_SYMLINK)
            take_link(item, entry.target);
        else if (compare_read_file(side, reader, item, err) < 0)
            return -1;
    }
    return got;
}

/* --- The directory as it is --- */

static int look_at_file(struct side *side, int dir_fd, const char *name, struct str path,
                        struct err *err)
{
    AUTO_CLOSE int fd =
        SYS(openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat st;
    struct intake intake;
    ssize_t got;
    if (fd < 0 || SYS(fstat(fd, &st)) < 0 || !S_ISREG(st.st_mode))
        return 0;
    struct item *item = add_item(side, path, err);
    if (item == NULL)
        return -1;
    item->mode = st.st_mode & 0777;
    item->size = (uint64_t)st.st_size;
    begin_intake(&intake, side, item);
    while ((got = SYS(read(fd, side->chunk, sizeof side->chunk))) > 0 &&
           intake.at <= (uint64_t)st.st_size)
        compare_take(&intake, str_n(side->chunk, (size_t)got));
    end_intake(&intake);
    return 0;
}

static int look_at_link(struct side *side, int dir_fd, const char *name, struct str path,
                        struct err *err)
{
    char target[FILES_PATH_MAX + 1];
    ssize_t len = SYS(readlinkat(dir_fd, name, target, sizeof target - 1));
    if (len < 0)
        return 0;
    target[len] = '\0';
    struct item *item = add_item(side, path, err);
    if (item == NULL)
        return -1;
    take_link(item, target);
    return 0;
}

static bool compare_enter(UNUSED void *ctx, UNUSED int dir_fd, struct str path)
{
    return !str_eq(path, STR(FILES_KEEP_OWN));
}

static int compare_visit(void *ctx, int dir_fd, const char *name, struct str path,
                         unsigned char type, struct err *err)
{
    return type == DT_REG   ? look_at_file(ctx, dir_fd, name, path, err)
           : type == DT_LNK ? look_at_link(ctx, dir_fd, name, path, err)
                            : 0;
}

static int read_directory(struct side *side, struct files *files, struct str path, struct err *err)
{
    AUTO_CLOSE int dir_fd = files_open_dir(files, path, err);
    struct files_visitor visitor = {compare_enter, compare_visit, side};
    struct files_walk walk;
    if (dir_fd < 0)
        return -1;
    files_walk_init(&walk, dir_fd, files->how & FD_NO_XDEV, (struct str){0});
    int done = files_walk_run(&walk, &visitor, err);
    files_walk_done(&walk);
    return done;
}

/* --- Side by side --- */

static int by_path(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    int order = memcmp(x->path.ptr, y->path.ptr, MIN(x->path.len, y->path.len));
    return order != 0 ? order : (x->path.len > y->path.len) - (x->path.len < y->path.len);
}

static struct side *side_free(struct side *side)
{
    if (side != NULL) {
        vec_done(&side->items);
        arena_done(&side->arena);
        free(side);
    }
    return NULL;
}
DEFINE_FREEP(side)

static void put_size(struct json_out *json, const char *key, const struct item *item)
{
    json_key(json, key);
    if (item == NULL)
        json_put_null(json);
    else
        json_put_i64(json, (int64_t)item->size);
}

/* A file that exists on only one side is shown as if the other side were empty. */
static void compare_put_text(struct json_out *json, const struct item *before,
                             const struct item *after, size_t *texts)
{
    AUTO_BUF struct buf text = {0};
    bool has_both = (before == NULL || (before->text.ptr != NULL && !before->is_link)) &&
                    (after == NULL || (after->text.ptr != NULL && !after->is_link));
    size_t room = FILES_DIFF_OUT_MAX - MIN(*texts, (size_t)FILES_DIFF_OUT_MAX);
    json_key(json, "text");
    if (!has_both || !unified_diff(before == NULL ? STR("") : before->text,
                                   after == NULL ? STR("") : after->text,
                                   MIN(room, (size_t)TEXT_OF_ONE_MAX), &text)) {
        json_put_null(json);
        return;
    }
    *texts += text.len;
    json_put_str(json, buf_str(&text));
}

static void put_change(struct json_out *json, const struct item *before, const struct item *after,
                       size_t *texts)
{
    const struct item *any = after != NULL ? after : before;
    assert(any != NULL); /* a change has one side at least */
    json_begin_object(json);
    json_key(json, "path"), json_put_str(json, any->path);
    json_key(json, "change");
    json_put_cstr(json, any != after ? "deleted" : before == NULL ? "added" : "changed");
    json_key(json, "type"), json_put_cstr(json, any->is_link ? "symlink" : "file");
    put_size(json, "sizeBefore", before);
    put_size(json, "sizeAfter", after);
    compare_put_text(json, before, after, texts);
    json_end_object(json);
}

static bool is_same(const struct item *a, const struct item *b)
{
    return a->is_link == b->is_link && a->mode == b->mode && strcmp(a->digest, b->digest) == 0;
}

static void put_changes(struct side *from, struct side *to, struct buf *out)
{
    struct json_out json = {.buf = out};
    size_t a = 0, b = 0, count = 0, texts = 0;
    json_begin_object(&json);
    json_key(&json, "files"), json_begin_array(&json);
    while (a < from->items.len || b < to->items.len) {
        const struct item *before = a < from->items.len ? &from->items.ptr[a] : NULL;
        const struct item *after = b < to->items.len ? &to->items.ptr[b] : NULL;
        int order = before == NULL ? 1 : after == NULL ? -1 : by_path(before, after);
        a += order <= 0;
        b += order >= 0;
        if ((order == 0 && is_same(before, after)) || ++count > FILES_DIFF_FILES_MAX)
            continue;
        put_change(&json, order <= 0 ? before : NULL, order >= 0 ? after : NULL, &texts);
    }
    json_end_array(&json);
    json_key(&json, "count"), json_put_i64(&json, (int64_t)count);
    json_key(&json, "truncated"), json_put_bool(&json, count > FILES_DIFF_FILES_MAX);
    json_end_object(&json);
}

int files_diff(struct files *files, struct str path, const struct files_source *from,
               const struct files_source *to, struct buf *out, struct err *err)
{
    AUTO(side_freep) struct side *before = mem_alloc(sizeof *before);
    AUTO(side_freep) struct side *after = mem_alloc(sizeof *after);
    if (read_archive(before, from, err) < 0)
        return err_wrap(err, "compare");
    if ((to != NULL ? read_archive(after, to, err) : read_directory(after, files, path, err)) < 0)
        return err_wrap(err, "compare");
    qsort(before->items.ptr, before->items.len, sizeof *before->items.ptr, by_path);
    qsort(after->items.ptr, after->items.len, sizeof *after->items.ptr, by_path);
    put_changes(before, after, out);
    return 0;
}
