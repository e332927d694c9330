/* sandglass run: code in a locked worker, without a daemon. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/format/json.h"
#include "cli/cli.h"
#include "cli/cmd/commands.h"
#include "cli/net_arg.h"
#include "cli/run/interrupts.h"
#include "cli/run/run.h"
#include "config/config.h"

enum { CODE_BYTES_MAX = 4 << 20, MODULES_MAX = 256, ISOLATE_MEMORY_MAX = 1 << 30 };

/* --- The request --- */

int run_read_memory(const char *text, bool may_be_none, int64_t *ret_bytes, struct err *err)
{
    AUTO_BUF struct buf size = {0};
    int64_t n;
    buf_printf(&size, "%s%s", text, str_to_i64(str_of(text), 0, INT64_MAX, &n) ? "m" : "");
    return cli_read_memory(buf_cstr(&size), may_be_none, ret_bytes, err);
}

static int read_memory(const struct cli_call *call, int64_t *bytes, struct err *err)
{
    const char *text = cli_value(call, "memory");
    if (text == NULL)
        return 0;
    if (run_read_memory(text, false, bytes, err) < 0)
        return -1;
    if (*bytes > ISOLATE_MEMORY_MAX)
        return err_set(err, ERR_INVALID, "--memory '%s' is too large: an isolate has at most 1g",
                       text);
    return 0;
}

static int read_limits(const struct cli_call *call, const struct config *config,
                       struct run_request *request, struct err *err)
{
    struct isolate_limits limits = eval_limits_of(config);
    int64_t memory_bytes = (int64_t)limits.memory_bytes;
    const char *timeout = cli_value(call, "timeout");
    if ((timeout != NULL && cli_read_limit_ms("timeout", timeout, &limits.timeout_ms, err) < 0) ||
        read_memory(call, &memory_bytes, err) < 0)
        return -1;
    limits.timeout_ms = isolate_deadline(limits.timeout_ms);
    limits.memory_bytes = (uint64_t)memory_bytes;
    request->limits = limits;
    return 0;
}

static int read_lang(const struct cli_call *call, const char *file, struct run_request *request,
                     struct err *err)
{
    static const struct {
        const char *name, *ending;
        enum isolate_lang lang;
    } rows[] = {
        {"js", ".js", ISOLATE_JS},    {"javascript", ".mjs", ISOLATE_JS},
        {"ts", ".ts", ISOLATE_TS},    {"typescript", ".mts", ISOLATE_TS},
        {"tsx", ".tsx", ISOLATE_TSX},
    };
    const char *wanted = cli_value(call, "lang");
    request->call.lang = ISOLATE_TS; /* which JavaScript is, too */
    for (size_t i = 0; i < countof(rows); i++) {
        bool hit = wanted != NULL ? strcmp(wanted, rows[i].name) == 0
                                  : file != NULL && str_ends(str_of(file), str_of(rows[i].ending));
        if (!hit)
            continue;
        request->call.lang = rows[i].lang;
        return 0;
    }
    if (wanted != NULL)
        return err_set(err, ERR_INVALID, "--lang: must be js, ts or tsx, got '%s'", wanted);
    return 0;
}

static int read_hints(const struct cli_call *call, struct hints *hints, struct err *err)
{
    for (size_t i = 0; i < call->given_count; i++) {
        if (strcmp(call->given[i].option->name, "hint") != 0)
            continue;
        struct str text = str_of(call->given[i].value);
        size_t at = str_find_char(text, '=');
        if (at == text.len)
            return err_set(err, ERR_INVALID,
                           "--hint: '%s' is not latitude=, longitude=, city= or country=",
                           call->given[i].value);
        if (hints_set(hints, str_slice(text, 0, at), str_slice(text, at + 1, text.len), err) < 0)
            return err_wrap(err, "--hint");
    }
    return 0;
}

bool run_env(const char *given, struct str *ret_name, struct str *ret_value)
{
    struct str text = str_of(given);
    size_t equals = str_find_char(text, '=');
    const char *own = equals < text.len ? given + equals + 1 : getenv(given);
    if (own == NULL)
        return false;
    *ret_name = str_slice(text, 0, equals);
    *ret_value = str_of(own);
    return true;
}

/* {"NAME": "value"} of the names that were granted, and the placeholders of secrets. */
static void read_env(const struct cli_call *call, const struct run_request *request,
                     struct buf *out)
{
    struct json_out json = {.buf = out};
    json_begin_object(&json);
    for (size_t i = 0; i < call->given_count; i++) {
        struct str name, value;
        if (strcmp(call->given[i].option->name, "env") == 0 &&
            run_env(call->given[i].value, &name, &value))
            json_key_str(&json, name), json_put_str(&json, value);
    }
    run_bridges_put_env(request->bridges, &json);
    json_end_object(&json);
}

static int read_code(const struct cli_call *call, const char *file, struct buf *out,
                     struct err *err)
{
    const char *given = cli_value(call, "eval");
    if (given != NULL) {
        buf_put_cstr(out, given);
        return 0;
    }
    if (file == NULL || strcmp(file, "-") == 0)
        return buf_read_all(out, STDIN_FILENO, err) < 0 ? err_wrap(err, "read the code") : 0;
    AUTO_CLOSE int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", file);
    return buf_read_all(out, fd, err) < 0 ? err_wrap(err, "read '%s'", file) : 0;
}

/* --- Running --- */

static void on_console(void *user, enum isolate_stream stream, struct str text)
{
    struct run_request *request = user;
    if (!request->as_json) {
        if (request->is_unread || run_print(stream, text))
            return;
        request->is_unread = true;
        worker_interrupt(request->worker);
        return;
    }
    char *copy = mem_alloc(text.len + 1);
    if (text.len > 0)
        memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\n';
    *vec_push(&request->lines) = (struct eval_line){stream, str_n(copy, text.len + 1)};
}

bool run_print(enum isolate_stream stream, struct str text)
{
    struct err err = {0};
    AUTO_BUF struct buf line = {0};
    buf_put(&line, text);
    buf_put_char(&line, '\n');
    return fd_write_all(stream == ISOLATE_STDERR ? STDERR_FILENO : STDOUT_FILENO, buf_str(&line),
                        &err) == 0 ||
           err.sys != EPIPE;
}

static void print_plain(const struct isolate_result *result, const struct isolate_limits *limits)
{
    AUTO_BUF struct buf missing = {0};
    eval_put_dropped(result, limits, &missing);
    if (missing.len > 0)
        (void)run_print(ISOLATE_STDERR, str_trim(buf_str(&missing)));
    if (result->status != ISOLATE_OK)
        (void)run_print(ISOLATE_STDERR, buf_str(&result->error_stack));
    if (result->status == ISOLATE_TIMEOUT)
        (void)run_print(ISOLATE_STDERR,
                        STR("sandglass: the limit is set by --timeout or isolate.timeout_ms of the "
                            "configuration; --timeout none: no limit"));
    else if (result->has_value)
        (void)run_print(ISOLATE_STDOUT, buf_str(&result->text));
}

static int exit_code(const struct isolate_result *result)
{
    return result->status == ISOLATE_OK            ? EXIT_OK
           : result->status == ISOLATE_TIMEOUT     ? EXIT_TIMEOUT
           : result->status == ISOLATE_INTERRUPTED ? EXIT_INTERRUPTED
                                                   : EXIT_FAILED;
}

static int run_once(struct worker *worker, struct run_request *request, struct err *err)
{
    AUTO_RESULT struct isolate_result result = {0};
    struct worker_host host = {.user = request,
                               .console = on_console,
                               .bridge = run_on_bridge,
                               .cancel = run_on_cancel,
                               .wait = run_on_wait};
    run_bridges_begin(request->bridges, request->limits.timeout_ms);
    request->worker = worker;
    request->call.wants_text = !request->as_json;
    if (worker_run(worker, 0, &request->limits, &request->call, &host, &result, err) < 0)
        return -1;
    if (request->is_unread)
        return EXIT_SIGNALED + SIGPIPE;
    if (!request->as_json) {
        print_plain(&result, &request->limits);
        return exit_code(&result);
    }
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text, .pretty = isatty(STDOUT_FILENO) == 1};
    struct eval_result whole = {.lang = request->call.lang,
                                .run = &result,
                                .limits = &request->limits,
                                .hints = &request->hints,
                                .used_hints = run_bridges_used_hints(request->bridges),
                                .code_size = request->call.code.len};
    eval_put_json(&whole, request->lines.ptr, request->lines.len, &out);
    buf_put_char(&text, '\n');
    cli_print(buf_str(&text));
    return exit_code(&result);
}

static void request_done(struct run_request *request)
{
    VEC_EACH (line, &request->lines)
        free((char *)line->text.ptr);
    vec_done(&request->lines);
    (void)run_bridges_free(request->bridges);
}

static void interrupt_worker(void *ctx)
{
    worker_interrupt(ctx);
}

/* From here on Ctrl-C interrupts what the worker runs. */
static int start_worker(const struct run_request *request, struct worker **ret_worker,
                        struct err *err)
{
    struct worker_options options = {.bridges = run_bridges_names(request->bridges)};
    interrupts_hold();
    if (worker_start(&options, ret_worker, err) < 0)
        return -1;
    (void)interrupts_watch(interrupt_worker, *ret_worker);
    return 0;
}

static int run_code(const struct cli_call *call, const char *file, struct run_request *request,
                    struct err *err)
{
    AUTO_BUF struct buf code = buf_with_limit(CODE_BYTES_MAX), env = {0};
    AUTO_ARENA struct arena arena = {0};
    AUTO_WORKER struct worker *worker = NULL;
    bool is_file = file != NULL && strcmp(file, "-") != 0 && cli_value(call, "eval") == NULL;
    if (read_code(call, file, &code, err) < 0)
        return -1;
    struct isolate_module *modules = arena_array(&arena, struct isolate_module, MODULES_MAX);
    if (is_file && run_find_modules(file, buf_str(&code), &arena, modules, MODULES_MAX,
                                    &request->call.module_count, err) < 0)
        return -1;
    read_env(call, request, &env);
    const char *slash = is_file ? strrchr(file, '/') : NULL;
    request->call.code = buf_str(&code);
    request->call.file = slash != NULL ? slash + 1 : is_file ? file : NULL;
    request->call.env_json = buf_str(&env);
    request->call.modules = modules;
    if (start_worker(request, &worker, err) < 0)
        return -1;
    int done = run_once(worker, request, err);
    run_bridges_drop(request->bridges);
    return done;
}

static int read_request(const struct cli_call *call, const char *file, struct run_request *request,
                        struct err *err)
{
    AUTO_CONFIG struct config *config = NULL;
    if (config_load(cli_value(call, "config"), &config, err) < 0 ||
        read_limits(call, config, request, err) < 0 || read_lang(call, file, request, err) < 0 ||
        read_hints(call, &request->hints, err) < 0)
        return -1;
    return run_bridges_new(call, config, &request->hints, &request->bridges, err);
}

/* Options that only isolates have are refused by name where an interpreter runs. */
static int check_kernel_options(const struct cli_call *call, struct err *err)
{
    return cli_has(call, "hint")
               ? err_set(err, ERR_INVALID, "--hint cannot be combined with --runtime")
               : 0;
}

/* No code was given: it is typed at a prompt. */
static bool wants_prompt(const struct cli_call *call, const char *file)
{
    return file == NULL && cli_value(call, "eval") == NULL && isatty(STDIN_FILENO) == 1;
}

static int run_runtime(const struct cli_call *call, const char *name, const char *file,
                       struct err *err)
{
    AUTO_CONFIG struct config *config = NULL;
    AUTO_BUF struct buf code = buf_with_limit(CODE_BYTES_MAX);
    bool is_prompt = wants_prompt(call, file);
    if (is_prompt && cli_has(call, "json"))
        return err_set(err, ERR_INVALID, "--json needs code: give a file, --eval or a pipe");
    if (check_kernel_options(call, err) < 0 ||
        config_load(cli_value(call, "config"), &config, err) < 0 ||
        (!is_prompt && read_code(call, file, &code, err) < 0))
        return -1;
    struct str text = buf_str(&code);
    return run_in_interpreter(call, config, str_of(name), is_prompt ? NULL : &text, err);
}

/* Limits, files and the network are those of the place. */
static int run_elsewhere(const struct cli_call *call, const char *file, struct err *err)
{
    static const char *const places_own[] = {"workspace", "memory", "cpus", "allow-host",
                                             "deny-host", "secret", "hint"};
    AUTO_BUF struct buf code = buf_with_limit(CODE_BYTES_MAX);
    for (size_t i = 0; i < countof(places_own); i++)
        if (cli_has(call, places_own[i]))
            return err_set(err, ERR_INVALID, "--%s cannot be combined with --sandbox or --session",
                           places_own[i]);
    for (size_t i = 0; i < call->given_count; i++)
        if (str_starts(str_of(call->given[i].option->name), STR("net-")))
            return err_set(err, ERR_INVALID, "--%s cannot be combined with --sandbox or --session",
                           call->given[i].option->name);
    if (read_code(call, file, &code, err) < 0)
        return -1;
    return run_in_server(call, buf_str(&code), err);
}

static int cmd_run_run(const struct cli_call *call, struct err *err)
{
    AUTO(request_done) struct run_request request = {.as_json = cli_has(call, "json")};
    const char *file = call->arg_count > 0 ? call->args[0] : NULL;
    if (file != NULL && cli_value(call, "eval") != NULL)
        return err_set(err, ERR_INVALID, "give a file or --eval, not both");
    if (cli_value(call, "sandbox") != NULL || cli_value(call, "session") != NULL)
        return run_elsewhere(call, file, err);
    if (cli_value(call, "context") != NULL)
        return err_set(err, ERR_INVALID, "--context needs --sandbox or --session");
    if (cli_value(call, "runtime") != NULL)
        return run_runtime(call, cli_value(call, "runtime"), file, err);
    if (cli_value(call, "workspace") != NULL)
        return err_set(err, ERR_INVALID, "--workspace needs --runtime: isolates have no files");
    if (cli_value(call, "cpus") != NULL)
        return err_set(err, ERR_INVALID, "--cpus needs --runtime: --timeout limits an isolate");
    if (read_request(call, file, &request, err) < 0)
        return -1;
    if (!wants_prompt(call, file))
        return run_code(call, file, &request, err);
    AUTO_WORKER struct worker *worker = NULL;
    AUTO_BUF struct buf env = {0};
    read_env(call, &request, &env);
    request.call.env_json = buf_str(&env);
    if (start_worker(&request, &worker, err) < 0)
        return -1;
    int code = run_repl(worker, &request, err);
    run_bridges_drop(request.bridges);
    return code;
}

static const struct cli_option run_options[] = {
    {.letter = 'e', .name = "eval", .value = "CODE", .help = "Run this text"},
    {.name = "lang",
     .value = "js|ts|tsx",
     .help = "Language (default: by file extension, else ts)"},
    {.name = "runtime",
     .value = "NAME",
     .help = "Run in an interpreter in a jail: python3, node24, ... (see 'runtime ls')"},
    {.name = "sandbox", .value = "SANDBOX", .help = "Run in this sandbox of a running server"},
    {.name = "session", .value = "ID", .help = "Run in this session of a running server"},
    {.name = "context",
     .value = "ID",
     .help = "With --sandbox, --session: use this interpreter (default: the runtime's own)"},
    {.name = "url",
     .value = "URL",
     .help = "Server address (default: SANDGLASS_URL, else the local server)"},
    {.letter = 'w',
     .name = "workspace",
     .value = "DIR",
     .help = "With --runtime: mount this directory at /workspace, writable"},
    {.name = "timeout",
     .value = "MS",
     .help = "Time limit, as in 500ms, 30s, 5m, or milliseconds; 'none' for no limit (default "
             "isolate.timeout_ms of the configuration; with --runtime none)"},
    {.name = "memory",
     .value = "MB",
     .help = "Memory limit, as in 64m, 2g, or MiB. An isolate: 4 to 1024 (default "
             "isolate.memory_mb of the configuration). With --runtime: 4 or more, or 'none' for no "
             "limit (default jail.memory_mb)"},
    {.name = "cpus",
     .value = "N",
     .help = "With --runtime: processor cores, such as 0.5, or none (default: jail.cpus)"},
    {.name = "env",
     .value = "NAME[=VALUE]",
     .help = "Set a variable for the code; NAME without a value copies it from this environment",
     .repeated = true},
    NET_OPTIONS("Allow connections to this host, a group, or 'public' (default: none)",
                "Add a key to requests to HOST; the code never sees its value (default: none)"),
    {.name = "hint",
     .value = "KEY=VALUE",
     .help = "latitude, longitude, city or country of the request",
     .repeated = true},
    {.name = "json", .help = "Print one JSON object with the value, the console and the limits"},
    {0},
};

const struct cli_verb cmd_run = {
    .name = "run",
    .args = "[FILE|-]",
    .summary = "Run JavaScript or TypeScript in an isolate; Python, Node or bash in a jail",
    .details =
        "Prints what the code logs and then its value: the last expression, the value of a "
        "top-level return, or the settled value of a promise. Relative imports are resolved from "
        "the directory of FILE. With - the code is read from standard input; without arguments on "
        "a terminal you get a prompt that keeps its variables.\n"
        "Exits 1 when the code fails and 124 when it reaches the time limit. The code sees no "
        "files of this machine, reaches only the hosts that --allow-host names, and sees only the "
        "variables that --env names. 'sandglass bridges' lists what it may call as api.NAME; "
        "private addresses need egress.private in config.toml too.\n"
        "With --secret, process.env.NAME holds a placeholder; in Authorization and X-Api-Key (or "
        "the headers named after #) of https requests to HOST it is replaced with the value of "
        "VAR, and in responses the value is replaced with the placeholder. file:/PATH can be used "
        "instead of env:VAR, and NAME without '=' is a [secrets.NAME] of config.toml. With "
        "--runtime all this applies to the jail, as with 'sandglass exec'.\n"
        "With --sandbox or --session the code runs in a sandbox of a running server, where "
        "variables are kept between runs.",
    .options = run_options,
    .args_max = 1,
    .run = cmd_run_run,
};
