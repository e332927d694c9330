/* 9.2: every file call of the store fails in its turn, once and for good. */

#include "helpers.h"

#include <errno.h>

#include "base/buf.h"
#include "base/crypto/hash.h"
#include "base/sys.h"
#include "store/blobs.h"
#include "store/fault.h"

#ifdef SG_FAULTS

enum { CALLS_MAX = 2000 };

/* Opens, writes one durable and one quick row, closes; failing at the nth call. True when all of it
 * was untouched by the failure. What was acknowledged is counted. */
static bool attempt(struct bench *bench, int64_t nth, int code, bool all, int *acknowledged)
{
    struct err err = {0};
    *acknowledged = 0;
    store_fault_at(nth, code, all);
    if (bench_open(bench, &err) == 0) {
        *acknowledged += bench_put(bench, "durable", 1, STORE_DURABLE) == 0;
        *acknowledged += bench_put(bench, "quick", 2, STORE_QUICK) == 0;
    } else {
        CHECK(err.msg[0] != '\0');
    }
    bench_close(bench);
    bool untouched = store_fault_count() < nth;
    store_fault_at(0, 0, false);
    return untouched;
}

static void walk(int code, bool all)
{
    for (int64_t nth = 1;; nth++) {
        struct bench bench = {0};
        struct err err = {0};
        int acknowledged = 0;
        bench_dir(&bench);
        CHECK(nth < CALLS_MAX);
        bool untouched = attempt(&bench, nth, code, all, &acknowledged);
        /* The cause is gone: it opens, whole, with at least what was acknowledged. */
        CHECK_OK(bench_open(&bench, &err));
        CHECK_OK(store_check(bench.store, &err));
        CHECK(bench_count(&bench) >= acknowledged);
        CHECK_INT(bench_put(&bench, "later", 3, STORE_DURABLE), 0);
        bench_close(&bench);
        if (untouched)
            break;
    }
}

TEST(each_call_fails_with_eio)
{
    walk(EIO, false);
}

TEST(each_call_and_all_later_fail_with_eio)
{
    walk(EIO, true);
}

TEST(each_call_fails_with_enospc)
{
    walk(ENOSPC, false);
}

TEST(each_call_and_all_later_fail_with_enospc)
{
    walk(ENOSPC, true);
}

TEST(a_full_disk_has_its_own_code_and_passes)
{
    struct bench bench = {0};
    struct err err = {0};
    bench_dir(&bench);
    CHECK_OK(bench_open(&bench, &err));
    store_fault_at(1, ENOSPC, true);
    CHECK_INT(bench_put(&bench, "one", 1, STORE_DURABLE), -1);
    CHECK_INT(bench.why.code, ERR_NO_SPACE);
    store_fault_at(0, 0, false);
    CHECK_INT(bench_put(&bench, "one", 1, STORE_DURABLE), 0);
    bench_close(&bench);
}

/* --- Blobs --- */

static void on_put(void *ctx, UNUSED const char *hash, const struct err *why)
{
    bench_answer(ctx, why);
}

TEST(a_blob_is_whole_or_absent_whatever_fails)
{
    static const int codes[] = {EIO, ENOSPC, EDQUOT};
    struct bench bench = {0};
    struct err err = {0};
    bench_dir(&bench);
    CHECK_OK(bench_open(&bench, &err));
    for (size_t i = 0; i < countof(codes); i++) {
        for (int64_t nth = 1;; nth++) {
            struct buf bytes = {0};
            int answers = bench.answers, failures = bench.failures;
            buf_printf(&bytes, "blob %d %lld", codes[i], (long long)nth);
            store_fault_at(nth, codes[i], false);
            store_put_blob(bench.store, &bytes, on_put, &bench);
            bench_wait(&bench, answers + 1);
            bool untouched = store_fault_count() < nth;
            store_fault_at(0, 0, false);
            CHECK(untouched == (bench.failures == failures));
            if (untouched)
                break;
        }
    }
    bench_close(&bench);
}

/* --- Writes that take less than they were given, or are interrupted --- */

enum { PIECE = 7 };

TEST(rows_survive_short_and_interrupted_writes)
{
    struct bench bench = {0};
    struct err err = {0};
    bench_dir(&bench);
    (void)sys_short_writes(PIECE);
    CHECK_OK(bench_open(&bench, &err));
    CHECK_INT(bench_put(&bench, "durable", 1, STORE_DURABLE), 0);
    CHECK_INT(bench_put(&bench, "quick", 2, STORE_QUICK), 0);
    bench_close(&bench);
    CHECK(sys_short_writes(0) > 1000);
    CHECK_OK(bench_open(&bench, &err));
    CHECK_OK(store_check(bench.store, &err));
    CHECK_INT(bench_count(&bench), 2);
    bench_close(&bench);
}

struct kept {
    struct bench bench;
    char hash[HASH_HEX_SIZE];
    struct buf bytes;
};

static void on_kept(void *ctx, const char *hash, const struct err *why)
{
    struct kept *kept = ctx;
    (void)snprintf(kept->hash, sizeof kept->hash, "%s", why == NULL ? hash : "");
    bench_answer(&kept->bench, why);
}

static void on_read(void *ctx, struct str bytes, const struct err *why)
{
    struct kept *kept = ctx;
    buf_put(&kept->bytes, bytes);
    bench_answer(&kept->bench, why);
}

TEST(a_blob_survives_short_and_interrupted_writes)
{
    struct kept kept = {0};
    struct err err = {0};
    struct buf bytes = {0};
    AUTO_BUF struct buf same = {0};
    for (int i = 0; i < 200; i++)
        buf_printf(&bytes, "line %d of the blob\n", i);
    buf_put(&same, buf_str(&bytes));
    bench_dir(&kept.bench);
    CHECK_OK(bench_open(&kept.bench, &err));
    (void)sys_short_writes(PIECE);
    store_put_blob(kept.bench.store, &bytes, on_kept, &kept);
    bench_wait(&kept.bench, 1);
    CHECK(sys_short_writes(0) > 1000);
    CHECK_INT(kept.bench.failures, 0);
    store_get_blob(kept.bench.store, str_of(kept.hash), on_read, &kept);
    bench_wait(&kept.bench, 2);
    CHECK(str_eq(buf_str(&kept.bytes), buf_str(&same)));
    buf_done(&kept.bytes);
    bench_close(&kept.bench);
}

#else

TEST(faults_are_not_built_in)
{
    SKIP("this build has no -Dfaults=true");
}

#endif
