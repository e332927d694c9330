#include "test.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/format/toml.h"

/* The message for a text that must be refused. */
static const char *refused(const char *text)
{
    static struct err err;
    AUTO_ARENA struct arena arena = {0};
    struct toml_table *table = NULL;
    CHECK_ERR(toml_parse(str_of(text), &arena, &table, &err), ERR_INVALID);
    CHECK(table == NULL);
    return err.msg;
}

TEST(toml_keeps_order_and_places)
{
    AUTO_ARENA struct arena arena = {0};
    struct err err = {0};
    struct toml_table *table = NULL;
    CHECK_OK(
        toml_parse(STR("z = 1\n\n[b]\n  \"\xc3\xa9\" = [1,\n 22]\n[a]\n[[list]]\nx = {y = 2}\n"),
                   &arena, &table, &err));
    const char *const order[] = {"z", "b", "a", "list"};
    size_t i = 0;
    TOML_EACH (entry, table)
        CHECK_STR(entry->key, order[i++]);
    CHECK_INT(i, 4);

    const struct toml_entry *b = toml_find(table, STR("b"));
    CHECK_INT(b->place.line, 3);
    CHECK_INT(b->place.column, 2);
    const struct toml_entry *array = toml_find(b->value->table, STR("\xc3\xa9"));
    CHECK_INT(array->place.line, 4);
    CHECK_INT(array->place.column, 3);
    CHECK_INT(array->value->place.column, 9); /* characters, not bytes */
    CHECK_INT(array->value->array->items[1]->place.line, 5);
    CHECK_INT(array->value->array->items[1]->place.column, 2);
    CHECK(toml_get(table, STR("missing")) == NULL);
    CHECK(toml_get(table, STR("list"))->array->of_tables);
}

TEST(toml_finds_every_key_of_a_large_table)
{
    AUTO_ARENA struct arena arena = {0};
    AUTO_BUF struct buf text = {0};
    struct err err = {0};
    for (int i = 0; i < 5000; i++)
        buf_printf(&text, "key_%d = %d\n", i, i);
    struct toml_table *table = NULL;
    CHECK_OK(toml_parse(buf_str(&text), &arena, &table, &err));
    CHECK_INT(table->len, 5000);
    for (int i = 0; i < 5000; i++)
        CHECK_INT(toml_get(table, arena_printf(&arena, "key_%d", i))->integer, i);
}

TEST(toml_messages_name_the_place_and_the_thing)
{
    CHECK_CSTR(refused("a = 1\na = 2\n"), "line 2, column 1: a is already defined in line 1");
    CHECK_CSTR(refused("[t]\n[t]\n"), "line 2, column 2: t is already defined in line 1");
    CHECK_CSTR(refused("a = {b = 1}\na.c = 2"),
               "line 2, column 1: a is already defined in line 1 and cannot be extended");
    CHECK_CSTR(refused("a = \"x"),
               "line 1, column 5: the string that begins here has no closing \"");
    CHECK_CSTR(refused("a = '''x\n\n"),
               "line 1, column 5: the string that begins here has no closing '''");
    CHECK_CSTR(refused("a = [1,\n2\n"),
               "line 3, column 1: unexpected end of the file in an array: expected ',' or ']'");
    CHECK_CSTR(refused("a = [1,\n"),
               "line 1, column 5: the array that begins here has no closing ']'");
    CHECK_CSTR(refused("a 1"), "line 1, column 3: unexpected '1' after a key: expected '='");
    CHECK_CSTR(refused("= 1"), "line 1, column 1: unexpected '=' where a key is expected");
    CHECK_CSTR(refused("a = 1 b = 2"),
               "line 1, column 7: unexpected 'b' where the line should end");
    CHECK_CSTR(refused("a = 012"), "line 1, column 5: '012': a number has no leading zeros");
    CHECK_CSTR(refused("a = 9223372036854775808"),
               "line 1, column 5: '9223372036854775808' does not fit into 64 bits");
    CHECK_CSTR(refused("a = 1e999"), "line 1, column 5: '1e999' does not fit into 64 bits");
    CHECK_CSTR(refused("a = 2026-02-29"),
               "line 1, column 5: '2026-02-29' is not a date or time like 2026-01-31T23:59:59Z");
    CHECK_CSTR(refused("# \xc3\xa9\xff\n"), "line 1, column 4: not UTF-8: byte 0xFF");
    CHECK_CSTR(refused("a = \"\\ud800\""), "line 1, column 6: U+D800 is not a Unicode character");
    CHECK_CSTR(refused("\"x\\ny\" = 1\n\"x\\ny\" = 2"),
               "line 2, column 1: \"x\\u000Ay\" is already defined in line 1");
    CHECK(strstr(refused("a = groq"), "'groq' is not a value: expected a string in quotes") !=
          NULL);
}

static void put_times(struct buf *buf, const char *text, int times)
{
    for (int i = 0; i < times; i++)
        buf_put_cstr(buf, text);
}

TEST(toml_depth_is_bounded)
{
    AUTO_BUF struct buf text = {0};
    put_times(&text, "[", 100000);
    CHECK(strstr(refused(buf_cstr(&text)), "where a key is expected") != NULL);
    buf_clear(&text);
    buf_put_cstr(&text, "a = ");
    put_times(&text, "[", 100000);
    CHECK(strstr(refused(buf_cstr(&text)), "nested deeper than 64 levels") != NULL);
    buf_clear(&text);
    buf_put_cstr(&text, "a = ");
    put_times(&text, "{a.b = ", 1000);
    CHECK(strstr(refused(buf_cstr(&text)), "nested deeper than 64 levels") != NULL);
    buf_clear(&text);
    put_times(&text, "a.", 1000);
    CHECK(strstr(refused(buf_cstr(&text)), "a key of more than 32 parts") != NULL);
}

TEST(toml_depth_reaches_its_bound)
{
    AUTO_ARENA struct arena arena = {0};
    AUTO_BUF struct buf text = {0};
    struct err err = {0};
    struct toml_table *table = NULL;
    buf_put_cstr(&text, "a = ");
    put_times(&text, "[", TOML_DEPTH_MAX);
    put_times(&text, "]", TOML_DEPTH_MAX);
    CHECK_OK(toml_parse(buf_str(&text), &arena, &table, &err));
}

TEST(toml_size_is_bounded)
{
    AUTO_ARENA struct arena arena = {0};
    AUTO_BUF struct buf text = {0};
    struct err err = {0};
    struct toml_table *table = NULL;
    put_times(&text, "################\n", (TOML_SIZE_MAX / 17) + 1);
    CHECK_ERR(toml_parse(buf_str(&text), &arena, &table, &err), ERR_TOO_LARGE);
}

/* One long line of values is counted once: columns do not make it quadratic. */
TEST(toml_columns_on_a_long_line)
{
    AUTO_ARENA struct arena arena = {0};
    AUTO_BUF struct buf text = {0};
    struct err err = {0};
    struct toml_table *table = NULL;
    buf_put_cstr(&text, "a = [");
    put_times(&text, "1,", 500000);
    buf_put_cstr(&text, "]");
    CHECK_OK(toml_parse(buf_str(&text), &arena, &table, &err));
    const struct toml_array *array = toml_get(table, STR("a"))->array;
    CHECK_INT(array->len, 500000);
    CHECK_INT(array->items[499999]->place.column, 5 + 2 * 499999 + 1);
}

TEST(toml_put_key_quotes_what_is_not_bare)
{
    AUTO_BUF struct buf text = {0};
    toml_put_key(&text, STR("plain-key_1"));
    buf_put_char(&text, ' ');
    toml_put_key(&text, STR("a.b \"c\"\n"));
    buf_put_char(&text, ' ');
    toml_put_key(&text, STR(""));
    CHECK_STR(buf_str(&text), "plain-key_1 \"a.b \\\"c\\\"\\u000A\" \"\"");
}
