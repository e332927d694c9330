/* Bytes by their digest. */

#include "helpers.h"

#include <dirent.h>
#include <unistd.h>

#include "base/buf.h"
#include "store/blobs.h"

struct blob_bench {
    struct bench bench;
    char hash[HASH_HEX_SIZE];
    char text[128];
};

static void on_put(void *ctx, const char *hash, const struct err *why)
{
    struct blob_bench *blobs = ctx;
    if (why == NULL)
        memcpy(blobs->hash, hash, HASH_HEX_SIZE);
    bench_answer(&blobs->bench, why);
}

static void on_get(void *ctx, struct str bytes, const struct err *why)
{
    struct blob_bench *blobs = ctx;
    (void)snprintf(blobs->text, sizeof blobs->text, "%.*s", STR_ARG(bytes));
    bench_answer(&blobs->bench, why);
}

static void put(struct blob_bench *blobs, const char *text)
{
    struct buf bytes = {0};
    int answers = blobs->bench.answers;
    buf_put_cstr(&bytes, text);
    store_put_blob(blobs->bench.store, &bytes, on_put, blobs);
    bench_wait(&blobs->bench, answers + 1);
}

static void get(struct blob_bench *blobs, const char *hash)
{
    int answers = blobs->bench.answers;
    store_get_blob(blobs->bench.store, str_of(hash), on_get, blobs);
    bench_wait(&blobs->bench, answers + 1);
}

static int files_in(const struct blob_bench *blobs)
{
    char path[8192];
    int count = 0;
    (void)snprintf(path, sizeof path, "%s/blobs", blobs->bench.dir);
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += entry->d_name[0] != '.';
    (void)closedir(dir);
    return count;
}

TEST(bytes_come_back_and_are_kept_once)
{
    struct blob_bench blobs = {0};
    struct err err = {0};
    bench_dir(&blobs.bench);
    CHECK_OK(bench_open(&blobs.bench, &err));
    put(&blobs, "the same");
    put(&blobs, "the same");
    CHECK_INT(files_in(&blobs), 1);
    get(&blobs, blobs.hash);
    CHECK_INT(blobs.bench.failures, 0);
    CHECK_CSTR(blobs.text, "the same");
    get(&blobs, "0000000000000000000000000000000000000000000000000000000000000000");
    CHECK_INT(blobs.bench.why.code, ERR_NOT_FOUND);
    get(&blobs, "../../../../../../../../../../../../../../../../../../../etc/passwd");
    CHECK_INT(blobs.bench.why.code, ERR_NOT_FOUND);
    bench_close(&blobs.bench);
}

TEST(damaged_bytes_are_not_given_out)
{
    struct blob_bench blobs = {0};
    struct err err = {0};
    char path[8192];
    bench_dir(&blobs.bench);
    CHECK_OK(bench_open(&blobs.bench, &err));
    put(&blobs, "whole");
    (void)snprintf(path, sizeof path, "%s/blobs", blobs.bench.dir);
    test_write(path, blobs.hash, "wh0le");
    get(&blobs, blobs.hash);
    CHECK_INT(blobs.bench.why.code, ERR_INTERNAL);
    bench_close(&blobs.bench);
}

TEST(the_sweep_takes_what_nobody_names_once_it_is_old)
{
    struct blob_bench blobs = {0};
    struct err err = {0};
    struct store_hashes kept = {0};
    char path[8192];
    bench_dir(&blobs.bench);
    CHECK_OK(bench_open(&blobs.bench, &err));
    put(&blobs, "kept");
    *vec_push(&kept.list) = mem_dup_cstr(blobs.hash);
    put(&blobs, "dropped");
    (void)snprintf(path, sizeof path, "%s/blobs", blobs.bench.dir);
    test_write(path, "tmp-left", "half");
    int answers = blobs.bench.answers;
    struct store_hashes none = {0};
    *vec_push(&none.list) = mem_dup_cstr(kept.list.ptr[0]);
    store_sweep_blobs(blobs.bench.store, &none, 60000, bench_answer, &blobs.bench);
    bench_wait(&blobs.bench, answers + 1);
    CHECK_INT(files_in(&blobs), 3); /* all young */
    store_sweep_blobs(blobs.bench.store, &kept, 0, bench_answer, &blobs.bench);
    bench_wait(&blobs.bench, answers + 2);
    CHECK_INT(files_in(&blobs), 1);
    bench_close(&blobs.bench);
}
