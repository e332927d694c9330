#include "test.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/embed.h"
#include "search/excerpt.h"
#include "search/library.h"
#include "search/reader.h"
#include "search/scan.h"
#include "store/db.h"

static struct library *library;
static struct arena arena;
static struct library_results results;

static const char *new_dir(void)
{
    static int count;
    static char dir[4096];
    (void)snprintf(dir, sizeof dir, "%s/lib%d", test_tmpdir(), count++);
    CHECK_INT(mkdir(dir, 0700), 0);
    return dir;
}

static void open_in(const char *dir, const char *model)
{
    struct err err = {0};
    library = library_free(library);
    CHECK_OK(library_open(dir, str_of(model), NULL, &library, &err));
}

static const char *add_source(const char *tenant, const char *kind, const char *package,
                              const char *location)
{
    static char id[17];
    struct err err = {0};
    library_source_id(str_of(tenant), str_of(package), str_of(location), id);
    CHECK_OK(library_put_source(library,
                                &(struct docs_source){.id = str_of(id),
                                                      .tenant = str_of(tenant),
                                                      .kind = str_of(kind),
                                                      .package = str_of(package),
                                                      .location = str_of(location),
                                                      .state = STR("ready"),
                                                      .created_ms = 1},
                                &err));
    return id;
}

static bool put_page(const char *source, const char *path, const char *text)
{
    struct err err = {0};
    bool is_changed = false;
    struct library_page page = {
        .path = str_of(path), .title = str_of(path), .text = str_of(text), .format = DOC_MARKDOWN};
    CHECK_OK(library_put_page(library, str_of(source), &page, &is_changed, &err));
    return is_changed;
}

/* All pages of the source: paths and texts in turn, then NULL. A NULL text: it was not read. */
static int put_pages(const char *source, ...)
{
    struct err err = {0};
    struct library_page pages[32] = {0};
    size_t count = 0;
    va_list args;
    va_start(args, source);
    for (const char *path; (path = va_arg(args, const char *)) != NULL;) {
        const char *text = va_arg(args, const char *);
        pages[count++] = (struct library_page){.path = str_of(path),
                                               .title = str_of(path),
                                               .text = str_of(text),
                                               .format = DOC_MARKDOWN,
                                               .is_unread = text == NULL};
    }
    va_end(args);
    struct docs_source row = {.id = str_of(source),
                              .tenant = STR("t"),
                              .kind = STR("upload"),
                              .package = STR("p"),
                              .location = STR("a"),
                              .state = STR("ready")};
    return library_put_pages(library, &row, pages, count, &err);
}

static size_t search_as(const char *tenant, const char *text, const char *package)
{
    struct err err = {0};
    struct library_query query = {
        .text = str_of(text), .tenant = str_of(tenant), .package = str_of(package)};
    arena_done(&arena);
    results = (struct library_results){0};
    CHECK_OK(library_search(library, &query, &arena, &results, &err));
    return results.count;
}

static size_t search(const char *text)
{
    return search_as("t", text, "");
}

static void end(void)
{
    arena_done(&arena);
    library = library_free(library);
}

TEST(search_finds_the_section)
{
    open_in(new_dir(), "");
    const char *id = add_source("t", "upload", "@acme/sdk", "guide.md");
    CHECK(put_page(id, "guide.md",
                   "# Guide\n## Login\nUse createClient with a token.\n"
                   "## Upload\nFiles are sent in parts.\n"));
    CHECK_INT(search("how do I send files"), 1);
    CHECK_STR(results.items[0].heading, "Guide > Upload");
    CHECK_STR(results.items[0].url, "guide.md");
    CHECK_STR(results.items[0].package, "@acme/sdk");
    CHECK_STR(results.items[0].excerpt, "Files are sent in parts.");
    CHECK(results.items[0].score > 0.99F);
    CHECK_INT(search("create_client"), 1);
    CHECK_INT(search("CREATECLIENT"), 1);
    CHECK_INT(search("nothing of that kind"), 0);
    end();
}

TEST(typing_errors_are_corrected)
{
    open_in(new_dir(), "");
    const char *id = add_source("t", "upload", "p", "a.md");
    CHECK(put_page(id, "a.md", "## One\nCall createClient to authenticate.\n## Two\nOther.\n"));
    CHECK_INT(search("creatCleint"), 1);
    CHECK_STR(results.corrected, "client");
    CHECK_INT(search("authentcate"), 1);
    CHECK_STR(results.corrected, "authenticate"); /* not its stem */
    CHECK_INT(search("zzzzzzzz"), 0);
    end();
}

/* Part A: two sections of one heading overwrote each other. */
TEST(same_heading_twice_is_two_chunks)
{
    open_in(new_dir(), "");
    const char *id = add_source("t", "upload", "p", "a");
    CHECK(put_page(id, "a.md", "## Usage\napples\n## Usage\noranges\n"));
    CHECK(put_page(id, "b.md", "## Usage\npears\n"));
    CHECK_INT(search("apples"), 1);
    CHECK_INT(search("oranges"), 1);
    CHECK_INT(search("pears"), 1);
    CHECK(!put_page(id, "b.md", "## Usage\npears\n"));
    end();
}

/* Part A: what was gone at the source was still found. */
TEST(what_is_gone_is_not_found)
{
    struct err err = {0};
    bool was_there = false;
    const char *dir = new_dir();
    open_in(dir, "");
    const char *id = add_source("t", "upload", "p", "a");
    CHECK(put_page(id, "a.md", "## Usage\napples\n## More\noranges\n"));
    CHECK(put_page(id, "b.md", "## Usage\npears\n"));
    CHECK(put_page(id, "a.md", "## Usage\napples\n"));
    CHECK_INT(search("oranges"), 0);
    CHECK_OK(put_pages(id, "a.md", "## Usage\napples\n", NULL));
    CHECK_INT(search("pears"), 0);
    CHECK_INT(search("apples"), 1);
    open_in(dir, "");
    CHECK_INT(search("pears oranges"), 0);
    CHECK_INT(search("apples"), 1);
    CHECK_OK(library_remove_source(library, str_of(id), &was_there, &err));
    CHECK(was_there);
    CHECK_INT(search("apples"), 0);
    CHECK_OK(library_remove_source(library, str_of(id), &was_there, &err));
    CHECK(!was_there);
    end();
}

TEST(a_page_that_was_not_read_stays_as_it_was)
{
    open_in(new_dir(), "");
    const char *id = add_source("t", "upload", "p", "a");
    CHECK_INT(put_pages(id, "a.md", "apples\n", "b.md", "pears\n", "c.md", "plums\n", NULL), 0);
    CHECK_INT(put_pages(id, "a.md", NULL, "b.md", "kiwis\n", NULL), 0);
    CHECK_INT(search("apples"), 1);
    CHECK_INT(search("pears"), 0);
    CHECK_INT(search("kiwis"), 1);
    CHECK_INT(search("plums"), 0);
    end();
}

/* One page of the upload is no document, and nobody has said so before: nothing of it is stored. */
TEST(an_upload_is_stored_as_a_whole_or_not_at_all)
{
    const char *dir = new_dir();
    open_in(dir, "");
    const char *id = add_source("t", "upload", "p", "a");
    CHECK_INT(put_pages(id, "a.md", "apples\n", "b.md", "pears\n", NULL), 0);
    CHECK_INT(put_pages(id, "a.md", "kiwis\n", "b.md", "\xff", "c.md", "plums\n", NULL), -1);
    for (int round = 0; round < 2; round++) {
        CHECK_INT(search("apples"), 1);
        CHECK_INT(search("pears"), 1);
        CHECK_INT(search("kiwis plums"), 0);
        CHECK_INT(library_figures(library).chunks, 2);
        open_in(dir, "");
    }
    end();
}

/* Part A: the filter came after the cut. */
TEST(filter_comes_before_the_cut)
{
    open_in(new_dir(), "");
    char id[17], path[32];
    (void)snprintf(id, sizeof id, "%s", add_source("t", "upload", "big", "b"));
    for (int i = 0; i < 50; i++) {
        (void)snprintf(path, sizeof path, "%d.md", i);
        CHECK(put_page(id, path, "## Token\ntoken token token\n"));
    }
    (void)snprintf(id, sizeof id, "%s", add_source("t", "upload", "small", "s"));
    CHECK(put_page(id, "s.md",
                   "## Other\nA long text about other things that has the word token "
                   "only once among very many others.\n"));
    CHECK_INT(search_as("t", "token", "small"), 1);
    CHECK_STR(results.items[0].url, "s.md");
    CHECK_INT(search_as("t", "token", ""), RESULTS_DEFAULT);
    CHECK_INT(results.total, 51);
    CHECK_INT(search_as("t", "token", "unknown"), 0);
    end();
}

TEST(tenants_are_apart)
{
    open_in(new_dir(), "");
    CHECK(put_page(add_source("one", "upload", "p", "x"), "x.md", "secret apples\n"));
    CHECK(put_page(add_source("", "url", "p", "y"), "y.md", "shared apples\n"));
    CHECK_INT(search_as("one", "apples", ""), 2);
    CHECK_INT(search_as("two", "apples", ""), 1);
    CHECK_STR(results.items[0].url, "y.md");
    struct err err = {0};
    struct docs_page page;
    CHECK_OK(library_page(library, STR("two"), results.items[0].page, &arena, &page, &err));
    CHECK_STR(page.text, "shared apples\n");
    CHECK_INT(search_as("one", "secret", ""), 1);
    CHECK_ERR(library_page(library, STR("two"), results.items[0].page, &arena, &page, &err),
              ERR_NOT_FOUND);
    end();
}

/* A word that only another tenant's documents have shows neither as a correction, nor by being
 * frequent, nor in a score. */
TEST(words_of_another_tenant_do_not_show)
{
    open_in(new_dir(), "");
    char path[32];
    CHECK(put_page(add_source("two", "upload", "p", "t"), "t.md",
                   "## A\nreport of the year\n## B\nother things entirely\n"));
    CHECK_INT(search_as("two", "report other year", ""), 2);
    float before = results.items[1].score;
    const char *id = add_source("one", "upload", "p", "o");
    CHECK(put_page(id, "o.md", "## A\nvisit to Zanzibar\n"));
    for (int i = 0; i < 300; i++) {
        (void)snprintf(path, sizeof path, "%d.md", i);
        CHECK(put_page(id, path, "report\n"));
    }
    CHECK_INT(search_as("two", "zanzbar", ""), 0);
    CHECK_STR(results.corrected, "");
    CHECK_INT(search_as("one", "zanzbar", ""), 1);
    CHECK_STR(results.corrected, "zanzibar");
    /* "report" is in most chunks of all, and in one of the tenant's two. */
    CHECK_INT(search_as("two", "report other year", ""), 2);
    CHECK(fabsf(results.items[1].score - before) < 1e-6F);
    /* What the configuration has is seen by both. */
    CHECK(put_page(add_source("", "url", "p", "y"), "y.md", "Zanzibar and pears\n"));
    CHECK_INT(search_as("two", "zanzbar", ""), 1);
    CHECK_STR(results.corrected, "zanzibar");
    end();
}

TEST(modules_are_of_their_session_or_of_the_tenant)
{
    struct err err = {0};
    bool is_changed = false;
    open_in(new_dir(), "");
    const char *id = add_source("t", "module", "", "session1");
    struct library_page page = {.path = STR("lib/csv.js"),
                                .title = STR("lib/csv.js"),
                                .scope = STR("session"),
                                .text = STR("parses spreadsheets"),
                                .format = DOC_TEXT};
    CHECK_OK(library_put_page(library, str_of(id), &page, &is_changed, &err));
    struct library_query query = {.text = STR("spreadsheet"), .tenant = STR("t")};
    CHECK_OK(library_search(library, &query, &arena, &results, &err));
    CHECK_INT(results.count, 0);
    query.session = STR("session1");
    CHECK_OK(library_search(library, &query, &arena, &results, &err));
    CHECK_INT(results.count, 1);
    CHECK(results.items[0].is_module);
    page.scope = STR("user");
    CHECK_OK(library_put_page(library, str_of(id), &page, &is_changed, &err));
    query.session = STR("session2");
    CHECK_OK(library_search(library, &query, &arena, &results, &err));
    CHECK_INT(results.count, 1);
    query.tenant = STR("u");
    CHECK_OK(library_search(library, &query, &arena, &results, &err));
    CHECK_INT(results.count, 0);
    end();
}

TEST(hostile_queries_are_only_words)
{
    static const char *const queries[] = {
        "",
        "\"",
        "a OR b AND (",
        "NEAR(a b)",
        "body:*",
        "*",
        "'; DROP TABLE doc_pages; --",
        "\xff\xfe",
        "((((((((((",
        "^a",
        "-x",
        "\\",
        "%s%n",
    };
    open_in(new_dir(), "");
    CHECK(put_page(add_source("t", "upload", "p", "x"), "x.md", "apples or pears\n"));
    for (size_t i = 0; i < countof(queries); i++)
        (void)search(queries[i]);
    AUTO_MEM char *long_query = mem_alloc((10 << 20) + 1);
    memset(long_query, 'x', 10 << 20);
    CHECK_INT(search(long_query), 0);
    for (size_t i = 0; i < 10 << 20; i += 7)
        long_query[i] = ' ';
    (void)search(long_query);
    CHECK_INT(search("apples"), 1);
    end();
}

/* --- Stored terms --- */

/* No document can be read with it. */
static const struct reader_options no_reader = {.program = "/nonexistent/reader"};

static void run_sql(const char *dir, const char *sql)
{
    char path[4200];
    struct err err = {0};
    struct db *db = NULL;
    (void)snprintf(path, sizeof path, "%s/docs.db", dir);
    CHECK_OK(db_open(path, true, &db, &err));
    CHECK_OK(db_exec(db, sql, &err));
    (void)db_close(db);
}

TEST(a_start_reads_no_document)
{
    struct err err = {0};
    const char *dir = new_dir();
    open_in(dir, "");
    const char *id = add_source("t", "upload", "p", "x");
    CHECK(put_page(id, "x.md", "## Harbour\nApples grow here.\n## B\nCars drive there.\n"));
    library = library_free(library);
    CHECK_OK(library_open(dir, STR(""), &no_reader, &library, &err));
    CHECK_INT(library_figures(library).chunks, 2);
    CHECK_INT(search("apples"), 1);
    CHECK_INT(search("harbour"), 1);
    end();
}

/* Of another version, cut off, or not terms at all. */
TEST(stored_terms_that_do_not_fit_are_found_again)
{
    static const char *const damage[] = {
        "UPDATE doc_chunks SET terms_version=terms_version+1",
        "UPDATE doc_chunks SET terms=x'05616263'",
        "UPDATE doc_chunks SET heading_terms=x'00'",
        "UPDATE doc_chunks SET heading_terms=x'02fffe'",
        "UPDATE doc_chunks SET terms=zeroblob(100000)",
    };
    const char *dir = new_dir();
    open_in(dir, "");
    const char *id = add_source("t", "upload", "p", "x");
    CHECK(put_page(id, "x.md", "## A\nApples grow here.\n## B\nCars drive there.\n"));
    for (size_t i = 0; i < countof(damage); i++) {
        struct err err = {0};
        library = library_free(library);
        run_sql(dir, damage[i]);
        CHECK_ERR(library_open(dir, STR(""), &no_reader, &library, &err), ERR_NOT_FOUND);
        open_in(dir, "");
        CHECK_INT(search("apples"), 1);
        library = library_free(library); /* and are stored */
        CHECK_OK(library_open(dir, STR(""), &no_reader, &library, &err));
        CHECK_INT(search("apples"), 1);
    }
    end();
}

TEST(version_1_of_the_rows_is_brought_up_to_date)
{
    extern const struct embed_file docs_schema[];
    struct err err = {0};
    const char *dir = new_dir();
    run_sql(dir, docs_schema[0].bytes.ptr);
    run_sql(dir, "INSERT INTO doc_sources VALUES ('s1','t','upload','p','a','ready',NULL,1,1),"
                 "('s2','t','upload','p','b','ready',NULL,1,1);"
                 "INSERT INTO doc_pages (id,source,path,title,format,hash,updated_ms,text) VALUES "
                 "(1,'s1','README.md','T',0,'h',1,x'6170706c6573'),"
                 "(2,'s2','README.md','T',0,'h',1,x'6170706c6573');"
                 "INSERT INTO doc_chunks (page,position,key,hash,heading,start,length) VALUES "
                 "(1,0,'same','c','Orchard',0,6),(2,0,'same','c','Orchard',0,6);"
                 "PRAGMA user_version=1");
    open_in(dir, "");
    CHECK_INT(search("apples"), 2);
    CHECK(strcmp(results.items[0].key, results.items[1].key) != 0);
    library = library_free(library);
    CHECK_OK(library_open(dir, STR(""), &no_reader, &library, &err));
    CHECK_INT(search("orchard apples"), 2);
    end();
}

/* Two sources of a package may both have a README.md. */
TEST(ids_of_chunks_differ_by_source)
{
    open_in(new_dir(), "");
    CHECK(put_page(add_source("t", "directory", "p", "/a"), "README.md", "apples\n"));
    CHECK(put_page(add_source("t", "directory", "p", "/b"), "README.md", "apples\n"));
    CHECK_INT(search("apples"), 2);
    CHECK(strcmp(results.items[0].key, results.items[1].key) != 0);
    end();
}

/* --- Vectors --- */

static void put_vectors(void)
{
    struct err err = {0};
    struct library_text *texts = NULL;
    size_t count = 0;
    float vectors[64][4] = {0};
    CHECK_OK(library_unembedded(library, 64, &arena, &texts, &count, &err));
    for (size_t i = 0; i < count; i++) {
        bool is_fruit = str_find(texts[i].text, STR("pples")) < texts[i].text.len;
        vectors[i][is_fruit ? 0 : 1] = 1;
    }
    CHECK_OK(library_put_vectors(library, texts, count, &vectors[0][0], 4, &err));
}

TEST(meaning_is_found_without_the_word)
{
    struct err err = {0};
    const char *dir = new_dir();
    open_in(dir, "m");
    const char *id = add_source("t", "upload", "p", "x");
    CHECK(put_page(id, "x.md", "## A\nApples grow here.\n## B\nCars drive there.\n"));
    put_vectors();
    const float fruit[4] = {1, 0, 0, 0};
    struct library_query query = {.text = STR("oranges"), .tenant = STR("t"), .vector = fruit};
    CHECK_OK(library_search(library, &query, &arena, &results, &err));
    CHECK(results.has_vectors && results.count == 1);
    CHECK_STR(results.items[0].heading, "x.md > A");
    /* Unchanged content keeps its vector when it moves, and after a restart. */
    CHECK(put_page(id, "x.md", "## C\nNew.\n## A\nApples grow here.\n## B\nCars drive there.\n"));
    CHECK_INT(library_figures(library).vectors, 2);
    open_in(dir, "m");
    CHECK_INT(library_figures(library).vectors, 2);
    CHECK_OK(library_search(library, &query, &arena, &results, &err));
    CHECK_STR(results.items[0].heading, "x.md > A");
    open_in(dir, "other"); /* vectors of two models never mix */
    CHECK_INT(library_figures(library).vectors, 0);
    end();
}

TEST(a_model_that_comes_later_is_used)
{
    struct err err = {0};
    const char *dir = new_dir();
    open_in(dir, "");
    const char *id = add_source("t", "upload", "p", "x");
    CHECK(put_page(id, "x.md", "## A\nApples grow here.\n## B\nCars drive there.\n"));
    CHECK_OK(library_use_model(library, STR("m"), &err));
    put_vectors();
    CHECK_INT(library_figures(library).vectors, 2);
    open_in(dir, ""); /* without it they stay stored */
    CHECK_INT(library_figures(library).vectors, 0);
    CHECK_OK(library_use_model(library, STR("m"), &err));
    CHECK_INT(library_figures(library).vectors, 2);
    end();
}

/* The model reads 256 tokens, and a chunk may have more: its end counts too. */
TEST(a_long_chunk_is_embedded_in_windows)
{
    struct err err = {0};
    AUTO_BUF struct buf text = {0};
    struct library_text *texts = NULL;
    size_t count = 0;
    open_in(new_dir(), "m");
    const char *id = add_source("t", "upload", "p", "x");
    buf_put_cstr(&text, "# T\n## Long\n");
    for (int i = 0; i < 30; i++)
        buf_printf(&text, "Sentence %d is about cars and roads.\n", i);
    buf_put_cstr(&text, "Apples grow here.\n## Short\nOther.\n");
    CHECK(put_page(id, "x.md", buf_cstr(&text)));
    CHECK_OK(library_unembedded(library, 64, &arena, &texts, &count, &err));
    CHECK_INT(count, 4);
    for (size_t i = 0; i < 3; i++)
        CHECK(texts[i].number == texts[0].number && str_starts(texts[i].text, STR("T > Long: ")));
    CHECK(str_find(texts[2].text, STR("Apples")) < texts[2].text.len);
    CHECK(texts[3].number != texts[0].number);
    put_vectors(); /* one window of three is about fruit */
    CHECK_INT(library_figures(library).vectors, 2);
    const float fruit[4] = {1, 0, 0, 0};
    struct library_query query = {.text = STR("zzz"), .tenant = STR("t"), .vector = fruit};
    CHECK_OK(library_search(library, &query, &arena, &results, &err));
    CHECK_STR(results.items[0].heading, "T > Long");
    end();
}

/* While vectors are computed in the background. */
TEST(a_chunk_without_a_vector_yet_is_found_by_its_words)
{
    struct err err = {0};
    open_in(new_dir(), "m");
    const char *id = add_source("t", "upload", "p", "x");
    CHECK(put_page(id, "x.md", "## A\nApples grow here.\n## B\nCars drive there.\n"));
    put_vectors();
    CHECK(put_page(id, "y.md", "## C\nOranges ripen in the sun.\n"));
    const float fruit[4] = {1, 0, 0, 0};
    struct library_query query = {
        .text = STR("oranges ripen"), .tenant = STR("t"), .vector = fruit};
    CHECK_OK(library_search(library, &query, &arena, &results, &err));
    CHECK(results.count >= 2);
    CHECK_STR(results.items[0].heading, "y.md > C");
    end();
}

TEST(dot_product_is_the_same_on_both_paths)
{
    int8_t a[400], b[400];
    for (size_t i = 0; i < countof(a); i++)
        a[i] = (int8_t)(i * 37 % 255 - 127), b[i] = (int8_t)(i * 91 % 255 - 127);
    for (size_t dim = 0; dim <= countof(a); dim += 7)
        CHECK_INT(vector_dot(a, b, dim), vector_dot_plain(a, b, dim));
    memset(a, -127, sizeof a), memset(b, -127, sizeof b);
    CHECK_INT(vector_dot(a, b, 400), 400 * 127 * 127);
}

TEST(many_changes_leave_a_small_index)
{
    open_in(new_dir(), "");
    const char *id = add_source("t", "upload", "p", "x");
    for (int round = 0; round < 60; round++) {
        AUTO_BUF struct buf text = {0};
        for (int i = 0; i < 50; i++)
            buf_printf(&text, "## S%d\nround%d word%d\n", i, round, i);
        CHECK(put_page(id, "x.md", buf_cstr(&text)));
    }
    CHECK_INT(library_figures(library).chunks, 50);
    CHECK_INT(search("round59"), RESULTS_DEFAULT);
    CHECK_INT(results.total, 50);
    CHECK_INT(search("round3 only"), 0);
    end();
}

TEST(excerpt_is_around_the_best_sentences)
{
    AUTO_BUF struct buf text = {0};
    for (int i = 0; i < 30; i++)
        buf_printf(&text, "Line %d says little of interest to readers.\n", i);
    buf_put_cstr(&text, "The token is renewed by refresh.\n");
    for (int i = 0; i < 30; i++)
        buf_printf(&text, "Line %d says little of interest to readers.\n", i);
    struct str terms[] = {STR("token"), STR("refresh")};
    struct str part = excerpt_around(buf_str(&text), terms, 2, 300);
    CHECK(part.len <= 300 && str_find(part, STR("renewed by refresh")) < part.len);
    CHECK_STR(excerpt_around(STR("short"), terms, 2, 300), "short");
}

TEST(excerpt_has_all_terms_rather_than_one_of_them_often)
{
    AUTO_BUF struct buf text = {0};
    buf_put_cstr(&text, "The token is a token of token and token.\n\n");
    for (int i = 0; i < 20; i++)
        buf_printf(&text, "Line %d says little of interest to readers.\n", i);
    buf_put_cstr(&text, "\nA paragraph begins here,\nand ends with a token and its refresh.\n");
    struct str terms[] = {STR("token"), STR("refresh")};
    struct str part = excerpt_around(buf_str(&text), terms, 2, 300);
    CHECK(str_starts(part, STR("A paragraph begins here,"))); /* not in its middle */
    CHECK(str_ends(part, STR("refresh.")));
}

TEST(neighbours_are_whole_lines)
{
    AUTO_BUF struct buf text = {0};
    struct err err = {0};
    open_in(new_dir(), "");
    const char *id = add_source("t", "upload", "p", "a.md");
    for (int i = 0; i < 100; i++)
        buf_printf(&text, "The line before, number %d, says nothing.\n", i);
    buf_put_cstr(&text, "## One\napples\n## Two\n");
    for (int i = 0; i < 100; i++)
        buf_printf(&text, "The line after, number %d, says nothing.\n", i);
    CHECK(put_page(id, "a.md", buf_cstr(&text)));
    struct library_query query = {.text = STR("apples"), .tenant = STR("t"), .neighbours = 1};
    CHECK_OK(library_search(library, &query, &arena, &results, &err));
    CHECK_INT(results.count, 1);
    CHECK(str_starts(results.items[0].before, STR("The line before, ")));
    CHECK(str_ends(results.items[0].before, STR("## One")));
    CHECK(str_starts(results.items[0].after, STR("## Two")));
    CHECK(str_ends(results.items[0].after, STR("says nothing.")));
    CHECK(results.items[0].before.len <= CHUNK_BYTES && results.items[0].after.len <= CHUNK_BYTES);
    end();
}
