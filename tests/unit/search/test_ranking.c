/* How words, vectors and pages make one score. */

#include <stdio.h>
#include <sys/stat.h>

#include "search/library.h"
#include "test.h"

enum { DIM = 2 };

static struct library *library;
static struct arena arena;

static void begin(const char *name)
{
    struct err err = {0};
    char dir[256];
    (void)snprintf(dir, sizeof dir, "%s/%s", test_tmpdir(), name);
    CHECK_INT(mkdir(dir, 0700), 0);
    CHECK_OK(library_open(dir, STR("test"), NULL, &library, &err));
}

static void end(void)
{
    library = library_free(library);
    arena_done(&arena);
}

static void put(const char *path, const char *text)
{
    struct err err = {0};
    bool is_changed = false;
    char id[17];
    library_source_id(STR("t"), STR("p"), str_of(path), id);
    struct docs_source row = {.id = str_n(id, 16),
                              .tenant = STR("t"),
                              .kind = STR("upload"),
                              .package = STR("p"),
                              .location = str_of(path),
                              .state = STR("ready")};
    struct library_page page = {
        .path = str_of(path), .title = str_of(path), .text = str_of(text), .format = DOC_MARKDOWN};
    CHECK_OK(library_put_source(library, &row, &err));
    CHECK_OK(library_put_page(library, str_n(id, 16), &page, &is_changed, &err));
    CHECK(is_changed);
}

/* Texts with the word "near" have the vector of the questions, others one at a right angle. */
static void embed(void)
{
    struct err err = {0};
    struct library_text *texts = NULL;
    size_t count = 0;
    float vectors[16 * DIM] = {0};
    CHECK_OK(library_unembedded(library, 16, &arena, &texts, &count, &err));
    for (size_t i = 0; i < count; i++)
        vectors[i * DIM + (str_find(texts[i].text, STR("near")) < texts[i].text.len ? 0 : 1)] = 1;
    CHECK_OK(library_put_vectors(library, texts, count, vectors, DIM, &err));
}

static struct library_results ask(const char *text, bool has_vector)
{
    static const float vector[DIM] = {1, 0};
    struct err err = {0};
    struct library_results results = {0};
    struct library_query query = {
        .text = str_of(text), .tenant = STR("t"), .vector = has_vector ? vector : NULL};
    CHECK_OK(library_search(library, &query, &arena, &results, &err));
    return results;
}

TEST(of_equal_chunks_the_one_of_the_better_page_is_first)
{
    begin("pages");
    put("poor.md", "## A\nherring near\n## B\nstones\n");
    put("rich.md", "## A\nherring near\n## B\nmore herring near\n");
    put("whole.md", "## A\nherring near\n");
    embed();
    struct library_results found = ask("herring", true);
    CHECK(found.has_vectors);
    CHECK_INT(found.total, 4);
    /* Its page has nothing else: its score stays as it is. */
    CHECK_STR(found.items[0].url, "whole.md");
    CHECK(found.items[0].score > 0.99F && found.items[0].score <= 1.0001F);
    CHECK_STR(found.items[1].url, "rich.md");
    CHECK_STR(found.items[3].url, "poor.md");
    CHECK(found.items[1].score > found.items[3].score);
    end();
}

/* Without vectors, or without words, a chunk is ranked for itself. */
TEST(one_kind_of_score_is_as_it_is)
{
    begin("kinds");
    put("poor.md", "## A\nherring near\n## B\nstones\n");
    put("rich.md", "## A\nherring near\n## B\nmore herring near\n");
    struct library_results words = ask("herring", false);
    CHECK(!words.has_vectors);
    CHECK_INT(words.total, 3);
    CHECK(words.items[0].score == words.items[1].score);
    CHECK(words.items[0].score == 1);
    embed();
    struct library_results meaning = ask("", true);
    CHECK_INT(meaning.total, 3);
    CHECK(meaning.items[0].score == meaning.items[2].score);
    end();
}
