/* sandglass top: the sandboxes of a running server, live. */

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cmd/commands.h"
#include "cli/remote.h"
#include "cli/span.h"

/* USAGES_MAX: for how many sandboxes the usage is requested at a time. */
enum { USAGES_MAX = 100, TICK_MS = 1000, WIDTH = 80, WIDTH_MIN = 40, METRICS_MAX = 4 << 20 };

/* ---- figures ------------------------------------------------------------------------------- */

/* What the screen's first lines tell. */
struct figures {
    double memory_bytes, running_requests, commands, store_sum_s, store_count, uptime_s;
};

static double figure_of(struct str text, const char *name)
{
    struct str line;
    double value = 0;
    while (str_split(&text, '\n', &line)) {
        size_t blank = str_find_char(line, ' ');
        if (str_eq(str_slice(line, 0, blank), str_of(name)) &&
            str_to_f64(str_slice(line, blank + 1, line.len), &value))
            return value;
    }
    return 0;
}

static int take_bytes(void *ctx, const char *bytes, size_t len)
{
    struct err err;
    return buf_append(ctx, str_n(bytes, len), &err);
}

static int read_figures(sg_client *client, struct figures *ret_figures, struct err *err)
{
    AUTO_BUF struct buf text = buf_with_limit(METRICS_MAX);
    if (sg_download(client, "/metrics", take_bytes, &text) < 0)
        return remote_failed(client, err);
    *ret_figures = (struct figures){
        .memory_bytes = figure_of(buf_str(&text), "process_resident_memory_bytes"),
        .running_requests = figure_of(buf_str(&text), "sandglass_http_running_requests"),
        .commands = figure_of(buf_str(&text), "sandglass_commands_running"),
        .store_sum_s = figure_of(buf_str(&text), "sandglass_store_commit_seconds_sum"),
        .store_count = figure_of(buf_str(&text), "sandglass_store_commit_seconds_count"),
        .uptime_s = figure_of(buf_str(&text), "sandglass_uptime_seconds"),
    };
    return 0;
}

/* ---- the table ----------------------------------------------------------------------------- */

static void put_cell(struct buf *out, struct str text, size_t width)
{
    for (size_t i = 0; i < width; i++) {
        unsigned char c = i < text.len ? (unsigned char)text.ptr[i] : ' ';
        /* No byte of what others wrote may steer the terminal. */
        buf_put_char(out, (char)(c < 0x20 || c >= 0x7f ? '?' : c));
    }
}

/* `sign` 1: the time until then, -1: since then. */
static void put_time(struct buf *out, const struct json_t *row, const char *member, int sign,
                     size_t width)
{
    AUTO_BUF struct buf text = {0};
    span_put_date(remote_text(row, member), sign, &text);
    put_cell(out, buf_str(&text), width);
}

/* "57/512", in MiB; "-/512" when the use is not known. */
static void put_use(struct buf *out, const struct json_t *usage, const char *member,
                    int64_t limit_mb, size_t width)
{
    AUTO_BUF struct buf text = {0};
    const struct json_t *figures = usage == NULL ? NULL : json_get(usage, member);
    int64_t bytes = 0;
    if (figures != NULL && json_to_i64(json_get(figures, "bytes"), &bytes))
        buf_printf(&text, "%lld", (long long)(bytes + (1 << 19)) >> 20);
    else
        buf_put_char(&text, '-');
    if (limit_mb > 0)
        buf_printf(&text, "/%lld", (long long)limit_mb);
    put_cell(out, buf_str(&text), width);
}

static void put_cpus(struct buf *out, const struct json_t *usage, size_t width)
{
    AUTO_BUF struct buf text = {0};
    const struct json_t *cpu = usage == NULL ? NULL : json_get(usage, "cpu");
    double cpus = 0;
    if (cpu != NULL && json_to_f64(json_get(cpu, "cpus"), &cpus))
        buf_printf(&text, "%.2f", cpus);
    else
        buf_put_char(&text, '-');
    put_cell(out, buf_str(&text), width);
}

/* Eighty columns: 26 for the id, what is left of them for the name. */
static void put_row(struct buf *out, const struct json_t *row, const struct json_t *usage,
                    size_t width)
{
    int64_t memory_mb = 0, disk_mb = 0;
    const struct json_t *limits = json_get(row, "limits");
    struct str name = remote_text(row, "name");
    if (limits != NULL) {
        (void)!json_to_i64(json_get(limits, "memoryMb"), &memory_mb);
        (void)!json_to_i64(json_get(limits, "diskMb"), &disk_mb);
    }
    put_cell(out, remote_text(row, "id"), 26), buf_put_char(out, ' ');
    put_cell(out, remote_text(row, "state"), 11), buf_put_char(out, ' ');
    put_cpus(out, usage, 5), buf_put_char(out, ' ');
    put_use(out, usage, "memory", memory_mb, 9), buf_put_char(out, ' ');
    put_use(out, usage, "disk", disk_mb, 9), buf_put_char(out, ' ');
    put_time(out, row, "expiresAt", 1, 5), buf_put_char(out, ' ');
    struct str label = name.len > 0 ? name : remote_text(row, "session");
    put_cell(out, label, MIN(label.len, width > 71 ? width - 71 : 0));
    buf_put_char(out, '\n');
}

/* What it uses now; NULL for one without processes, and for one that has just gone. */
static struct json_t *usage_of(sg_client *client, const struct json_t *row)
{
    AUTO_BUF struct buf path = {0};
    struct json_t *usage = NULL;
    struct err gone;
    char id[64];
    if (!str_eq(remote_text(row, "state"), STR("running")))
        return NULL;
    (void)snprintf(id, sizeof id, "%.*s", STR_ARG(remote_text(row, "id")));
    remote_path(&path, "/v1/sandboxes/%s/usage", id);
    return remote_call(client, "GET", buf_cstr(&path), NULL, &usage, &gone) < 0 ? NULL : usage;
}

static void put_states(struct buf *out, const struct json_t *rows)
{
    static const char *const states[] = {"running", "paused", "interrupted", "failed", "stopped"};
    for (size_t i = 0; i < countof(states); i++) {
        size_t count = 0;
        for (size_t k = 0; k < json_len(rows); k++)
            count += str_eq(remote_text(json_at(rows, k), "state"), str_of(states[i]));
        if (count > 0)
            buf_printf(out, ", %zu %s", count, states[i]);
    }
}

static void put_screen(sg_client *client, struct buf *out, const struct json_t *rows,
                       const struct figures *figures, size_t width, size_t height)
{
    double commit_ms =
        figures->store_count > 0 ? figures->store_sum_s / figures->store_count * 1000 : 0;
    buf_printf(out, "%zu sandboxes", json_len(rows));
    put_states(out, rows);
    buf_put_cstr(out, "\nserver up ");
    span_put((int64_t)figures->uptime_s, out);
    buf_printf(out, ", %.0f MB, %.0f commands, %.0f requests, store %.2f ms\n\n",
               figures->memory_bytes / 1048576, figures->commands, figures->running_requests,
               commit_ms);
    buf_put_cstr(out,
                 "ID                         STATE       CPUS  MEMORY    DISK (MB) ENDS  NAME\n");
    size_t shown = MIN(json_len(rows), height > 6 ? height - 6 : SIZE_MAX);
    /* The newest are the most interesting. */
    for (size_t i = 0; i < shown; i++) {
        const struct json_t *row = json_at(rows, json_len(rows) - 1 - i);
        AUTO_JSON struct json_t *usage = i < USAGES_MAX ? usage_of(client, row) : NULL;
        put_row(out, row, usage, width);
    }
    if (shown < json_len(rows))
        buf_printf(out, "... and %zu more\n", json_len(rows) - shown);
}

static int draw(sg_client *client, bool is_live, struct err *err)
{
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf out = {0};
    struct figures figures = {0};
    struct winsize size = {.ws_col = WIDTH};
    if (remote_call(client, "GET", "/v1/sandboxes?limit=1000", NULL, &answer, err) < 0 ||
        read_figures(client, &figures, err) < 0)
        return -1;
    if (is_live)
        (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    size_t width = size.ws_col < WIDTH_MIN ? WIDTH : size.ws_col;
    if (is_live)
        buf_put_cstr(&out, "\x1b[H\x1b[J");
    put_screen(client, &out, json_get(answer, "sandboxes"), &figures, width,
               is_live ? size.ws_row : 0);
    cli_print(buf_str(&out));
    return 0;
}

/* ---- the verb ------------------------------------------------------------------------------ */

/* Waits for the next turn; true when a key asked for the end. */
static bool was_asked_to_end(void)
{
    struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
    char key = 0;
    if (poll(&keys, 1, TICK_MS) <= 0)
        return false;
    return read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q' || key == 3;
}

/* A key counts at once and is not shown; the terminal is as before whatever happens. */
static int watch(sg_client *client, struct err *err)
{
    struct termios before, quiet;
    bool is_quiet = tcgetattr(STDIN_FILENO, &before) == 0;
    int result = 0;
    if (is_quiet) {
        quiet = before;
        quiet.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &quiet);
    }
    do
        result = draw(client, true, err);
    while (result == 0 && !was_asked_to_end());
    if (is_quiet)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
    return result < 0 ? -1 : EXIT_OK;
}

static int top(const struct cli_call *call, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    if (cli_has(call, "json"))
        return remote_show(call, "GET", "/v1/sandboxes?limit=1000", NULL, NULL, NULL, err);
    bool is_live =
        !cli_has(call, "once") && isatty(STDOUT_FILENO) == 1 && isatty(STDIN_FILENO) == 1;
    if (remote_open(call, &client, err) < 0)
        return -1;
    if (is_live)
        return watch(client, err);
    return draw(client, false, err) < 0 ? -1 : EXIT_OK;
}

static const struct cli_option top_options[] = {
    REMOTE_OPTIONS, {0, "once", NULL, "Print the table once, also on a terminal"}, {0}};

const struct cli_verb cmd_top = {
    .name = "top",
    .args = "",
    .summary = "Monitor the sandboxes of a server",
    .details =
        "Lists the newest sandboxes first, with usage and expiry time, and "
        "statistics of the server. On a terminal the table is updated every second until you press "
        "q; otherwise it is printed once. With --json prints the list as the API returns it.",
    .options = top_options,
    .run = top,
};
