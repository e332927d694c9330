#include "search/embed/model.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "search/embed/model_internal.h"
#include "test.h"

/* Equality with the reference is what tests/integration/embed.test.mjs shows. */

static const char *model_dir(void)
{
    const char *dir = getenv("SG_MODEL");
    if (dir == NULL || access(dir, R_OK) < 0)
        SKIP("SG_MODEL names no model; run tools/deps test");
    return dir;
}

static double cosine(const float *a, const float *b)
{
    double sum = 0;
    for (size_t i = 0; i < EMBED_DIMS; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

TEST(near_meanings_have_near_vectors)
{
    const char *dir = model_dir();
    struct err err = {0};
    AUTO_EMBED_MODEL struct embed_model *model = NULL;
    float out[3 * EMBED_DIMS];
    const struct str texts[] = {STR("How do I open a file?"),
                                STR("reading from a document on disk"),
                                STR("The cat sleeps in the sun.")};
    CHECK_OK(embed_model_open(dir, 2, &model, &err));
    embed_texts(model, texts, countof(texts), out);
    CHECK(cosine(out, out + EMBED_DIMS) > cosine(out, out + 2 * EMBED_DIMS) + 0.2);
    for (size_t i = 0; i < countof(texts); i++)
        CHECK(fabs(cosine(out + i * EMBED_DIMS, out + i * EMBED_DIMS) - 1) < 1e-5);
}

/* A text has the same vector whatever stands beside it and however many threads compute it. */
TEST(texts_do_not_depend_on_one_another)
{
    enum { COUNT = 66 };
    const char *dir = model_dir();
    struct err err = {0};
    AUTO_EMBED_MODEL struct embed_model *model = NULL;
    AUTO_BUF struct buf words = {0};
    static float all[COUNT * EMBED_DIMS], one[EMBED_DIMS];
    struct str texts[COUNT];
    for (int i = 0; i < 400; i++)
        buf_printf(&words, "word%d ", i);
    for (size_t i = 0; i < COUNT; i++)
        texts[i] = str_slice(buf_str(&words), i * 5, i * 5 + (i % 30 == 0 ? 1500 : i % 20));
    CHECK_OK(embed_model_open(dir, 3, &model, &err));
    embed_texts(model, texts, COUNT, all);
    for (size_t i = 0; i < COUNT; i += 9) {
        embed_texts(model, &texts[i], 1, one);
        CHECK(cosine(all + i * EMBED_DIMS, one) > 0.99999);
    }
    embed_texts(model, texts, 0, one);
}

TEST(what_lies_behind_the_limit_of_a_text_is_ignored)
{
    const char *dir = model_dir();
    struct err err = {0};
    AUTO_EMBED_MODEL struct embed_model *model = NULL;
    AUTO_BUF struct buf text = {0};
    float out[2 * EMBED_DIMS];
    buf_put_cstr(&text, "begin");
    while (text.len < EMBED_TEXT_MAX)
        buf_put_char(&text, ' ');
    size_t limit = text.len;
    buf_put_cstr(&text, "something else");
    const struct str texts[] = {str_slice(buf_str(&text), 0, limit), buf_str(&text)};
    CHECK_OK(embed_model_open(dir, 1, &model, &err));
    embed_texts(model, texts, countof(texts), out);
    CHECK(memcmp(out, out + EMBED_DIMS, EMBED_DIMS * sizeof(float)) == 0);
}

struct pausing {
    struct embed_model *model;
    int calls;
};

static void on_pause(void *ctx)
{
    struct pausing *pausing = ctx;
    float out[EMBED_DIMS];
    struct str text = STR("a query");
    if (pausing->calls++ % 3 == 0)
        embed_texts(pausing->model, &text, 1, out);
}

TEST(a_query_in_the_middle_of_a_batch_changes_nothing)
{
    const char *dir = model_dir();
    struct err err = {0};
    AUTO_EMBED_MODEL struct embed_model *model = NULL;
    AUTO_BUF struct buf text = {0};
    float calm[EMBED_DIMS], paused[EMBED_DIMS];
    for (int i = 0; i < 200; i++)
        buf_printf(&text, "word%d ", i);
    struct str texts[] = {buf_str(&text)};
    CHECK_OK(embed_model_open(dir, 2, &model, &err));
    struct pausing pausing = {.model = model};
    embed_texts(model, texts, 1, calm);
    embed_texts_pausing(model, texts, 1, on_pause, &pausing, paused);
    CHECK(pausing.calls >= 12);
    CHECK(memcmp(calm, paused, sizeof calm) == 0);
}

static void check_refused(const char *dir, enum err_code code, const char *message)
{
    struct err err = {0};
    struct embed_model *model = NULL;
    CHECK_ERR(embed_model_open(dir, 1, &model, &err), code);
    CHECK_MSG(message);
}

TEST(files_that_are_no_model_are_refused)
{
    struct err err = {0};
    struct embed_model *model = NULL;
    AUTO_BUF struct buf dir = {0};
    check_refused("/nonexistent", ERR_NOT_FOUND, "sandglass model add minilm");
    CHECK_ERR(embed_model_open("/nonexistent", 0, &model, &err), ERR_INVALID);
    buf_printf(&dir, "%s/model", test_tmpdir());
    CHECK_OK(fd_make_dirs(buf_cstr(&dir), 0700, &err));
    test_write(buf_cstr(&dir), "model.fp16.safetensors", "");
    check_refused(test_tmpdir(), ERR_NOT_FOUND, "sandglass model add minilm");
    test_write(buf_cstr(&dir), "tokenizer.json", "{}");
    check_refused(test_tmpdir(), ERR_INVALID, "vocabulary");
    CHECK_INT(test_open_fds(), test_open_fds());
}
