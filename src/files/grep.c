#include "files/grep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/sys.h"
#include "base/vec.h"
#include "files/glob.h"
#include "files/regex.h"
#include "files/walk.h"

enum {
    CHUNK = 256 << 10,
    BINARY_PROBE = 8192,
    THREADS_MAX = 16,
    TEXT_MAX = 16 << 20, /* of all matches together */
    CLOCK_EVERY = 64,    /* looks at the clock: lines, or files */
};

struct hit {
    char *path;
    uint64_t line;
    struct str text;
    bool is_cut, is_context;
    uint64_t column;
};

/* What the threads share. */
struct grep {
    struct files *files;
    struct files_grep_options options;
    struct str pattern;
    struct files_walk walk;
    pthread_mutex_t lock;
    VEC(struct hit) hits;
    size_t matches; /* hits that are no context */
    size_t text_bytes;
    atomic_bool is_full, timed_out;
    atomic_uint_fast64_t searched, binary, unread, hard_lines;
};

/* One thread's. */
struct searcher {
    struct grep *grep;
    struct regex *regex;
    struct glob *glob;
    struct str needle;
    int ticks;
    int64_t deadline_ns; /* on this thread's CPU clock */
    struct err err;
    int result;
    char chunk[CHUNK];
};

static int64_t cpu_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool is_late(struct searcher *searcher)
{
    if (++searcher->ticks % CLOCK_EVERY != 0)
        return atomic_load_explicit(&searcher->grep->is_full, memory_order_relaxed);
    if (cpu_ns() > searcher->deadline_ns) {
        atomic_store(&searcher->grep->timed_out, true);
        atomic_store(&searcher->grep->is_full, true);
    }
    return atomic_load(&searcher->grep->is_full);
}

/* A column of 0 and `is_context` for a line around a match. False when there is enough. */
static bool add_hit(struct searcher *searcher, struct str path, uint64_t line, struct str text,
                    uint64_t column, bool is_context)
{
    struct grep *grep = searcher->grep;
    (void)pthread_mutex_lock(&grep->lock);
    bool is_full =
        (!is_context && grep->matches >= grep->options.limit) || grep->text_bytes > TEXT_MAX;
    if (is_full) {
        atomic_store(&grep->is_full, true);
    } else {
        grep->matches += !is_context;
        struct str kept = str_slice(text, 0, grep->options.line_max);
        grep->text_bytes += kept.len + path.len;
        *vec_push(&grep->hits) =
            (struct hit){.path = mem_dup(path.ptr, path.len + 1),
                         .line = line,
                         .text = str_n(mem_dup(kept.len == 0 ? "" : kept.ptr, kept.len), kept.len),
                         .is_cut = kept.len < text.len,
                         .is_context = is_context,
                         .column = column};
    }
    (void)pthread_mutex_unlock(&grep->lock);
    return !is_full;
}

static uint64_t count_lines(const char *from, const char *to)
{
    uint64_t count = 0;
    for (; from < to; from++)
        count += *from == '\n';
    return count;
}

static bool line_matches(struct searcher *searcher, struct str line)
{
    if (regex_is_literal(searcher->regex))
        return true; /* it holds the needle */
    int result = regex_match(searcher->regex, line);
    if (result < 0)
        atomic_fetch_add(&searcher->grep->hard_lines, 1);
    /* A hard line has cost as much as many: look at the clock before the next. */
    if (result < 0 || line.len > REGEX_LINE_MAX / 16)
        searcher->ticks |= CLOCK_EVERY - 1;
    return result == 1;
}

static struct str without_return(struct str line)
{
    bool has_one = line.len > 0 && line.ptr[line.len - 1] == '\r';
    return str_slice(line, 0, line.len - has_one);
}

/* Lines around a match, as far as `text` goes. Some are added twice, or match themselves: hand_over
 * keeps one of each. */
static void add_context(struct searcher *searcher, struct str path, struct str text,
                        struct str line, uint64_t number)
{
    const char *from = line.ptr, *at = line.ptr + line.len + 1, *end = text.ptr + text.len;
    unsigned context = searcher->grep->options.context;
    for (unsigned i = 1; i <= context && from > text.ptr; i++) {
        const char *stop = from - 1;
        const char *before =
            stop == text.ptr ? NULL : memrchr(text.ptr, '\n', (size_t)(stop - text.ptr));
        from = before == NULL ? text.ptr : before + 1;
        (void)add_hit(searcher, path, number - i,
                      without_return(str_n(from, (size_t)(stop - from))), 0, true);
    }
    for (unsigned i = 1; i <= context && at < end; i++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline == NULL ? end : newline;
        (void)add_hit(searcher, path, number + i, without_return(str_n(at, (size_t)(stop - at))), 0,
                      true);
        at = stop + 1;
    }
}

static uint64_t column_of(const struct searcher *searcher, struct str line)
{
    size_t at = regex_match_at(searcher->regex);
    if (regex_is_literal(searcher->regex)) {
        const char *found = memmem(line.ptr, line.len, searcher->needle.ptr, searcher->needle.len);
        at = found == NULL ? SIZE_MAX : (size_t)(found - line.ptr);
    }
    return at == SIZE_MAX ? 0 : at + 1;
}

/* The line that can match next, from `at` on; false at the end. */
static bool next_line(const struct searcher *searcher, const char *at, const char *end,
                      struct str *ret_line)
{
    const char *from = at;
    if (searcher->needle.len > 0) {
        const char *found =
            memmem(at, (size_t)(end - at), searcher->needle.ptr, searcher->needle.len);
        if (found == NULL)
            return false;
        const char *before = memrchr(at, '\n', (size_t)(found - at));
        from = before == NULL ? at : before + 1;
        at = found;
    }
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    *ret_line = str_n(from, (size_t)((newline == NULL ? end : newline) - from));
    return from < end;
}

/* Whole lines; `first` is the number of the first of them. */
static void search_lines(struct searcher *searcher, struct str path, struct str text,
                         uint64_t first)
{
    const char *at = text.ptr, *end = text.ptr + text.len, *counted = text.ptr;
    uint64_t line_number = first;
    struct str line;
    while (at < end && next_line(searcher, at, end, &line) && !is_late(searcher)) {
        at = line.ptr + line.len + 1;
        if (!line_matches(searcher, line))
            continue;
        line_number += count_lines(counted, line.ptr);
        counted = line.ptr;
        if (add_hit(searcher, path, line_number, without_return(line), column_of(searcher, line),
                    false))
            add_context(searcher, path, text, line, line_number);
    }
}

static ssize_t read_more(int fd, char *space, size_t size)
{
    for (;;) {
        ssize_t got = SYS(read(fd, space, size));
        if (got >= 0 || errno != EINTR)
            return got;
    }
}

static bool is_binary(struct str text)
{
    return text.len > 0 && memchr(text.ptr, '\0', text.len) != NULL;
}

/* A file of any length through one buffer: lines are handed on whole, what is left of the last one
 * moves to the front. A line longer than the buffer is judged by its beginning. */
static void search_fd(struct searcher *searcher, int fd, struct str path, uint64_t size)
{
    char *chunk = searcher->chunk;
    size_t have = 0;
    uint64_t line = 1, total = 0;
    bool is_mid_line = false; /* of one whose beginning has been judged */
    for (bool at_end = false; !at_end;) {
        ssize_t got = read_more(fd, chunk + have, CHUNK - have);
        if (got < 0) {
            atomic_fetch_add(&searcher->grep->unread, 1);
            return;
        }
        total += (size_t)got;
        at_end = got == 0 || (total == size && total < CHUNK);
        size_t len = have + (size_t)got;
        if (is_binary(str_n(chunk + have, (size_t)got))) {
            atomic_fetch_add(&searcher->grep->binary, 1);
            return;
        }
        const char *last = len == 0 ? NULL : memrchr(chunk, '\n', len);
        size_t whole = last == NULL ? 0 : (size_t)(last - chunk) + 1;
        bool is_too_long = whole == 0 && len == CHUNK;
        if (at_end || is_too_long)
            whole = len;
        size_t skip = 0;
        if (is_mid_line) {
            const char *newline = memchr(chunk, '\n', whole);
            skip = newline == NULL ? whole : (size_t)(newline - chunk) + 1;
            line += newline != NULL;
        }
        is_mid_line = is_too_long || (is_mid_line && skip == whole && last == NULL);
        struct str text = str_n(chunk + skip, whole - skip);
        search_lines(searcher, path, text, line);
        if (is_late(searcher))
            return;
        if (!at_end)
            line += count_lines(text.ptr, text.ptr + text.len);
        have = len - whole;
        memmove(chunk, chunk + whole, have);
    }
}

static void search_file(struct searcher *searcher, int dir_fd, const char *name, struct str path)
{
    struct grep *grep = searcher->grep;
    /* The name was a regular file a moment ago; if it is something else now, nothing is lost by
     * looking: no link is followed and nothing blocks. */
    AUTO_CLOSE int fd =
        SYS(openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat st;
    struct err ignored;
    if (fd < 0 || SYS(fstat(fd, &st)) < 0 ||
        files_check_regular(grep->files, &st, path, &ignored) < 0) {
        atomic_fetch_add(&grep->unread, 1);
        return;
    }
    atomic_fetch_add_explicit(&grep->searched, 1, memory_order_relaxed);
    if (st.st_size > 0)
        search_fd(searcher, fd, path, (uint64_t)st.st_size);
}

static int grep_visit(void *ctx, int dir_fd, const char *name, struct str path, unsigned char type,
                      UNUSED struct err *err)
{
    struct searcher *searcher = ctx;
    if (type != DT_REG || (searcher->grep->options.skip_hidden && name[0] == '.'))
        return 0;
    if (searcher->glob != NULL) {
        bool by_name =
            memchr(searcher->grep->options.glob.ptr, '/', searcher->grep->options.glob.len) == NULL;
        if (!glob_match(searcher->glob, by_name ? str_of(name) : path))
            return 0;
    }
    search_file(searcher, dir_fd, name, path);
    return is_late(searcher) ? 1 : 0;
}

static bool may_enter(void *ctx, UNUSED int dir_fd, struct str path)
{
    struct searcher *searcher = ctx;
    const char *slash = path.len == 0 ? NULL : memrchr(path.ptr, '/', path.len);
    char first = path.len == 0 ? '\0' : slash == NULL ? path.ptr[0] : slash[1];
    const struct files_grep_options *options = &searcher->grep->options;
    if (options->skip_hidden && first == '.')
        return false;
    return !(options->skip_usual && files_is_usual(path, options->glob));
}

static struct searcher *searcher_free(struct searcher *searcher)
{
    if (searcher == NULL)
        return NULL;
    searcher->regex = regex_free(searcher->regex);
    searcher->glob = glob_free(searcher->glob);
    free(searcher);
    return NULL;
}
DEFINE_FREEP(searcher)

static struct searcher *searcher_new(struct grep *grep, struct err *err)
{
    AUTO(searcher_freep) struct searcher *searcher = mem_alloc(sizeof *searcher);
    const struct files_grep_options *options = &grep->options;
    searcher->grep = grep;
    searcher->deadline_ns = INT64_MAX;
    if (regex_new(grep->pattern, options->ignore_case, options->literal, &searcher->regex, err) < 0)
        return NULL;
    if (options->glob.len > 0 && glob_new(options->glob, &searcher->glob, err) < 0)
        return NULL;
    searcher->needle = regex_needle(searcher->regex);
    struct searcher *made = searcher;
    searcher = NULL;
    return made;
}

static void *run_searcher(void *ctx)
{
    struct searcher *searcher = ctx;
    struct files_visitor visitor = {may_enter, grep_visit, searcher};
    searcher->deadline_ns = cpu_ns() + searcher->grep->options.cpu_ms * 1000000;
    searcher->result = files_walk_run(&searcher->grep->walk, &visitor, &searcher->err);
    return NULL;
}

/* This thread searches too; the others help where they can be had. */
static int search_tree(struct grep *grep, struct searcher *first, struct err *err)
{
    pthread_t threads[THREADS_MAX];
    struct searcher *others[THREADS_MAX];
    unsigned started = 0, wanted = MIN(grep->options.threads, (unsigned)THREADS_MAX);
    while (started + 1 < wanted) {
        struct searcher *other = searcher_new(grep, err);
        if (other == NULL || pthread_create(&threads[started], NULL, run_searcher, other) != 0) {
            (void)searcher_free(other);
            break;
        }
        others[started++] = other;
    }
    (void)run_searcher(first);
    int result = first->result;
    if (result < 0)
        *err = first->err;
    for (unsigned i = 0; i < started; i++) {
        (void)pthread_join(threads[i], NULL);
        (void)searcher_free(others[i]);
    }
    return result;
}

static int grep_search(struct grep *grep, struct str path, struct err *err)
{
    AUTO(searcher_freep) struct searcher *searcher = searcher_new(grep, err);
    if (searcher == NULL)
        return -1;
    AUTO_CLOSE int dir_fd = files_open_dir(grep->files, path, err);
    if (dir_fd < 0 && err->code == ERR_NOT_A_DIRECTORY) {
        struct stat st;
        AUTO_CLOSE int fd = files_open_regular(grep->files, path, O_RDONLY, &st, err);
        if (fd < 0)
            return -1;
        AUTO_MEM char *name = mem_alloc(path.len + 1);
        memcpy(name, path.ptr, path.len);
        searcher->deadline_ns = cpu_ns() + grep->options.cpu_ms * 1000000;
        atomic_fetch_add(&grep->searched, 1);
        search_fd(searcher, fd, str_n(name, path.len), (uint64_t)st.st_size);
        return 0;
    }
    if (dir_fd < 0)
        return -1;
    files_walk_init(&grep->walk, dir_fd, grep->files->how & FD_NO_XDEV, (struct str){0});
    int done = search_tree(grep, searcher, err);
    atomic_fetch_add(&grep->unread, grep->walk.unread);
    files_walk_done(&grep->walk);
    return done;
}

static int grep_compare(const void *a, const void *b)
{
    const struct hit *x = a, *y = b;
    int order = strcmp(x->path, y->path);
    if (order == 0)
        order = (x->line > y->line) - (x->line < y->line);
    return order != 0 ? order : x->is_context - y->is_context; /* a match before its shadow */
}

static bool is_same_line(const struct hit *a, const struct hit *b)
{
    return a->line == b->line && strcmp(a->path, b->path) == 0;
}

static void hand_over(struct grep *grep, struct arena *arena, struct files_grep *ret_grep)
{
    size_t count = 0;
    struct files_match *matches = arena_array(arena, struct files_match, grep->hits.len);
    if (grep->hits.len > 0)
        qsort(grep->hits.ptr, grep->hits.len, sizeof *grep->hits.ptr, grep_compare);
    for (size_t i = 0; i < grep->hits.len; i++) {
        const struct hit *hit = &grep->hits.ptr[i];
        if (i > 0 && is_same_line(hit, hit - 1))
            continue;
        matches[count++] = (struct files_match){.path = arena_dup(arena, str_of(hit->path)),
                                                .line = hit->line,
                                                .text = arena_dup(arena, hit->text),
                                                .is_cut = hit->is_cut,
                                                .is_context = hit->is_context,
                                                .column = hit->column};
    }
    *ret_grep = (struct files_grep){
        .matches = matches,
        .count = count,
        .truncated = atomic_load(&grep->is_full),
        .timed_out = atomic_load(&grep->timed_out),
        .files = atomic_load(&grep->searched),
        .binary = atomic_load(&grep->binary),
        .unread = atomic_load(&grep->unread),
        .hard_lines = atomic_load(&grep->hard_lines),
    };
}

static void set_options(struct grep *grep, const struct files_grep_options *options)
{
    if (options != NULL)
        grep->options = *options;
    struct files_grep_options *own = &grep->options;
    own->limit =
        own->limit == 0 ? (size_t)FILES_GREP_DEFAULT : MIN(own->limit, (size_t)FILES_GREP_MAX);
    own->line_max = own->line_max == 0 ? (size_t)FILES_GREP_LINE_MAX
                                       : MIN(own->line_max, (size_t)FILES_GREP_LINE_MAX);
    own->context = MIN(own->context, (unsigned)FILES_GREP_CONTEXT_MAX);
    own->cpu_ms = own->cpu_ms <= 0 ? FILES_GREP_CPU_MS : own->cpu_ms;
}

int files_grep(struct files *files, struct str path, struct str pattern,
               const struct files_grep_options *options, struct arena *arena,
               struct files_grep *ret_grep, struct err *err)
{
    struct grep *grep = mem_alloc(sizeof *grep);
    grep->files = files;
    grep->pattern = pattern;
    set_options(grep, options);
    (void)pthread_mutex_init(&grep->lock, NULL);
    int done = grep_search(grep, path, err);
    if (done == 0 && grep->hits.len == 0 && atomic_load(&grep->hard_lines) > 0)
        done = err_set(err, ERR_PATTERN_TOO_COMPLEX,
                       "the regular expression takes too long on these files; simplify it");
    if (done == 0)
        hand_over(grep, arena, ret_grep);
    VEC_EACH (hit, &grep->hits) {
        free(hit->path);
        free((char *)hit->text.ptr);
    }
    vec_done(&grep->hits);
    (void)pthread_mutex_destroy(&grep->lock);
    free(grep);
    return done;
}
