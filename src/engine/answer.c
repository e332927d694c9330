/* Answers: delivered once, on a later turn of the loop than the verb was called in. */

#include "engine/answer.h"

#include <stdarg.h>

#include "base/map.h"
#include "engine/internal.h"
#include "engine/key.h"
#include "engine/quota.h"
#include "engine/sandbox/sandbox_internal.h"

static void answer_run(struct loop_task *task)
{
    struct answer *answer = CONTAINER_OF(task, struct answer, task);
    struct engine *engine = answer->engine;
    engine->answers--;
    loop_release(engine->loop);
    key_end(answer->claim, answer->failed ? &answer->err : NULL);
    quota_release(&answer->reservation);
    answer->deliver(answer, answer->failed ? &answer->err : NULL);
    if (answer->secret != NULL) {
        explicit_bzero(answer->secret, strlen(answer->secret));
        free(answer->secret);
    }
    free(answer);
}

struct answer *answer_new(struct engine *engine,
                          void (*deliver)(struct answer *answer, const struct err *why), void *ctx)
{
    loop_assert(engine->loop);
    struct answer *answer = mem_alloc(sizeof *answer);
    answer->engine = engine;
    answer->deliver = deliver;
    answer->ctx = ctx;
    engine->answers++;
    loop_hold(engine->loop);
    return answer;
}

void answer_give(struct answer *answer, const struct err *why)
{
    if (answer == NULL)
        return;
    answer->failed = why != NULL;
    if (why != NULL)
        answer->err = *why;
    answer->task.run = answer_run;
    loop_post(answer->engine->loop, &answer->task);
}

void answer_fail(struct answer *answer, enum err_code code, const char *fmt, ...)
{
    struct err err = {0};
    char text[ERR_MSG_MAX];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)err_set(&err, code, "%s", text);
    answer_give(answer, &err);
}

static void on_known(struct key_wait *wait, struct str object, const struct err *why)
{
    struct answer *answer = CONTAINER_OF(wait, struct answer, wait);
    if (why == NULL)
        answer->known(answer, object);
    answer_give(answer, why);
}

int answer_claim(struct answer *answer, const struct engine_caller *caller, key_is_there *is_there,
                 answer_known *known, struct err *err)
{
    struct str object = {0};
    answer->known = known;
    answer->wait.call = on_known;
    switch (
        key_claim(answer->engine, caller, is_there, &answer->wait, &object, &answer->claim, err)) {
    case KEY_REFUSED:
        return -1;
    case KEY_FREE:
        return 0;
    case KEY_KNOWN:
        on_known(&answer->wait, object, NULL);
        return 1;
    case KEY_WAITS:
        break;
    }
    return 1;
}

static void deliver_plain(struct answer *answer, const struct err *why)
{
    if (answer->done.plain != NULL)
        answer->done.plain(answer->ctx, why);
}

struct answer *answer_plain(struct engine *engine, engine_done *done, void *ctx)
{
    struct answer *answer = answer_new(engine, deliver_plain, ctx);
    answer->done.plain = done;
    return answer;
}

/* It may have gone between the answer and its delivery: then that is the answer. */
static void deliver_sandbox(struct answer *answer, const struct err *why)
{
    const struct sandbox *sandbox =
        why == NULL ? map_get(&answer->engine->sandboxes, str_of(answer->id)) : NULL;
    struct err gone = {0};
    if (why == NULL && sandbox == NULL) {
        (void)err_set(&gone, ERR_NOT_FOUND, "no sandbox '%s'", answer->id);
        why = &gone;
    }
    struct sandbox_info info = {0};
    if (sandbox != NULL)
        info = sandbox->info;
    answer->done.sandbox(answer->ctx, why == NULL ? &info : NULL, why);
}

struct answer *answer_sandbox(struct engine *engine, sandbox_done *done, void *ctx)
{
    struct answer *answer = answer_new(engine, deliver_sandbox, ctx);
    answer->done.sandbox = done;
    return answer;
}
