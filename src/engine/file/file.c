/* Files: led to the place that has them. */

#include "engine/file/file.h"

#include "base/map.h"
#include "engine/answer.h"
#include "engine/command/command_internal.h"
#include "engine/file/file_work.h"
#include "engine/internal.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/session/session_internal.h"

const char *file_type_name(enum file_type type)
{
    static const char *const names[] = {"file", "directory", "symlink", "other"};
    return names[type];
}

void file_etag(const struct file_info *info, char out[FILE_ETAG_SIZE])
{
    (void)snprintf(out, FILE_ETAG_SIZE, "%llx-%llx", (unsigned long long)info->mtime_ns,
                   (unsigned long long)info->size);
}

static bool parse_hex(struct str text, uint64_t *ret_n)
{
    uint64_t n = 0;
    if (text.len == 0 || text.len > 16 || !str_is_hex(text))
        return false;
    for (size_t i = 0; i < text.len; i++)
        n = n << 4 | (uint64_t)char_hex(text.ptr[i]);
    *ret_n = n;
    return true;
}

bool file_etag_parse(struct str etag, int64_t *ret_mtime_ns, uint64_t *ret_size)
{
    size_t dash = str_find_char(etag, '-');
    uint64_t mtime_ns, size;
    if (dash == etag.len || !parse_hex(str_slice(etag, 0, dash), &mtime_ns) ||
        !parse_hex(str_slice(etag, dash + 1, etag.len), &size))
        return false;
    *ret_mtime_ns = (int64_t)mtime_ns;
    *ret_size = size;
    return true;
}

/* --- Finding the place --- */

static void work_running(struct want *want, struct sandbox *sandbox, const struct err *why)
{
    struct file_work *work = CONTAINER_OF(want, struct file_work, want);
    if (why == NULL) {
        work->sandbox = sandbox;
        sandbox_begin_work(sandbox);
    }
    work->call(work, why);
}

static void work_session(struct session_want *want, struct sandbox *sandbox, const struct err *why)
{
    struct file_work *work = (struct file_work *)want;
    if (why != NULL)
        work->call(work, why);
    else
        sandbox_wait(sandbox, &work->want);
}

static void file_ignore(UNUSED void *ctx, UNUSED const struct err *why)
{
}

void file_work_end(struct file_work *work)
{
    struct sandbox *sandbox = work->sandbox;
    work->sandbox = NULL;
    if (sandbox == NULL)
        return;
    sandbox_end_work(sandbox);
    if (!sandbox->is_helper || sandbox->busy > 0)
        return;
    struct engine_caller caller = {.tenant = sandbox->info.tenant};
    engine_sandbox_delete(work->engine, &caller, sandbox->info.id, file_ignore, NULL);
}

static void ignore_made(UNUSED void *ctx, UNUSED struct sandbox *sandbox,
                        UNUSED const struct err *why)
{
}

/* One that waits for the place before it to leave the volume takes all who come meanwhile. */
static struct sandbox *find_helper(struct engine *engine, struct str volume)
{
    MAP_EACH (entry, &engine->sandboxes) {
        struct sandbox *sandbox = entry->value;
        if (sandbox->is_helper && !sandbox->is_deleting && str_eq(sandbox->info.volume, volume))
            return sandbox;
    }
    return NULL;
}

static int volume_place(struct engine *engine, const struct engine_caller *caller, struct str id,
                        struct sandbox **ret_sandbox, struct err *err)
{
    struct volume_info volume;
    if (engine_volume_get(engine, caller, id, &volume, err) < 0)
        return -1;
    struct sandbox *sandbox =
        volume.sandbox.len > 0 ? map_get(&engine->sandboxes, volume.sandbox) : NULL;
    if (sandbox == NULL || (sandbox->is_helper && sandbox->is_deleting))
        sandbox = find_helper(engine, volume.id);
    if (sandbox == NULL) {
        struct sandbox_spec spec = {.tier = volume.tier,
                                    .volume = volume.id,
                                    .timeout_ms = -1,
                                    .idle_ms = -1,
                                    .on_timeout = SANDBOX_KILL_AT_TIMEOUT};
        if (sandbox_from_spec(engine, caller, &spec, &sandbox, err) < 0)
            return -1;
        sandbox->is_helper = true;
        struct engine_caller creator = {.tenant = caller->tenant};
        sandbox_make(sandbox, &creator, (struct str){0}, ignore_made, NULL);
    }
    *ret_sandbox = sandbox;
    return 0;
}

int file_work_start(struct engine *engine, const struct engine_caller *caller,
                    const struct file_place *place, struct file_work *work, struct err *err)
{
    struct sandbox *sandbox = NULL;
    struct session *session = NULL;
    work->engine = engine;
    work->session.call = work_session;
    work->want = (struct want){.needs_running = true,
                               .call = work_running,
                               .changes = work->changes,
                               .quota = caller->quota};
    if (engine_check_caller(engine, caller, err) < 0)
        return -1;
    if (place->volume.len > 0 && place->sandbox.len == 0 && place->session.len == 0) {
        if (volume_place(engine, caller, place->volume, &sandbox, err) < 0)
            return -1;
    } else if (session_or_sandbox_find(engine, caller, place->sandbox, place->session, &sandbox,
                                       &session, err) < 0) {
        return -1;
    }
    if (session != NULL)
        session_use(session, &work->session);
    else
        sandbox_wait(sandbox, &work->want);
    return 0;
}

/* --- Verbs of one answer --- */

struct filing {
    struct file_work work;
    struct loop_task task;
    struct arena arena;
    struct file_request request;
    file_done *done;
    void *ctx;
    struct err err;
    bool is_later; /* the call that began it has returned */
    bool has_failed;
};

static void filing_free(struct filing *filing)
{
    arena_done(&filing->arena);
    filing->work.engine->answers--;
    loop_release(filing->work.engine->loop);
    free(filing);
}

struct str file_path_below(struct str dir, struct str below, struct arena *arena)
{
    if (str_starts(below, STR("/"))) /* the file that was asked for itself */
        return arena_dup(arena, below);
    while (dir.len > 0 && dir.ptr[dir.len - 1] == '/')
        dir = str_slice(dir, 0, dir.len - 1);
    return arena_printf(arena, "%.*s/%.*s", STR_ARG(dir), STR_ARG(below));
}

bool file_has_room(size_t *used, size_t more)
{
    if (more > FILE_ANSWER_MAX - MIN(*used, (size_t)FILE_ANSWER_MAX))
        return false;
    *used += more;
    return true;
}

/* What fits into one answer; a caller goes on behind its last entry. */
static struct file_answer file_cut(const struct file_answer *answer)
{
    struct file_answer shown = *answer;
    size_t used = 0;
    shown.entry_count = shown.match_count = 0;
    while (shown.entry_count < answer->entry_count &&
           file_has_room(&used, answer->entries[shown.entry_count].path.len +
                                    answer->entries[shown.entry_count].target.len))
        shown.entry_count++;
    while (shown.match_count < answer->match_count &&
           file_has_room(&used, answer->matches[shown.match_count].path.len +
                                    answer->matches[shown.match_count].text.len))
        shown.match_count++;
    shown.truncated |=
        shown.entry_count < answer->entry_count || shown.match_count < answer->match_count;
    return shown;
}

static void file_on_done(void *ctx, const struct file_answer *answer, const struct err *why)
{
    struct filing *filing = ctx;
    struct file_answer shown = {0};
    if (answer != NULL)
        shown = file_cut(answer);
    file_work_end(&filing->work);
    filing->done(filing->ctx, answer == NULL ? NULL : &shown, why);
    filing_free(filing);
}

static void file_run(struct filing *filing)
{
    struct sandbox *sandbox = filing->work.sandbox;
    if (filing->has_failed || sandbox == NULL) {
        file_on_done(filing, NULL, &filing->err);
        return;
    }
    const struct provider_table *table = engine_table(filing->work.engine, sandbox->info.tier);
    if (table->files == NULL) {
        (void)engine_unsupported(sandbox->info.tier, "keep files", &filing->err);
        file_on_done(filing, NULL, &filing->err);
        return;
    }
    table->files(sandbox->place, &filing->request, file_on_done, filing);
}

/* A provider may answer at once; the caller's call-back must not come from its own call. */
static void file_run_later(struct loop_task *task)
{
    struct filing *filing = CONTAINER_OF(task, struct filing, task);
    struct sandbox *sandbox = filing->work.sandbox;
    if (!filing->has_failed && sandbox != NULL && sandbox->info.state != SANDBOX_RUNNING) {
        filing->has_failed = true;
        (void)err_set(&filing->err, ERR_GONE, "sandbox '%.*s' is %s", STR_ARG(sandbox->info.id),
                      sandbox_state_name(sandbox->info.state));
    }
    file_run(filing);
}

static void file_on_place(struct file_work *work, const struct err *why)
{
    struct filing *filing = (struct filing *)work;
    if (why != NULL) {
        filing->has_failed = true;
        filing->err = *why;
    }
    if (filing->is_later) {
        file_run(filing);
        return;
    }
    filing->task.run = file_run_later;
    loop_post(work->engine->loop, &filing->task);
}

int file_check_path(struct str path, struct err *err)
{
    if (path.len == 0 || path.ptr[0] != '/' || path.len > FILE_PATH_MAX ||
        str_find_char(path, '\0') != path.len)
        return err_set(err, ERR_INVALID, "path: must be absolute and at most %d bytes",
                       FILE_PATH_MAX);
    return 0;
}

static int file_check(const struct file_request *request, struct err *err)
{
    if (request->op >= FILE_OP_COUNT)
        return err_set(err, ERR_INVALID, "unknown file operation");
    if (file_check_path(request->path, err) < 0)
        return -1;
    if (request->bytes.len > FILE_WRITE_MAX)
        return err_set(err, ERR_TOO_LARGE, "more than %d bytes at once", FILE_WRITE_MAX);
    if (request->op == FILE_READ && request->limit > FILE_WRITE_MAX)
        return err_set(err, ERR_TOO_LARGE, "limit: must be at most %d", FILE_WRITE_MAX);
    return 0;
}

static void dup_request(struct filing *filing, const struct file_request *request)
{
    struct arena *arena = &filing->arena;
    struct file_request *copy = &filing->request;
    *copy = *request;
    struct str *texts[] = {&copy->path,     &copy->to,      &copy->after,
                           &copy->pattern,  &copy->bytes,   &copy->old_text,
                           &copy->new_text, &copy->include, &copy->if_match};
    for (size_t i = 0; i < countof(texts); i++)
        *texts[i] = arena_dup(arena, *texts[i]);
}

/* Verbs that change files, as automatic checkpoints name them. */
static const char *const op_changes[FILE_OP_COUNT] = {
    [FILE_WRITE] = "write",          [FILE_APPEND] = "append",
    [FILE_MKDIR] = "mkdir",          [FILE_MOVE] = "move",
    [FILE_DELETE] = "delete",        [FILE_CHMOD] = "chmod",
    [FILE_SYMLINK_MAKE] = "symlink", [FILE_EDIT] = "edit",
};

void engine_file(struct engine *engine, const struct engine_caller *caller,
                 const struct file_place *place, const struct file_request *request,
                 file_done *done, void *ctx)
{
    loop_assert(engine->loop);
    struct filing *filing = mem_alloc(sizeof *filing);
    filing->work.call = file_on_place;
    filing->work.engine = engine;
    filing->work.changes = op_changes[request->op];
    filing->done = done;
    filing->ctx = ctx;
    engine->answers++;
    loop_hold(engine->loop);
    dup_request(filing, request);
    if (file_check(request, &filing->err) < 0 ||
        file_work_start(engine, caller, place, &filing->work, &filing->err) < 0) {
        filing->has_failed = true;
        filing->task.run = file_run_later;
        loop_post(engine->loop, &filing->task);
        return;
    }
    filing->is_later = true;
}
