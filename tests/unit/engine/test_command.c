/* Commands, files and volumes in jails, through the engine. */

#include <signal.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/map.h"
#include "engine/answer.h"
#include "engine/command/command_internal.h"
#include "engine/internal.h"
#include "rig.h"

#define CONFIG "[sandbox]\nprovider = \"jail\"\n"

struct seen {
    struct rig *rig;
    struct buf text;
    uint64_t next;
    bool has_ended;
    struct command_info info;
};

static int start(struct rig *rig, const struct command_spec *spec)
{
    return RIG_CALL(rig, engine_command_start, spec, rig_on_command);
}

/* From the store, where it is in memory no more. */
static int get(struct rig *rig, const char *id)
{
    return RIG_CALL(rig, engine_command_get, str_of(id), rig_on_command);
}

static char listed[8][64], next_page[64];

/* How many into rig->count, the first ids into `listed`. */
static void on_list(void *ctx, const struct command_list *list, const struct err *why)
{
    struct rig *rig = ctx;
    rig->count = list == NULL ? 0 : list->count;
    for (size_t i = 0; i < MIN(rig->count, countof(listed)); i++)
        (void)snprintf(listed[i], sizeof listed[i], "%.*s", STR_ARG(list->items[i].id));
    if (list != NULL)
        (void)snprintf(next_page, sizeof next_page, "%s", list->next);
    rig_on_plain(rig, why);
}

static int list(struct rig *rig, const struct command_filter *filter)
{
    return RIG_CALL(rig, engine_command_list, filter, on_list);
}

static void on_chunk(void *ctx, const struct log_chunk *chunk)
{
    struct seen *seen = ctx;
    CHECK_INT(chunk->offset, seen->next);
    seen->next = chunk->offset + chunk->bytes.len;
    buf_put(&seen->text, chunk->bytes);
}

static void on_log_end(void *ctx, const struct command_info *command, const struct err *why)
{
    struct seen *seen = ctx;
    seen->has_ended = true;
    if (command != NULL)
        seen->info = *command;
    rig_on_plain(seen->rig, why);
}

static const struct log_calls log_calls = {on_chunk, on_log_end};

static struct command_log_reader *follow(struct rig *rig, struct seen *seen, const char *id,
                                         uint64_t offset, bool follows)
{
    struct command_log_reader *reader = NULL;
    struct err err = {0};
    *seen = (struct seen){.rig = rig, .next = offset};
    rig->awaited++;
    CHECK_OK(engine_log_open(rig->engine, &rig->caller, str_of(id), offset, follows, &log_calls,
                             seen, &reader, &err));
    return reader;
}

/* The whole log as text. */
static void check_log(struct rig *rig, const char *id, const char *expected)
{
    struct seen seen;
    struct command_log_reader *reader = follow(rig, &seen, id, 0, false);
    CHECK_INT(rig_wait(rig), 0);
    CHECK_CSTR(buf_cstr(&seen.text), expected);
    (void)command_log_reader_free(reader);
    buf_done(&seen.text);
}

TEST(a_command_runs_and_its_log_stays)
{
    struct rig rig;
    char id[64];
    rig_open_jails(&rig, CONFIG);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    CHECK_INT(rig_begin(&rig, rig.id, "echo out; echo err >&2; exit 3"), 0);
    (void)snprintf(id, sizeof id, "%s", rig.command_id);
    CHECK_INT(rig_await(&rig, id, -1), 0);
    CHECK_INT(rig.command.state, COMMAND_ENDED);
    CHECK_INT(rig.command.end, COMMAND_EXITED);
    CHECK_INT(rig.command.code, 3);
    CHECK_INT(rig.command.bytes[COMMAND_STDOUT], 4);
    CHECK_INT(rig.command.log_end, 8);
    struct seen seen;
    struct command_log_reader *reader = follow(&rig, &seen, id, 2, false);
    CHECK_INT(rig_wait(&rig), 0);
    CHECK_INT(seen.text.len, 6);
    (void)command_log_reader_free(reader);
    buf_done(&seen.text);
    /* It outlives its sandbox, and the daemon. */
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_delete, str_of(rig.id), rig_on_plain), 0);
    rig_close(&rig);
    rig_reopen(&rig);
    CHECK_INT(get(&rig, id), 0);
    CHECK_INT(rig.command.code, 3);
    CHECK_CSTR(rig.command_shell, "echo out; echo err >&2; exit 3");
    CHECK_INT(rig_await(&rig, id, -1), 0);
    rig_done(&rig);
}

TEST(readers_follow_and_replay_at_their_own_pace)
{
    struct rig rig;
    rig_open_jails(&rig, CONFIG);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    struct command_spec spec = {.sandbox = str_of(rig.id),
                                .shell = STR("while read -r x; do echo got $x; done; echo bye"),
                                .has_stdin = true};
    CHECK_INT(start(&rig, &spec), 0);
    struct seen first, second;
    struct command_log_reader *one = follow(&rig, &first, rig.command_id, 0, true);
    rig.awaited++;
    engine_command_write(rig.engine, &rig.caller, str_of(rig.command_id), STR("a\nb\n"),
                         rig_on_plain, &rig);
    rig_run_ms(&rig, 100);
    struct command_log_reader *two = follow(&rig, &second, rig.command_id, 0, true);
    command_log_reader_pause(one);
    rig.awaited++;
    engine_command_write(rig.engine, &rig.caller, str_of(rig.command_id), STR("c\n"), rig_on_plain,
                         &rig);
    rig_run_ms(&rig, 100);
    command_log_reader_resume(one);
    rig.awaited++;
    engine_command_close_stdin(rig.engine, &rig.caller, str_of(rig.command_id), rig_on_plain, &rig);
    CHECK_INT(rig_wait(&rig), 0);
    CHECK_CSTR(buf_cstr(&first.text), "got a\ngot b\ngot c\nbye\n");
    CHECK_CSTR(buf_cstr(&second.text), "got a\ngot b\ngot c\nbye\n");
    CHECK(first.has_ended && second.has_ended);
    (void)command_log_reader_free(one);
    (void)command_log_reader_free(two);
    buf_done(&first.text);
    buf_done(&second.text);
    rig_done(&rig);
}

TEST(commands_end_by_signal_by_time_and_with_their_sandbox)
{
    struct rig rig;
    char sandbox[64];
    rig_open_jails(&rig, CONFIG);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    (void)snprintf(sandbox, sizeof sandbox, "%s", rig.id);
    CHECK_INT(rig_begin(&rig, sandbox, "sleep 100"), 0);
    CHECK_INT(rig_await(&rig, rig.command_id, 50), -1);
    CHECK_INT(rig.why.code, ERR_TIMEOUT);
    CHECK_INT(RIG_CALL(&rig, engine_command_signal, str_of(rig.command_id), SIGKILL, rig_on_plain),
              0);
    CHECK_INT(rig_await(&rig, rig.command_id, -1), 0);
    CHECK_INT(rig.command.end, COMMAND_KILLED);
    CHECK_INT(rig.command.signal, SIGKILL);
    CHECK_INT(RIG_CALL(&rig, engine_command_signal, str_of(rig.command_id), SIGKILL, rig_on_plain),
              -1);
    CHECK_INT(rig.why.code, ERR_CONFLICT);

    struct command_spec slow = {
        .sandbox = str_of(sandbox), .shell = STR("sleep 100"), .timeout_ms = 100};
    CHECK_INT(start(&rig, &slow), 0);
    CHECK_INT(rig_await(&rig, rig.command_id, -1), 0);
    CHECK_INT(rig.command.end, COMMAND_TIMEOUT);

    CHECK_INT(rig_begin(&rig, sandbox, "sleep 100"), 0);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_stop, str_of(sandbox), rig_on_sandbox), 0);
    CHECK_INT(rig_await(&rig, rig.command_id, -1), 0);
    CHECK_INT(rig.command.end, COMMAND_STOPPED);
    CHECK_INT(rig_begin(&rig, sandbox, "true"), -1);
    CHECK_INT(rig.why.code, ERR_GONE);
    rig_done(&rig);
}

TEST(a_kill_ends_the_whole_tree_and_lack_of_memory_is_reported)
{
    struct rig rig;
    char sandbox[64], command[64];
    rig_open_jails(&rig, CONFIG);
    struct sandbox_spec spec = {.limits = {.memory_bytes = 64LL << 20}};
    CHECK_INT(rig_create(&rig, &spec), 0);
    (void)snprintf(sandbox, sizeof sandbox, "%s", rig.id);
    /* A child in a session of its own, whose parent is gone. */
    CHECK_INT(rig_begin(&rig, sandbox,
                        "(setsid sh -c 'touch up; while :; do sleep 1; done' &); sleep 100"),
              0);
    (void)snprintf(command, sizeof command, "%s", rig.command_id);
    CHECK_INT(rig_begin(&rig, sandbox, "until test -e up; do sleep 0.01; done"), 0);
    CHECK_INT(rig_await(&rig, rig.command_id, -1), 0);
    CHECK_INT(RIG_CALL(&rig, engine_command_signal, str_of(command), SIGKILL, rig_on_plain), 0);
    CHECK_INT(rig_await(&rig, command, -1), 0);
    CHECK_INT(rig.command.end, COMMAND_KILLED);
    CHECK_INT(rig_begin(&rig, sandbox,
                        "while cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | "
                        "grep -q 'touch [u]p'; do sleep 0.01; done"),
              0);
    CHECK_INT(rig_await(&rig, rig.command_id, -1), 0);

    CHECK_INT(rig_begin(&rig, sandbox, "exec tail /dev/zero"), 0);
    CHECK_INT(rig_await(&rig, rig.command_id, -1), 0);
    CHECK_INT(rig.command.end, COMMAND_OOM);
    CHECK_INT(rig_begin(&rig, sandbox, "kill -9 $$"), 0);
    CHECK_INT(rig_await(&rig, rig.command_id, -1), 0);
    CHECK_INT(rig.command.end, COMMAND_EXITED);
    rig_done(&rig);
}

TEST(what_cannot_start_says_why_and_leaves_nothing)
{
    struct rig rig;
    rig_open_jails(&rig, CONFIG);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    struct str argv[] = {STR("/no/such/program")};
    struct command_spec spec = {.sandbox = str_of(rig.id), .argv = argv, .arg_count = 1};
    CHECK_INT(start(&rig, &spec), -1);
    CHECK_INT(rig.why.code, ERR_PROGRAM_NOT_FOUND);
    spec.cwd = STR("/no/such/dir");
    CHECK_INT(start(&rig, &spec), -1);
    CHECK_INT(rig.why.code, ERR_BAD_CWD);
    spec.shell = STR("true");
    CHECK_INT(start(&rig, &spec), -1);
    CHECK_INT(rig.why.code, ERR_INVALID);
    CHECK_INT(list(&rig, &(struct command_filter){0}), 0);
    CHECK_INT(rig.count, 0);
    rig_done(&rig);
}

/* More than stay in memory when they are over; the first one is known no more. */
static void run_many(struct rig *rig, size_t count, char first[64])
{
    struct command_info info;
    for (size_t i = 0; i < count; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "echo this is %zu", i);
        CHECK_INT(rig_begin(rig, rig->id, text), 0);
        CHECK_INT(rig_await(rig, rig->command_id, -1), 0);
        if (i == 0)
            (void)snprintf(first, 64, "%s", rig->command_id);
    }
    for (int i = 0;
         i < 9000 && engine_command_peek(rig->engine, &rig->caller, str_of(first), &info); i++)
        rig_run_ms(rig, 20);
    CHECK(!engine_command_peek(rig->engine, &rig->caller, str_of(first), &info));
}

static void check_brought_back(struct rig *rig, const char *id)
{
    struct seen seen;
    CHECK_INT(get(rig, id), 0);
    CHECK_CSTR(rig->command_shell, "echo this is 0");
    CHECK_INT(rig->command.state, COMMAND_ENDED);
    CHECK_INT(rig->command.code, 0);
    CHECK_INT(rig->command.log_end, 10);
    struct command_log_reader *reader = follow(rig, &seen, id, 5, true);
    CHECK_INT(rig_wait(rig), 0);
    CHECK_CSTR(buf_cstr(&seen.text), "is 0\n");
    CHECK(seen.has_ended && seen.info.code == 0);
    (void)command_log_reader_free(reader);
    buf_done(&seen.text);
    CHECK_INT(rig_await(rig, id, -1), 0);
}

TEST(commands_that_are_over_leave_memory_and_come_back)
{
    enum { MANY = 150 };
    struct rig rig;
    char first[64], sandbox[64];
    size_t seen = 0;
    rig_open_jails(&rig, CONFIG);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    (void)snprintf(sandbox, sizeof sandbox, "%s", rig.id);
    run_many(&rig, MANY, first);
    CHECK_INT(RIG_CALL(&rig, engine_command_signal, str_of(first), SIGKILL, rig_on_plain), -1);
    CHECK_INT(rig.why.code, ERR_CONFLICT);
    struct engine_caller other = {.tenant = STR("other")}, mine = rig.caller;
    rig.caller = other;
    CHECK_INT(get(&rig, first), -1);
    CHECK_INT(rig.why.code, ERR_NOT_FOUND);
    rig.caller = mine;
    check_brought_back(&rig, first);
    /* By the page: each of them once, whether in memory or not. */
    struct command_filter filter = {.sandbox = str_of(sandbox), .page = {.limit = 40}};
    next_page[0] = '\0';
    do {
        char after[64];
        (void)snprintf(after, sizeof after, "%s", next_page);
        filter.page.after = str_of(after);
        CHECK_INT(list(&rig, &filter), 0);
        CHECK(seen > 0 || strcmp(listed[0], first) == 0);
        seen += rig.count;
    } while (next_page[0] != '\0');
    CHECK_INT(seen, MANY);
    CHECK_INT(list(&rig, &(struct command_filter){.running_only = true}), 0);
    CHECK_INT(rig.count, 0);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_delete, str_of(sandbox), rig_on_plain), 0);
    rig_close(&rig);
    rig_reopen(&rig);
    check_brought_back(&rig, first);
    CHECK_INT(list(&rig, &(struct command_filter){.page = {.limit = 200}}), 0);
    CHECK_INT(rig.count, MANY);
    CHECK_INT(get(&rig, "nothing"), -1);
    CHECK_INT(rig.why.code, ERR_NOT_FOUND);
    rig_done(&rig);
}

TEST(a_tenants_oldest_go_when_it_has_too_many)
{
    struct rig rig;
    char first[64];
    if (geteuid() != 0)
        SKIP("jails with every limit need root here");
    rig_open(&rig, CONFIG "[limits]\ncommands = 2\n");
    rig.engine->next_sweep_ms = INT64_MAX; /* only the one below */
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    for (int i = 0; i < 4; i++) {
        CHECK_INT(rig_begin(&rig, rig.id, "echo out"), 0);
        CHECK_INT(rig_await(&rig, rig.command_id, -1), 0);
        if (i == 0)
            (void)snprintf(first, sizeof first, "%s", rig.command_id);
    }
    struct seen seen;
    struct command_log_reader *reader = follow(&rig, &seen, first, 0, true);
    CHECK_INT(rig_wait(&rig), 0);
    command_sweep(rig.engine);
    CHECK_INT(list(&rig, &(struct command_filter){0}), 0);
    CHECK_INT(rig.count, 2);
    CHECK_INT(get(&rig, first), -1);
    CHECK_INT(rig.why.code, ERR_NOT_FOUND);
    CHECK_INT(get(&rig, listed[0]), 0);
    (void)command_log_reader_free(reader);
    buf_done(&seen.text);
    rig_done(&rig);
}

TEST(a_terminal_echoes_and_is_resized)
{
    struct rig rig;
    rig_open_jails(&rig, CONFIG);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    struct command_spec spec = {.sandbox = str_of(rig.id),
                                .shell = STR("read x; stty size; echo end"),
                                .tty = true,
                                .has_stdin = true,
                                .rows = 10,
                                .cols = 20};
    CHECK_INT(start(&rig, &spec), 0);
    CHECK_INT(RIG_CALL(&rig, engine_command_resize, str_of(rig.command_id), 33, 44, rig_on_plain),
              0);
    CHECK_INT(
        RIG_CALL(&rig, engine_command_write, str_of(rig.command_id), STR("x\n"), rig_on_plain), 0);
    CHECK_INT(rig_await(&rig, rig.command_id, -1), 0);
    check_log(&rig, rig.command_id, "x\r\n33 44\r\nend\r\n");
    rig_done(&rig);
}

TEST(files_of_a_jail)
{
    struct rig rig;
    char id[64];
    rig_open_jails(&rig, CONFIG);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    (void)snprintf(id, sizeof id, "%s", rig.id);
    CHECK_INT(rig_write(&rig, id, "/workspace/a/b.txt", "hello"), 0);
    CHECK_INT(rig_read(&rig, id, "/workspace/a/b.txt"), 0);
    CHECK_CSTR(rig.texts[0], "hello");
    CHECK_INT(rig_begin(&rig, id, "cat /workspace/a/b.txt; echo more > /workspace/c.txt"), 0);
    CHECK_INT(rig_await(&rig, rig.command_id, -1), 0);
    check_log(&rig, rig.command_id, "hello");
    struct file_place place = {.sandbox = str_of(id)};
    struct file_request list = {.op = FILE_LIST, .path = STR("/workspace"), .recursive = true};
    CHECK_INT(RIG_CALL(&rig, engine_file, &place, &list, rig_on_file), 0);
    CHECK_INT(rig.count, 3);
    CHECK_CSTR(rig.texts[2], "a/b.txt");
    struct file_request glob = {
        .op = FILE_GLOB, .path = STR("/workspace"), .pattern = STR("**/*.txt")};
    CHECK_INT(RIG_CALL(&rig, engine_file, &place, &glob, rig_on_file), 0);
    CHECK_INT(rig.count, 2);
    struct file_request edit = {.op = FILE_EDIT,
                                .path = STR("/workspace/a/b.txt"),
                                .old_text = STR("ell"),
                                .new_text = STR("ipp")};
    CHECK_INT(RIG_CALL(&rig, engine_file, &place, &edit, rig_on_file), 0);
    CHECK_INT(rig_read(&rig, id, "/workspace/a/b.txt"), 0);
    CHECK_CSTR(rig.texts[0], "hippo");
    CHECK_INT(rig_read(&rig, id, "/nope"), -1);
    CHECK_INT(rig.why.code, ERR_NOT_FOUND);
    /* More than a packet holds, both ways. */
    AUTO_BUF struct buf big = {0};
    for (int i = 0; i < 20000; i++)
        buf_printf(&big, "line %d\n", i);
    CHECK_INT(rig_write(&rig, id, "/workspace/big", buf_cstr(&big)), 0);
    struct file_request read = {
        .op = FILE_READ, .path = STR("/workspace/big"), .offset = big.len - 11, .limit = 200000};
    CHECK_INT(RIG_CALL(&rig, engine_file, &place, &read, rig_on_file), 0);
    CHECK_CSTR(rig.texts[0], "line 19999\n");
    struct file_request stale = {
        .op = FILE_WRITE, .path = STR("/workspace/big"), .bytes = STR("x"), .if_match = STR("0-0")};
    CHECK_INT(RIG_CALL(&rig, engine_file, &place, &stale, rig_on_file), -1);
    CHECK_INT(rig.why.code, ERR_NO_MATCH);
    rig_done(&rig);
}

/* Until the command has written this many bytes. */
static void wait_for_log(struct rig *rig, const char *id, uint64_t bytes)
{
    struct command_info info = {0};
    for (int i = 0; i < 9000 && info.log_end < bytes; i++) {
        rig_run_ms(rig, 20);
        CHECK(engine_command_peek(rig->engine, &rig->caller, str_of(id), &info));
    }
    CHECK(info.log_end >= bytes);
}

TEST(a_paused_jail_goes_on_where_it_was)
{
    struct rig rig;
    rig_open_jails(&rig, CONFIG);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    char id[64];
    struct command_info info = {0};
    CHECK_INT(rig_begin(&rig, rig.id, "until test -e go; do echo on; sleep 0.02; done"), 0);
    (void)snprintf(id, sizeof id, "%s", rig.command_id);
    wait_for_log(&rig, id, 1);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_pause, str_of(rig.id), rig_on_sandbox), 0);
    CHECK_INT(rig.sandbox.state, SANDBOX_PAUSED);
    rig_run_ms(&rig, 300); /* what it had said before is read */
    CHECK(engine_command_peek(rig.engine, &rig.caller, str_of(id), &info));
    uint64_t end = info.log_end;
    CHECK_INT(rig_await(&rig, id, 600), -1);
    CHECK(engine_command_peek(rig.engine, &rig.caller, str_of(id), &info));
    CHECK_INT(info.log_end, end);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_resume, str_of(rig.id), rig_on_sandbox), 0);
    wait_for_log(&rig, id, end + 1);
    CHECK_INT(rig_write(&rig, rig.id, "/workspace/go", ""), 0);
    CHECK_INT(rig_await(&rig, id, -1), 0);
    CHECK_INT(rig.command.code, 0);
    rig_done(&rig);
}

TEST(a_volume_outlives_sandboxes_and_has_one_writer)
{
    struct rig rig;
    char volume[64], first[64];
    struct err err = {0};
    rig_open_jails(&rig, CONFIG);
    struct volume_spec spec = {.name = STR("data"), .capacity_bytes = 32 << 20};
    int made = RIG_CALL(&rig, engine_volume_create, &spec, rig_on_volume);
    if (made < 0 && rig.why.code == ERR_UNSUPPORTED) {
        rig_done(&rig);
        SKIP("no directory can be limited here");
    }
    CHECK_INT(made, 0);
    (void)snprintf(volume, sizeof volume, "%s", rig.volume);
    struct sandbox_spec with = {.volume = STR("data")};
    CHECK_INT(rig_create(&rig, &with), 0);
    (void)snprintf(first, sizeof first, "%s", rig.id);
    CHECK_INT(rig_create(&rig, &with), -1);
    CHECK_INT(rig.why.code, ERR_BUSY);
    CHECK_INT(RIG_CALL(&rig, engine_volume_delete, str_of(volume), rig_on_plain), -1);
    CHECK_INT(rig.why.code, ERR_BUSY);
    CHECK_INT(rig_write(&rig, first, "/workspace/kept", "kept"), 0);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_delete, str_of(first), rig_on_plain), 0);
    rig_close(&rig);
    rig_reopen(&rig);
    CHECK_INT(rig_create(&rig, &with), 0);
    CHECK_INT(rig_read(&rig, rig.id, "/workspace/kept"), 0);
    CHECK_CSTR(rig.texts[0], "kept");
    struct volume_info info;
    CHECK_OK(engine_volume_get(rig.engine, &rig.caller, STR("data"), &info, &err));
    CHECK_INT(info.fence, 2);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_delete, str_of(rig.id), rig_on_plain), 0);
    CHECK_INT(RIG_CALL(&rig, engine_volume_delete, str_of(volume), rig_on_plain), 0);
    CHECK_ERR(engine_volume_get(rig.engine, &rig.caller, STR("data"), &info, &err), ERR_NOT_FOUND);
    rig_done(&rig);
}

TEST(two_callers_of_a_session_share_one_sandbox)
{
    struct rig rig;
    rig_open_jails(&rig, CONFIG);
    struct session_spec spec = {.id = STR("session-1"), .idle_ms = 400};
    CHECK_INT(RIG_CALL(&rig, engine_session_create, &spec, rig_on_session), 0);
    struct command_spec run = {.session = STR("session-1"), .shell = STR("echo $$ > /workspace/f")};
    rig.awaited += 2;
    engine_command_start(rig.engine, &rig.caller, &run, rig_on_command, &rig);
    engine_command_start(rig.engine, &rig.caller, &run, rig_on_command, &rig);
    int started = rig_wait(&rig);
    if (started < 0 && rig.why.code == ERR_UNSUPPORTED) {
        rig_done(&rig);
        SKIP("no directory can be limited here");
    }
    CHECK_INT(started, 0);
    struct sandbox_list list;
    struct err err = {0};
    AUTO_ARENA struct arena arena = {0};
    CHECK_OK(engine_sandbox_list(rig.engine, &rig.caller, &(struct sandbox_filter){0}, &arena,
                                 &list, &err));
    CHECK_INT(list.count, 1);
    struct session_info info = {.state = SESSION_ACTIVE};
    for (int i = 0; i < 3600 && info.state != SESSION_DORMANT; i++) {
        rig_run_ms(&rig, 50);
        CHECK_OK(engine_session_get(rig.engine, &rig.caller, STR("session-1"), &info, &err));
    }
    CHECK_INT(info.state, SESSION_DORMANT);
    CHECK(info.volume.len > 0);
    run.shell = STR("cat /workspace/f");
    CHECK_INT(start(&rig, &run), 0);
    CHECK_INT(rig_await(&rig, rig.command_id, -1), 0);
    CHECK_INT(rig.command.code, 0);
    CHECK_INT(RIG_CALL(&rig, engine_session_delete, STR("session-1"), rig_on_plain), 0);
    rig_done(&rig);
}

/* --- Contents of any size --- */

struct flow {
    struct rig *rig;
    struct file_writer *writer;
    struct file_reader *reader;
    uint64_t sent, got, size;
    bool has_head, is_wrong;
    int news;
};

enum { FLOW_BYTES = 20 << 20 };

static char byte_at(uint64_t offset)
{
    return (char)('a' + offset % 23);
}

static void send_more(struct flow *flow)
{
    char bytes[65536];
    while (flow->sent < FLOW_BYTES) {
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = byte_at(flow->sent + i);
        flow->sent += sizeof bytes;
        if (!file_writer_write(flow->writer, str_n(bytes, sizeof bytes)))
            return;
    }
    file_writer_finish(flow->writer);
}

static void on_drain(void *ctx)
{
    send_more(ctx);
}

static void on_put(void *ctx, const struct file_answer *answer, const struct err *why)
{
    struct flow *flow = ctx;
    if (answer != NULL)
        flow->size = answer->info.size;
    rig_on_plain(flow->rig, why);
}

static void on_head(void *ctx, const struct file_info *info)
{
    struct flow *flow = ctx;
    flow->has_head = true;
    flow->size = info->size;
}

static void on_data(void *ctx, struct str bytes)
{
    struct flow *flow = ctx;
    for (size_t i = 0; i < bytes.len; i++)
        flow->is_wrong |= bytes.ptr[i] != byte_at(flow->got + i);
    flow->got += bytes.len;
    if (flow->got % 7 == 0) { /* a reader with a pace of its own */
        file_reader_pause(flow->reader);
        file_reader_resume(flow->reader);
    }
}

static void on_get_end(void *ctx, const struct err *why)
{
    struct flow *flow = ctx;
    rig_on_plain(flow->rig, why);
}

static void on_news(void *ctx, UNUSED const struct file_event *event)
{
    struct flow *flow = ctx;
    flow->news++;
}

static void on_news_end(UNUSED void *ctx, UNUSED const struct err *why)
{
}

static const struct file_writer_calls put_calls = {on_drain, on_put};
static const struct file_reader_calls get_calls = {on_head, on_data, on_get_end};
static const struct file_watch_calls news_calls = {on_news, on_news_end};

TEST(contents_of_any_size_go_in_and_out)
{
    struct rig rig;
    struct err err = {0};
    rig_open_jails(&rig, CONFIG);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    struct file_place place = {.sandbox = str_of(rig.id)};
    struct flow flow = {.rig = &rig};
    struct file_watcher *watcher = NULL;
    CHECK_OK(engine_file_watch(rig.engine, &rig.caller, &place, STR("/workspace"), false,
                               &news_calls, &flow, &watcher, &err));
    for (int i = 0; i < 3600 && flow.news == 0; i++) { /* until it watches */
        CHECK_INT(rig_write(&rig, rig.id, "/workspace/small", "x"), 0);
        rig_run_ms(&rig, 50);
    }
    CHECK(flow.news > 0);
    struct file_put put = {.path = STR("/workspace/big")};
    rig.awaited++;
    CHECK_OK(engine_file_put(rig.engine, &rig.caller, &place, &put, &put_calls, &flow, &flow.writer,
                             &err));
    send_more(&flow);
    CHECK_INT(rig_wait(&rig), 0);
    CHECK_INT(flow.size, FLOW_BYTES);
    (void)file_writer_free(flow.writer);

    struct file_get get = {.path = STR("/workspace/big")};
    rig.awaited++;
    CHECK_OK(engine_file_get(rig.engine, &rig.caller, &place, &get, &get_calls, &flow, &flow.reader,
                             &err));
    CHECK_INT(rig_wait(&rig), 0);
    CHECK_INT(flow.got, FLOW_BYTES);
    CHECK(flow.has_head && !flow.is_wrong);
    (void)file_reader_free(flow.reader);

    /* Dropped half way: the old file stays. */
    flow = (struct flow){.rig = &rig, .news = flow.news};
    struct file_put half = {.path = STR("/workspace/half")};
    CHECK_OK(engine_file_put(rig.engine, &rig.caller, &place, &half, &put_calls, &flow,
                             &flow.writer, &err));
    (void)file_writer_write(flow.writer, STR("some"));
    rig_run_ms(&rig, 50);
    (void)file_writer_free(flow.writer);
    rig_run_ms(&rig, 50);
    CHECK_INT(rig_read(&rig, rig.id, "/workspace/half"), -1);
    CHECK_INT(rig.why.code, ERR_NOT_FOUND);

    get.path = STR("/workspace/none");
    rig.awaited++;
    CHECK_OK(engine_file_get(rig.engine, &rig.caller, &place, &get, &get_calls, &flow, &flow.reader,
                             &err));
    CHECK_INT(rig_wait(&rig), -1);
    CHECK_INT(rig.why.code, ERR_NOT_FOUND);
    (void)file_reader_free(flow.reader);
    (void)file_watcher_free(watcher);
    rig_done(&rig);
}

static void on_port(void *ctx, int fd, const struct err *why)
{
    if (fd >= 0)
        (void)close(fd);
    rig_on_plain(ctx, why);
}

TEST(a_server_inside_is_reached)
{
    struct rig rig;
    if (access("/usr/bin/python3", X_OK) < 0)
        SKIP("no python3 to serve with");
    rig_open_jails(&rig, CONFIG);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    CHECK_INT(RIG_CALL(&rig, engine_port_connect, str_of(rig.id), 8123, on_port), -1);
    CHECK_INT(rig.why.code, ERR_NO_LISTENER);
    CHECK_INT(rig_begin(&rig, rig.id, "exec python3 -m http.server 8123"), 0);
    int connected = -1;
    for (int i = 0; i < 3600 && connected < 0; i++) {
        rig_run_ms(&rig, 50);
        connected = RIG_CALL(&rig, engine_port_connect, str_of(rig.id), 8123, on_port);
    }
    CHECK_INT(connected, 0);
    rig_done(&rig);
}

TEST(a_warden_that_dies_is_replaced)
{
    struct rig rig;
    char id[64];
    rig_open_jails(&rig, CONFIG);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    (void)snprintf(id, sizeof id, "%s", rig.id);
    CHECK_INT(rig_begin(&rig, id, "sleep 100"), 0);
    pid_t warden = engine_tier_process_pid(rig.engine, ENGINE_TIER_JAIL);
    CHECK(warden > 0);
    CHECK_INT(kill(warden, SIGKILL), 0);
    CHECK_INT(rig_await(&rig, rig.command_id, -1), 0);
    CHECK_INT(rig.command.end, COMMAND_LOST);
    for (int i = 0; i < 9000 && rig_state(&rig, id) != SANDBOX_INTERRUPTED; i++)
        rig_run_ms(&rig, 20);
    CHECK_INT(rig_state(&rig, id), SANDBOX_INTERRUPTED);
    CHECK_INT(rig_begin(&rig, id, "echo back"), 0); /* a new place, from the new warden */
    CHECK_INT(rig_await(&rig, rig.command_id, -1), 0);
    CHECK_INT(rig.command.code, 0);
    rig_done(&rig);
}
