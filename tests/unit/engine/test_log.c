/* Logs of commands: what is kept of them, and readers that are slow. */

#include "rig.h"

#include "base/buf.h"
#include "base/clock.h"
#include "engine/command/command_internal.h"

#define CONFIG "[sandbox]\nprovider = \"jail\"\n[logs]\nstream_mb = 1\n"

struct seen {
    struct rig *rig;
    struct command_log_reader *reader;
    struct buf text[3];
    size_t gap_at; /* in the text of its stream */
    uint64_t bytes, gap_bytes;
    int64_t gap_lines;
    int gaps;
    bool pauses, has_ended;
    struct err why;
};

static void on_chunk(void *ctx, const struct log_chunk *chunk)
{
    struct seen *seen = ctx;
    seen->bytes += chunk->bytes.len;
    buf_put(&seen->text[chunk->stream], chunk->bytes);
    if (seen->pauses)
        command_log_reader_pause(seen->reader);
}

static void on_gap(void *ctx, const struct log_gap *gap)
{
    struct seen *seen = ctx;
    seen->gaps++;
    seen->gap_at = seen->text[gap->stream].len;
    seen->gap_bytes += gap->bytes;
    seen->gap_lines += gap->lines;
}

static void on_log_end(void *ctx, UNUSED const struct command_info *command, const struct err *why)
{
    struct seen *seen = ctx;
    seen->has_ended = true;
    if (why != NULL)
        seen->why = *why;
    rig_on_plain(seen->rig, NULL);
}

static const struct log_calls log_calls = {on_chunk, on_log_end, on_gap};

static void read_log(struct rig *rig, struct seen *seen, const char *id, enum log_mode mode)
{
    struct err err = {0};
    seen->rig = rig;
    rig->awaited++;
    CHECK_OK(engine_log_open(rig->engine, &rig->caller, str_of(id), 0, mode, &log_calls, seen,
                             &seen->reader, &err));
}

static void seen_done(struct seen *seen)
{
    seen->reader = command_log_reader_free(seen->reader);
    for (size_t i = 0; i < countof(seen->text); i++)
        buf_done(&seen->text[i]);
}

static int64_t number_at(struct str text)
{
    int64_t n = -1;
    (void)!str_to_i64(str_slice(text, 0, str_find_char(text, '\n')), 0, INT64_MAX, &n);
    return n;
}

/* The text of `seq 1 LAST`. */
static void put_numbers(struct buf *out, int last)
{
    for (int i = 1; i <= last; i++)
        buf_printf(out, "%d\n", i);
}

TEST(a_long_log_keeps_whole_lines_of_both_ends_and_counts_the_rest)
{
    struct rig rig;
    struct seen seen = {0};
    rig_open_jails(&rig, CONFIG);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    CHECK_INT(rig_begin(&rig, rig.id, "seq 1 400000; echo whole >&2"), 0);
    CHECK_INT(rig_await(&rig, rig.command_id, -1), 0);
    CHECK_INT(rig.command.bytes[COMMAND_STDOUT], 2688895);
    CHECK(rig.command.truncated && rig.command.missing > (1 << 20));
    char id[64];
    (void)snprintf(id, sizeof id, "%s", rig.command_id);
    rig_close(&rig); /* what is missing is known after a restart, too */
    rig_reopen(&rig);
    CHECK_INT(RIG_CALL(&rig, engine_command_get, str_of(id), rig_on_command), 0);
    read_log(&rig, &seen, id, LOG_KEPT);
    CHECK_INT(rig_wait(&rig), 0);
    CHECK_INT(seen.gaps, 1);
    CHECK_INT(seen.text[COMMAND_STDOUT].len + seen.gap_bytes, 2688895);
    CHECK_CSTR(buf_cstr(&seen.text[COMMAND_STDERR]), "whole\n");
    struct str text = buf_str(&seen.text[COMMAND_STDOUT]);
    CHECK(text.len > (900 << 10) && text.len < (1200 << 10));
    CHECK(text.ptr[seen.gap_at - 1] == '\n');
    const char *before = memrchr(text.ptr, '\n', seen.gap_at - 1);
    int64_t last = number_at(str_slice(text, (size_t)(before + 1 - text.ptr), text.len));
    int64_t next = number_at(str_slice(text, seen.gap_at, text.len));
    CHECK(last > 1 && next > last);
    CHECK_INT(seen.gap_lines, next - last - 1);
    CHECK(str_ends(text, STR("\n399999\n400000\n")));
    seen_done(&seen);
    rig_done(&rig);
}

TEST(a_command_waits_for_its_slowest_attached_reader)
{
    struct rig rig;
    struct seen quick = {0}, slow = {.pauses = true};
    struct command_info info = {0};
    rig_open_jails(&rig, CONFIG);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    CHECK_INT(rig_begin(&rig, rig.id, "sleep 0.2; seq 1 400000"), 0);
    read_log(&rig, &quick, rig.command_id, LOG_ATTACH);
    read_log(&rig, &slow, rig.command_id, LOG_ATTACH);
    rig_run_ms(&rig, 1500);
    CHECK(engine_command_peek(rig.engine, &rig.caller, str_of(rig.command_id), &info));
    CHECK_INT(info.state, COMMAND_RUNNING);
    CHECK(info.log_end < (2 << 20)); /* it stands: half a MiB of its end, what is on the way */
    int64_t until = clock_now_ms() + 300000;
    while (!slow.has_ended && clock_now_ms() < until) {
        command_log_reader_resume(slow.reader);
        rig_run_ms(&rig, 1);
    }
    CHECK_INT(rig_wait(&rig), 0);
    AUTO_BUF struct buf expected = {0};
    put_numbers(&expected, 400000);
    CHECK_INT(slow.gaps + quick.gaps, 0);
    CHECK(str_eq(buf_str(&slow.text[COMMAND_STDOUT]), buf_str(&expected)));
    CHECK(str_eq(buf_str(&quick.text[COMMAND_STDOUT]), buf_str(&expected)));
    seen_done(&slow);
    seen_done(&quick);
    rig_done(&rig);
}

/* Attaches as a caller does that wants all of its command's output. */
static void on_started(void *ctx, const struct command_info *command, const struct err *why)
{
    struct seen *seen = ctx;
    struct err err = {0};
    CHECK(why == NULL);
    CHECK_OK(engine_log_open(seen->rig->engine, &seen->rig->caller, command->id, 0, LOG_ATTACH,
                             &log_calls, seen, &seen->reader, &err));
}

/* Its output may come before its start is in the store, more of it than a log keeps. */
TEST(a_caller_that_attaches_when_told_of_the_start_misses_nothing)
{
    struct rig rig;
    rig_open_jails(&rig, CONFIG);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    for (int i = 0; i < 10; i++) {
        struct seen seen = {.rig = &rig};
        struct command_spec spec = {.sandbox = str_of(rig.id),
                                    .shell = STR("head -c 8000000 /dev/zero")};
        rig.awaited++;
        engine_command_start(rig.engine, &rig.caller, &spec, on_started, &seen);
        CHECK_INT(rig_wait(&rig), 0);
        CHECK_INT(seen.gaps, 0);
        CHECK_INT(seen.bytes, 8000000);
        seen_done(&seen);
    }
    rig_done(&rig);
}

/* Neither one that left, nor one that is only looking, makes it wait. */
TEST(a_command_waits_for_nobody_else)
{
    struct rig rig;
    struct seen slow = {.pauses = true}, gone = {.pauses = true};
    rig_open_jails(&rig, CONFIG);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    CHECK_INT(rig_begin(&rig, rig.id, "sleep 0.2; seq 1 400000"), 0);
    read_log(&rig, &slow, rig.command_id, LOG_FOLLOW);
    read_log(&rig, &gone, rig.command_id, LOG_ATTACH);
    rig_run_ms(&rig, 600);
    seen_done(&gone);
    rig.awaited--; /* its end does not come */
    rig.awaited--; /* nor that of the one that is paused, for now */
    CHECK_INT(rig_await(&rig, rig.command_id, -1), 0);
    CHECK_INT(rig.command.code, 0);
    slow.pauses = false;
    rig.awaited++;
    command_log_reader_resume(slow.reader);
    CHECK_INT(rig_wait(&rig), 0);
    CHECK(slow.gaps > 0);
    CHECK_INT(slow.bytes + slow.gap_bytes, 2688895);
    seen_done(&slow);
    rig_done(&rig);
}

TEST(a_reader_that_stalls_is_ended_and_the_command_goes_on)
{
    struct rig rig;
    struct seen slow = {.pauses = true};
    rig_open_jails(&rig, CONFIG "stalled_seconds = 1\n");
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){0}), 0);
    CHECK_INT(rig_begin(&rig, rig.id, "sleep 0.2; seq 1 400000"), 0);
    read_log(&rig, &slow, rig.command_id, LOG_ATTACH);
    CHECK_INT(rig_wait(&rig), 0);
    CHECK_INT(slow.why.code, ERR_TIMEOUT);
    CHECK(strstr(slow.why.msg, "logs.stalled_seconds") != NULL);
    CHECK_INT(rig_await(&rig, rig.command_id, -1), 0);
    CHECK_INT(rig.command.code, 0);
    seen_done(&slow);
    rig_done(&rig);
}
