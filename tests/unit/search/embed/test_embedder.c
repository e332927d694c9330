#include "search/embed/embedder.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/sys.h"
#include "io/loop.h"
#include "test.h"

enum { PATIENCE_MS = 120000, BACKGROUND = 24 };

/* ---- the embedder under test ---- */

static struct loop *loop;
static struct embedder *embedder;

static const char *model_dir(void)
{
    const char *dir = getenv("SG_MODEL");
    if (dir == NULL || access(dir, R_OK) < 0)
        SKIP("SG_MODEL names no model; run tools/deps test");
    return dir;
}

static void begin(struct embedder_options options)
{
    struct err err = {0};
    if (options.program == NULL)
        options.program = getenv("SANDGLASS_BIN");
    if (options.program == NULL)
        SKIP("SANDGLASS_BIN names no sandglass");
    if (options.model_dir == NULL)
        options.model_dir = model_dir();
    if (options.threads == 0)
        options.threads = 2;
    CHECK_OK(loop_open(&loop, &err));
    CHECK_OK(embedder_open(loop, &options, &embedder, &err));
}

static void end(void)
{
    embedder = embedder_close(embedder);
    loop = loop_free(loop);
}

static void give_up(void *ctx UNUSED)
{
    fail_msg("nothing happened for %d ms", PATIENCE_MS);
}

/* Runs the loop until `is_met`. */
static void wait_for(bool (*is_met)(const void *ctx), const void *ctx)
{
    struct timer *limit = timer_new(loop, give_up, NULL);
    timer_set(limit, PATIENCE_MS, 0);
    while (!is_met(ctx)) {
        (void)loop_step(loop);
        (void)usleep(1000);
    }
    limit = timer_free(limit);
}

/* Of the one child of this process; 0 when it has none. */
static int child_pid(void)
{
    struct err err = {0};
    AUTO_BUF struct buf text = {0};
    int64_t pid = 0;
    AUTO_CLOSE int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_OK(buf_read_all(&text, fd, &err));
    return str_to_i64(str_trim(buf_str(&text)), 1, INT32_MAX, &pid) ? (int)pid : 0;
}

/* ---- requests ---- */

struct seen {
    int calls;
    int before; /* answers to background texts that came earlier */
    enum err_code code;
    float vector[EMBED_DIMS];
};

static int background_answers;

static void on_answer(void *ctx, const float *vectors, const struct err *err)
{
    struct seen *seen = ctx;
    CHECK((vectors == NULL) != (err == NULL));
    seen->calls++;
    seen->before = background_answers;
    seen->code = err == NULL ? ERR_NONE : err->code;
    if (vectors != NULL)
        memcpy(seen->vector, vectors, sizeof seen->vector);
}

static void on_background(void *ctx, const float *vectors, const struct err *err)
{
    on_answer(ctx, vectors, err);
    background_answers++;
}

static bool is_answered(const void *ctx)
{
    return ((const struct seen *)ctx)->calls > 0;
}

static void ask(struct seen *seen, enum embed_priority priority, struct str text)
{
    struct err err = {0};
    *seen = (struct seen){0};
    CHECK_OK(embedder_embed(embedder, &text, 1, priority,
                            priority == EMBED_QUERY ? on_answer : on_background, seen, &err));
    CHECK_INT(seen->calls, 0);
}

static void ask_and_wait(struct seen *seen, struct str text)
{
    ask(seen, EMBED_QUERY, text);
    wait_for(is_answered, seen);
    CHECK_INT(seen->calls, 1);
}

/* Some milliseconds of work; a few hundred with sanitizers. */
static void put_long_text(struct buf *out)
{
    for (int i = 0; i < 30; i++)
        buf_printf(out, "word%d ", i);
}

/* ---- tests ---- */

TEST(vectors_are_those_of_the_model)
{
    struct err err = {0};
    struct seen seen;
    AUTO_EMBED_MODEL struct embed_model *model = NULL;
    float expected[EMBED_DIMS];
    struct str text = STR("a text");
    begin((struct embedder_options){0});
    CHECK_INT(child_pid(), 0); /* nothing runs before the first request */
    ask_and_wait(&seen, text);
    CHECK_INT(seen.code, ERR_NONE);
    CHECK(child_pid() > 0);
    end();
    CHECK_INT(child_pid(), 0);
    CHECK_OK(embed_model_open(model_dir(), 1, &model, &err));
    embed_texts(model, &text, 1, expected);
    CHECK(memcmp(expected, seen.vector, sizeof expected) == 0);
}

TEST(a_request_has_many_texts_in_their_order)
{
    enum { COUNT = 100 };
    static char words[COUNT][16];
    struct err err = {0};
    struct str texts[COUNT];
    struct seen seen = {0}, one;
    begin((struct embedder_options){0});
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(words[i], sizeof words[i], "text %d", i);
        texts[i] = str_of(words[i]);
    }
    CHECK_OK(embedder_embed(embedder, texts, COUNT, EMBED_BACKGROUND, on_answer, &seen, &err));
    wait_for(is_answered, &seen);
    ask_and_wait(&one, texts[0]);
    CHECK(memcmp(one.vector, seen.vector, sizeof one.vector) == 0);
    CHECK_ERR(embedder_embed(embedder, texts, 0, EMBED_QUERY, on_answer, &seen, &err),
              ERR_TOO_LARGE);
    CHECK_ERR(embedder_embed(embedder, texts, EMBEDDER_TEXTS_MAX + 1, EMBED_QUERY, on_answer, &seen,
                             &err),
              ERR_TOO_LARGE);
    end();
}

/* A query is answered before the texts that it finds waiting. */
TEST(queries_go_before_background_texts)
{
    static struct seen background[BACKGROUND];
    struct seen first, query;
    AUTO_BUF struct buf text = {0};
    begin((struct embedder_options){0});
    put_long_text(&text);
    ask_and_wait(&first, STR("start"));
    background_answers = 0;
    for (int i = 0; i < BACKGROUND; i++)
        ask(&background[i], EMBED_BACKGROUND, buf_str(&text));
    ask_and_wait(&query, STR("a query"));
    CHECK(query.before <= 8); /* a batch that was finished while the query was being sent */
    for (int i = 0; i < BACKGROUND; i++)
        wait_for(is_answered, &background[i]);
    CHECK_INT(background_answers, BACKGROUND);
    end();
}

TEST(requests_survive_the_end_of_the_process)
{
    static struct seen background[BACKGROUND];
    struct seen query;
    AUTO_BUF struct buf text = {0};
    begin((struct embedder_options){0});
    put_long_text(&text);
    ask_and_wait(&query, STR("start"));
    int pid = child_pid();
    CHECK(pid > 1);
    for (int i = 0; i < BACKGROUND; i++)
        ask(&background[i], EMBED_BACKGROUND, buf_str(&text));
    CHECK_INT(kill(pid, SIGKILL), 0);
    ask(&query, EMBED_QUERY, STR("a query"));
    for (int i = 0; i < BACKGROUND; i++) {
        wait_for(is_answered, &background[i]);
        CHECK_INT(background[i].code, ERR_NONE);
        CHECK_INT(background[i].calls, 1);
    }
    CHECK_INT(query.code, ERR_NONE);
    CHECK(query.calls == 1 && child_pid() > 0 && child_pid() != pid);
    end();
}

TEST(a_request_that_ends_two_processes_is_given_up)
{
    struct err err = {0};
    struct seen seen = {0}, query;
    AUTO_BUF struct buf text = {0};
    struct str texts[EMBEDDER_TEXTS_MAX];
    begin((struct embedder_options){0});
    for (int i = 0; i < 10; i++)
        put_long_text(&text);
    for (size_t i = 0; i < countof(texts); i++)
        texts[i] = buf_str(&text);
    /* More work than there is time for. Once a query is answered, the process has part of it. */
    CHECK_OK(
        embedder_embed(embedder, texts, countof(texts), EMBED_BACKGROUND, on_answer, &seen, &err));
    for (int i = 0; i < 2; i++) {
        CHECK_INT(seen.calls, 0);
        ask_and_wait(&query, STR("a query"));
        CHECK_INT(query.code, ERR_NONE);
        int pid = child_pid();
        CHECK(pid > 1);
        CHECK_INT(kill(pid, SIGKILL), 0);
    }
    wait_for(is_answered, &seen);
    CHECK_INT(seen.code, ERR_UNAVAILABLE);
    ask_and_wait(&query, STR("another query"));
    CHECK_INT(query.code, ERR_NONE);
    end();
}

static bool is_alone(const void *ctx UNUSED)
{
    return child_pid() == 0;
}

TEST(the_process_ends_when_idle_and_starts_again)
{
    struct seen seen;
    begin((struct embedder_options){.idle_ms = 30});
    for (int i = 0; i < 3; i++) {
        ask_and_wait(&seen, STR("a text"));
        CHECK_INT(seen.code, ERR_NONE);
        wait_for(is_alone, NULL);
    }
    end();
}

TEST(requests_that_wait_are_canceled_at_the_end)
{
    static struct seen seen[BACKGROUND];
    begin((struct embedder_options){0});
    for (int i = 0; i < BACKGROUND; i++)
        ask(&seen[i], EMBED_BACKGROUND, STR("a text"));
    int fds = test_open_fds();
    end();
    CHECK(test_open_fds() < fds);
    for (int i = 0; i < BACKGROUND; i++)
        CHECK(seen[i].calls == 1 && seen[i].code == ERR_CANCELED);
    CHECK(embedder_close(NULL) == NULL);
}

TEST(too_many_requests_are_refused)
{
    static struct seen seen[EMBEDDER_REQUESTS_MAX];
    struct err err = {0};
    struct str text = STR("a text");
    begin((struct embedder_options){0});
    for (int i = 0; i < EMBEDDER_REQUESTS_MAX; i++)
        ask(&seen[i], EMBED_BACKGROUND, text);
    CHECK_ERR(embedder_embed(embedder, &text, 1, EMBED_QUERY, on_answer, &seen[0], &err),
              ERR_LIMIT);
    end();
}

TEST(a_missing_model_is_said_at_once)
{
    struct err err = {0};
    struct seen seen = {0};
    struct str text = STR("a text");
    begin((struct embedder_options){.model_dir = "/nonexistent"});
    CHECK_ERR(embedder_embed(embedder, &text, 1, EMBED_QUERY, on_answer, &seen, &err),
              ERR_NOT_FOUND);
    CHECK_MSG("sandglass model add minilm");
    CHECK_INT(seen.calls, 0);
    end();
}

TEST(a_damaged_model_is_an_error_of_the_request)
{
    struct err err = {0};
    struct seen seen;
    AUTO_BUF struct buf dir = {0};
    buf_printf(&dir, "%s/model", test_tmpdir());
    CHECK_OK(fd_make_dirs(buf_cstr(&dir), 0700, &err));
    test_write(buf_cstr(&dir), "model.fp16.safetensors", "12345678{}");
    test_write(buf_cstr(&dir), "tokenizer.json", "{\"model\":{\"vocab\":{}}}");
    begin((struct embedder_options){.model_dir = test_tmpdir()});
    ask_and_wait(&seen, STR("a text"));
    CHECK_INT(seen.code, ERR_INVALID);
    wait_for(is_alone, NULL);
    end();
}

TEST(a_process_that_does_not_start_is_an_error_of_the_request)
{
    struct seen seen;
    begin((struct embedder_options){.program = "/bin/false"});
    ask_and_wait(&seen, STR("a text"));
    CHECK_INT(seen.code, ERR_UNAVAILABLE);
    ask_and_wait(&seen, STR("a text"));
    CHECK_INT(seen.code, ERR_UNAVAILABLE);
    end();
}

#ifdef SG_FAULTS
/* Whatever call fails, each request that was accepted is answered once. */
TEST(failing_calls_cost_an_error_only)
{
    struct err err = {0};
    struct str text = STR("a text");
    begin((struct embedder_options){0});
    end(); /* the loop's library opens something once */
    int fds = test_open_fds();
    for (int64_t n = 1; n < 30; n += 4) {
        struct seen seen = {0};
        begin((struct embedder_options){0});
        (void)sys_fail_at(n);
        int done = embedder_embed(embedder, &text, 1, EMBED_QUERY, on_answer, &seen, &err);
        if (done == 0)
            wait_for(is_answered, &seen);
        (void)sys_fail_at(0);
        CHECK_INT(seen.calls, done == 0);
        end();
        CHECK_INT(test_open_fds(), fds);
    }
}
#endif
