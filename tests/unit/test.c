#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

enum { TESTS_MAX = 400 };
static struct CMUnitTest tests[TESTS_MAX];
static size_t test_count;
static char tmpdir[PATH_MAX];

static CMUnitTestFunction bodies[TESTS_MAX];
static jmp_buf skip_jump;
static size_t running;

/* Every test runs through here. cmocka reports a skip as "not ok # SKIP", which TAP readers count
 * as a failure; a skipped test therefore ends as a passed one whose name says so. */
static void run_body(void **state)
{
    running = (size_t)((struct CMUnitTest *)*state - tests);
    if (setjmp(skip_jump) == 0)
        bodies[running](state);
}

void test_register(const char *name, CMUnitTestFunction func)
{
    assert(test_count < TESTS_MAX);
    bodies[test_count] = func;
    tests[test_count] = (struct CMUnitTest){
        .name = name, .test_func = run_body, .initial_state = &tests[test_count]};
    test_count++;
}

void test_check_str(struct str value, const char *expected, const char *file, int line)
{
    if (str_eq(value, str_of(expected)))
        return;
    print_error("got      \"%.*s\"\nexpected \"%s\"\n", STR_ARG(value), expected);
    _fail(file, line);
}

void test_check_ok(int result, const struct err *err, const char *call, const char *file, int line)
{
    if (result >= 0)
        return;
    print_error("%s: %s: %s\n", call, err_wire_name(err->code), err->msg);
    _fail(file, line);
}

void test_check_err(int result, const struct err *err, enum err_code expected, const char *call,
                    const char *file, int line)
{
    if (result < 0 && err->code == expected)
        return;
    print_error("%s: expected %s, got %s: %s\n", call, err_wire_name(expected),
                result < 0 ? err_wire_name(err->code) : "success", result < 0 ? err->msg : "");
    _fail(file, line);
}

void test_check_msg(const struct err *err, const char *text, const char *file, int line)
{
    if (strstr(err->msg, text) != NULL)
        return;
    print_error("message  \"%s\"\nlacks    \"%s\"\n", err->msg, text);
    _fail(file, line);
}

void test_skip(const char *reason)
{
    static char names[TESTS_MAX][200]; /* read when the test has ended */
    (void)snprintf(names[running], sizeof names[running], "%s # SKIP %s", tests[running].name,
                   reason);
    tests[running].name = names[running];
    longjmp(skip_jump, 1);
}

const char *test_tmpdir(void)
{
    if (tmpdir[0] != '\0')
        return tmpdir;
    const char *base = getenv("TMPDIR");
    (void)snprintf(tmpdir, sizeof tmpdir, "%s/sandglass-test-XXXXXX", base == NULL ? "/tmp" : base);
    assert_non_null(mkdtemp(tmpdir));
    return tmpdir;
}

/* A process that was killed leaves the file systems mounted that it had in the directory. */
static void unmount_below(const char *dir)
{
    char line[3 * PATH_MAX], prefix[PATH_MAX + 1];
    char *places[4096];
    size_t count = 0;
    (void)snprintf(prefix, sizeof prefix, "%s/", dir);
    FILE *mounts = fopen("/proc/self/mounts", "re");
    while (mounts != NULL && count < countof(places) && fgets(line, sizeof line, mounts) != NULL) {
        const char *place = strchr(line, ' ');
        if (place == NULL || strncmp(place + 1, prefix, strlen(prefix)) != 0)
            continue;
        places[count++] = strndup(place + 1, strcspn(place + 1, " "));
    }
    if (mounts != NULL)
        (void)fclose(mounts);
    while (count > 0) { /* the last one first: it may lie on another */
        (void)umount2(places[--count], MNT_DETACH);
        free(places[count]);
    }
}

static int remove_entry(const char *path, UNUSED const struct stat *st, UNUSED int type,
                        UNUSED struct FTW *at)
{
    return remove(path);
}

void test_write(const char *dir, const char *name, const char *text)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

void test_symlink(const char *dir, const char *target, const char *name)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(symlink(target, path), 0);
}

int test_open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    int count = 0;
    while (readdir(dir) != NULL)
        count++;
    (void)closedir(dir);
    return count - 3; /* ".", ".." and the directory itself */
}

int main(int argc, char **argv)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    int failed = _cmocka_run_group_tests(argv[0], tests, test_count, NULL, NULL);
    if (tmpdir[0] != '\0') {
        unmount_below(tmpdir);
        (void)nftw(tmpdir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    }
    return failed == 0 ? 0 : 1;
}

int test_sized(int small, int full)
{
    const char *part = getenv("SG_SOAK");
    int64_t n;
    if (part == NULL || !str_to_i64(str_of(part), 1, full, &n))
        return small;
    return MAX(small, full / (int)n);
}
