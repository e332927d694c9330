/* Prompts: over one isolate, and over the interpreter of a jail. Line editing and history by
 * libedit, included only here. */

#include <editline/readline.h>
#include <setjmp.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "cli/cli.h"
#include "cli/run/interrupts.h"
#include "cli/run/run.h"

enum { HISTORY_LINES = 1000 };

static bool history_path(char *out, size_t size)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    struct err err = {0};
    char dir[3072];
    if (state != NULL && state[0] == '/')
        (void)snprintf(dir, sizeof dir, "%s/sandglass", state);
    else if (home != NULL && home[0] == '/')
        (void)snprintf(dir, sizeof dir, "%s/.local/state/sandglass", home);
    else
        return false;
    if (fd_make_dirs(dir, 0700, &err) < 0)
        return false;
    (void)snprintf(out, size, "%s/run_history", dir);
    return true;
}

/* One line; NULL at the end of the input. Ctrl-C begins a new input: `*ret_is_new`. */
static char *read_line(const char *prompt, bool *ret_is_new)
{
    static sigjmp_buf at_prompt;
    *ret_is_new = false;
    if (sigsetjmp(at_prompt, 1) != 0) {
        *ret_is_new = true;
        cli_print(STR("\n"));
        return mem_dup_cstr("");
    }
    interrupts_at_prompt(&at_prompt);
    char *line = readline(prompt);
    interrupts_at_prompt(NULL);
    return line;
}

/* One input, which may have several lines: false at the end. */
static bool turn(const struct repl *repl, struct err *err)
{
    AUTO_BUF struct buf code = {0};
    for (const char *prompt = "> ";; prompt = "... ") {
        bool is_new = false;
        AUTO_MEM char *line = read_line(prompt, &is_new);
        if (line == NULL || strcmp(line, ".exit") == 0)
            return false;
        if (is_new)
            return true;
        if (line[0] != '\0')
            (void)add_history(line);
        buf_put_cstr(&code, line);
        buf_put_char(&code, '\n');
        interrupts_begin();
        enum repl_verdict verdict = repl->run(repl->ctx, buf_str(&code), line[0] == '\0', err);
        if (verdict != REPL_MORE)
            return verdict == REPL_NEXT;
    }
}

int repl_run(const struct repl *repl, struct err *err)
{
    char history[4096];
    bool kept = history_path(history, sizeof history);
    using_history();
    stifle_history(HISTORY_LINES);
    if (kept)
        (void)read_history(history);
    cli_print(str_of(repl->banner));
    cli_print(STR(" Ctrl-C interrupts, Ctrl-D or .exit ends the session.\n"));
    *err = (struct err){0};
    while (turn(repl, err))
        ;
    if (kept)
        (void)write_history(history);
    return err->code == ERR_NONE ? EXIT_OK : -1;
}

/* --- An isolate --- */

struct isolate_repl {
    struct worker *worker;
    uint32_t isolate;
    struct run_request *request;
};

static void on_console(UNUSED void *user, enum isolate_stream stream, struct str text)
{
    (void)run_print(stream, text);
}

/* The code just stops: there is more to come. */
static bool is_unfinished(const struct isolate_result *result)
{
    static const char *const texts[] = {"unexpected token in expression: ''",
                                        "unexpected end of comment", "expecting '}'"};
    if (strcmp(buf_cstr(&result->error_name), "SyntaxError") != 0)
        return false;
    for (size_t i = 0; i < countof(texts); i++)
        if (strcmp(buf_cstr(&result->error_message), texts[i]) == 0)
            return true;
    return false;
}

static void repl_print(const struct isolate_result *result)
{
    AUTO_BUF struct buf out = {0};
    if (result->status == ISOLATE_OK)
        buf_printf(&out, "%s\n", buf_cstr(&result->text));
    else
        buf_printf(&out, "Uncaught %s\n", buf_cstr(&result->error_stack));
    cli_print(buf_str(&out));
}

static enum repl_verdict run_isolate(void *ctx, struct str code, bool is_last, struct err *err)
{
    struct isolate_repl *repl = ctx;
    struct run_request *request = repl->request;
    struct isolate_call call = request->call;
    call.code = code;
    call.file = "repl";
    call.is_session = call.wants_text = true;
    struct worker_host host = {.user = request,
                               .console = on_console,
                               .bridge = run_on_bridge,
                               .cancel = run_on_cancel,
                               .wait = run_on_wait};
    run_bridges_begin(request->bridges, request->limits.timeout_ms);
    AUTO_RESULT struct isolate_result result = {0};
    if (worker_run(repl->worker, repl->isolate, &request->limits, &call, &host, &result, err) < 0)
        return REPL_END;
    if (is_unfinished(&result) && !is_last)
        return REPL_MORE; /* an empty line still ends it */
    repl_print(&result);
    return worker_is_dead(repl->worker) || result.is_gone ? REPL_END : REPL_NEXT;
}

int run_repl(struct worker *worker, struct run_request *request, struct err *err)
{
    struct isolate_repl isolate = {.worker = worker, .request = request};
    struct repl repl = {"JavaScript in an isolate.", run_isolate, &isolate};
    if (worker_open(worker, &request->limits, &isolate.isolate, err) < 0)
        return -1;
    return repl_run(&repl, err);
}
