/* sandglass runtime ls, add, rm: the interpreters that kernels run in. Without a daemon. */

#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "engine/config.h"
#include "runtime/obtain.h"

enum { REDRAW_MS = 100 };

static int open_config(const struct cli_call *call, struct config **ret_config,
                       char ret_data_dir[RUNTIME_PATH_MAX], struct err *err)
{
    if (config_load(cli_value(call, "config"), ret_config, err) < 0)
        return -1;
    if ((*ret_config)->server.data_dir.len == 0)
        return err_set(err, ERR_INVALID, "no home directory: set SANDGLASS_HOME");
    return str_to_cstr((*ret_config)->server.data_dir, ret_data_dir, RUNTIME_PATH_MAX, err);
}

/* ---- ls ---- */

struct look {
    const struct runtime *runtime;
    enum runtime_state state;
    char version[RUNTIME_VERSION_SIZE], dir[RUNTIME_PATH_MAX];
};

static const char *const state_names[] = {
    [RUNTIME_READY] = "ready", [RUNTIME_ABSENT] = "absent", [RUNTIME_OLD] = "old"};
static const char *const source_names[] = {
    [RUNTIME_HOST] = "host", [RUNTIME_NPM] = "npm", [RUNTIME_DEBIAN] = "debian"};

static void look_at(const struct runtime *runtime, const char *data_dir, struct look *look)
{
    look->runtime = runtime;
    look->state = runtime_look(runtime, data_dir, look->version);
    runtime_dir(runtime, data_dir, look->dir);
}

/* What to do, for one that is not there or not as it should be; "" for nothing. */
static void put_remedy(const struct look *look, struct buf *out)
{
    if (look->state == RUNTIME_READY)
        return;
    if (look->runtime->source == RUNTIME_HOST)
        buf_put_cstr(out, look->runtime->remedy);
    else
        buf_printf(out, "sandglass runtime add %s", look->runtime->name);
}

static void put_json(const struct look *look, struct json_out *json)
{
    const struct runtime *runtime = look->runtime;
    AUTO_BUF struct buf remedy = {0};
    put_remedy(look, &remedy);
    bool added = runtime->source != RUNTIME_HOST && look->state != RUNTIME_ABSENT;
    json_begin_object(json);
    json_key(json, "name"), json_put_cstr(json, runtime->name);
    json_key(json, "summary"), json_put_cstr(json, runtime->summary);
    json_key(json, "languages"), json_begin_array(json);
    json_put_cstr(json, runtime->language);
    if (runtime->also != NULL)
        json_put_cstr(json, runtime->also);
    json_end_array(json);
    json_key(json, "source"), json_put_cstr(json, source_names[runtime->source]);
    json_key(json, "state"), json_put_cstr(json, state_names[look->state]);
    json_key(json, "version");
    json_put_cstr(json, look->version[0] == '\0' ? NULL : look->version);
    json_key(json, "pinned"), json_put_cstr(json, runtime->version);
    json_key(json, "path"), json_put_cstr(json, added ? look->dir : NULL);
    json_key(json, "remedy"), json_put_cstr(json, remedy.len == 0 ? NULL : buf_cstr(&remedy));
    json_end_object(json);
}

static void put_line(const struct look *look, struct buf *out)
{
    const struct runtime *runtime = look->runtime;
    const char *version = look->version;
    if (version[0] == '\0')
        version =
            look->state == RUNTIME_ABSENT && runtime->version != NULL ? runtime->version : "-";
    buf_printf(out, "%-12s %-8s %-10s %-18s ", runtime->name, state_names[look->state], version,
               runtime->summary);
    put_remedy(look, out);
    while (out->len > 0 && out->ptr[out->len - 1] == ' ')
        out->len--;
    buf_put_char(out, '\n');
}

static int list(const struct cli_call *call, struct err *err)
{
    static struct look look;
    AUTO_CONFIG struct config *config = NULL;
    char data_dir[RUNTIME_PATH_MAX];
    AUTO_BUF struct buf text = {0};
    struct json_out json = {.buf = &text, .pretty = isatty(STDOUT_FILENO) == 1};
    bool as_json = cli_has(call, "json");
    if (open_config(call, &config, data_dir, err) < 0)
        return -1;
    if (as_json)
        json_begin_array(&json);
    else
        buf_printf(&text, "%-12s %-8s %-10s %-18s %s\n", "NAME", "STATE", "VERSION", "WHAT",
                   "TO HAVE IT");
    for (const struct runtime *row = runtimes; row->name != NULL; row++) {
        look_at(row, data_dir, &look);
        if (as_json)
            put_json(&look, &json);
        else
            put_line(&look, &text);
    }
    if (as_json) {
        json_end_array(&json);
        buf_put_char(&text, '\n');
    }
    cli_print(buf_str(&text));
    return EXIT_OK;
}

/* ---- add ---- */

struct meter {
    const char *name;
    char step[32];
    bool on_terminal, open_line;
    int64_t drawn_ms;
};

/* A line that is drawn again on a terminal; elsewhere one line for each step. */
static void on_progress(void *ctx, const char *step, uint64_t have, uint64_t total)
{
    struct meter *meter = ctx;
    AUTO_BUF struct buf line = {0};
    bool is_new = strcmp(meter->step, step) != 0;
    int64_t now_ms = clock_now_ms();
    bool due = meter->on_terminal && (have == total || now_ms - meter->drawn_ms >= REDRAW_MS);
    if (!is_new && !due)
        return;
    meter->drawn_ms = now_ms;
    (void)snprintf(meter->step, sizeof meter->step, "%s", step);
    buf_printf(&line, "%s%s: %s", meter->on_terminal ? "\r\033[K" : "", meter->name, step);
    if (total > 0 && meter->on_terminal)
        buf_printf(&line, " %llu of %llu MB, %llu %%", (unsigned long long)(have >> 20),
                   (unsigned long long)(total >> 20), (unsigned long long)(have * 100 / total));
    if (!meter->on_terminal)
        buf_put_char(&line, '\n');
    meter->open_line = meter->on_terminal;
    (void)!write(STDERR_FILENO, line.ptr, line.len);
}

static void end_line(const struct meter *meter)
{
    if (meter->open_line)
        (void)!write(STDERR_FILENO, "\r\033[K", 4);
}

static void report(const struct look *look, bool added, bool as_json)
{
    AUTO_BUF struct buf text = {0};
    struct json_out json = {.buf = &text, .pretty = isatty(STDOUT_FILENO) == 1};
    if (as_json) {
        put_json(look, &json);
        buf_put_char(&text, '\n');
    } else {
        buf_printf(&text, "%s %s %s\n", look->runtime->name, look->version,
                   added ? "is ready" : "is there already");
    }
    cli_print(buf_str(&text));
}

static int add(const struct cli_call *call, struct err *err)
{
    static struct look look;
    AUTO_CONFIG struct config *config = NULL;
    char data_dir[RUNTIME_PATH_MAX];
    const struct runtime *runtime;
    bool added = false;
    struct meter meter = {.name = call->args[0], .on_terminal = isatty(STDERR_FILENO) == 1};
    struct obtain how = {.data_dir = data_dir,
                         .file = cli_value(call, "file"),
                         .progress = on_progress,
                         .ctx = &meter};
    if (open_config(call, &config, data_dir, err) < 0 ||
        runtime_named(str_of(call->args[0]), &runtime, err) < 0)
        return -1;
    how.npm_registry = config->packages.npm_registry;
    int done = runtime_add(runtime, &how, &added, err);
    end_line(&meter);
    if (done < 0)
        return -1;
    look_at(runtime, data_dir, &look);
    report(&look, added, cli_has(call, "json"));
    return EXIT_OK;
}

/* ---- rm ---- */

static int rm(const struct cli_call *call, struct err *err)
{
    static struct look look;
    AUTO_CONFIG struct config *config = NULL;
    char data_dir[RUNTIME_PATH_MAX];
    const struct runtime *runtime;
    if (open_config(call, &config, data_dir, err) < 0 ||
        runtime_named(str_of(call->args[0]), &runtime, err) < 0 ||
        runtime_remove(runtime, data_dir, err) < 0)
        return -1;
    look_at(runtime, data_dir, &look);
    AUTO_BUF struct buf text = {0};
    struct json_out json = {.buf = &text, .pretty = isatty(STDOUT_FILENO) == 1};
    if (cli_has(call, "json"))
        put_json(&look, &json);
    else
        buf_printf(&text, "%s is removed", runtime->name);
    buf_put_char(&text, '\n');
    cli_print(buf_str(&text));
    return EXIT_OK;
}

static const struct cli_option add_options[] = {
    {.name = "file",
     .value = "FILE",
     .help = "Take the npm package from this file instead of downloading it"},
    CLI_OPTION_JSON,
    {0},
};

const struct cli_verb cmd_runtime_ls = {
    .name = "runtime ls",
    .args = "",
    .summary = "List the runtimes and what to do for those that are missing",
    .options = cli_json_only,
    .run = list,
};

const struct cli_verb cmd_runtime_add = {
    .name = "runtime add",
    .args = "NAME",
    .summary = "Bring a runtime that this machine lacks",
    .details =
        "Node and Deno come as npm packages of a pinned version from the registry that "
        "config.toml names (packages.npm_registry), else from that which this machine is "
        "configured for (npm_config_registry, .npmrc, npm's own default; an authority "
        "that the system does not know by npm_config_cafile or NODE_EXTRA_CA_CERTS). The package "
        "is compared with the digest that sandglass holds before anything reads it, unpacked in a "
        "jail, tried, and put into runtimes/ of the data directory, read-only. A download that "
        "broke off goes on where it stopped. python3.13 is a Debian 13 system that mmdebstrap "
        "makes "
        "from the mirror that apt uses here (else SANDGLASS_DEBIAN_MIRROR); it takes minutes and "
        "about 600 MB.",
    .options = add_options,
    .args_min = 1,
    .args_max = 1,
    .run = add,
};

const struct cli_verb cmd_runtime_rm = {
    .name = "runtime rm",
    .args = "NAME",
    .summary = "Take away a runtime that was added",
    .options = cli_json_only,
    .args_min = 1,
    .args_max = 1,
    .run = rm,
};
