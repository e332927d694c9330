/* Commands that are over, as the store keeps them. */

#include "helpers.h"

#include "base/embed.h"
#include "store/db.h"

struct answer {
    struct bench *bench;
    size_t count;
    char ids[8][32];
    int64_t code;
    uint64_t bytes;
    bool is_all;
};

static void note(struct answer *answer, const struct str *ids, size_t at)
{
    if (at < countof(answer->ids))
        (void)snprintf(answer->ids[at], sizeof answer->ids[at], "%.*s", STR_ARG(*ids));
}

static void on_rows(void *ctx, const struct store_command *rows, size_t count,
                    const struct err *why)
{
    struct answer *answer = ctx;
    answer->count = count;
    for (size_t i = 0; i < count; i++)
        note(answer, &rows[i].id, i);
    answer->code = count > 0 ? rows[0].code : -1;
    bench_answer(answer->bench, why);
}

static void on_dropped(void *ctx, const struct store_dropped *dropped, const struct err *why)
{
    struct answer *answer = ctx;
    answer->count = dropped == NULL ? 0 : dropped->count;
    for (size_t i = 0; i < answer->count; i++)
        note(answer, &dropped->ids[i], i);
    answer->bytes = dropped == NULL ? 0 : dropped->bytes;
    answer->is_all = dropped != NULL && dropped->is_all;
    bench_answer(answer->bench, why);
}

static void put(struct store_batch *batch, const char *id, const char *tenant, const char *sandbox,
                int64_t ord, bool has_ended)
{
    struct store_command row = {
        .id = str_of(id),
        .tenant = str_of(tenant),
        .ord = ord,
        .sandbox = str_of(sandbox),
        .spec = STR("{}"),
        .state = has_ended,
        .code = ord,
        .ended_ms = has_ended ? 1000 + ord : 0,
        .log_end = 100,
    };
    store_put(batch, &store_commands, &row);
    store_put_log(batch, &(struct store_log){.command = row.id, .bytes = STR("x")});
}

/* a1 to a4 of one tenant, the last of which runs; b1 of another. */
static void fill(struct bench *bench)
{
    struct store_batch *batch = store_begin(bench->store);
    put(batch, "a1", "a", "s1", 1, true);
    put(batch, "a2", "a", "s2", 2, true);
    put(batch, "b1", "b", "s3", 3, true);
    put(batch, "a3", "a", "s1", 4, true);
    put(batch, "a4", "a", "s1", 5, false);
    store_commit(batch, STORE_QUICK, bench_answer, bench);
    bench_wait(bench, bench->answers + 1);
}

static void open_filled(struct bench *bench)
{
    struct err err = {0};
    bench_dir(bench);
    CHECK_OK(bench_open(bench, &err));
    fill(bench);
}

TEST(they_are_read_by_id_and_by_the_page)
{
    struct bench bench = {0};
    struct answer answer = {.bench = &bench};
    open_filled(&bench);
    store_read_command(bench.store, STR("a2"), on_rows, &answer);
    bench_wait(&bench, bench.answers + 1);
    CHECK_INT(answer.count, 1);
    CHECK_INT(answer.code, 2);
    store_read_command(bench.store, STR("zz"), on_rows, &answer);
    bench_wait(&bench, bench.answers + 1);
    CHECK_INT(answer.count, 0);
    store_read_commands(bench.store, STR("a"), STR(""), 1, 2, on_rows, &answer);
    bench_wait(&bench, bench.answers + 1);
    CHECK_INT(answer.count, 2);
    CHECK_CSTR(answer.ids[0], "a2");
    CHECK_CSTR(answer.ids[1], "a3");
    store_read_commands(bench.store, STR("a"), STR("s1"), 0, 10, on_rows, &answer);
    bench_wait(&bench, bench.answers + 1);
    CHECK_INT(answer.count, 3);
    store_read_commands(bench.store, STR("a"), STR("s3"), 0, 10, on_rows, &answer);
    bench_wait(&bench, bench.answers + 1);
    CHECK_INT(answer.count, 0);
    bench_close(&bench);
}

TEST(the_oldest_go_first_and_what_runs_stays)
{
    struct bench bench = {0};
    struct answer answer = {.bench = &bench};
    open_filled(&bench);
    store_drop_commands(bench.store, &(struct store_drop){.tenant = STR("a"), .before_ms = 1002},
                        on_dropped, &answer);
    bench_wait(&bench, bench.answers + 1);
    CHECK_INT(answer.count, 1);
    CHECK_CSTR(answer.ids[0], "a1");
    CHECK_INT(answer.bytes, 100);
    CHECK(answer.is_all);
    store_drop_commands(bench.store, &(struct store_drop){.tenant = STR("a"), .bytes = 1},
                        on_dropped, &answer);
    bench_wait(&bench, bench.answers + 1);
    CHECK_INT(answer.count, 1);
    CHECK_CSTR(answer.ids[0], "a2");
    store_drop_commands(bench.store, &(struct store_drop){.tenant = STR("a"), .count = 10},
                        on_dropped, &answer);
    bench_wait(&bench, bench.answers + 1);
    CHECK_INT(answer.count, 1);
    CHECK_CSTR(answer.ids[0], "a3");
    store_read_commands(bench.store, STR("a"), STR(""), 0, 10, on_rows, &answer);
    bench_wait(&bench, bench.answers + 1);
    CHECK_INT(answer.count, 1);
    CHECK_CSTR(answer.ids[0], "a4");
    struct err err = {0};
    CHECK_OK(store_check(bench.store, &err));
    bench_close(&bench);
}

extern const struct embed_file store_schema[];

struct counted {
    size_t running;
    int64_t of_a, of_b, bytes;
};

static void on_running(void *ctx, const void *row)
{
    struct counted *counted = ctx;
    counted->running++;
    CHECK_STR(((const struct store_command *)row)->id, "a4");
}

static void on_count(void *ctx, struct str tenant, int64_t count, int64_t bytes)
{
    struct counted *counted = ctx;
    *(str_eq(tenant, STR("a")) ? &counted->of_a : &counted->of_b) += count;
    counted->bytes += bytes;
}

TEST(a_start_reads_what_ran_and_counts_the_rest_also_of_an_older_store)
{
    struct bench bench = {0};
    struct err err = {0};
    open_filled(&bench);
    bench_close(&bench);
    /* As version 1 left it. */
    char path[4200];
    struct db *db = NULL;
    (void)snprintf(path, sizeof path, "%s/sandglass.db", bench.dir);
    CHECK_OK(db_open(path, false, &db, &err));
    CHECK_OK(db_exec(db,
                     "CREATE TEMP TABLE kept AS SELECT id, tenant, ord, sandbox, spec, state, "
                     "end_reason, code, signal, started_ms, ended_ms, wall_us, user_us, system_us, "
                     "peak_bytes, log_end, bytes_out, bytes_err, bytes_tty, truncated "
                     "FROM commands; "
                     "DROP TABLE command_logs; DROP TABLE commands; DROP TABLE code_modules; "
                     "DROP TABLE sessions; DROP TABLE session_volumes; DROP TABLE snapshots; "
                     "DROP TABLE sandboxes; DROP TABLE tokens; DROP TABLE idempotency_keys; "
                     "DROP TABLE events; DROP TABLE meta; DROP TABLE approvals",
                     &err));
    CHECK_OK(db_exec(db, store_schema[0].bytes.ptr, &err));
    CHECK_OK(db_exec(db, "INSERT INTO commands SELECT * FROM kept; PRAGMA user_version=1", &err));
    (void)db_close(db);
    CHECK_OK(bench_open(&bench, &err));
    struct counted counted = {0};
    int64_t last = 0;
    CHECK_OK(store_each_running(bench.store, on_running, &counted, &err));
    CHECK_OK(store_count_commands(bench.store, on_count, &counted, &err));
    CHECK_OK(store_last_command(bench.store, &last, &err));
    CHECK_INT(counted.running, 1);
    CHECK_INT(counted.of_a, 3);
    CHECK_INT(counted.of_b, 1);
    CHECK_INT(counted.bytes, 400);
    CHECK_INT(last, 5);
    bench_close(&bench);
}
