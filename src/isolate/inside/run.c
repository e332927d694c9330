/* One run: evaluates, and lets promises and timers run until there is a result.
 *
 * Everything between vm_try and its end may be left by a trap, so nothing here owns memory in a
 * frame: texts are the isolate's arena's, answers and results belong to their structs. */

#include <math.h>
#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "isolate/inside/internal.h"
#include "isolate/inside/layout.h"
#include "isolate/inside/report.h"
#include "isolate/strip/strip.h"
#include "isolate/strip/text.h"

enum {
    WAIT_STEP_MS = 250,
    POLL_STEP_MS = 60000,
    HARD_AFTER_MS = 100, /* past the deadline: what does not listen is trapped */
    REDECLARE_MAX = 256,
};

struct isolate_run {
    struct isolate *isolate;
    struct str code; /* the call's, or that with its imports replaced */
    int64_t soft_ns;
    vm_value value; /* what the code gave, until it is settled */
    vm_value look;  /* evaluates inside of the function that the code became */
    bool is_async;  /* its promise is of {value} */
    bool is_module; /* its promise is of a namespace */
    bool is_settled;
    bool is_thrown; /* `value` was thrown */
};

/* --- Evaluating --- */

static void drop_rejections(struct isolate_run *run)
{
    struct isolate *isolate = run->isolate;
    for (size_t i = 0; i < isolate->rejection_count; i++) {
        vm_drop(isolate->vm, isolate->rejections[i].promise);
        vm_drop(isolate->vm, isolate->rejections[i].reason);
    }
    isolate->rejection_count = 0;
}

static bool thrown_syntax(struct isolate *isolate, vm_value thrown, struct str *ret_message)
{
    struct inspect how = host_inspect(isolate);
    if (vm_kind_of(thrown) != VM_OBJECT || vm_class_of(isolate->vm, thrown) != VM_CLASS_ERROR)
        return false;
    struct inspect_error parts = inspect_error(&how, thrown);
    *ret_message = parts.message;
    return str_eq(parts.name, STR("SyntaxError"));
}

/* "redeclaration of 'x'": the declaration that stands in the way is forgotten. The engine checks
 * all names before it runs the first statement, so trying again runs nothing twice. */
static bool make_way(struct isolate *isolate, struct str message)
{
    struct str head = STR("redeclaration of '");
    if (!str_starts(message, head) || !str_ends(message, STR("'")) || message.len < head.len + 2)
        return false;
    return vm_undeclare(isolate->vm, str_slice(message, head.len, message.len - 1));
}

/* An async script reports the same by a promise that is rejected before anything ran. */
static vm_value surface(struct isolate_run *run, vm_value value)
{
    struct vm *vm = run->isolate->vm;
    if (!run->is_async || vm_kind_of(value) != VM_OBJECT ||
        vm_promise_state(vm, value) != VM_PROMISE_REJECTED)
        return value;
    vm_value reason = vm_promise_result(vm, value);
    struct str message = {0};
    bool redeclared = thrown_syntax(run->isolate, reason, &message) &&
                      str_starts(message, STR("redeclaration of '"));
    if (!redeclared) {
        vm_drop(vm, reason);
        return value;
    }
    drop_rejections(run);
    vm_drop(vm, value);
    return vm_throw(vm, reason);
}

static bool run_holds(struct str text, struct str word)
{
    return str_find(text, word) < text.len;
}

static vm_value evaluate_script(struct isolate_run *run, const char *file)
{
    struct isolate *isolate = run->isolate;
    struct str code = run->code;
    run->is_async = run_holds(code, STR("await"));
    return surface(
        run, vm_eval(isolate->vm, code, file, 1, run->is_async ? VM_EVAL_ASYNC : VM_EVAL_SCRIPT));
}

/* The code as the body of a function; its lines keep their numbers. In a session the function gives
 * away how to look at what it declares. */
static struct str body_of(struct isolate_run *run)
{
    struct isolate *isolate = run->isolate;
    struct str code = run->code;
    if (!isolate->call->is_session)
        return arena_printf(&isolate->arena, "(async () => {\n\n%.*s\n})", STR_ARG(code));
    struct str rest = str_slice(code, text_skip_trivia(code, 0), code.len);
    bool strict = str_starts(rest, STR("'use strict'")) || str_starts(rest, STR("\"use strict\""));
    return arena_printf(&isolate->arena,
                        "(async function () {%s arguments[0].look = (code) => eval(code);\n\n"
                        "%.*s\n})",
                        strict ? "'use strict';" : "", STR_ARG(code));
}

/* For a top-level return. */
static vm_value evaluate_body(struct isolate_run *run, const char *file)
{
    struct vm *vm = run->isolate->vm;
    run->is_async = false;
    /* Two lines before line 1; the engine takes line 0 for "not given". */
    vm_value function = vm_eval(vm, body_of(run), file, -1, VM_EVAL_SCRIPT);
    if (vm_kind_of(function) == VM_EXCEPTION)
        return function;
    vm_value inside = vm_new_object(vm);
    vm_value value = vm_call(vm, function, vm_undefined(), &inside, 1);
    vm_drop(vm, function);
    run->look = vm_get(vm, inside, "look");
    vm_drop(vm, inside);
    return value;
}

/* What the body declared stays, as what a script declares does. */
static void keep_names(struct isolate_run *run)
{
    struct isolate *isolate = run->isolate;
    struct vm *vm = isolate->vm;
    if (!isolate->call->is_session || vm_kind_of(run->look) != VM_OBJECT || vm_is_expired(vm))
        return;
    struct buf *names = &isolate->names;
    buf_clear(names);
    strip_names(isolate->engine->strip, run->code, names);
    if (names->len == 0) {
        vm_drop(vm, run->look);
        return;
    }
    char *json = arena_alloc(&isolate->arena, names->len * 4 + 3); /* quotes and a comma for each */
    size_t len = 0;
    struct str rest = buf_str(names), name;
    while (str_split(&rest, '\n', &name)) {
        (void)vm_undeclare(vm, name);
        json[len] = len == 0 ? '[' : ',';
        json[len + 1] = '"';
        memcpy(json + len + 2, name.ptr, name.len);
        json[len + 2 + name.len] = '"';
        len += name.len + 3;
    }
    json[len++] = ']';
    vm_value args[] = {run->look, vm_parse_json(vm, str_n(json, len))};
    vm_value done = vm_call(vm, isolate->engine->entries.at[ENTRY_KEEP], vm_undefined(), args, 2);
    if (vm_kind_of(done) == VM_EXCEPTION)
        vm_drop(vm, vm_take_exception(vm));
    vm_drop(vm, args[1]);
    vm_drop(vm, run->look);
}

/* Once, and not for modules, which export something. */
static bool replace_imports(struct isolate_run *run)
{
    struct isolate *isolate = run->isolate;
    struct buf *text = &isolate->imports;
    buf_clear(text);
    if (run->code.ptr != isolate->call->code.ptr ||
        !strip_imports(isolate->engine->strip, run->code, text))
        return false;
    run->code = buf_str(text);
    return true;
}

static vm_value evaluate(struct isolate_run *run)
{
    struct isolate *isolate = run->isolate;
    struct vm *vm = isolate->vm;
    const char *file = isolate->call->file != NULL ? isolate->call->file : "script.js";
    vm_value value = evaluate_script(run, file);
    struct str message = {0};
    for (int i = 0; i < REDECLARE_MAX && vm_kind_of(value) == VM_EXCEPTION; i++) {
        vm_value thrown = vm_take_exception(vm);
        if (!thrown_syntax(isolate, thrown, &message))
            return vm_throw(vm, thrown);
        if (make_way(isolate, message)) {
            vm_drop(vm, thrown);
            value = evaluate_script(run, file);
            continue;
        }
        struct str code = run->code;
        if (str_eq(message, STR("return not in a function"))) {
            vm_drop(vm, thrown);
            return evaluate_body(run, file);
        }
        if (run_holds(code, STR("import")) && replace_imports(run)) {
            vm_drop(vm, thrown);
            value = evaluate_script(run, file);
            continue;
        }
        if ((run_holds(code, STR("import")) || run_holds(code, STR("export"))) &&
            vm_is_module(vm, code)) {
            vm_drop(vm, thrown);
            run->is_async = false;
            run->is_module = true;
            return vm_eval(vm, code, file, 1, VM_EVAL_MODULE);
        }
        return vm_throw(vm, thrown);
    }
    return value;
}

/* --- Going on --- */

static void fail_with(struct isolate_run *run, vm_value thrown)
{
    vm_drop(run->isolate->vm, run->value);
    run->value = thrown;
    run->is_thrown = run->is_settled = true;
}

static vm_value take_member(struct vm *vm, vm_value object, const char *name)
{
    vm_value member = vm_get(vm, object, name);
    vm_drop(vm, object);
    return member;
}

/* Looks whether the value is there by now. A promise that resolves to another one is waited on. */
static void look(struct isolate_run *run)
{
    struct vm *vm = run->isolate->vm;
    while (!run->is_settled) {
        bool promise =
            vm_kind_of(run->value) == VM_OBJECT && vm_class_of(vm, run->value) == VM_CLASS_PROMISE;
        enum vm_promise state = promise ? vm_promise_state(vm, run->value) : VM_PROMISE_FULFILLED;
        if (state == VM_PROMISE_PENDING)
            return;
        if (!promise) {
            run->is_settled = true;
            return;
        }
        vm_value inner = vm_promise_result(vm, run->value);
        if (state == VM_PROMISE_REJECTED) {
            fail_with(run, inner);
            return;
        }
        vm_drop(vm, run->value);
        run->value = inner;
        if (run->is_async || run->is_module) {
            const char *member = run->is_async ? "value" : "default";
            run->is_async = run->is_module = false;
            run->value = take_member(vm, inner, member);
            if (vm_kind_of(run->value) == VM_EXCEPTION) {
                run->value = vm_undefined();
                fail_with(run, vm_take_exception(vm));
            }
        }
    }
}

static bool run_jobs(struct isolate_run *run)
{
    struct vm *vm = run->isolate->vm;
    for (;;) {
        if (vm_is_expired(vm))
            return false;
        int ran = vm_run_job(vm);
        if (ran == 0)
            return true;
        if (ran < 0) {
            fail_with(run, vm_take_exception(vm));
            return false;
        }
    }
}

/* An unhandled rejection ends the run, as it would end Node. That of the code's own
 * promise is seen by look(). */
static void check_rejections(struct isolate_run *run)
{
    struct isolate *isolate = run->isolate;
    if (isolate->rejection_count > 0 && !run->is_thrown)
        fail_with(run, vm_dup(isolate->vm, isolate->rejections[0].reason));
    drop_rejections(run);
}

static void give_answers(struct isolate_run *run)
{
    struct isolate *isolate = run->isolate;
    struct vm *vm = isolate->vm;
    while (isolate->answers != NULL) {
        struct answer *answer = isolate->answers;
        vm_value args[3] = {vm_from_number(vm, answer->id), vm_from_bool(answer->ok),
                            vm_from_str(vm, answer->json)};
        isolate->answers = answer->next;
        free(answer);
        vm_value done =
            vm_call(vm, isolate->engine->entries.at[ENTRY_SETTLE], vm_undefined(), args, 3);
        vm_drop(vm, args[2]);
        if (vm_kind_of(done) == VM_EXCEPTION)
            fail_with(run, vm_take_exception(vm));
    }
}

/* Nothing runs: wait until the next timer, an answer or the deadline. */
static bool idle(struct isolate_run *run, double due_ms)
{
    struct isolate *isolate = run->isolate;
    int64_t left = (run->soft_ns - clock_now_ns()) / 1000000 + 1;
    int64_t ms = left;
    if (due_ms >= 0)
        ms = (int64_t)fmax(fmin(ceil(due_ms - (double)clock_date_ms()), (double)left), 0);
    /* In steps: an interrupt is looked for in between, and a run may have no deadline. */
    if (isolate->host != NULL && isolate->host->wait != NULL && isolate->pending_count > 0)
        return isolate->host->wait(isolate->host->user, isolate, MIN(ms, (int64_t)WAIT_STEP_MS)) ||
               due_ms >= 0;
    (void)poll(NULL, 0, (int)MIN(ms, (int64_t)POLL_STEP_MS));
    return true;
}

/* Runs one timer that is due. False when nothing can happen any more. */
static bool step(struct isolate_run *run)
{
    struct isolate *isolate = run->isolate;
    struct vm *vm = isolate->vm;
    vm_value next = vm_call(vm, isolate->engine->entries.at[ENTRY_TICK], vm_undefined(), NULL, 0);
    if (vm_kind_of(next) == VM_EXCEPTION) {
        fail_with(run, vm_take_exception(vm));
        return false;
    }
    double due = vm_kind_of(next) == VM_NUMBER ? vm_to_number(vm, next) : -1;
    vm_drop(vm, next);
    if (due == 0)
        return true;
    if (due < 0 && isolate->pending_count == 0)
        return false;
    return idle(run, due);
}

static void drive(struct isolate_run *run)
{
    struct isolate *isolate = run->isolate;
    for (;;) {
        give_answers(run);
        if (!run_jobs(run))
            return;
        look(run);
        check_rejections(run);
        if (run->is_thrown || (run->is_settled && isolate->call->is_session))
            return;
        if (!step(run))
            break;
        if (run->is_thrown || vm_is_expired(isolate->vm))
            return;
    }
    if (!run->is_settled && !vm_is_expired(isolate->vm)) {
        (void)vm_throw_error(isolate->vm, "Error",
                             STR("the code awaits a promise that never settles"));
        fail_with(run, vm_take_exception(isolate->vm));
    }
}

/* --- All of it --- */

static void run_work(struct vm *vm, void *arg)
{
    struct isolate_run *run = arg;
    struct isolate *isolate = run->isolate;
    struct vm_limits limits = host_vm_limits(&isolate->limits);
    vm_apply_limits(vm, &limits);
    if (isolate->call->env_json.len > 0) {
        vm_value json = vm_from_str(vm, isolate->call->env_json);
        vm_drop(vm,
                vm_call(vm, isolate->engine->entries.at[ENTRY_SET_ENV], vm_undefined(), &json, 1));
        vm_drop(vm, json);
    }
    vm_value value = evaluate(run);
    if (vm_kind_of(value) == VM_EXCEPTION)
        fail_with(run, vm_take_exception(vm));
    else
        run->value = value;
    if (!run->is_thrown)
        drive(run);
    keep_names(run);
    isolate->busy++; /* getters and toString of the result may log */
    if (vm_is_expired(vm))
        report_timeout(isolate);
    else if (run->is_thrown)
        report_thrown(isolate, run->value);
    else
        report_value(isolate, run->value);
    if (vm_is_expired(vm))
        report_timeout(isolate);
    isolate->busy--;
    vm_drop(vm, run->value);
}

static int check_call(const struct isolate *isolate, const struct isolate_call *call,
                      struct err *err)
{
    if (isolate->is_gone)
        return err_set(err, ERR_GONE, "the isolate has ended: make a new one");
    size_t chars = layout_length(call->code);
    if (chars > isolate->limits.code_chars)
        return err_set(err, ERR_TOO_LARGE, "the code has %zu characters; the limit is %u", chars,
                       isolate->limits.code_chars);
    return 0;
}

/* False when the types cannot be taken out: the result says where and why. */
static bool take_types_out(struct isolate *isolate, struct isolate_call *call,
                           struct isolate_result *result)
{
    struct err err = {0};
    if (call->lang == ISOLATE_JS)
        return true;
    buf_clear(&isolate->code);
    if (strip_run(isolate->engine->strip, call->lang == ISOLATE_TSX ? STRIP_TSX : STRIP_TS,
                  call->code, &isolate->code, NULL, &err) < 0) {
        report_error(result, ISOLATE_ERROR, "SyntaxError", err.msg);
        return false;
    }
    call->code = buf_str(&isolate->code);
    if (call->file == NULL)
        call->file = call->lang == ISOLATE_TSX ? "script.tsx" : "script.ts";
    return true;
}

int isolate_run(struct isolate *isolate, const struct isolate_call *given,
                const struct isolate_host *host, struct isolate_result *ret_result, struct err *err)
{
    struct isolate_call plain = *given, *call = &plain;
    if (check_call(isolate, call, err) < 0)
        return -1;
    int64_t start = clock_now_ns();
    isolate_result_done(ret_result);
    if (!take_types_out(isolate, call, ret_result)) {
        ret_result->runtime_ns = clock_now_ns() - start;
        return 0;
    }
    struct isolate_run run = {.isolate = isolate,
                              .code = call->code,
                              .value = vm_undefined(),
                              .look = vm_undefined(),
                              .soft_ns = start + isolate->limits.timeout_ms * 1000000};
    isolate->call = call;
    isolate->host = host;
    isolate->result = ret_result;
    isolate->busy = 0;
    isolate->rejection_count = 0;
    rt_alarm(isolate->limits.timeout_ms + HARD_AFTER_MS);
    enum rt_trap trap =
        vm_try(isolate->vm, run.soft_ns, run.soft_ns + HARD_AFTER_MS * 1000000LL, run_work, &run);
    rt_alarm(0);
    if (trap != RT_OK)
        report_trap(isolate, trap);
    isolate->call = NULL;
    isolate->host = NULL;
    isolate->result = NULL;
    isolate->runs++;
    arena_reset(&isolate->arena);
    ret_result->is_gone = isolate->is_gone;
    ret_result->runtime_ns = clock_now_ns() - start;
    return 0;
}

void isolate_settle(struct isolate *isolate, uint32_t id, bool ok, struct str json)
{
    size_t at = 0;
    while (at < isolate->pending_count && isolate->pending[at] != id)
        at++;
    if (at == isolate->pending_count)
        return;
    isolate->pending[at] = isolate->pending[--isolate->pending_count];
    struct answer *answer = mem_alloc(sizeof *answer + json.len + 1);
    char *text = (char *)(answer + 1);
    if (json.len > 0)
        memcpy(text, json.ptr, json.len);
    answer->id = id;
    answer->ok = ok;
    answer->json = str_n(text, json.len);
    struct answer **last = &isolate->answers;
    while (*last != NULL)
        last = &(*last)->next;
    *last = answer;
}
