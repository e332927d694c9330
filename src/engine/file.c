/* Files: led to the place that has them. */

#include "engine/file.h"

#include "engine/file_work.h"

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
    if (text.len == 0 || text.len > 16)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f'))
            return false;
        n = n << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
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
    struct work *work = (struct work *)((char *)want - offsetof(struct work, want));
    if (why == NULL) {
        work->sandbox = sandbox;
        sandbox_begin_work(sandbox);
    }
    work->call(work, why);
}

static void work_session(struct session_want *want, struct sandbox *sandbox, const struct err *why)
{
    struct work *work = (struct work *)want;
    if (why != NULL)
        work->call(work, why);
    else
        sandbox_wait(sandbox, &work->want);
}

static void ignore(UNUSED void *ctx, UNUSED const struct err *why)
{
}

void work_end(struct work *work)
{
    struct sandbox *sandbox = work->sandbox;
    work->sandbox = NULL;
    if (sandbox == NULL)
        return;
    sandbox_end_work(sandbox);
    if (!sandbox->is_helper || sandbox->busy > 0)
        return;
    struct engine_caller caller = {.tenant = sandbox->info.tenant};
    engine_sandbox_delete(work->engine, &caller, sandbox->info.id, ignore, NULL);
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
        struct engine_caller maker = {.tenant = caller->tenant};
        sandbox_make(sandbox, &maker, (struct str){0}, ignore_made, NULL);
    }
    *ret_sandbox = sandbox;
    return 0;
}

int work_start(struct engine *engine, const struct engine_caller *caller,
               const struct file_place *place, struct work *work, struct err *err)
{
    struct sandbox *sandbox = NULL;
    struct session *session = NULL;
    work->engine = engine;
    work->session.call = work_session;
    work->want = (struct want){.needs_running = true, .call = work_running};
    if (engine_check_caller(engine, caller, err) < 0)
        return -1;
    if (place->volume.len > 0 && place->sandbox.len == 0 && place->session.len == 0) {
        if (volume_place(engine, caller, place->volume, &sandbox, err) < 0)
            return -1;
    } else if (place_find(engine, caller, place->sandbox, place->session, &sandbox, &session, err) <
               0) {
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
    struct work work;
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

bool file_has_room(size_t *used, size_t more)
{
    if (more > FILE_ANSWER_MAX - MIN(*used, (size_t)FILE_ANSWER_MAX))
        return false;
    *used += more;
    return true;
}

/* What fits into one answer; a caller goes on behind its last entry. */
static struct file_answer cut(const struct file_answer *answer)
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

static void on_done(void *ctx, const struct file_answer *answer, const struct err *why)
{
    struct filing *filing = ctx;
    struct file_answer shown = {0};
    if (answer != NULL)
        shown = cut(answer);
    work_end(&filing->work);
    filing->done(filing->ctx, answer == NULL ? NULL : &shown, why);
    filing_free(filing);
}

static void run(struct filing *filing)
{
    struct sandbox *sandbox = filing->work.sandbox;
    if (filing->has_failed || sandbox == NULL) {
        on_done(filing, NULL, &filing->err);
        return;
    }
    const struct provider_table *table = engine_table(filing->work.engine, sandbox->info.tier);
    if (table->files == NULL) {
        (void)engine_unsupported(sandbox->info.tier, "keep files", &filing->err);
        on_done(filing, NULL, &filing->err);
        return;
    }
    table->files(sandbox->place, &filing->request, on_done, filing);
}

/* A provider may answer at once; the caller's call-back must not come from its own call. */
static void run_later(struct loop_task *task)
{
    struct filing *filing = (struct filing *)((char *)task - offsetof(struct filing, task));
    struct sandbox *sandbox = filing->work.sandbox;
    if (!filing->has_failed && sandbox != NULL && sandbox->info.state != SANDBOX_RUNNING) {
        filing->has_failed = true;
        (void)err_set(&filing->err, ERR_GONE, "sandbox '%.*s' is %s", STR_ARG(sandbox->info.id),
                      sandbox_state_name(sandbox->info.state));
    }
    run(filing);
}

static void on_place(struct work *work, const struct err *why)
{
    struct filing *filing = (struct filing *)work;
    if (why != NULL) {
        filing->has_failed = true;
        filing->err = *why;
    }
    if (filing->is_later) {
        run(filing);
        return;
    }
    filing->task.run = run_later;
    loop_post(work->engine->loop, &filing->task);
}

int file_check_path(struct str path, struct err *err)
{
    if (path.len == 0 || path.ptr[0] != '/' || path.len > FILE_PATH_MAX ||
        str_find_char(path, '\0') != path.len)
        return err_set(err, ERR_INVALID, "path: absolute and at most %d bytes, please",
                       FILE_PATH_MAX);
    return 0;
}

static int check(const struct file_request *request, struct err *err)
{
    if (request->op >= FILE_OP_COUNT)
        return err_set(err, ERR_INVALID, "no such operation");
    if (file_check_path(request->path, err) < 0)
        return -1;
    if (request->bytes.len > FILE_WRITE_MAX)
        return err_set(err, ERR_TOO_LARGE, "more than %d bytes at once", FILE_WRITE_MAX);
    if (request->op == FILE_READ && request->limit > FILE_WRITE_MAX)
        return err_set(err, ERR_TOO_LARGE, "limit: more than %d", FILE_WRITE_MAX);
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

void engine_file(struct engine *engine, const struct engine_caller *caller,
                 const struct file_place *place, const struct file_request *request,
                 file_done *done, void *ctx)
{
    loop_assert(engine->loop);
    struct filing *filing = mem_alloc(sizeof *filing);
    filing->work.call = on_place;
    filing->work.engine = engine;
    filing->done = done;
    filing->ctx = ctx;
    engine->answers++;
    loop_hold(engine->loop);
    dup_request(filing, request);
    if (check(request, &filing->err) < 0 ||
        work_start(engine, caller, place, &filing->work, &filing->err) < 0) {
        filing->has_failed = true;
        filing->task.run = run_later;
        loop_post(engine->loop, &filing->task);
        return;
    }
    filing->is_later = true;
}
