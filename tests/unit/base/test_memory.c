/* Arena, buffer, vector and map: what holds bytes. */

#include "test.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/vec.h"

TEST(arena_gives_zeroed_aligned_memory)
{
    AUTO_ARENA struct arena arena = {0};
    for (size_t size = 0; size < 300; size++) {
        unsigned char *p = arena_alloc(&arena, size);
        CHECK_INT((uintptr_t)p % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < size; i++)
            CHECK_INT(p[i], 0);
        memset(p, 0xff, size);
    }
    arena_reset(&arena);
    unsigned char *again = arena_alloc(&arena, 4096);
    for (size_t i = 0; i < 4096; i++)
        CHECK_INT(again[i], 0);
    CHECK(arena_alloc(&arena, 1 << 20) != NULL);
}

TEST(arena_copies_are_c_strings)
{
    AUTO_ARENA struct arena arena = {0};
    struct str copy = arena_dup(&arena, str_slice(STR("hello world"), 0, 5));
    CHECK_CSTR(copy.ptr, "hello");
    CHECK_STR(arena_printf(&arena, "%s-%d", "x", 7), "x-7");
    CHECK_STR(arena_dup(&arena, (struct str){0}), "");
}

TEST(buf_stops_at_its_limit_and_stays_whole)
{
    struct err err = {0};
    AUTO_BUF struct buf buf = buf_with_limit(5);
    CHECK_OK(buf_append(&buf, STR("abc"), &err));
    CHECK_ERR(buf_append(&buf, STR("def"), &err), ERR_TOO_LARGE);
    CHECK_STR(buf_str(&buf), "abc");
    CHECK_OK(buf_append(&buf, STR("de"), &err));
    CHECK_CSTR(buf_cstr(&buf), "abcde");
    buf_consume(&buf, 3);
    CHECK_CSTR(buf_cstr(&buf), "de");
    buf_clear(&buf);
    CHECK_CSTR(buf_cstr(&buf), "");
}

TEST(buf_reads_a_file_up_to_the_limit)
{
    struct err err = {0};
    const char *dir = test_tmpdir();
    test_write(dir, "eight", "12345678");
    AUTO_CLOSE int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t limit = 7; limit <= 9; limit++) {
        AUTO_CLOSE int fd = fd_open_beneath(dir_fd, "eight", O_RDONLY, 0, &err);
        CHECK(fd >= 0);
        AUTO_BUF struct buf buf = buf_with_limit(limit);
        if (limit < 8)
            CHECK_ERR(buf_read_all(&buf, fd, &err), ERR_TOO_LARGE);
        else
            CHECK_OK(buf_read_all(&buf, fd, &err));
    }
}

TEST(buf_composes_and_hands_over)
{
    AUTO_BUF struct buf buf = {0};
    buf_printf(&buf, "%d+%d", 1, 1);
    buf_put_char(&buf, '=');
    buf_put_cstr(&buf, "2");
    AUTO_MEM char *text = buf_take(&buf);
    CHECK_CSTR(text, "1+1=2");
    CHECK_INT(buf.len, 0);
    AUTO_MEM char *empty = buf_take(&buf);
    CHECK_CSTR(empty, "");
}

TEST(container_of_finds_the_whole)
{
    struct whole {
        char before[3];
        int64_t member, other;
    } whole = {.other = 7};
    int64_t *member = &whole.member, *other = &whole.other;
    CHECK(CONTAINER_OF(member, struct whole, member) == &whole);
    CHECK_INT(CONTAINER_OF(other, struct whole, other)->other, 7);
}

TEST(buf_joins)
{
    AUTO_BUF struct buf buf = {0};
    const struct str items[] = {STR("a"), STR(""), STR("b")};
    buf_put_joined(&buf, items, 0, ", ");
    CHECK_STR(buf_str(&buf), "");
    buf_put_joined(&buf, items, countof(items), ", ");
    CHECK_STR(buf_str(&buf), "a, , b");
}

TEST(vec_grows_and_removes)
{
    VEC(int) numbers = {0};
    for (int i = 0; i < 100; i++)
        *vec_push(&numbers) = i;
    vec_remove(&numbers, 0);
    vec_remove(&numbers, 98);
    int sum = 0;
    VEC_EACH (n, &numbers)
        sum += *n;
    CHECK_INT(sum, 4950 - 99);
    CHECK_INT(*vec_last(&numbers), 98);
    CHECK_INT(vec_pop(&numbers), 98);
    CHECK_INT(numbers.len, 97);
    vec_done(&numbers);
    CHECK_INT(numbers.len, 0);
}

TEST(map_puts_replaces_removes)
{
    AUTO_MAP struct map map = {0};
    int one = 1, two = 2;
    CHECK(map_get(&map, STR("a")) == NULL);
    CHECK(map_put(&map, STR("a"), &one) == NULL);
    CHECK(map_put(&map, STR("a"), &two) == &one);
    CHECK(map_get(&map, STR("a")) == &two);
    CHECK(map_put(&map, STR(""), &one) == NULL);
    CHECK(map_has(&map, STR("")));
    CHECK_INT(map.len, 2);
    CHECK(map_remove(&map, STR("a")) == &two);
    CHECK(map_remove(&map, STR("a")) == NULL);
    CHECK(!map_has(&map, STR("a")));
    CHECK_INT(map.len, 1);
}

TEST(map_keeps_insertion_order_over_growth_and_removal)
{
    AUTO_MAP struct map map = {0};
    static int values[2000];
    char key[16];
    for (int i = 0; i < 2000; i++) {
        (void)snprintf(key, sizeof key, "key%d", i);
        values[i] = i;
        (void)map_put(&map, str_of(key), &values[i]);
        if (i % 3 == 0)
            (void)map_remove(&map, str_of(key));
    }
    int last = -1;
    size_t seen = 0;
    MAP_EACH (entry, &map) {
        int value = *(int *)entry->value;
        CHECK(value > last && value % 3 != 0);
        last = value;
        seen++;
    }
    CHECK_INT(seen, map.len);
    CHECK_INT(seen, 1333);
}

TEST(map_survives_endless_put_and_remove)
{
    AUTO_MAP struct map map = {0};
    char key[16];
    int value;
    for (int i = 0; i < 100000; i++) {
        (void)snprintf(key, sizeof key, "%d", i);
        (void)map_put(&map, str_of(key), &value);
        (void)map_remove(&map, str_of(key));
    }
    CHECK_INT(map.len, 0);
    CHECK(map.slot_count <= 64); /* holes are swept, not grown over */
}
