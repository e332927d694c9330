/* How fast are types taken out of TypeScript? Ours beside ts-blank-space and esbuild's transform,
 * all warm, over the same files in memory. */

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/vec.h"
#include "isolate/strip/strip.h"
#include "isolate_rows.h"

enum { ROUNDS = 3, SMALL = 2000 };

static struct strip *strip;
static struct buf small, js;

static void strip_small(void *ctx)
{
    (void)ctx;
    buf_clear(&js);
    MUST(strip_run(strip, STRIP_TS, buf_str(&small), &js, NULL, &err));
}

static void strip_each(const struct buf *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        buf_clear(&js);
        MUST(strip_run(strip, STRIP_TS, buf_str(&texts[i]), &js, NULL, &err));
    }
}

void isolate_strip(struct bench *bench)
{
    static const char *const args[] = {"strip", NULL};
    AUTO_BUF struct buf files = {0};
    VEC(struct buf) texts = {0};
    size_t bytes = 0;
    isolate_peers(bench, NULL, args, &files);
    struct str rest = buf_str(&files), line;
    while (str_split(&rest, '\n', &line)) {
        char path[4096];
        if (line.len == 0)
            continue;
        MUST(str_to_cstr(line, path, sizeof path, &err));
        struct buf *text = vec_push(&texts);
        isolate_read_file(path, text);
        bytes += text->len;
    }
    strip = strip_new((struct strip_limits){0});
    strip_each(texts.ptr, texts.len);
    int64_t start = clock_now_ns();
    for (int i = 0; i < ROUNDS; i++)
        strip_each(texts.ptr, texts.len);
    double us = (double)(clock_now_ns() - start) / 1e3;
    char note[64];
    (void)snprintf(note, sizeof note, "%zu files, %.1f MB", texts.len, (double)bytes / 1e6);
    bench_figure(bench, "strip_sandglass", "MB/s", (double)bytes * ROUNDS / us,
                 "strip_ts_blank_space", mem_dup_cstr(note));
    isolate_read_file("bench/isolate_small.ts", &small);
    const struct bench_case row = {.name = "strip_small",
                                   .peer = "strip_small_ts_blank_space",
                                   .run = strip_small,
                                   .note = "6 lines"};
    bench_interleaved(bench, &row, 1, SMALL);
    VEC_EACH (text, &texts)
        buf_done(text);
    vec_done(&texts);
    buf_done(&small);
    buf_done(&js);
    (void)strip_free(strip);
}
