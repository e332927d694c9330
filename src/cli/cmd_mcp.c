/* `sandglass mcp`: a client of the Model Context Protocol on standard input and output, with an
 * engine of its own that lives and ends with it. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <mntent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/mcp.h"
#include "agent/tool.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "engine/config.h"
#include "engine/engine.h"
#include "io/loop.h"

enum { LINE_MAX_BYTES = JSON_SIZE_MAX, READ_BYTES = 64 << 10, STOP_MS = 10000, FRESH_S = 60 };
#define DIR_PREFIX "sandglass-mcp-"

struct stdio {
    struct loop *loop;
    struct engine *engine;
    struct mcp *mcp;
    struct engine_caller caller;
    char session[ID_SIZE];
    struct watch *input;
    struct buf line;
    bool is_too_long; /* the line at hand: skipped to its end */
    bool is_over;     /* nothing more comes in */
    bool is_stopping;
    struct err err;
};

/* --- Ending --- */

static void on_stopped(void *ctx, UNUSED const struct err *why)
{
    struct stdio *stdio = ctx;
    loop_stop(stdio->loop);
}

static void on_deleted(void *ctx, UNUSED const struct err *why)
{
    struct stdio *stdio = ctx;
    engine_stop(stdio->engine, on_stopped, stdio);
}

static void stop(struct stdio *stdio)
{
    if (stdio->is_stopping)
        return;
    stdio->is_stopping = true;
    stdio->input = watch_free(stdio->input);
    stdio->mcp = mcp_free(stdio->mcp);
    engine_session_delete(stdio->engine, &stdio->caller, str_of(stdio->session), on_deleted, stdio);
}

/* What was asked before the end of input is answered first. */
static void stop_when_done(struct stdio *stdio)
{
    if (stdio->is_over && !mcp_is_busy(stdio->mcp))
        stop(stdio);
}

struct stop_task {
    struct loop_task task;
    struct stdio *stdio;
};

static void on_stop_task(struct loop_task *task)
{
    struct stop_task *later = (struct stop_task *)task;
    if (!later->stdio->is_stopping)
        stop_when_done(later->stdio);
    free(later);
}

static void on_signal(void *ctx, UNUSED int signo)
{
    stop(ctx);
}

/* --- Messages --- */

static void on_message(void *ctx, UNUSED struct str about, bool is_last, struct str json)
{
    struct stdio *stdio = ctx;
    AUTO_BUF struct buf line = {0};
    if (json.len > 0) {
        buf_put(&line, json);
        buf_put_char(&line, '\n');
        cli_print(buf_str(&line));
    }
    if (is_last && stdio->is_over) {
        struct stop_task *later = mem_alloc(sizeof *later);
        *later = (struct stop_task){.task.run = on_stop_task, .stdio = stdio};
        loop_post(stdio->loop, &later->task);
    }
}

static const struct mcp_calls calls = {on_message};

static void take_line(struct stdio *stdio, struct str line)
{
    struct err err = {0};
    AUTO_JSON struct json_t *message = NULL;
    line = str_trim(line);
    if (line.len == 0)
        return;
    if (json_parse(line, &message, &err) < 0)
        mcp_refuse(stdio->mcp, err.msg);
    else
        (void)mcp_take(stdio->mcp, message);
}

static void take_bytes(struct stdio *stdio, struct str bytes)
{
    struct str part;
    while (bytes.len > 0) {
        size_t at = str_find_char(bytes, '\n');
        part = str_slice(bytes, 0, at);
        if (!stdio->is_too_long && stdio->line.len + part.len > LINE_MAX_BYTES) {
            stdio->is_too_long = true;
            mcp_refuse(stdio->mcp, "a message of more than 16 MiB");
        }
        if (!stdio->is_too_long)
            buf_put(&stdio->line, part);
        if (at == bytes.len)
            return;
        if (!stdio->is_too_long)
            take_line(stdio, buf_str(&stdio->line));
        stdio->is_too_long = false;
        buf_clear(&stdio->line);
        bytes = str_slice(bytes, at + 1, bytes.len);
    }
}

static void on_input(void *ctx, UNUSED int events)
{
    struct stdio *stdio = ctx;
    char bytes[READ_BYTES];
    ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
    if (got > 0) {
        take_bytes(stdio, str_n(bytes, (size_t)got));
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        take_bytes(stdio, STR("\n"));
        stdio->is_over = true;
        watch_set(stdio->input, 0);
        stop_when_done(stdio);
    }
}

static void on_session(void *ctx, UNUSED const struct session_info *session, const struct err *why)
{
    struct stdio *stdio = ctx;
    if (why != NULL) {
        stdio->err = *why;
        loop_stop(stdio->loop);
    } else if (watch_new(stdio->loop, STDIN_FILENO, WATCH_READ, on_input, stdio, &stdio->input,
                         &stdio->err) < 0) {
        (void)err_wrap(&stdio->err, "standard input (a pipe is needed)");
        stop(stdio);
    }
}

/* --- The engine's directory, for this client alone --- */

static int remove_one(const char *path, UNUSED const struct stat *st, UNUSED int type,
                      UNUSED struct FTW *at)
{
    return remove(path);
}

static void remove_dir(char **dir)
{
    if (*dir != NULL)
        (void)nftw(*dir, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    free(*dir);
}

/* One that was killed leaves its directory: it is ours, old enough to have been locked, and no
 * process holds its lock any more. */
static bool is_left_over(int base_fd, const char *name)
{
    struct stat st;
    AUTO_CLOSE int fd = openat(base_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
           time(NULL) - st.st_mtime > FRESH_S && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/* Volumes of a killed one are still mounted there. */
static void unmount_below(const char *path)
{
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    struct mntent entry;
    char space[4096];
    if (mounts == NULL)
        return;
    while (getmntent_r(mounts, &entry, space, sizeof space) != NULL) {
        struct str dir = str_of(entry.mnt_dir), below = str_of(path);
        if (str_starts(dir, below) && dir.len > below.len && dir.ptr[below.len] == '/')
            (void)umount2(entry.mnt_dir, MNT_DETACH | UMOUNT_NOFOLLOW);
    }
    (void)endmntent(mounts);
}

static void remove_left_over(const char *base)
{
    DIR *dir = opendir(base);
    if (dir == NULL)
        return;
    struct dirent *entry;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread yet */
    while ((entry = readdir(dir)) != NULL) {
        if (!str_starts(str_of(entry->d_name), STR(DIR_PREFIX)) ||
            !is_left_over(dirfd(dir), entry->d_name))
            continue;
        AUTO_BUF struct buf path = {0};
        buf_printf(&path, "%s/%s", base, entry->d_name);
        unmount_below(buf_cstr(&path));
        (void)nftw(buf_cstr(&path), remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    }
    (void)closedir(dir);
}

/* The lock tells later ones that somebody lives here; it goes with the process. */
static int make_dir(char **ret_dir, int *ret_lock, struct err *err)
{
    AUTO_BUF struct buf path = {0};
    const char *base = getenv("TMPDIR"); /* NOLINT(concurrency-mt-unsafe): one thread yet */
    if (base == NULL || base[0] != '/')
        base = "/var/tmp";
    remove_left_over(base);
    buf_printf(&path, "%s/" DIR_PREFIX "XXXXXX", base);
    char *dir = buf_take(&path);
    int lock = mkdtemp(dir) == NULL ? -1 : open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0) {
        int result = err_sys(err, errno, "make a directory '%s'", dir);
        fd_close(&lock);
        free(dir);
        return result;
    }
    *ret_dir = dir;
    *ret_lock = lock;
    return 0;
}

/* --- The verb --- */

static int converse(struct stdio *stdio, const struct config *config, const char *dir,
                    struct err *err)
{
    struct signal_watch *signals[2] = {0};
    const struct engine_options options = {.config = config, .data_dir = dir};
    if (signal_watch_new(stdio->loop, SIGTERM, on_signal, stdio, &signals[0], err) < 0 ||
        signal_watch_new(stdio->loop, SIGINT, on_signal, stdio, &signals[1], err) < 0 ||
        engine_open(stdio->loop, &options, &stdio->engine, err) < 0)
        return -1;
    id_new(stdio->session);
    stdio->caller = (struct engine_caller){.tenant = STR("local"), .is_operator = true};
    struct session_spec spec = {.id = str_of(stdio->session), .name = STR("mcp")};
    stdio->mcp = mcp_new(&(struct mcp_options){.engine = stdio->engine,
                                               .config = config,
                                               .loop = stdio->loop,
                                               .caller = stdio->caller,
                                               .session = spec.id},
                         &calls, stdio);
    engine_session_create(stdio->engine, &stdio->caller, &spec, on_session, stdio);
    loop_run(stdio->loop);
    stdio->mcp = mcp_free(stdio->mcp);
    stdio->engine = engine_free(stdio->engine);
    *err = stdio->err;
    return stdio->err.code == ERR_NONE ? EXIT_OK : -1;
}

static int print_config(const char *client, struct err *err)
{
    AUTO_BUF struct buf text = {0};
    char program[4096];
    ssize_t len = readlink("/proc/self/exe", program, sizeof program - 1);
    bool is_vscode = strcmp(client, "vscode") == 0;
    struct json_out out = {.buf = &text, .pretty = true};
    if (!is_vscode && strcmp(client, "claude") != 0 && strcmp(client, "cursor") != 0)
        return err_set(err, ERR_INVALID, "--print-config: claude, cursor or vscode, not '%.40s'",
                       client);
    json_begin_object(&out);
    json_key(&out, is_vscode ? "servers" : "mcpServers");
    json_begin_object(&out);
    json_key(&out, "sandglass");
    json_begin_object(&out);
    if (is_vscode)
        json_key(&out, "type"), json_put_cstr(&out, "stdio");
    json_key(&out, "command");
    json_put_str(&out, len > 0 ? str_n(program, (size_t)len) : STR("sandglass"));
    json_key(&out, "args");
    json_begin_array(&out);
    json_put_cstr(&out, "mcp");
    json_end_array(&out);
    json_end_object(&out);
    json_end_object(&out);
    json_end_object(&out);
    buf_put_char(&text, '\n');
    cli_print(buf_str(&text));
    return EXIT_OK;
}

static int mcp(const struct cli_call *call, struct err *err)
{
    AUTO_CONFIG struct config *config = NULL;
    AUTO(remove_dir) char *dir = NULL;
    AUTO_CLOSE int lock = -1;
    const char *client = cli_value(call, "print-config");
    if (client != NULL)
        return print_config(client, err);
    if (config_load(cli_value(call, "config"), &config, err) < 0)
        return -1;
    log_setup(LOG_WARN, config->server.log_format, STDERR_FILENO);
    struct stdio stdio = {0};
    if (make_dir(&dir, &lock, err) < 0 || loop_open(&stdio.loop, err) < 0)
        return -1;
    int code = converse(&stdio, config, dir, err);
    stdio.loop = loop_free(stdio.loop);
    buf_done(&stdio.line);
    return code;
}

static const struct cli_option mcp_options[] = {
    {0, "print-config", "CLIENT",
     "Print what to put into the settings of claude, cursor or vscode"},
    {0},
};

const struct cli_verb cmd_mcp = {
    .name = "mcp",
    .args = "",
    .summary = "Serve one client of the Model Context Protocol on standard input and output",
    .details =
        "Needs no daemon: the client gets a session of its own, with a sandbox made at first "
        "use, and both end with it. A running daemon serves the same at /mcp.",
    .options = mcp_options,
    .run = mcp,
};

static int tools_docs(UNUSED const struct cli_call *call, UNUSED struct err *err)
{
    AUTO_BUF struct buf out = {0};
    tools_put_doc(&out);
    cli_print(buf_str(&out));
    return EXIT_OK;
}

static int tools_typescript(UNUSED const struct cli_call *call, UNUSED struct err *err)
{
    AUTO_BUF struct buf out = {0};
    tools_put_typescript(&out);
    cli_print(buf_str(&out));
    return EXIT_OK;
}

const struct cli_verb cmd_tools_ts = {
    .name = "tools ts",
    .args = "",
    .summary = "Print sdk/ts/src/tool_table.ts",
    .hidden = true,
    .run = tools_typescript,
};

const struct cli_verb cmd_tools_docs = {
    .name = "tools docs",
    .args = "",
    .summary = "Print docs/TOOLS.md",
    .hidden = true,
    .run = tools_docs,
};
