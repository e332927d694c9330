/* VOL-03: a store that is damaged, incomplete or of another time is refused, never replaced. */

#include "helpers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/id.h"

static void path_of(const struct bench *bench, const char *name, char out[8192])
{
    (void)snprintf(out, 8192, "%s/%s", bench->dir, name);
}

static void make(struct bench *bench, int rows)
{
    struct err err = {0};
    bench_dir(bench);
    CHECK_OK(bench_open(bench, &err));
    for (int i = 0; i < rows; i++) {
        char id[24];
        (void)snprintf(id, sizeof id, "sandbox%d", i);
        CHECK_INT(bench_put(bench, id, i, STORE_QUICK), 0);
    }
}

/* A process that puts rows and then dies without closing. */
static void make_and_kill(struct bench *bench, int rows)
{
    bench_dir(bench);
    pid_t child = fork();
    if (child == 0) {
        struct err err = {0};
        if (bench_open(bench, &err) < 0)
            _exit(1);
        for (int i = 0; i < rows; i++) {
            char id[24];
            (void)snprintf(id, sizeof id, "sandbox%d", i);
            if (bench_put(bench, id, i, STORE_QUICK) < 0)
                _exit(1);
        }
        (void)kill(getpid(), SIGKILL);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
}

TEST(what_was_acknowledged_survives_a_kill)
{
    struct bench bench = {0};
    struct err err = {0};
    make_and_kill(&bench, 20);
    CHECK_OK(bench_open(&bench, &err));
    CHECK_INT(bench_count(&bench), 20);
    CHECK_OK(store_check(bench.store, &err));
    bench_close(&bench);
}

TEST(a_missing_or_empty_database_is_not_created_again)
{
    struct bench bench = {0};
    struct err err = {0};
    char path[8192], kept[8192];
    make(&bench, 3);
    bench_close(&bench);
    path_of(&bench, "sandglass.db", path);
    path_of(&bench, "kept", kept);
    CHECK_INT(rename(path, kept), 0);
    CHECK_ERR(bench_open(&bench, &err), ERR_INTERNAL);
    CHECK_MSG("missing");
    CHECK(access(path, F_OK) < 0);
    test_write(bench.dir, "sandglass.db", "");
    CHECK_ERR(bench_open(&bench, &err), ERR_INTERNAL);
    CHECK_MSG("empty");
    CHECK_INT(rename(kept, path), 0); /* the cause goes */
    CHECK_OK(bench_open(&bench, &err));
    CHECK_INT(bench_count(&bench), 3);
    bench_close(&bench);
}

TEST(a_missing_log_is_noticed)
{
    struct bench bench = {0};
    struct err err = {0};
    char path[8192];
    make_and_kill(&bench, 5);
    path_of(&bench, "sandglass.db-wal", path);
    CHECK_INT(unlink(path), 0);
    CHECK_ERR(bench_open(&bench, &err), ERR_INTERNAL);
    CHECK_MSG("store.open");
    bench_close(&bench);
}

TEST(a_newer_schema_is_refused_with_its_number)
{
    struct bench bench = {0};
    struct err err = {0};
    char path[8192];
    make(&bench, 1);
    bench_close(&bench);
    /* user_version stands at offset 60 of the header, big-endian. */
    path_of(&bench, "sandglass.db", path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK(pwrite(fd, "\0\0\0\x63", 4, 60) == 4);
    (void)close(fd);
    CHECK_ERR(bench_open(&bench, &err), ERR_UNSUPPORTED);
    CHECK_MSG("version 99");
    bench_close(&bench);
}

TEST(what_cannot_be_written_is_refused)
{
    struct bench bench = {0};
    struct err err = {0};
    char path[8192];
    make(&bench, 1);
    bench_close(&bench);
    path_of(&bench, "sandglass.db", path);
    CHECK_INT(unlink(path), 0);
    CHECK_INT(mkdir(path, 0700), 0);
    CHECK_ERR(bench_open(&bench, &err), ERR_INTERNAL);
    bench_close(&bench);

    struct bench none = {0};
    (void)snprintf(none.dir, sizeof none.dir, "%s/nowhere", test_tmpdir());
    CHECK_ERR(bench_open(&none, &err), ERR_NOT_FOUND);
    bench_close(&none);
}

static void spoil(const char *path, off_t size, unsigned seed)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    off_t at = (off_t)(((uint64_t)seed * 2654435761U) % (uint64_t)size);
    unsigned char byte = 0;
    CHECK(pread(fd, &byte, 1, at) == 1);
    byte ^= (unsigned char)(1U << (seed % 8));
    CHECK(pwrite(fd, &byte, 1, at) == 1);
    (void)close(fd);
}

static void copy_file(const char *from, const char *to)
{
    char bytes[4096];
    int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(in >= 0 && out >= 0);
    for (ssize_t got; (got = read(in, bytes, sizeof bytes)) > 0;)
        CHECK(write(out, bytes, (size_t)got) == got);
    (void)close(in);
    (void)close(out);
}

/* Either refused, or opened with every row that can still be read: never a crash, never an empty
 * store in its place. A flipped bit inside a text is the one thing SQLite cannot see. */
TEST(flipped_bits_never_crash_and_never_empty_the_store)
{
    struct bench bench = {0};
    struct err err = {0};
    char path[8192], kept[8192];
    struct stat st;
    make(&bench, 50);
    bench_close(&bench);
    path_of(&bench, "sandglass.db", path);
    path_of(&bench, "kept", kept);
    copy_file(path, kept);
    CHECK_INT(stat(path, &st), 0);
    int refused = 0;
    for (unsigned seed = 1; seed <= 200; seed++) {
        copy_file(kept, path);
        spoil(path, st.st_size, seed);
        if (bench_open(&bench, &err) < 0) {
            refused++;
            continue;
        }
        CHECK(store_check(bench.store, &err) < 0 || bench_count(&bench) >= 49);
        bench_close(&bench);
    }
    CHECK(refused > 0);
    for (off_t size = 100; size < st.st_size; size += st.st_size / 10) {
        copy_file(kept, path);
        CHECK_INT(truncate(path, size), 0);
        CHECK(bench_open(&bench, &err) < 0);
    }
    copy_file(kept, path);
    CHECK_OK(bench_open(&bench, &err));
    CHECK_INT(bench_count(&bench), 50);
    bench_close(&bench);
}
