/* sandglass sandbox commands|kill: the commands of a sandbox of a running server. */

#include "cli/cmd/commands.h"
#include "cli/remote.h"
#include "cli/span.h"

enum { ROWS_MAX = 16 << 20 };

static const struct remote_column columns[] = {
    {"id", "ID"},
    {"state", "STATE"},
    {"pid", "PID"},
    {"age", "AGE"},
    {"tty", "TTY"},
    {"line", "COMMAND"},
    {0},
};

/* ---- the table ----------------------------------------------------------------------------- */

/* As it would be typed into a shell. */
static void put_word(struct str word, struct buf *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+=:,./@%";
    size_t at = 0;
    while (at < word.len && memchr(plain, word.ptr[at], sizeof plain - 1) != NULL)
        at++;
    if (at == word.len && word.len > 0) {
        buf_put(out, word);
        return;
    }
    buf_put_char(out, '\'');
    for (size_t i = 0; i < word.len; i++)
        if (word.ptr[i] == '\'')
            buf_put_cstr(out, "'\\''");
        else
            buf_put_char(out, word.ptr[i]);
    buf_put_char(out, '\'');
}

static void cmd_commands_put_line(const struct json_t *command, struct buf *out)
{
    const struct json_t *argv = json_get(command, "argv");
    struct str line = remote_text(command, "command"), word;
    buf_put(out, line);
    for (size_t i = 0; line.len == 0 && argv != NULL && i < json_len(argv); i++) {
        buf_put_cstr(out, i == 0 ? "" : " ");
        if (json_to_str(json_at(argv, i), &word))
            put_word(word, out);
    }
}

/* "running", "exited 1", "timeout" */
static void put_state(const struct json_t *command, struct buf *out)
{
    struct str end = remote_text(command, "end");
    int64_t code = 0;
    buf_put(out, end.len > 0 ? end : remote_text(command, "state"));
    if (str_eq(end, STR("exited")) && json_to_i64(json_get(command, "exitCode"), &code))
        buf_printf(out, " %lld", (long long)code);
}

static void put_row(const struct json_t *command, struct json_out *out)
{
    AUTO_BUF struct buf state = {0}, age = {0}, line = {0};
    bool tty = false;
    put_state(command, &state);
    span_put_date(remote_text(command, "startedAt"), -1, &age);
    cmd_commands_put_line(command, &line);
    json_begin_object(out);
    json_key(out, "id"), json_put_str(out, remote_text(command, "id"));
    json_key(out, "state"), json_put_str(out, buf_str(&state));
    json_key(out, "pid"), json_put_value(out, json_get(command, "pid"));
    json_key(out, "age"), json_put_str(out, buf_str(&age));
    json_key(out, "tty");
    json_put_cstr(out, json_to_bool(json_get(command, "tty"), &tty) && tty ? "yes" : NULL);
    json_key(out, "line"), json_put_str(out, buf_str(&line));
    json_end_object(out);
}

static int print_rows(const struct json_t *commands, struct err *err)
{
    AUTO_BUF struct buf text = buf_with_limit(ROWS_MAX), table = {0};
    AUTO_JSON struct json_t *rows = NULL;
    struct json_out out = {.buf = &text};
    json_begin_array(&out);
    for (size_t i = 0; commands != NULL && i < json_len(commands); i++)
        put_row(json_at(commands, i), &out);
    json_end_array(&out);
    if (json_parse(buf_str(&text), &rows, err) < 0)
        return -1;
    remote_put_table(rows, columns, &table);
    cli_print(buf_str(&table));
    return EXIT_OK;
}

static int cmd_commands_list(const struct cli_call *call, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf id = {0}, path = {0};
    if (remote_find_sandbox(call, call->args[0], false, &id, err) < 0)
        return -1;
    remote_path(&path, "/v1/sandboxes/%s/commands?limit=1000", buf_cstr(&id));
    if (!cli_has(call, "all"))
        buf_put_cstr(&path, "&running=true");
    if (cli_has(call, "json"))
        return remote_show(call, "GET", buf_cstr(&path), NULL, NULL, NULL, err);
    if (remote_open(call, &client, err) < 0 ||
        remote_call(client, "GET", buf_cstr(&path), NULL, &answer, err) < 0)
        return -1;
    return print_rows(json_get(answer, "commands"), err);
}

/* ---- signals ------------------------------------------------------------------------------- */

static int send_signal(sg_client *client, struct str command, const char *name, struct err *err)
{
    AUTO_BUF struct buf id = {0}, path = {0}, body = {0};
    struct json_out out = {.buf = &body};
    buf_put(&id, command);
    remote_path(&path, "/v1/commands/%s/signal", buf_cstr(&id));
    json_begin_object(&out);
    json_key(&out, "signal"), json_put_cstr(&out, name);
    json_end_object(&out);
    return remote_call(client, "POST", buf_cstr(&path), buf_cstr(&body), NULL, err);
}

/* A command's id says all; that the sandbox is named as well guards against the wrong one. */
static int check_place(sg_client *client, const char *command, struct str sandbox, struct err *err)
{
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf path = {0};
    remote_path(&path, "/v1/commands/%s", command);
    if (remote_call(client, "GET", buf_cstr(&path), NULL, &answer, err) < 0)
        return -1;
    if (str_eq(remote_text(answer, "sandbox"), sandbox))
        return 0;
    return err_set(err, ERR_CONFLICT, "command '%.72s' belongs to sandbox '%.*s'", command,
                   STR_ARG(remote_text(answer, "sandbox")));
}

static int signal_all(sg_client *client, struct str sandbox, const char *name, struct err *err)
{
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf id = {0}, path = {0};
    buf_put(&id, sandbox);
    remote_path(&path, "/v1/sandboxes/%s/commands?limit=1000&running=true", buf_cstr(&id));
    if (remote_call(client, "GET", buf_cstr(&path), NULL, &answer, err) < 0)
        return -1;
    const struct json_t *commands = json_get(answer, "commands");
    for (size_t i = 0; commands != NULL && i < json_len(commands); i++) {
        int sent = send_signal(client, remote_text(json_at(commands, i), "id"), name, err);
        if (sent < 0 && err->code != ERR_CONFLICT) /* it ended meanwhile */
            return -1;
    }
    return EXIT_OK;
}

static int kill_them(const struct cli_call *call, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_BUF struct buf id = {0};
    const char *name = cli_value(call, "signal");
    if (cli_has(call, "all") == (call->arg_count > 1))
        return err_set(err, ERR_INVALID,
                       "sandbox kill: give command ids or --all; 'sandglass sandbox "
                       "commands %.64s' lists them",
                       call->args[0]);
    if (name == NULL)
        name = "TERM";
    if (remote_find_sandbox(call, call->args[0], false, &id, err) < 0 ||
        remote_open(call, &client, err) < 0)
        return -1;
    if (cli_has(call, "all"))
        return signal_all(client, buf_str(&id), name, err);
    for (size_t i = 1; i < call->arg_count; i++)
        if (check_place(client, call->args[i], buf_str(&id), err) < 0)
            return -1;
    for (size_t i = 1; i < call->arg_count; i++)
        if (send_signal(client, str_of(call->args[i]), name, err) < 0)
            return err_wrap(err, "command '%.72s'", call->args[i]);
    return EXIT_OK;
}

static const struct cli_option list_options[] = {
    REMOTE_OPTIONS, {'a', "all", NULL, "Also commands that have ended"}, {0}};
static const struct cli_option kill_options[] = {
    REMOTE_OPTIONS,
    {'s', "signal", "NAME", "Signal to send: INT, HUP, KILL, ... (default TERM)"},
    {0, "all", NULL, "All running commands of the sandbox"},
    {0}};

const struct cli_verb cmd_sandbox_commands = {
    .name = "sandbox commands",
    .args = "SANDBOX",
    .summary = "List the running commands of a sandbox",
    .details = "'sandglass logs ID' prints the output of a command, 'sandglass shell SANDBOX "
               "--attach ID' attaches to one with a terminal (TTY), and 'sandglass sandbox kill "
               "SANDBOX ID' ends it.",
    .options = list_options,
    .args_min = 1,
    .args_max = 1,
    .run = cmd_commands_list,
};

const struct cli_verb cmd_sandbox_kill = {
    .name = "sandbox kill",
    .args = "SANDBOX [COMMAND...]",
    .summary = "Send a signal to commands in a sandbox",
    .details = "The signal goes to the command and the processes of its process group. Does not "
               "affect code in interpreters: see 'sandglass interrupt'.",
    .options = kill_options,
    .args_min = 1,
    .args_max = CLI_ARGS_MAX - 1,
    .run = kill_them,
};
