/* Automatic checkpoints as they are used: listed, undone, compared. */

#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crypto/hash.h"
#include "base/fd.h"
#include "base/map.h"
#include "engine/command/command_internal.h"
#include "engine/file/file_work.h"
#include "engine/internal.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/sandbox/spec.h"
#include "engine/sandbox/turn_internal.h"
#include "engine/session/session_internal.h"
#include "store/blobs.h"
#include "store/store.h"

enum { DIFF_MAX = 16 << 20 };

/* An undo or a comparison under way. */
struct using
{
    struct file_work work; /* first */
    struct loop_task task;
    struct err err; /* why there is no place */
    struct arena arena;
    struct str from, to;
    turn_done *on_undone;
    turn_diff_done *on_diff;
    void *ctx;
    struct turn turn;           /* that is put back */
    char second[HASH_HEX_SIZE]; /* of a comparison: the other archive; empty: what is there */
    void *writer;
    int fd; /* the archives, and behind them what differs */
    uint64_t first_len, all_len;
    struct buf bytes;
};

static struct turn_info info_of(const struct turn *turn)
{
    return (struct turn_info){str_of(turn->id), str_of(turn->before), turn->created_ms,
                              turn->size_bytes};
}

/* --- Listing --- */

static const struct history *history_of(struct engine *engine, const struct engine_caller *caller,
                                        const struct file_place *place,
                                        const struct sandbox **ret_sandbox, bool *ret_on,
                                        struct err *err)
{
    struct sandbox *sandbox = NULL;
    struct session *session = NULL;
    if (session_or_sandbox_find(engine, caller, place->sandbox, place->session, &sandbox, &session,
                                err) < 0)
        return NULL;
    if (session != NULL && session->sandbox[0] != '\0')
        sandbox = map_get(&engine->sandboxes, str_of(session->sandbox));
    assert(sandbox != NULL || session != NULL); /* one of the two was found */
    *ret_sandbox = sandbox;
    *ret_on = sandbox != NULL ? sandbox->info.has_turns
                              : spec_has_turns(engine, &session->spec, session->info.tier);
    return sandbox != NULL ? &sandbox->history : &session->history;
}

int engine_turn_list(struct engine *engine, const struct engine_caller *caller,
                     const struct file_place *place, struct arena *arena,
                     struct turn_list *ret_list, struct err *err)
{
    const struct sandbox *sandbox = NULL;
    bool is_on = false;
    const struct history *history = history_of(engine, caller, place, &sandbox, &is_on, err);
    if (history == NULL)
        return -1;
    struct turn_info *turns = arena_array(arena, struct turn_info, history->turns.len + 1);
    for (size_t i = 0; i < history->turns.len; i++)
        turns[i] = info_of(&history->turns.ptr[i]);
    *ret_list =
        (struct turn_list){.turns = turns,
                           .count = history->turns.len,
                           .checkpoints = sandbox == NULL ? NULL : sandbox->info.checkpoints,
                           .checkpoint_count = sandbox == NULL ? 0 : sandbox->info.checkpoint_count,
                           .is_on = is_on,
                           .note = str_of(history->note),
                           .note_ms = history->note_ms};
    return 0;
}

/* --- The end of both --- */

static void turn_undo_finish(struct using *using, struct str json, const struct err *why)
{
    struct engine *engine = using->work.engine;
    struct turn_info info = info_of(&using->turn);
    file_work_end(&using->work);
    if (using->on_undone != NULL)
        using->on_undone(using->ctx, why == NULL ? &info : NULL, why);
    else
        using->on_diff(using->ctx, json, why);
    engine->answers--;
    loop_release(engine->loop);
    fd_close(&using->fd);
    buf_done(&using->bytes);
    arena_done(&using->arena);
    free(using);
}

static void turn_undo_fail(struct using *using, enum err_code code, const char *text)
{
    struct err err = {0};
    (void)err_set(&err, code, "%s", text);
    turn_undo_finish(using, (struct str){0}, &err);
}

static void refuse_none(struct using *using, struct str id)
{
    struct sandbox *sandbox = using->work.sandbox;
    struct err err = {0};
    if (!sandbox->info.has_turns)
        (void)err_set(&err, ERR_CONFLICT,
                      "the sandbox has no automatic checkpoints: create the sandbox or session "
                      "with checkpoints \"turn\", or set [sandbox] checkpoints = \"turn\"");
    else if (sandbox_find_checkpoint(sandbox, id) < sandbox->checkpoints.len)
        (void)err_set(&err, ERR_CONFLICT,
                      "checkpoint '%.*s' was made by a request, not automatically: use rollback to "
                      "return to it",
                      STR_ARG(id));
    else if (id.len > 0)
        (void)err_set(&err, ERR_NOT_FOUND, "no automatic checkpoint '%.*s'",
                      (int)MIN(id.len, (size_t)64), id.ptr);
    else
        (void)err_set(&err, ERR_NOT_FOUND,
                      "nothing to undo: no automatic checkpoint differs from " TURN_ROOT
                      " as it is");
    turn_undo_finish(using, (struct str){0}, &err);
}

/* --- Undoing --- */

/* What was put back is what is there; later ones are of a time that is no more. */
static void drop_from(struct history *history, size_t at)
{
    for (size_t i = history->turns.len; i-- > at;)
        if (i == at || strcmp(history->turns.ptr[i].before, TURN_UNDO) != 0)
            vec_remove(&history->turns, i);
    history->has_mark = false;
}

static void on_put_back(void *ctx, UNUSED const struct file_answer *answer, const struct err *why)
{
    struct using *using = ctx;
    struct sandbox *sandbox = using->work.sandbox;
    const struct provider_table *table = engine_table(using->work.engine, sandbox->info.tier);
    struct err err = {0};
    if (why != NULL) {
        err = *why;
        why = &err;
    }
    table->writer_free(using->writer);
    using->writer = NULL;
    size_t at = history_find(&sandbox->history, str_of(using->turn.id));
    if (why == NULL && at < sandbox->history.turns.len)
        drop_from(&sandbox->history, at);
    sandbox->history.has_mark = false;
    struct store_batch *batch = store_begin(using->work.engine->store);
    sandbox_save(sandbox, batch);
    store_commit(batch, STORE_QUICK, NULL, NULL);
    turn_undo_finish(using, (struct str){0}, why);
}

static void on_archive(void *ctx, struct str bytes, const struct err *why)
{
    static const struct file_writer_calls calls = {.on_done = on_put_back};
    struct using *using = ctx;
    const struct sandbox *sandbox = using->work.sandbox;
    const struct provider_table *table = engine_table(using->work.engine, sandbox->info.tier);
    struct file_put put = {.path = STR(TURN_ROOT), .as_tar = true, .tar = FILE_TAR_EXACT};
    struct err err = {0};
    if (why != NULL) {
        turn_undo_finish(using, (struct str){0}, why);
        return;
    }
    if (sandbox->place == NULL) {
        turn_undo_fail(using, ERR_GONE, "the sandbox ended");
        return;
    }
    if (table->file_put(sandbox->place, &put, &calls, using, &using->writer, &err) < 0) {
        turn_undo_finish(using, (struct str){0}, &err);
        return;
    }
    (void)table->writer_write(using->writer, bytes);
    table->writer_finish(using->writer);
}

/* The newest that differs from what is there, which was looked at a moment ago. */
static size_t find_undone(const struct history *history)
{
    size_t at = history->turns.len;
    while (at > 0) {
        const struct turn *turn = &history->turns.ptr[--at];
        if (strcmp(turn->before, TURN_UNDO) != 0 &&
            !(history->has_mark && history_mark_is_same(&turn->mark, &history->mark)))
            return at;
    }
    return history->turns.len;
}

static void turn_undo_undo(struct using *using)
{
    const struct history *history = &using->work.sandbox->history;
    size_t at = using->to.len > 0 ? history_find(history, using->to) : find_undone(history);
    if (at == history->turns.len) {
        refuse_none(using, using->to);
        return;
    }
    using->turn = history->turns.ptr[at];
    store_get_blob(using->work.engine->store, str_of(using->turn.blob), on_archive, using);
}

/* --- Comparing --- */

static int read_found(struct using *using, struct err *err)
{
    off_t end = lseek(using->fd, 0, SEEK_END);
    if (end < 0 || (uint64_t)end <= using->all_len || (uint64_t)end - using->all_len > DIFF_MAX)
        return err_set(err, ERR_INTERNAL, "the comparison returned no answer");
    using->bytes = buf_with_limit(DIFF_MAX + 1);
    if (lseek(using->fd, (off_t) using->all_len, SEEK_SET) < 0)
        return err_set(err, ERR_INTERNAL, "the comparison cannot be read");
    return buf_read_all(&using->bytes, using->fd, err);
}

static void on_compared(void *ctx, const struct err *why)
{
    struct using *using = ctx;
    struct err err = {0};
    if (why == NULL && read_found(using, &err) < 0)
        why = &err;
    turn_undo_finish(using, buf_str(&using->bytes), why);
}

static void turn_undo_compare(struct using *using)
{
    const struct sandbox *sandbox = using->work.sandbox;
    const struct provider_table *table = engine_table(using->work.engine, sandbox->info.tier);
    if (sandbox->place == NULL)
        turn_undo_fail(using, ERR_GONE, "the sandbox ended");
    else
        table->diff(sandbox->place, using->fd, using->first_len, using->second[0] != '\0',
                    on_compared, using);
}

static bool add_archive(struct using *using, struct str bytes, const struct err *why)
{
    struct err err = {0};
    if (why == NULL && fd_write_all(using->fd, bytes, &err) < 0)
        why = &err;
    if (why != NULL) {
        turn_undo_finish(using, (struct str){0}, why);
        return false;
    }
    using->all_len += bytes.len;
    return true;
}

static void on_second(void *ctx, struct str bytes, const struct err *why)
{
    if (add_archive(ctx, bytes, why))
        turn_undo_compare(ctx);
}

static void on_first(void *ctx, struct str bytes, const struct err *why)
{
    struct using *using = ctx;
    if (!add_archive(using, bytes, why))
        return;
    using->first_len = using->all_len;
    if (using->second[0] != '\0')
        store_get_blob(using->work.engine->store, str_of(using->second), on_second, using);
    else
        turn_undo_compare(using);
}

static void diff(struct using *using)
{
    const struct history *history = &using->work.sandbox->history;
    size_t count = history->turns.len;
    size_t from = using->from.len > 0 ? history_find(history, using->from)
                  : count > 0         ? count - 1
                                      : 0;
    bool has_second = using->to.len > 0 && !str_eq(using->to, STR("now"));
    size_t to = has_second ? history_find(history, using->to) : 0;
    if (from >= count || (has_second && to >= count)) {
        refuse_none(using, from >= count ? using->from : using->to);
        return;
    }
    if (has_second)
        memcpy(using->second, history->turns.ptr[to].blob, sizeof using->second);
    using->turn = history->turns.ptr[from];
    using->fd = memfd_create("archives", MFD_CLOEXEC);
    if (using->fd < 0)
        turn_undo_fail(using, ERR_UNAVAILABLE, "out of memory for the comparison");
    else
        store_get_blob(using->work.engine->store, str_of(using->turn.blob), on_first, using);
}

/* --- Begun --- */

static void turn_undo_run_later(struct loop_task *task)
{
    struct using *using = CONTAINER_OF(task, struct using, task);
    const struct sandbox *sandbox = using->work.sandbox;
    if (using->err.code == ERR_NONE && sandbox->info.state != SANDBOX_RUNNING)
        (void)err_set(&using->err, ERR_GONE, "sandbox '%.*s' is %s", STR_ARG(sandbox->info.id),
                      sandbox_state_name(sandbox->info.state));
    if (using->err.code == ERR_NONE &&
        engine_table(using->work.engine, sandbox->info.tier)->mark == NULL)
        (void)engine_unsupported(sandbox->info.tier, "undo or compare changes of files",
                                 &using->err);
    if (using->err.code != ERR_NONE) {
        struct err err = using->err;
        turn_undo_finish(using, (struct str){0}, &err);
    } else if (using->on_undone != NULL) {
        turn_undo_undo(using);
    } else {
        diff(using);
    }
}

/* On a later turn of the loop, so that no call-back comes from the call itself. */
static void turn_undo_on_place(struct file_work *work, const struct err *why)
{
    struct using *using = (struct using *)work;
    if (why != NULL)
        using->err = *why;
    using->task.run = turn_undo_run_later;
    loop_post(work->engine->loop, &using->task);
}

static void turn_undo_start(struct using *using, struct engine *engine,
                            const struct engine_caller *caller, const struct file_place *place)
{
    struct err err = {0};
    engine->answers++;
    loop_hold(engine->loop);
    using->fd = -1;
    using->work.call = turn_undo_on_place;
    using->work.engine = engine;
    if (file_work_start(engine, caller, place, &using->work, &err) < 0)
        turn_undo_on_place(&using->work, &err);
}

void engine_turn_undo(struct engine *engine, const struct engine_caller *caller,
                      const struct file_place *place, struct str to, turn_done *done, void *ctx)
{
    struct using *using = mem_alloc(sizeof *using);
    using->on_undone = done;
    using->ctx = ctx;
    using->to = arena_dup(&using->arena, to);
    using->work.changes = TURN_UNDO;
    turn_undo_start(using, engine, caller, place);
}

void engine_turn_diff(struct engine *engine, const struct engine_caller *caller,
                      const struct file_place *place, struct str from, struct str to,
                      turn_diff_done *done, void *ctx)
{
    struct using *using = mem_alloc(sizeof *using);
    using->on_diff = done;
    using->ctx = ctx;
    using->from = arena_dup(&using->arena, from);
    using->to = arena_dup(&using->arena, to);
    turn_undo_start(using, engine, caller, place);
}
