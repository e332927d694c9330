/* A verb that waits until its sandbox can take it. */

#include "engine/sandbox/sandbox_verb.h"

#include "engine/answer.h"
#include "engine/internal.h"
#include "engine/sandbox/sandbox.h"
#include "engine/sandbox/sandbox_internal.h"

static void verb_ready(struct want *want, struct sandbox *sandbox, const struct err *why)
{
    struct sandbox_verb *verb = (struct sandbox_verb *)want;
    if (why != NULL)
        answer_give(verb->answer, why);
    else
        verb->run(verb, sandbox);
    free(verb->text);
    free(verb);
}

void sandbox_verb_start(struct answer *answer, const struct engine_caller *caller, struct str id,
                        bool needs_running,
                        void (*run)(struct sandbox_verb *verb, struct sandbox *sandbox),
                        int64_t timeout_ms, struct str text)
{
    struct err err = {0};
    struct sandbox *sandbox = NULL;
    if (engine_check_caller(answer->engine, caller, &err) == 0)
        sandbox = sandbox_find(answer->engine, caller, id, &err);
    if (sandbox == NULL) {
        answer_give(answer, &err);
        return;
    }
    (void)snprintf(answer->id, sizeof answer->id, "%.*s", STR_ARG(sandbox->info.id));
    struct sandbox_verb *verb = mem_alloc(sizeof *verb);
    *verb = (struct sandbox_verb){.want = {.needs_running = needs_running, .call = verb_ready},
                                  .answer = answer,
                                  .run = run,
                                  .timeout_ms = timeout_ms};
    verb->text = mem_alloc(text.len + 1);
    if (text.len > 0)
        memcpy(verb->text, text.ptr, text.len);
    sandbox_wait(sandbox, &verb->want);
}

void sandbox_verb_refuse_state(struct answer *answer, const struct sandbox *sandbox,
                               const char *verb)
{
    answer_fail(answer, ERR_CONFLICT, "sandbox '%.*s' is %s and cannot be %s",
                STR_ARG(sandbox->info.id), sandbox_state_name(sandbox->info.state), verb);
}

void sandbox_verb_refuse(struct answer *answer, const struct sandbox *sandbox, const char *verb)
{
    struct err err = {0};
    (void)engine_unsupported(sandbox->info.tier, verb, &err);
    answer_give(answer, &err);
}
