/* sandglass run: code in a locked worker, without a daemon. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/net_arg.h"
#include "cli/run.h"
#include "engine/config.h"

enum { CODE_BYTES_MAX = 4 << 20, MODULES_MAX = 256, MB = 1 << 20 };

/* --- The request --- */

static int number_option(const struct cli_call *call, const char *name, int64_t min, int64_t max,
                         int64_t *number, struct err *err)
{
    const char *text = cli_value(call, name);
    if (text == NULL)
        return 0;
    if (!str_to_i64(str_of(text), INT32_MIN, INT32_MAX, number))
        return err_set(err, ERR_INVALID, "--%s: '%s' is not a whole number", name, text);
    *number = MAX(MIN(*number, max), min);
    return 0;
}

static int read_limits(const struct cli_call *call, const struct config *config,
                       struct run_request *request, struct err *err)
{
    struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
    int64_t memory_mb = config->isolate.memory_mb;
    limits.timeout_ms = config->isolate.timeout_ms;
    limits.code_chars = (uint32_t)config->isolate.code_max_chars;
    limits.console_lines = (uint32_t)config->isolate.console_lines;
    limits.result_depth = (int)config->isolate.result_depth;
    limits.result_items = (uint32_t)config->isolate.result_items;
    if (number_option(call, "timeout", ISOLATE_TIMEOUT_MIN_MS, ISOLATE_TIMEOUT_MAX_MS,
                      &limits.timeout_ms, err) < 0 ||
        number_option(call, "memory", 2, 1024, &memory_mb, err) < 0)
        return -1;
    limits.memory_bytes = (uint64_t)memory_mb * MB;
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
    for (size_t i = 0; i < countof(rows); i++) {
        bool hit = wanted != NULL ? strcmp(wanted, rows[i].name) == 0
                                  : file != NULL && str_ends(str_of(file), str_of(rows[i].ending));
        if (!hit)
            continue;
        request->call.lang = rows[i].lang;
        return 0;
    }
    if (wanted != NULL)
        return err_set(err, ERR_INVALID, "--lang: '%s' is none of js, ts and tsx", wanted);
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
        run_print(stream, text);
        return;
    }
    char *copy = mem_alloc(text.len + 1);
    if (text.len > 0)
        memcpy(copy, text.ptr, text.len);
    *vec_push(&request->lines) = (struct eval_line){stream, str_n(copy, text.len)};
}

void run_print(enum isolate_stream stream, struct str text)
{
    struct err err = {0};
    AUTO_BUF struct buf line = {0};
    buf_put(&line, text);
    buf_put_char(&line, '\n');
    /* A closed pipe is the reader's choice. */
    if (fd_write_all(stream == ISOLATE_STDERR ? STDERR_FILENO : STDOUT_FILENO, buf_str(&line),
                     &err) < 0)
        return;
}

static void print_plain(const struct isolate_result *result)
{
    AUTO_BUF struct buf out = {0};
    for (int i = 0; i < 2; i++) {
        if (result->dropped[i] == 0)
            continue;
        buf_clear(&out);
        buf_printf(&out, "... %llu more lines on %s were not kept",
                   (unsigned long long)result->dropped[i], i == 1 ? "stderr" : "stdout");
        run_print(ISOLATE_STDERR, buf_str(&out));
    }
    if (result->status != ISOLATE_OK)
        run_print(ISOLATE_STDERR, buf_str(&result->error_stack));
    else if (result->has_value)
        run_print(ISOLATE_STDOUT, buf_str(&result->text));
}

static int exit_code(const struct isolate_result *result)
{
    return result->status == ISOLATE_OK        ? EXIT_OK
           : result->status == ISOLATE_TIMEOUT ? EXIT_TIMEOUT
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
    request->call.wants_text = !request->as_json;
    if (worker_run(worker, 0, &request->limits, &request->call, &host, &result, err) < 0)
        return -1;
    if (!request->as_json) {
        print_plain(&result);
        return exit_code(&result);
    }
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text, .pretty = isatty(STDOUT_FILENO) == 1};
    struct eval_result whole = {.lang = request->call.lang,
                                .run = &result,
                                .limits = &request->limits,
                                .hints = &request->hints,
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

static int start_worker(const struct run_request *request, struct worker **ret_worker,
                        struct err *err)
{
    struct worker_options options = {.bridges = run_bridges_names(request->bridges), .cpu = -1};
    return worker_start(&options, ret_worker, err);
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

/* What only isolates have is refused by name where a kernel runs. */
static int check_kernel_options(const struct cli_call *call, struct err *err)
{
    return cli_has(call, "hint") ? err_set(err, ERR_INVALID, "--hint does not go with --runtime")
                                 : 0;
}

static int run_runtime(const struct cli_call *call, const char *name, const char *file,
                       struct err *err)
{
    AUTO_CONFIG struct config *config = NULL;
    AUTO_BUF struct buf code = buf_with_limit(CODE_BYTES_MAX);
    if (check_kernel_options(call, err) < 0 ||
        config_load(cli_value(call, "config"), &config, err) < 0 ||
        read_code(call, file, &code, err) < 0)
        return -1;
    return run_in_kernel(call, config, str_of(name), buf_str(&code), err);
}

/* Limits, files and the network are those of the place. */
static int run_elsewhere(const struct cli_call *call, const char *file, struct err *err)
{
    static const char *const places_own[] = {"workspace", "memory", "cpus", "allow-host",
                                             "deny-host", "secret", "hint"};
    AUTO_BUF struct buf code = buf_with_limit(CODE_BYTES_MAX);
    for (size_t i = 0; i < countof(places_own); i++)
        if (cli_has(call, places_own[i]))
            return err_set(err, ERR_INVALID, "--%s does not go with --sandbox and --session",
                           places_own[i]);
    for (size_t i = 0; i < call->given_count; i++)
        if (str_starts(str_of(call->given[i].option->name), STR("net-")))
            return err_set(err, ERR_INVALID, "--%s does not go with --sandbox and --session",
                           call->given[i].option->name);
    if (read_code(call, file, &code, err) < 0)
        return -1;
    return run_in_server(call, buf_str(&code), err);
}

static int run(const struct cli_call *call, struct err *err)
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
    bool prompt = file == NULL && cli_value(call, "eval") == NULL && isatty(STDIN_FILENO) == 1;
    if (!prompt)
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
    {.name = "lang", .value = "js|ts|tsx", .help = "Language; else by the file's ending, else js"},
    {.name = "runtime",
     .value = "NAME",
     .help = "Run in a kernel in a jail instead: python3, node24, ... (see 'runtime ls')"},
    {.name = "sandbox", .value = "ID", .help = "Run in this sandbox of a running server"},
    {.name = "session", .value = "ID", .help = "Run in this session of a running server"},
    {.name = "context",
     .value = "ID",
     .help = "With --sandbox, --session: in this interpreter (the runtime's own)"},
    {.name = "url",
     .value = "URL",
     .help = "The server (SANDGLASS_URL, else the one that runs here)"},
    {.letter = 'w',
     .name = "workspace",
     .value = "DIR",
     .help = "With --runtime: show this directory at /workspace, writable"},
    {.name = "timeout",
     .value = "MS",
     .help = "Time to run, 250 to 5000; with --runtime 1 to 600000 (default 30000)"},
    {.name = "memory",
     .value = "MB",
     .help = "Memory of the isolate, 2 to 1024; of a jail from 16 on, or none (default 512)"},
    {.name = "cpus",
     .value = "N",
     .help = "With --runtime: processor cores, such as 0.5, or none (default 1)"},
    {.name = "env",
     .value = "NAME[=VALUE]",
     .help = "A variable for the code; NAME alone copies yours",
     .repeated = true},
    NET_OPTIONS("Let the code reach this host, a group, or 'public' (none)",
                "Let requests to HOST carry a key that the code never sees (none)"),
    {.name = "hint",
     .value = "KEY=VALUE",
     .help = "latitude, longitude, city or country of the request",
     .repeated = true},
    {.name = "json", .help = "One JSON object with the value, the console and the limits"},
    {0},
};

const struct cli_verb cmd_run = {
    .name = "run",
    .args = "[FILE|-]",
    .summary = "Run JavaScript or TypeScript in an isolate; Python, Node or bash in a jail",
    .details =
        "Prints what the code logs and then its value: the last expression, what a top-level "
        "return gives, or what its promise settles to. Relative imports find files beside "
        "FILE. With - the code is read from standard input; with nothing given on a terminal "
        "you get a prompt that keeps its variables.\n"
        "Exits 1 when the code fails and 124 when it runs out of time. Nothing of the machine "
        "is visible to the code: no files, no network but the hosts that --allow-host names, no "
        "environment but what --env names. 'sandglass bridges' lists what it may call as api.NAME; "
        "private addresses need egress.private in config.toml too.\n"
        "With --secret, process.env.NAME holds a placeholder; in Authorization and X-Api-Key (or "
        "the headers named behind #) of https requests to HOST it becomes the value of VAR, and "
        "answers show the placeholder again. file:/PATH stands for env:VAR, and NAME alone for a "
        "[secrets.NAME] of config.toml. With --runtime all this holds for the jail, as with "
        "'sandglass exec'.\n"
        "With --sandbox or --session the code runs in a place of a running server, where variables "
        "live from one run to the next.",
    .options = run_options,
    .args_max = 1,
    .run = run,
};
