/* sandglass top: the sandboxes of a running server, live. */

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/remote.h"

enum { TICK_MS = 1000, WIDTH = 80, WIDTH_MIN = 40, METRICS_MAX = 4 << 20 };

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

/* "12s", "5m", "3h", "2d" */
static void put_span(int64_t seconds, struct buf *out)
{
    seconds = MAX(seconds, (int64_t)0);
    if (seconds < 120)
        buf_printf(out, "%llds", (long long)seconds);
    else if (seconds < 7200)
        buf_printf(out, "%lldm", (long long)seconds / 60);
    else if (seconds < 172800)
        buf_printf(out, "%lldh", (long long)seconds / 3600);
    else
        buf_printf(out, "%lldd", (long long)seconds / 86400);
}

/* Seconds since 1970 of "2026-11-16T07:00:00.000Z"; false when it is none. */
static bool read_date(struct str text, int64_t *ret_seconds)
{
    static const struct {
        size_t at, len;
    } parts[] = {{0, 4}, {5, 2}, {8, 2}, {11, 2}, {14, 2}, {17, 2}};
    int64_t n[countof(parts)];
    for (size_t i = 0; i < countof(parts); i++)
        if (!str_to_i64(str_slice(text, parts[i].at, parts[i].at + parts[i].len), 0, 9999, &n[i]))
            return false;
    /* Days, from a year that begins in March. */
    int64_t year = n[0] - (n[1] <= 2), month = (n[1] + 9) % 12;
    int64_t days =
        365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + n[2] - 1 - 719468;
    *ret_seconds = days * 86400 + n[3] * 3600 + n[4] * 60 + n[5];
    return true;
}

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
    int64_t then;
    if (read_date(remote_text(row, member), &then))
        put_span(sign * (then - clock_date_ms() / 1000), &text);
    else
        buf_put_char(&text, '-');
    put_cell(out, buf_str(&text), width);
}

/* Eighty columns: 26 for the id, what is left of them for the name. */
static void put_row(struct buf *out, const struct json_t *row, size_t width)
{
    AUTO_BUF struct buf memory = {0};
    int64_t mb = 0;
    const struct json_t *limits = json_get(row, "limits");
    struct str name = remote_text(row, "name");
    if (limits != NULL && json_to_i64(json_get(limits, "memoryMb"), &mb) && mb > 0)
        buf_printf(&memory, "%lld", (long long)mb);
    put_cell(out, remote_text(row, "id"), 26), buf_put_char(out, ' ');
    put_cell(out, remote_text(row, "tier"), 7), buf_put_char(out, ' ');
    put_cell(out, remote_text(row, "state"), 11), buf_put_char(out, ' ');
    put_cell(out, buf_str(&memory), 6), buf_put_char(out, ' ');
    put_time(out, row, "activeAt", -1, 6), buf_put_char(out, ' ');
    put_time(out, row, "expiresAt", 1, 6), buf_put_char(out, ' ');
    struct str label = name.len > 0 ? name : remote_text(row, "session");
    put_cell(out, label, MIN(label.len, width > 69 ? width - 69 : 0));
    buf_put_char(out, '\n');
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

static void put_screen(struct buf *out, const struct json_t *rows, const struct figures *figures,
                       size_t width, size_t height)
{
    double commit_ms =
        figures->store_count > 0 ? figures->store_sum_s / figures->store_count * 1000 : 0;
    buf_printf(out, "%zu sandboxes", json_len(rows));
    put_states(out, rows);
    buf_put_cstr(out, "\nserver up ");
    put_span((int64_t)figures->uptime_s, out);
    buf_printf(out, ", %.0f MB, %.0f commands, %.0f requests, store %.2f ms\n\n",
               figures->memory_bytes / 1048576, figures->commands, figures->running_requests,
               commit_ms);
    buf_put_cstr(out, "ID                         TIER    STATE       MB     ACTIVE ENDS   NAME\n");
    size_t shown = MIN(json_len(rows), height > 6 ? height - 6 : SIZE_MAX);
    /* The newest are the most interesting. */
    for (size_t i = 0; i < shown; i++)
        put_row(out, json_at(rows, json_len(rows) - 1 - i), width);
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
    put_screen(&out, json_get(answer, "sandboxes"), &figures, width, is_live ? size.ws_row : 0);
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
    REMOTE_OPTIONS, {0, "once", NULL, "Draw it once, also on a terminal"}, {0}};

const struct cli_verb cmd_top = {
    .name = "top",
    .args = "",
    .summary = "Watch the sandboxes of a server",
    .details =
        "The newest first: when each last worked and when its time is up, and how the server "
        "does. On a terminal the table is drawn anew each second until q; elsewhere once. With "
        "--json, the list as the API gives it.",
    .options = top_options,
    .run = top,
};
