/* A prompt over one isolate. Line editing and history by libedit, alone included here. */

#include <editline/readline.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "cli/cli.h"
#include "cli/run.h"

enum { HISTORY_LINES = 1000 };

static void on_console(UNUSED void *user, enum isolate_stream stream, struct str text)
{
    run_print(stream, text);
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

static void print(const struct isolate_result *result)
{
    AUTO_BUF struct buf out = {0};
    if (result->status == ISOLATE_OK)
        buf_printf(&out, "%s\n", buf_cstr(&result->text));
    else
        buf_printf(&out, "Uncaught %s\n", buf_cstr(&result->error_stack));
    cli_print(buf_str(&out));
}

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

/* One input, which may have several lines: false at the end of the session. */
static bool turn(struct worker *worker, uint32_t isolate, struct run_request *request,
                 struct err *err)
{
    AUTO_BUF struct buf code = {0};
    for (const char *prompt = "> ";; prompt = "... ") {
        AUTO_MEM char *line = readline(prompt);
        if (line == NULL || strcmp(line, ".exit") == 0)
            return false;
        if (line[0] != '\0')
            (void)add_history(line);
        buf_put_cstr(&code, line);
        buf_put_char(&code, '\n');
        struct isolate_call call = request->call;
        call.code = buf_str(&code);
        call.file = "repl";
        call.is_session = call.wants_text = true;
        struct worker_host host = {.user = request,
                                   .console = on_console,
                                   .bridge = run_on_bridge,
                                   .cancel = run_on_cancel,
                                   .wait = run_on_wait};
        run_bridges_begin(request->bridges, request->limits.timeout_ms);
        AUTO_RESULT struct isolate_result result = {0};
        if (worker_run(worker, isolate, &request->limits, &call, &host, &result, err) < 0)
            return false;
        if (is_unfinished(&result) && line[0] != '\0')
            continue; /* an empty line ends it all the same */
        print(&result);
        return !worker_is_dead(worker) && !result.is_gone;
    }
}

int run_repl(struct worker *worker, struct run_request *request, struct err *err)
{
    uint32_t isolate = 0;
    char history[4096];
    if (worker_open(worker, &request->limits, &isolate, err) < 0)
        return -1;
    bool kept = history_path(history, sizeof history);
    using_history();
    stifle_history(HISTORY_LINES);
    if (kept)
        (void)read_history(history);
    cli_print(STR("JavaScript in an isolate. Ctrl-D or .exit ends it.\n"));
    *err = (struct err){0};
    while (turn(worker, isolate, request, err))
        ;
    if (kept)
        (void)write_history(history);
    return err->code == ERR_NONE ? EXIT_OK : -1;
}
