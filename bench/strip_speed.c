/* How fast are types blanked? Reads paths on stdin, keeps the files in memory, strips them all once
 * to warm up and then ROUNDS times; one JSON line. bench/strip.mjs compares with others. */

#include <errno.h>
#include <fcntl.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/vec.h"
#include "isolate/strip/strip.h"

enum { ROUNDS = 3, SMALL_RUNS = 2000 };

static const char SMALL[] =
    "interface Point { x: number; y: number }\n"
    "const points: Point[] = [{ x: 1, y: 2 }, { x: 3, y: 4 }];\n"
    "function sum(ps: readonly Point[], pick: (p: Point) => number): number {\n"
    "    return ps.reduce((n: number, p) => n + pick(p), 0);\n"
    "}\n"
    "console.log(sum(points, (p) => p.x), sum(points, (p) => p.y as number));\n";

struct source {
    struct buf text;
    enum strip_lang lang;
};

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t small_p50_ns(struct strip *strip)
{
    static int64_t ns[SMALL_RUNS];
    struct err err = {0};
    AUTO_BUF struct buf js = {0};
    for (int i = 0; i < SMALL_RUNS; i++) {
        int64_t start = clock_now_ns();
        buf_clear(&js);
        int result = strip_run(strip, STRIP_TS, str_of(SMALL), &js, NULL, &err);
        assert(result == 0);
        ns[i] = clock_now_ns() - start;
    }
    qsort(ns, SMALL_RUNS, sizeof ns[0], compare);
    return ns[SMALL_RUNS / 2];
}

static size_t strip_each(struct strip *strip, const struct source *sources, size_t count)
{
    size_t bytes = 0;
    AUTO_BUF struct buf js = {0};
    for (size_t i = 0; i < count; i++) {
        struct err err = {0};
        buf_clear(&js);
        if (strip_run(strip, sources[i].lang, buf_str(&sources[i].text), &js, NULL, &err) == 0)
            bytes += sources[i].text.len;
    }
    return bytes;
}

static int load(const char *path, struct source *source, struct err *err)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", path);
    source->lang = str_ends(str_of(path), STR("tsx")) ? STRIP_TSX : STRIP_TS;
    return buf_read_all(&source->text, fd, err);
}

int main(void)
{
    struct err err = {0};
    VEC(struct source) sources = {0};
    char path[4096];
    while (fgets(path, sizeof path, stdin) != NULL) {
        path[strcspn(path, "\n")] = '\0';
        if (load(path, vec_push(&sources), &err) < 0) {
            fprintf(stderr, "%s\n", err.msg);
            return 1;
        }
    }
    AUTO_STRIP struct strip *strip = strip_new((struct strip_limits){0});
    size_t bytes = strip_each(strip, sources.ptr, sources.len);
    int64_t start = clock_now_ns();
    for (int i = 0; i < ROUNDS; i++)
        (void)strip_each(strip, sources.ptr, sources.len);
    double seconds = (double)(clock_now_ns() - start) / 1e9;
    printf("{\"bytes\":%zu,\"mb_per_s\":%.2f,\"small_bytes\":%zu,\"small_p50_us\":%.1f}\n", bytes,
           (double)bytes * ROUNDS / seconds / 1e6, sizeof SMALL - 1,
           (double)small_p50_ns(strip) / 1e3);
    VEC_EACH (source, &sources)
        buf_done(&source->text);
    vec_done(&sources);
    return 0;
}
