#include "jail/wire/file_wire.h"

enum {
    QUESTION_PLACE_MAX = FILES_TAR_EXACT,
    TARGET_MAX = FILES_PATH_MAX,
};

/* Booleans as bits, in the order of these lists. */
#define QUESTION_FLAGS(X)                                                                          \
    X(follow)                                                                                      \
    X(recursive)                                                                                   \
    X(parents)                                                                                     \
    X(replace)                                                                                     \
    X(must_be_new)                                                                                 \
    X(sync)                                                                                        \
    X(all)                                                                                         \
    X(skip_hidden)                                                                                 \
    X(skip_usual)                                                                                  \
    X(with_dirs)                                                                                   \
    X(literal)                                                                                     \
    X(ignore_case)                                                                                 \
    X(gzip)                                                                                        \
    X(is_expected)                                                                                 \
    X(if_same)
#define ANSWER_FLAGS(X)                                                                            \
    X(created)                                                                                     \
    X(truncated)                                                                                   \
    X(is_binary)                                                                                   \
    X(timed_out)

static void put_u64(struct buf *out, uint64_t n)
{
    wire_put_i64(out, (int64_t)n);
}

static uint64_t get_u64(struct wire_in *in)
{
    return (uint64_t)wire_get_i64(in);
}

void file_put_question(struct buf *out, const struct jail_file *question)
{
    uint32_t flags = 0, bit = 1;
#define X(name)                                                                                    \
    flags |= question->name ? bit : 0;                                                             \
    bit <<= 1;
    QUESTION_FLAGS(X)
#undef X
    (void)bit;
    wire_put_u32(out, flags);
    wire_put_u32(out, question->mode);
    wire_put_u32(out, question->place);
    wire_put_u32(out, question->tar.depth);
    wire_put_u32(out, question->context);
    put_u64(out, question->same_size);
    wire_put_i64(out, question->same_mtime_ns);
    put_u64(out, question->offset);
    put_u64(out, question->limit);
    put_u64(out, question->expected);
    put_u64(out, question->line_max);
    put_u64(out, question->cpu_ms);
    put_u64(out, question->tar.packed);
    put_u64(out, question->tar.unpacked);
    put_u64(out, question->tar.entries);
    put_u64(out, question->tar.ratio);
    wire_put_bytes(out, question->path);
    wire_put_bytes(out, question->to);
    wire_put_bytes(out, question->bytes);
    wire_put_bytes(out, question->with);
}

bool file_get_question(struct wire_in *in, enum jail_file_verb verb, struct jail_file *ret_question)
{
    struct jail_file question = {.verb = verb};
    uint32_t flags = wire_get_u32(in);
#define X(name)                                                                                    \
    question.name = (flags & 1) != 0;                                                              \
    flags >>= 1;
    QUESTION_FLAGS(X)
#undef X
    question.mode = wire_get_u32(in);
    uint32_t place = wire_get_u32(in);
    question.place = (enum files_tar_place)place;
    question.tar.depth = wire_get_u32(in);
    question.context = wire_get_u32(in);
    question.same_size = get_u64(in);
    question.same_mtime_ns = wire_get_i64(in);
    question.offset = get_u64(in);
    question.limit = get_u64(in);
    question.expected = get_u64(in);
    question.line_max = get_u64(in);
    question.cpu_ms = get_u64(in);
    question.tar.packed = get_u64(in);
    question.tar.unpacked = get_u64(in);
    question.tar.entries = get_u64(in);
    question.tar.ratio = get_u64(in);
    question.path = wire_get_bytes(in);
    question.to = wire_get_bytes(in);
    question.bytes = wire_get_bytes(in);
    question.with = wire_get_bytes(in);
    if (!wire_ended(in) || flags != 0 || question.mode > 07777 || place > QUESTION_PLACE_MAX ||
        question.cpu_ms > INT64_MAX)
        return false;
    *ret_question = question;
    return true;
}

static void put_stat(struct buf *out, const struct files_stat *stat)
{
    wire_put_u32(out, stat->type);
    wire_put_u32(out, stat->mode);
    wire_put_u32(out, stat->uid);
    wire_put_u32(out, stat->gid);
    put_u64(out, stat->size);
    put_u64(out, stat->disk_bytes);
    wire_put_i64(out, stat->mtime_ns);
}

static bool get_stat(struct wire_in *in, struct files_stat *ret_stat)
{
    uint32_t type = wire_get_u32(in);
    ret_stat->type = (enum files_type)type;
    ret_stat->mode = wire_get_u32(in);
    ret_stat->uid = wire_get_u32(in);
    ret_stat->gid = wire_get_u32(in);
    ret_stat->size = get_u64(in);
    ret_stat->disk_bytes = get_u64(in);
    ret_stat->mtime_ns = wire_get_i64(in);
    return !in->bad && type <= FILES_OTHER && ret_stat->mode <= 07777 &&
           ret_stat->size <= INT64_MAX;
}

void file_put_answer(struct buf *out, const struct jail_file_answer *answer)
{
    uint32_t flags = 0, bit = 1;
#define X(name)                                                                                    \
    flags |= answer->name ? bit : 0;                                                               \
    bit <<= 1;
    ANSWER_FLAGS(X)
#undef X
    (void)bit;
    wire_put_u32(out, flags);
    put_stat(out, &answer->stat);
    put_u64(out, answer->size);
    put_u64(out, answer->count);
    put_u64(out, answer->moved);
    put_u64(out, answer->skipped);
    put_u64(out, answer->binary);
    put_u64(out, answer->hard_lines);
    put_u64(out, answer->changed);
    wire_put_bytes(out, answer->bytes);
}

bool file_get_answer(struct wire_in *in, struct jail_file_answer *ret_answer)
{
    struct jail_file_answer answer = {0};
    uint32_t flags = wire_get_u32(in);
#define X(name)                                                                                    \
    answer.name = (flags & 1) != 0;                                                                \
    flags >>= 1;
    ANSWER_FLAGS(X)
#undef X
    bool good = get_stat(in, &answer.stat);
    answer.size = get_u64(in);
    answer.count = get_u64(in);
    answer.moved = get_u64(in);
    answer.skipped = get_u64(in);
    answer.binary = get_u64(in);
    answer.hard_lines = get_u64(in);
    answer.changed = get_u64(in);
    answer.bytes = wire_get_bytes(in);
    if (!good || !wire_ended(in) || flags != 0 || answer.size > INT64_MAX)
        return false;
    *ret_answer = answer;
    return true;
}

static bool is_below(struct str path)
{
    struct str rest = path, name;
    if (path.len == 0 || path.len >= FILES_PATH_MAX || memchr(path.ptr, '\0', path.len) != NULL ||
        path.ptr[path.len - 1] == '/')
        return false;
    while (str_split(&rest, '/', &name))
        if (name.len == 0 || name.len > FILES_NAME_MAX || str_eq(name, STR(".")) ||
            str_eq(name, STR("..")))
            return false;
    return true;
}

void file_put_path(struct buf *out, struct str path)
{
    wire_put_bytes(out, path);
}

bool file_get_path(struct wire_in *in, struct str *ret_path)
{
    *ret_path = wire_get_bytes(in);
    return !in->bad && is_below(*ret_path);
}

void file_put_entry(struct buf *out, const struct files_entry *entry)
{
    put_stat(out, &entry->stat);
    file_put_path(out, entry->path);
}

bool file_get_entry(struct wire_in *in, struct files_entry *ret_entry)
{
    return get_stat(in, &ret_entry->stat) && file_get_path(in, &ret_entry->path);
}

void file_put_match(struct buf *out, const struct files_match *match)
{
    wire_put_u32(out, (match->is_cut ? 1 : 0) | (match->is_context ? 2 : 0));
    put_u64(out, match->line);
    put_u64(out, match->column);
    wire_put_bytes(out, match->path);
    wire_put_bytes(out, match->text);
}

/* The path may be the file that was asked for, as it was written. */
bool file_get_match(struct wire_in *in, struct files_match *ret_match)
{
    uint32_t flags = wire_get_u32(in);
    ret_match->is_cut = (flags & 1) != 0;
    ret_match->is_context = (flags & 2) != 0;
    ret_match->line = get_u64(in);
    ret_match->column = get_u64(in);
    ret_match->path = wire_get_bytes(in);
    ret_match->text = wire_get_bytes(in);
    struct str path = ret_match->path;
    return !in->bad && flags <= 3 && path.len > 0 && path.len <= TARGET_MAX &&
           memchr(path.ptr, '\0', path.len) == NULL && ret_match->text.len <= FILES_GREP_LINE_MAX;
}

void file_put_event(struct buf *out, const struct files_event *event)
{
    wire_put_u32(out, event->type);
    wire_put_u32(out, event->is_dir);
    wire_put_u32(out, event->cookie);
    wire_put_bytes(out, event->path);
}

/* What concerns the watched directory itself has no path. */
bool file_get_event(struct wire_in *in, struct files_event *ret_event)
{
    uint32_t type = wire_get_u32(in), is_dir = wire_get_u32(in);
    ret_event->type = (enum files_event_type)type;
    ret_event->is_dir = is_dir != 0;
    ret_event->cookie = wire_get_u32(in);
    ret_event->path = wire_get_bytes(in);
    return !in->bad && type <= FILES_EVENT_GONE && is_dir <= 1 &&
           (ret_event->path.len == 0 || is_below(ret_event->path));
}
