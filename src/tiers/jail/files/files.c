/* File verbs of a jail: sent to its init, answered when the last part has arrived. */

#include "tiers/jail/files/files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/vec.h"
#include "jail/client/files.h"
#include "jail/client/jail.h"
#include "tiers/jail/place.h"

struct filing {
    struct asked_op op;
    struct place *place;
    struct arena arena;
    struct file_request request;
    struct file_answer answer;
    enum { CHECKING, DOING, LOOKING } step; /* the etag, the verb, what came of it */
    VEC(struct file_info) entries;
    VEC(struct file_match) matches;
    size_t used; /* bytes of them; no more are taken once it is full */
    bool is_full;
    int fd; /* of contents that do not fit into a packet; -1: none */
    file_done *done;
    void *ctx;
};

static void filing_free(struct filing *filing)
{
    vec_done(&filing->entries);
    vec_done(&filing->matches);
    fd_close(&filing->fd);
    arena_done(&filing->arena);
    free(filing);
}

static void files_finish(struct filing *filing, const struct err *why)
{
    place_remove(filing->place, &filing->op);
    filing->answer.entries = filing->entries.ptr;
    filing->answer.entry_count = filing->entries.len;
    filing->answer.matches = filing->matches.ptr;
    filing->answer.match_count = filing->matches.len;
    filing->done(filing->ctx, why == NULL ? &filing->answer : NULL, why);
    filing_free(filing);
}

struct file_info tier_file_info(struct str path, const struct files_stat *stat)
{
    static const enum file_type types[] = {[FILES_REGULAR] = FILE_REGULAR,
                                           [FILES_DIRECTORY] = FILE_DIRECTORY,
                                           [FILES_SYMLINK] = FILE_SYMLINK,
                                           [FILES_OTHER] = FILE_OTHER};
    return (struct file_info){.path = path,
                              .type = types[stat->type],
                              .mode = (uint32_t)stat->mode & 07777,
                              .size = stat->size,
                              .mtime_ns = stat->mtime_ns};
}

/* --- Questions --- */

static int send(struct filing *filing, const struct jail_file *question, int fd, struct err *err)
{
    uint32_t id = 0;
    if (jail_ask_file(filing->place->jail, question, fd, &id, err) < 0)
        return -1;
    place_remove(filing->place, &filing->op);
    place_add(filing->place, &filing->op, id);
    place_watch(filing->place);
    return 0;
}

static int ask_stat(struct filing *filing, struct str path, bool follow, struct err *err)
{
    struct jail_file question = {.verb = JAIL_FILE_STAT, .path = path, .follow = follow};
    return send(filing, &question, -1, err);
}

/* Contents of any size travel in a file of their own, which only the two of us have. */
static int open_contents(struct filing *filing, struct err *err)
{
    filing->fd = memfd_create("contents", MFD_CLOEXEC);
    if (filing->fd < 0)
        return err_sys(err, errno, "make a file in memory");
    if (filing->request.bytes.len > 0 &&
        (fd_write_all(filing->fd, filing->request.bytes, err) < 0 ||
         lseek(filing->fd, 0, SEEK_SET) < 0))
        return err_wrap(err, "fill a file in memory");
    return 0;
}

static int ask_read(struct filing *filing, struct err *err)
{
    const struct file_request *request = &filing->request;
    size_t limit = request->limit == 0 ? FILE_READ_MAX : request->limit;
    struct jail_file question = {
        .verb = JAIL_FILE_READ, .path = request->path, .offset = request->offset, .limit = limit};
    if (limit <= JAIL_FILE_BYTES_MAX)
        return send(filing, &question, -1, err);
    question.verb = JAIL_FILE_READ_TO;
    return open_contents(filing, err) < 0 ? -1 : send(filing, &question, filing->fd, err);
}

/* What outlives the sandbox is on the disk before it is acknowledged. */
bool tier_files_last(const struct place *place, struct str path)
{
    struct str dir = STR("/workspace/");
    return place->volume[0] != '\0' && str_starts(path, dir);
}

static int ask_write(struct filing *filing, struct err *err)
{
    const struct file_request *request = &filing->request;
    struct jail_file question = {.verb = JAIL_FILE_WRITE,
                                 .path = request->path,
                                 .bytes = request->bytes,
                                 .mode = request->mode,
                                 .parents = request->make_parents,
                                 .must_be_new = request->must_be_new,
                                 .sync = tier_files_last(filing->place, request->path)};
    if (request->bytes.len <= JAIL_FILE_BYTES_MAX)
        return send(filing, &question, -1, err);
    question.verb = JAIL_FILE_WRITE_FROM;
    question.bytes = (struct str){0};
    question.limit = FILE_WRITE_MAX;
    question.is_expected = true;
    question.expected = request->bytes.len;
    return open_contents(filing, err) < 0 ? -1 : send(filing, &question, filing->fd, err);
}

/* Parameters that only one verb has. */
static void add_texts(const struct file_request *request, struct jail_file *question)
{
    switch (request->op) {
    case FILE_LIST:
        question->after = request->after;
        break;
    case FILE_APPEND:
        question->bytes = request->bytes;
        break;
    case FILE_EDIT:
        question->bytes = request->old_text;
        question->with = request->new_text;
        break;
    case FILE_GLOB:
        question->pattern = request->pattern;
        question->skip_usual = !request->search_all;
        break;
    case FILE_GREP:
        question->pattern = request->pattern;
        question->glob = request->include;
        question->context = request->context;
        question->skip_usual = !request->search_all;
        break;
    default:
        break;
    }
}

static int ask_plain(struct filing *filing, enum jail_file_verb verb, struct err *err)
{
    const struct file_request *request = &filing->request;
    struct jail_file question = {.verb = verb,
                                 .path = request->path,
                                 .to = request->to,
                                 .limit = request->limit,
                                 .mode = request->mode,
                                 .recursive = request->recursive,
                                 .parents = request->make_parents,
                                 .replace = request->replace,
                                 .all = request->all,
                                 .ignore_case = request->ignore_case};
    add_texts(request, &question);
    return send(filing, &question, -1, err);
}

static int files_ask(struct filing *filing, struct err *err)
{
    static const enum jail_file_verb verbs[FILE_OP_COUNT] = {
        [FILE_LIST] = JAIL_FILE_LIST,
        [FILE_APPEND] = JAIL_FILE_APPEND,
        [FILE_MKDIR] = JAIL_FILE_MKDIR,
        [FILE_MOVE] = JAIL_FILE_RENAME,
        [FILE_DELETE] = JAIL_FILE_DELETE,
        [FILE_CHMOD] = JAIL_FILE_CHMOD,
        [FILE_SYMLINK_MAKE] = JAIL_FILE_SYMLINK,
        [FILE_EDIT] = JAIL_FILE_EDIT,
        [FILE_GLOB] = JAIL_FILE_GLOB,
        [FILE_GREP] = JAIL_FILE_GREP,
    };
    const struct file_request *request = &filing->request;
    filing->step = DOING;
    switch (request->op) {
    case FILE_STAT:
        return ask_stat(filing, request->path, request->follow, err);
    case FILE_READ:
        return ask_read(filing, err);
    case FILE_WRITE:
        return ask_write(filing, err);
    case FILE_OP_COUNT:
        return err_set(err, ERR_INVALID, "unknown file operation");
    default:
        return ask_plain(filing, verbs[request->op], err);
    }
}

/* --- Answers --- */

static bool take_entry(struct filing *filing, struct str path, const struct files_stat *stat)
{
    filing->is_full |= !file_has_room(&filing->used, path.len);
    if (!filing->is_full) {
        *vec_push(&filing->entries) = tier_file_info(arena_dup(&filing->arena, path), stat);
    }
    return !filing->is_full;
}

static bool take_found(struct filing *filing, struct str path)
{
    struct str dir = filing->request.path;
    filing->is_full |= !file_has_room(&filing->used, dir.len + path.len);
    if (!filing->is_full)
        *vec_push(&filing->entries) =
            (struct file_info){.path = file_path_below(dir, path, &filing->arena)};
    return !filing->is_full;
}

static bool take_match(struct filing *filing, const struct files_match *match)
{
    struct str dir = filing->request.path;
    filing->is_full |= !file_has_room(&filing->used, dir.len + match->path.len + match->text.len);
    if (!filing->is_full)
        *vec_push(&filing->matches) =
            (struct file_match){.path = file_path_below(dir, match->path, &filing->arena),
                                .text = arena_dup(&filing->arena, match->text),
                                .line = match->line,
                                .column = match->column,
                                .is_context = match->is_context};
    return !filing->is_full;
}

static void take_part(struct filing *filing, struct str part)
{
    struct files_entry entry;
    struct files_match match;
    struct str path;
    bool go_on = !filing->is_full;
    if (filing->request.op == FILE_LIST)
        while (go_on && jail_part_entry(&part, &entry))
            go_on = take_entry(filing, entry.path, &entry.stat);
    else if (filing->request.op == FILE_GLOB)
        while (go_on && jail_part_path(&part, &path))
            go_on = take_found(filing, path);
    else if (filing->request.op == FILE_GREP)
        while (go_on && jail_part_match(&part, &match))
            go_on = take_match(filing, &match);
}

static int take_contents(struct filing *filing, struct err *err)
{
    AUTO_BUF struct buf bytes = buf_with_limit(FILE_WRITE_MAX + 1);
    if (lseek(filing->fd, 0, SEEK_SET) < 0 || buf_read_all(&bytes, filing->fd, err) < 0)
        return err_wrap(err, "read a file in memory");
    filing->answer.bytes = arena_dup(&filing->arena, buf_str(&bytes));
    return 0;
}

static bool needs_look(enum file_op op)
{
    return op != FILE_STAT && op != FILE_LIST && op != FILE_DELETE && op != FILE_GLOB &&
           op != FILE_GREP;
}

static void take_answer(struct filing *filing, const struct jail_file_answer *file)
{
    struct err err = {0};
    filing->answer.truncated = file->truncated || filing->is_full;
    filing->answer.created = file->created;
    filing->answer.count = file->count;
    if (filing->request.op == FILE_STAT)
        filing->answer.info = tier_file_info(filing->request.path, &file->stat);
    if (filing->request.op == FILE_READ && filing->fd < 0)
        filing->answer.bytes = arena_dup(&filing->arena, file->bytes);
    if (filing->request.op == FILE_READ && filing->fd >= 0 && take_contents(filing, &err) < 0) {
        files_finish(filing, &err);
        return;
    }
    if (!needs_look(filing->request.op)) {
        files_finish(filing, NULL);
        return;
    }
    filing->step = LOOKING;
    bool is_moved = filing->request.op == FILE_MOVE;
    if (ask_stat(filing, is_moved ? filing->request.to : filing->request.path,
                 filing->request.op == FILE_READ || filing->request.op == FILE_APPEND, &err) < 0)
        files_finish(filing, &err);
}

static void check_match(struct filing *filing, const struct files_stat *stat)
{
    struct err err = {0};
    char etag[FILE_ETAG_SIZE];
    struct file_info info = tier_file_info(filing->request.path, stat);
    file_etag(&info, etag);
    if (!str_eq(str_of(etag), filing->request.if_match)) {
        (void)err_set(&err, ERR_NO_MATCH, "'%.*s' has changed", STR_ARG(filing->request.path));
        files_finish(filing, &err);
    } else if (files_ask(filing, &err) < 0) {
        files_finish(filing, &err);
    }
}

static void files_on_event(struct asked_op *op, const struct jail_event *event,
                           const struct err *why)
{
    struct filing *filing = (struct filing *)op;
    if (event == NULL) {
        files_finish(filing, why);
    } else if (event->type == JAIL_EVENT_PART) {
        take_part(filing, event->part);
    } else if (event->type == JAIL_EVENT_FILE && filing->step == CHECKING) {
        check_match(filing, &event->file->stat);
    } else if (event->type == JAIL_EVENT_FILE && filing->step == LOOKING) {
        filing->answer.info = tier_file_info(filing->request.op == FILE_MOVE ? filing->request.to
                                                                             : filing->request.path,
                                             &event->file->stat);
        files_finish(filing, NULL);
    } else if (event->type == JAIL_EVENT_FILE) {
        take_answer(filing, event->file);
    } else {
        files_finish(filing, &event->err);
    }
}

/* The request is the engine's, and lives until `done`. */
void tier_files(struct place *place, const struct file_request *request, file_done *done, void *ctx)
{
    struct filing *filing = mem_alloc(sizeof *filing);
    struct err err = {0};
    if (request->op != FILE_STAT && request->op != FILE_LIST && request->op != FILE_READ &&
        request->op != FILE_GLOB && request->op != FILE_GREP)
        tier_files_touched(place);
    filing->op.on_event = files_on_event;
    filing->place = place;
    filing->request = *request;
    filing->fd = -1;
    filing->done = done;
    filing->ctx = ctx;
    int asked = request->op == FILE_WRITE && request->if_match.len > 0
                    ? ask_stat(filing, request->path, false, &err)
                    : files_ask(filing, &err);
    if (asked < 0) {
        done(ctx, NULL, &err);
        filing_free(filing);
    }
}
