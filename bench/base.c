/* The vocabulary beside what a program would use without it. */

#include <jansson.h>
#include <search.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/format/json.h"
#include "base/format/toml.h"
#include "base/map.h"
#include "bench.h"

enum { ALLOCATIONS = 1000, KEYS = 1000, SAMPLES = 300 };

static struct buf document; /* about 64 KiB of JSON */
static char keys[KEYS][16];

static void make_document(void)
{
    struct json_out out = {.buf = &document};
    json_begin_array(&out);
    for (int i = 0; document.len < 64 << 10; i++) {
        json_begin_object(&out);
        json_key(&out, "id"), json_put_i64(&out, i);
        json_key(&out, "name"), json_put_cstr(&out, "a sandbox with a caf\xc3\xa9 name");
        json_key(&out, "memory"), json_put_f64(&out, 512.25 * i);
        json_key(&out, "tags");
        json_begin_array(&out);
        json_put_cstr(&out, "one"), json_put_cstr(&out, "two"), json_put_bool(&out, true);
        json_end_array(&out);
        json_end_object(&out);
    }
    json_end_array(&out);
}

static void parse_json(void *ctx)
{
    (void)ctx;
    struct err err;
    struct json_t *value = NULL;
    if (json_parse(buf_str(&document), &value, &err) < 0)
        abort();
    (void)json_free(value);
}

static void parse_json_lax(void *ctx)
{
    (void)ctx;
    json_decref(json_loadb(document.ptr, document.len, 0, NULL));
}

static struct buf settings; /* about 64 KiB of TOML */

static void make_settings(void)
{
    for (int i = 0; settings.len < 64 << 10; i++)
        buf_printf(&settings,
                   "[[sandbox]]\nid = %d\nname = \"a sandbox with a caf\xc3\xa9 name\"\n"
                   "memory = %.2f\ntags = [\"one\", \"two\", true]\n",
                   i, 512.25 * i);
}

static void parse_toml(void *ctx)
{
    struct arena *arena = ctx;
    struct err err;
    struct toml_table *table = NULL;
    if (toml_parse(buf_str(&settings), arena, &table, &err) < 0)
        abort();
    arena_reset(arena);
}

static void write_json(void *ctx)
{
    struct buf *text = ctx;
    buf_clear(text);
    struct json_out out = {.buf = text};
    json_begin_array(&out);
    for (int i = 0; i < 1000; i++) {
        json_put_cstr(&out, "a sandbox with a name");
        json_put_i64(&out, i);
    }
    json_end_array(&out);
}

static void write_printf(void *ctx)
{
    struct buf *text = ctx;
    buf_clear(text);
    for (int i = 0; i < 1000; i++)
        buf_printf(text, ",\"%s\",%d", "a sandbox with a name", i);
}

static void use_arena(void *ctx)
{
    struct arena *arena = ctx;
    for (size_t i = 0; i < ALLOCATIONS; i++) {
        char *p = arena_alloc(arena, 16 + i % 64);
        p[0] = 1;
    }
    arena_reset(arena);
}

static void use_malloc(void *ctx)
{
    char **kept = ctx;
    for (size_t i = 0; i < ALLOCATIONS; i++) {
        kept[i] = calloc(1, 16 + i % 64);
        kept[i][0] = 1;
    }
    for (size_t i = 0; i < ALLOCATIONS; i++)
        free(kept[i]);
}

static void use_map(void *ctx)
{
    (void)ctx;
    AUTO_MAP struct map map = {0};
    for (size_t i = 0; i < KEYS; i++)
        (void)map_put(&map, str_of(keys[i]), keys[i]);
    for (size_t i = 0; i < KEYS; i++)
        if (map_get(&map, str_of(keys[i])) != keys[i])
            abort();
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void keep_key(void *key)
{
    (void)key;
}

static void use_tree(void *ctx)
{
    (void)ctx;
    void *root = NULL;
    for (size_t i = 0; i < KEYS; i++)
        (void)tsearch(keys[i], &root, compare_keys);
    for (size_t i = 0; i < KEYS; i++)
        if (tfind(keys[i], &root, compare_keys) == NULL)
            abort();
    tdestroy(root, keep_key);
}

int main(int argc, char **argv)
{
    make_document();
    make_settings();
    for (int i = 0; i < KEYS; i++)
        (void)snprintf(keys[i], sizeof keys[i], "key-%d", i * 7919);
    struct buf text = {0};
    struct arena arena = {0};
    static char *kept[ALLOCATIONS];
    const struct bench_case cases[] = {
        {.name = "json_parse_64k",
         .peer = "jansson_parse_64k",
         .run = parse_json,
         .note = "strict: depth, duplicates"},
        {.name = "jansson_parse_64k", .run = parse_json_lax},
        {.name = "toml_parse_64k",
         .peer = "json_parse_64k",
         .run = parse_toml,
         .ctx = &arena,
         .note = "the same shape as the JSON"},
        {.name = "json_write_2000",
         .peer = "printf_write_2000",
         .run = write_json,
         .ctx = &text,
         .note = "values, escaped and checked"},
        {.name = "printf_write_2000", .run = write_printf, .ctx = &text},
        {.name = "arena_alloc",
         .peer = "calloc_free",
         .run = use_arena,
         .ctx = &arena,
         .per_sample = ALLOCATIONS},
        {.name = "calloc_free", .run = use_malloc, .ctx = kept, .per_sample = ALLOCATIONS},
        {.name = "map_put_get", .peer = "tsearch_put_get", .run = use_map, .per_sample = KEYS},
        {.name = "tsearch_put_get", .run = use_tree, .per_sample = KEYS},
    };
    struct bench *bench = bench_begin("base");
    bench_interleaved(bench, cases, countof(cases), SAMPLES);
    buf_done(&text);
    buf_done(&document);
    buf_done(&settings);
    arena_done(&arena);
    return bench_end(bench, argc, argv);
}
