/* Any bytes: either a tree in which every key is found and every value has a place within bounds,
 * or one line of message that names a place. */

#include "fuzz.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/format/toml.h"

static void check_table(const struct toml_table *table, int depth);

static void check_value(const struct toml_value *value, int depth)
{
    assert(depth <= TOML_DEPTH_MAX);
    assert(value->place.line >= 1 && value->place.column >= 1);
    if (value->kind == TOML_STR)
        assert(str_is_utf8(value->str) && value->str.ptr[value->str.len] == '\0');
    if (value->kind == TOML_TABLE)
        check_table(value->table, depth);
    if (value->kind == TOML_ARRAY)
        for (size_t i = 0; i < value->array->len; i++)
            check_value(value->array->items[i], depth + 1);
}

static void check_table(const struct toml_table *table, int depth)
{
    size_t len = 0;
    TOML_EACH (entry, table) {
        assert(str_is_utf8(entry->key) && toml_find(table, entry->key) == entry);
        check_value(entry->value, depth + 1);
        len++;
    }
    assert(len == table->len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_ARENA struct arena arena = {0};
    struct err err = {0};
    struct toml_table *table = NULL;
    if (toml_parse(str_n((const char *)data, size), &arena, &table, &err) == 0) {
        check_table(table, 0);
        return 0;
    }
    assert(err.code == ERR_TOO_LARGE || strncmp(err.msg, "line ", 5) == 0);
    assert(str_is_utf8(str_of(err.msg)) && strchr(err.msg, '\n') == NULL);
    return 0;
}
