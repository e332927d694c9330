#include "waiting.h"

#include "base/arena.h"
#include "base/vec.h"
#include "jail/client/client.h"

int warden_pool(struct warden_link *warden, const struct jail_plan *plan, size_t count,
                int64_t idle_ms, struct err *err)
{
    uint32_t request;
    struct warden_event event;
    if (warden_ask_pool(warden, plan, count, idle_ms, &request, err) < 0)
        return -1;
    return warden_await(warden, request, &event, err);
}

int warden_count(struct warden_link *warden, struct warden_counts *ret_counts, struct err *err)
{
    uint32_t request;
    struct warden_event event;
    if (warden_ask_count(warden, &request, err) < 0 ||
        warden_await(warden, request, &event, err) < 0)
        return -1;
    *ret_counts = event.counts;
    return 0;
}

int jail_stat(struct jail *jail, struct jail_stats *ret_stats, struct err *err)
{
    uint32_t request;
    struct warden_event event;
    if (jail_ask_stat(jail, &request, err) < 0 ||
        warden_await(jail->warden, request, &event, err) < 0)
        return -1;
    *ret_stats = event.stats;
    return 0;
}

int jail_freeze(struct jail *jail, bool frozen, struct err *err)
{
    uint32_t request;
    struct warden_event event;
    if (jail_ask_freeze(jail, frozen, &request, err) < 0)
        return -1;
    return warden_await(jail->warden, request, &event, err);
}

int jail_seal(struct jail *jail, const struct jail_plan *plan, size_t kept, int64_t most_bytes,
              struct err *err)
{
    return jail_seal_with(jail, plan, &(struct jail_seal){.kept = kept, .most_bytes = most_bytes},
                          err);
}

int jail_seal_with(struct jail *jail, const struct jail_plan *plan, const struct jail_seal *seal,
                   struct err *err)
{
    uint32_t request;
    struct warden_event event = {.fd = -1};
    if (jail_hold(jail, seal->processes, err) < 0)
        return -1;
    int done = jail_ask_seal(jail, plan, seal, &request, err);
    if (done == 0)
        done = warden_await(jail->warden, request, &event, err);
    jail_release(jail);
    if (done < 0)
        return -1;
    return event.fd < 0 ? err_set(err, ERR_INTERNAL, "the warden sent no layer") : event.fd;
}

int warden_zygote(struct warden_link *warden, int program_fd, const char *names,
                  char ret_missing[96], struct err *err)
{
    uint32_t request;
    struct warden_event event;
    if (warden_ask_zygote(warden, program_fd, names, false, &request, err) < 0 ||
        warden_await(warden, request, &event, err) < 0)
        return -1;
    memcpy(ret_missing, event.missing, sizeof event.missing);
    return 0;
}

int jail_fork(struct jail *jail, const struct jail_command *command, const int fds[3],
              uint32_t *ret_id, struct err *err)
{
    uint32_t id;
    struct jail_event event;
    if (jail_ask_fork(jail, command, fds, &id, err) < 0 ||
        jail_await_answer(jail, id, &event, err) < 0)
        return -1;
    if (event.type == JAIL_EVENT_REFUSED) {
        *err = event.err;
        return -1;
    }
    *ret_id = id;
    return 0;
}

/* --- Files --- */

/* What happens to each part on the way to the answer. */
typedef void part_taker(struct str part, struct arena *arena, void *ctx);

static int call(struct jail *jail, const struct jail_file *question, int data_fd,
                part_taker *take_part, struct arena *arena, void *ctx,
                struct jail_file_answer *ret_answer, struct err *err)
{
    uint32_t id;
    struct jail_event event;
    if (jail_ask_file(jail, question, data_fd, &id, err) < 0)
        return -1;
    do {
        if (jail_await_answer(jail, id, &event, err) < 0)
            return -1;
        if (event.type == JAIL_EVENT_PART && take_part != NULL)
            take_part(event.part, arena, ctx);
    } while (event.type == JAIL_EVENT_PART);
    if (event.type == JAIL_EVENT_FAILED) {
        *err = event.err;
        return -1;
    }
    *ret_answer = *event.file;
    return 0;
}

int jail_file_stat(struct jail *jail, struct str path, bool follow, struct files_stat *ret_stat,
                   struct err *err)
{
    struct jail_file question = {.verb = JAIL_FILE_STAT, .path = path, .follow = follow};
    struct jail_file_answer answer;
    if (jail_file(jail, &question, -1, &answer, err) < 0)
        return -1;
    *ret_stat = answer.stat;
    return 0;
}

int jail_file_read(struct jail *jail, struct str path, const struct files_range *range,
                   struct buf *out, struct files_content *ret_content, struct err *err)
{
    struct jail_file question = {.verb = JAIL_FILE_READ, .path = path};
    struct jail_file_answer answer;
    if (range != NULL) {
        question.offset = range->offset;
        question.limit = range->limit;
    }
    if (call(jail, &question, -1, NULL, NULL, NULL, &answer, err) < 0 ||
        buf_append(out, answer.bytes, err) < 0)
        return -1;
    *ret_content = (struct files_content){.size = answer.size,
                                          .truncated = answer.truncated,
                                          .is_binary = answer.is_binary,
                                          .stat = answer.stat};
    return 0;
}

int jail_file_write(struct jail *jail, struct str path, struct str bytes,
                    const struct files_write_options *options, bool *ret_created, struct err *err)
{
    struct jail_file question = {
        .verb = JAIL_FILE_WRITE, .path = path, .bytes = bytes, .sync = true};
    struct jail_file_answer answer;
    if (options != NULL) {
        question.mode = options->mode;
        question.parents = options->make_parents;
        question.must_be_new = options->must_be_new;
        question.sync = !options->no_sync;
        question.limit = options->limit;
        question.if_same = options->if_same != NULL;
    }
    if (question.if_same) {
        question.same_size = options->if_same->size;
        question.same_mtime_ns = options->if_same->mtime_ns;
    }
    if (jail_file(jail, &question, -1, &answer, err) < 0)
        return -1;
    *ret_created = answer.created;
    return 0;
}

/* Records grow in a vector and end in the arena. */
static void *into_arena(struct arena *arena, const void *items, size_t size)
{
    void *copy = arena_alloc(arena, size);
    if (size > 0)
        memcpy(copy, items, size);
    return copy;
}

struct entries {
    VEC(struct files_entry) items;
};

static void take_entries(struct str part, struct arena *arena, void *ctx)
{
    struct entries *entries = ctx;
    struct files_entry entry;
    while (jail_part_entry(&part, &entry)) {
        entry.path = arena_dup(arena, entry.path);
        *vec_push(&entries->items) = entry;
    }
}

int jail_file_list(struct jail *jail, struct str path, const struct files_list_options *options,
                   struct arena *arena, struct files_list *ret_list, struct err *err)
{
    struct jail_file question = {.verb = JAIL_FILE_LIST, .path = path};
    struct jail_file_answer answer;
    struct entries entries = {0};
    if (options != NULL) {
        question.recursive = options->recursive;
        question.limit = options->limit;
        question.after = options->after;
    }
    int done = call(jail, &question, -1, take_entries, arena, &entries, &answer, err);
    if (done == 0)
        *ret_list = (struct files_list){
            .entries =
                into_arena(arena, entries.items.ptr, entries.items.len * sizeof *entries.items.ptr),
            .count = entries.items.len,
            .truncated = answer.truncated,
            .too_deep = answer.skipped};
    vec_done(&entries.items);
    return done;
}

struct paths {
    VEC(struct str) items;
};

static void take_paths(struct str part, struct arena *arena, void *ctx)
{
    struct paths *paths = ctx;
    struct str path;
    while (jail_part_path(&part, &path))
        *vec_push(&paths->items) = arena_dup(arena, path);
}

int jail_file_glob(struct jail *jail, struct str dir, struct str pattern,
                   const struct files_glob_options *options, struct arena *arena,
                   struct files_glob *ret_glob, struct err *err)
{
    struct jail_file question = {.verb = JAIL_FILE_GLOB, .path = dir, .pattern = pattern};
    struct jail_file_answer answer;
    struct paths paths = {0};
    if (options != NULL) {
        question.limit = options->limit;
        question.skip_hidden = options->skip_hidden;
        question.skip_usual = options->skip_usual;
        question.with_dirs = options->with_dirs;
    }
    int done = call(jail, &question, -1, take_paths, arena, &paths, &answer, err);
    if (done == 0)
        *ret_glob = (struct files_glob){
            .paths = into_arena(arena, paths.items.ptr, paths.items.len * sizeof *paths.items.ptr),
            .count = paths.items.len,
            .truncated = answer.truncated,
            .unread = answer.skipped};
    vec_done(&paths.items);
    return done;
}

struct matches {
    VEC(struct files_match) items;
};

static void take_matches(struct str part, struct arena *arena, void *ctx)
{
    struct matches *matches = ctx;
    struct files_match match;
    while (jail_part_match(&part, &match)) {
        match.path = arena_dup(arena, match.path);
        match.text = arena_dup(arena, match.text);
        *vec_push(&matches->items) = match;
    }
}

int jail_file_grep(struct jail *jail, struct str path, struct str pattern,
                   const struct files_grep_options *options, struct arena *arena,
                   struct files_grep *ret_grep, struct err *err)
{
    struct jail_file question = {.verb = JAIL_FILE_GREP, .path = path, .pattern = pattern};
    struct jail_file_answer answer;
    struct matches matches = {0};
    if (options != NULL) {
        question.glob = options->glob;
        question.limit = options->limit;
        question.line_max = options->line_max;
        question.context = options->context;
        question.cpu_ms = (uint64_t)MAX(options->cpu_ms, (int64_t)0);
        question.literal = options->literal;
        question.ignore_case = options->ignore_case;
        question.skip_hidden = options->skip_hidden;
        question.skip_usual = options->skip_usual;
    }
    int done = call(jail, &question, -1, take_matches, arena, &matches, &answer, err);
    if (done == 0)
        *ret_grep = (struct files_grep){
            .matches =
                into_arena(arena, matches.items.ptr, matches.items.len * sizeof *matches.items.ptr),
            .count = matches.items.len,
            .truncated = answer.truncated,
            .timed_out = answer.timed_out,
            .files = answer.count,
            .binary = answer.binary,
            .unread = answer.skipped,
            .hard_lines = answer.hard_lines};
    vec_done(&matches.items);
    return done;
}

int jail_connect(struct jail *jail, uint16_t port, struct err *err)
{
    uint32_t id;
    struct jail_event event;
    if (jail_ask_connect(jail, port, &id, err) < 0 || jail_await_answer(jail, id, &event, err) < 0)
        return -1;
    if (event.type == JAIL_EVENT_CONNECTED)
        return event.fd;
    *err = event.err;
    return -1;
}
