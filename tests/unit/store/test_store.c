/* Rows, logs and events: what goes in comes out, in order, after closing too. */

#include "helpers.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(rows_come_back_as_they_went)
{
    struct bench bench = {0};
    struct err err = {0};
    bench_dir(&bench);
    CHECK_OK(bench_open(&bench, &err));
    CHECK_INT(bench_put(&bench, "first", 1, STORE_DURABLE), 0);
    CHECK_INT(bench_put(&bench, "second", 2, STORE_QUICK), 0);
    CHECK_INT(bench_put(&bench, "first", 1, STORE_QUICK), 0); /* the same again */
    CHECK_INT(bench_count(&bench), 2);
    bench_close(&bench);

    CHECK_OK(bench_open(&bench, &err));
    CHECK_INT(bench_count(&bench), 2);
    CHECK_OK(store_check(bench.store, &err));
    bench_close(&bench);
}

static void check_row(void *ctx, const void *data)
{
    const struct store_sandbox *row = data;
    CHECK_STR(row->id, "a");
    CHECK_STR(row->name, "it's; DROP TABLE sandboxes;--");
    CHECK_INT(row->reason.len, 0);
    CHECK_INT(row->version, INT64_MAX);
    ++*(int *)ctx;
}

TEST(texts_are_kept_to_the_letter)
{
    struct bench bench = {0};
    struct err err = {0};
    bench_dir(&bench);
    CHECK_OK(bench_open(&bench, &err));
    struct store_sandbox row = bench_sandbox("a", 1);
    row.name = STR("it's; DROP TABLE sandboxes;--");
    row.version = INT64_MAX;
    struct store_batch *batch = store_begin(bench.store);
    store_put(batch, &store_sandboxes, &row);
    store_commit(batch, STORE_QUICK, bench_answer, &bench);
    bench_wait(&bench, 1);
    int rows = 0;
    CHECK_OK(store_each(bench.store, &store_sandboxes, check_row, &rows, &err));
    CHECK_INT(rows, 1);
    bench_close(&bench);
}

TEST(a_batch_is_all_or_nothing_and_spares_its_neighbours)
{
    struct bench bench = {0};
    struct err err = {0};
    bench_dir(&bench);
    CHECK_OK(bench_open(&bench, &err));
    struct store_sandbox good = bench_sandbox("good", 1), twin = bench_sandbox("twin", 2),
                         clash = bench_sandbox("clash", 1), last = bench_sandbox("last", 3);
    struct store_batch *first = store_begin(bench.store), *second = store_begin(bench.store),
                       *third = store_begin(bench.store);
    store_put(first, &store_sandboxes, &good);
    store_put(second, &store_sandboxes, &twin);
    store_put(second, &store_sandboxes, &clash); /* the order of "good" is taken */
    store_put(third, &store_sandboxes, &last);
    store_commit(first, STORE_QUICK, bench_answer, &bench);
    store_commit(second, STORE_QUICK, bench_answer, &bench);
    store_commit(third, STORE_DURABLE, bench_answer, &bench);
    bench_wait(&bench, 3);
    CHECK_INT(bench.failures, 1);
    CHECK_INT(bench_count(&bench), 2);
    bench_close(&bench);
}

TEST(batches_that_come_together_share_a_transaction)
{
    struct bench bench = {0};
    struct err err = {0};
    bench_dir(&bench);
    CHECK_OK(bench_open(&bench, &err));
    for (int i = 0; i < 100; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "s%d", i);
        struct store_sandbox row = bench_sandbox(id, i);
        struct store_batch *batch = store_begin(bench.store);
        store_put(batch, &store_sandboxes, &row);
        store_commit(batch, STORE_DURABLE, bench_answer, &bench);
    }
    bench_wait(&bench, 100);
    CHECK_INT(bench.failures, 0);
    CHECK_INT(bench_count(&bench), 100);
    CHECK(store_figures(bench.store).transactions <= 3);
    bench_close(&bench);
}

/* --- What nobody waits for --- */

static void put_lazily(struct bench *bench, const char *id, int64_t ord)
{
    struct store_sandbox row = bench_sandbox(id, ord);
    struct store_batch *batch = store_begin(bench->store);
    store_put(batch, &store_sandboxes, &row);
    store_commit(batch, STORE_LAZY, bench_answer, bench);
}

TEST(a_lazy_batch_goes_with_the_next_one)
{
    struct bench bench = {0};
    struct err err = {0};
    bench_dir(&bench);
    CHECK_OK(bench_open(&bench, &err));
    put_lazily(&bench, "first", 1);
    CHECK_INT(bench_put(&bench, "second", 2, STORE_QUICK), 0);
    CHECK_INT(bench.answers, 2);
    CHECK_INT(store_figures(bench.store).transactions, 1);
    put_lazily(&bench, "third", 3);
    bench_close(&bench); /* closing is a hurry, too */
    CHECK_OK(bench_open(&bench, &err));
    CHECK_INT(bench_count(&bench), 3);
    bench_close(&bench);
}

TEST(a_single_lazy_batch_is_written_automatically)
{
    struct bench bench = {0};
    struct err err = {0};
    bench_dir(&bench);
    CHECK_OK(bench_open(&bench, &err));
    put_lazily(&bench, "first", 1);
    CHECK_INT(store_figures(bench.store).waiting, 1);
    bench_wait(&bench, 1);
    CHECK_INT(bench.failures, 0);
    CHECK_INT(bench_count(&bench), 1);
    store_commit(store_begin(bench.store), STORE_QUICK, NULL, NULL); /* nothing is nothing */
    CHECK_INT(store_figures(bench.store).waiting, 0);
    CHECK_INT(store_figures(bench.store).transactions, 1);
    bench_close(&bench);
}

/* The log is folded into the database behind the commits: it does not grow with their number. */
TEST(the_log_does_not_grow_forever)
{
    enum { ROUNDS = 400, EACH = 20 };
    struct bench bench = {0};
    struct err err = {0};
    struct stat st = {0};
    char path[5000];
    bench_dir(&bench);
    CHECK_OK(bench_open(&bench, &err));
    for (int round = 0; round < ROUNDS; round++) {
        struct store_batch *batch = store_begin(bench.store);
        for (int i = 0; i < EACH; i++) {
            char id[32];
            (void)snprintf(id, sizeof id, "%d-%d", i * 7919 % 1000, round);
            struct store_sandbox row = bench_sandbox(id, round * EACH + i);
            store_put(batch, &store_sandboxes, &row);
        }
        store_commit(batch, STORE_QUICK, bench_answer, &bench);
        bench_wait(&bench, round + 1);
    }
    CHECK_INT(bench.failures, 0);
    (void)snprintf(path, sizeof path, "%s/sandglass.db-wal", bench.dir);
    CHECK(stat(path, &st) == 0);
    CHECK(st.st_size < 70 << 20);
    CHECK_INT(bench_count(&bench), ROUNDS * EACH);
    CHECK_OK(store_check(bench.store, &err));
    bench_close(&bench);
    CHECK_OK(bench_open(&bench, &err));
    CHECK_INT(bench_count(&bench), ROUNDS * EACH);
    bench_close(&bench);
}

/* --- Logs --- */

struct got {
    struct bench *bench;
    char text[256];
    uint64_t starts[16];
    size_t count;
};

static void on_log(void *ctx, const struct store_log *logs, size_t count, const struct err *why)
{
    struct got *got = ctx;
    CHECK(why == NULL);
    got->count = count;
    got->text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        got->starts[i] = logs[i].start;
        (void)snprintf(got->text + strlen(got->text), sizeof got->text - strlen(got->text),
                       "%lld:%.*s ", (long long)logs[i].stream, STR_ARG(logs[i].bytes));
    }
    got->bench->answers++;
}

static void put_command(struct bench *bench, const char *id)
{
    struct store_command row = {
        .id = str_of(id), .tenant = STR("one"), .sandbox = STR("a"), .spec = STR("{}"), .ord = 1};
    struct store_batch *batch = store_begin(bench->store);
    store_put(batch, &store_commands, &row);
    store_put_log(batch, &(struct store_log){str_of(id), 0, 0, STR("hello")});
    store_put_log(batch, &(struct store_log){str_of(id), 5, 1, STR("oh")});
    store_put_log(batch, &(struct store_log){str_of(id), 7, 0, STR("world")});
    store_commit(batch, STORE_QUICK, bench_answer, bench);
}

static void read_log(struct bench *bench, struct got *got, uint64_t offset, size_t max)
{
    int answers = bench->answers;
    got->bench = bench;
    store_read_log(bench->store, STR("c1"), offset, max, on_log, got);
    bench_wait(bench, answers + 1);
}

TEST(logs_are_read_from_any_offset_and_go_with_their_command)
{
    struct bench bench = {0};
    struct err err = {0};
    struct got got = {0};
    bench_dir(&bench);
    CHECK_OK(bench_open(&bench, &err));
    put_command(&bench, "c1");
    bench_wait(&bench, 1);
    read_log(&bench, &got, 0, 1000);
    CHECK_CSTR(got.text, "0:hello 1:oh 0:world ");
    read_log(&bench, &got, 6, 1000); /* inside the second */
    CHECK_CSTR(got.text, "1:oh 0:world ");
    CHECK_INT(got.starts[0], 5);
    read_log(&bench, &got, 0, 1);
    CHECK_CSTR(got.text, "0:hello ");
    read_log(&bench, &got, 12, 1000);
    CHECK_CSTR(got.text, "");

    struct store_batch *batch = store_begin(bench.store);
    store_cut_log(batch, STR("c1"), 0, 0, 6);
    store_commit(batch, STORE_QUICK, NULL, NULL);
    read_log(&bench, &got, 0, 1000);
    CHECK_CSTR(got.text, "1:oh 0:world ");

    batch = store_begin(bench.store);
    store_remove(batch, &store_commands, STR("c1"));
    store_commit(batch, STORE_QUICK, NULL, NULL);
    read_log(&bench, &got, 0, 1000);
    CHECK_INT(got.count, 0);
    /* What comes late for a command that is gone is dropped, not an error. */
    batch = store_begin(bench.store);
    store_put_log(batch, &(struct store_log){STR("c1"), 0, 0, STR("late")});
    store_commit(batch, STORE_QUICK, NULL, NULL);
    read_log(&bench, &got, 0, 1000);
    CHECK_INT(got.count, 0);
    CHECK_INT(store_figures(bench.store).failures, 0);
    bench_close(&bench);
}

/* --- Events --- */

struct seen {
    struct bench *bench;
    size_t count;
    uint64_t last;
};

static void on_events(void *ctx, const struct store_event *events, size_t count,
                      const struct err *why)
{
    struct seen *seen = ctx;
    CHECK(why == NULL);
    seen->count = count;
    seen->last = count > 0 ? events[count - 1].seq : 0;
    seen->bench->answers++;
}

TEST(events_are_read_by_tenant_and_sandbox)
{
    struct bench bench = {0};
    struct err err = {0};
    uint64_t newest = 7;
    bench_dir(&bench);
    CHECK_OK(bench_open(&bench, &err));
    CHECK_OK(store_last_event(bench.store, &newest, &err));
    CHECK_INT(newest, 0);
    struct store_batch *batch = store_begin(bench.store);
    for (uint64_t seq = 1; seq <= 10; seq++)
        store_put_event(batch, &(struct store_event){.seq = seq,
                                                     .kind = STR("x"),
                                                     .tenant = seq % 2 == 0 ? STR("b") : STR("a"),
                                                     .id = STR("i"),
                                                     .sandbox = seq > 5 ? STR("s") : STR("")});
    store_commit(batch, STORE_QUICK, bench_answer, &bench);
    struct seen seen = {.bench = &bench};
    store_read_events(bench.store, STR("a"), STR(""), 1, 100, on_events, &seen);
    bench_wait(&bench, 2);
    CHECK_INT(seen.count, 4);
    CHECK_INT(seen.last, 9);
    store_read_events(bench.store, STR("a"), STR("s"), 0, 1, on_events, &seen);
    bench_wait(&bench, 3);
    CHECK_INT(seen.count, 1);
    CHECK_INT(seen.last, 7);
    CHECK_OK(store_last_event(bench.store, &newest, &err));
    CHECK_INT(newest, 10);
    bench_close(&bench);
}

/* --- One at a time --- */

TEST(a_second_process_is_refused)
{
    struct bench bench = {0};
    struct err err = {0};
    bench_dir(&bench);
    CHECK_OK(bench_open(&bench, &err));
    pid_t child = fork();
    if (child == 0) {
        struct bench other = {0};
        (void)snprintf(other.dir, sizeof other.dir, "%s", bench.dir);
        int code = bench_open(&other, &err) < 0 && err.code == ERR_BUSY ? 0 : 1;
        _exit(code);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_INT(status, 0);
    bench_close(&bench);
}
