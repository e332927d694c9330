/* Every probe on this host: an answer each, and nothing left behind. */

#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/sys.h"
#include "jail/probe/probe.h"

static void read_file(const char *path, struct buf *text)
{
    struct err err = {0};
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_OK(buf_read_all(text, fd, &err));
}

static int leftover_groups;
static char leftover_name[64];

static int count_group(const char *path, UNUSED const struct stat *st, int type, struct FTW *at)
{
    if ((type == FTW_D || type == FTW_DNR) && strcmp(path + at->base, leftover_name) == 0)
        leftover_groups++;
    return 0;
}

static int groups_of(const struct probe_env *env)
{
    (void)snprintf(leftover_name, sizeof leftover_name, "%s", env->group);
    leftover_groups = 0;
    (void)nftw("/sys/fs/cgroup", count_group, 16, FTW_PHYS);
    return leftover_groups;
}

static bool has_no_children(void)
{
    return waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD;
}

static void read_controls(const struct probe_env *env, struct buf *text)
{
    char path[PROBE_PATH_MAX + 64];
    if (env->cgroups.unified.version != 2)
        return;
    (void)snprintf(path, sizeof path, "%s/cgroup.subtree_control", env->cgroups.unified.top);
    read_file(path, text);
}

/* Is there a line with the number of this one? */
static bool has_mount(struct str mounts, struct str line)
{
    struct str number = str_slice(line, 0, str_find_char(line, ' ') + 1), other;
    while (mounts.len > 0 && str_split(&mounts, '\n', &other))
        if (str_starts(other, number))
            return true;
    return false;
}

TEST(every_probe_answers_and_leaves_nothing)
{
    struct probe_env env;
    /* Where it is allowed, away from mounts that others make meanwhile. */
    if (unshare(CLONE_NEWNS) == 0)
        CHECK_INT(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    probe_env_init(&env, test_tmpdir());
    AUTO_BUF struct buf mounts = {0}, controls = {0};
    read_file("/proc/self/mountinfo", &mounts);
    read_controls(&env, &controls);
    int fds = test_open_fds();
    for (size_t i = 0; i < probe_count; i++) {
        struct probe_result result;
        memset(&result, 0x55, sizeof result);
        probe_run(&probes[i], &env, &result);
        print_message("# %s %s: %s\n", probe_status_name(result.status), probes[i].id,
                      result.detail);
        CHECK(result.detail[0] != '\0');
        CHECK(has_no_children());
        CHECK_INT(test_open_fds(), fds);
    }
    AUTO_BUF struct buf mounts_after = {0}, controls_after = {0};
    read_file("/proc/self/mountinfo", &mounts_after);
    read_controls(&env, &controls_after);
    /* A mount of others goes from here too when they remove the directory below it, and has another
     * line when they rename it. */
    struct str rest = buf_str(&mounts_after), line;
    while (rest.len > 0 && str_split(&rest, '\n', &line)) {
        CHECK(has_mount(buf_str(&mounts), line));
        CHECK(str_find(line, str_of(test_tmpdir())) == line.len);
    }
    CHECK_STR(buf_str(&controls_after), buf_cstr(&controls));
    CHECK_INT(groups_of(&env), 0);
    AUTO_MEM struct dirent **names = NULL;
    int count = scandir(test_tmpdir(), &names, NULL, NULL);
    for (int i = 0; i < count; i++)
        free(names[i]);
    CHECK_INT(count, 2); /* . and .. */
}

static void hang(UNUSED const struct probe *probe, UNUSED const struct probe_env *env,
                 UNUSED struct probe_result *result)
{
    (void)fork(); /* both hang, in one group */
    for (;;)
        (void)pause();
}

static void crash(UNUSED const struct probe *probe, UNUSED const struct probe_env *env,
                  UNUSED struct probe_result *result)
{
    (void)signal(SIGSEGV, SIG_DFL);
    (void)raise(SIGSEGV);
}

static void vanish(UNUSED const struct probe *probe, UNUSED const struct probe_env *env,
                   UNUSED struct probe_result *result)
{
    _exit(0);
}

/* Leaves a grandchild behind and answers. */
static void abandon(UNUSED const struct probe *probe, UNUSED const struct probe_env *env,
                    struct probe_result *result)
{
    if (fork() == 0) {
        (void)fork();
        for (;;)
            (void)pause();
    }
    (void)snprintf(result->detail, sizeof result->detail, "fine");
    result->status = PROBE_OK;
}

TEST(a_probe_that_misbehaves_is_missing_and_gone)
{
    static const struct {
        struct probe probe;
        enum probe_status status;
        const char *detail;
    } cases[] = {
        {{.id = "hang", .run = hang}, PROBE_MISSING, "no answer within 10000 ms"},
        {{.id = "crash", .run = crash}, PROBE_MISSING, "ended by signal 11"},
        {{.id = "vanish", .run = vanish}, PROBE_MISSING, "without an answer"},
        {{.id = "abandon", .run = abandon}, PROBE_OK, "fine"},
    };
    struct probe_env env;
    probe_env_init(&env, test_tmpdir());
    int fds = test_open_fds();
    for (size_t i = 0; i < countof(cases); i++) {
        struct probe_result result;
        probe_run(&cases[i].probe, &env, &result);
        CHECK_INT(result.status, cases[i].status);
        CHECK(strstr(result.detail, cases[i].detail) != NULL);
        CHECK(has_no_children());
        CHECK_INT(test_open_fds(), fds);
    }
}

#ifdef SG_FAULTS
/* The n-th call of each probe fails: the answer may be any, but it comes and nothing stays. */
TEST(every_failing_call_is_survived)
{
    struct probe_env env;
    probe_env_init(&env, test_tmpdir());
    int fds = test_open_fds();
    for (size_t i = 0; i < probe_count; i++) {
        if (probes[i].word != NULL)
            continue; /* programs of others: slow, and not ours to fail */
        for (int64_t n = 1; n <= 16; n++) {
            struct probe_result result;
            (void)sys_fail_at(n);
            probe_run(&probes[i], &env, &result);
            (void)sys_fail_at(0);
            CHECK(result.detail[0] != '\0');
            CHECK(has_no_children());
            CHECK_INT(test_open_fds(), fds);
        }
    }
    CHECK(probes[0].tidy == NULL);
    for (size_t i = 0; i < probe_count; i++)
        if (probes[i].tidy != NULL)
            CHECK(probes[i].tidy(&env)); /* a tidying that was itself made to fail */
    CHECK_INT(groups_of(&env), 0);
}
#endif

TEST(data_dir_need_not_exist)
{
    struct probe_env env;
    char path[PROBE_PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/not/yet", test_tmpdir());
    probe_env_init(&env, path);
    CHECK_CSTR(env.data_dir, test_tmpdir());
    probe_env_init(&env, "nowhere-relative");
    CHECK_CSTR(env.data_dir, "/");
}

TEST(rows_are_complete_and_unique)
{
    for (size_t i = 0; i < probe_count; i++) {
        const struct probe *row = &probes[i];
        CHECK(row->id != NULL && row->heading != NULL && row->title != NULL && row->run != NULL);
        CHECK(row->cost != NULL && row->fix != NULL);
        CHECK((row->need == PROBE_NEED_FULL) == (row->without != NULL));
        for (size_t j = 0; j < i; j++)
            CHECK(strcmp(probes[j].id, row->id) != 0);
    }
}

/* docs/DOCTOR.md holds the table word for word; a failure prints the line that is due. */
TEST(the_manual_repeats_the_table)
{
    const char *root = getenv("SG_SOURCE_ROOT");
    if (root == NULL)
        SKIP("SG_SOURCE_ROOT is not set: run through meson");
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/docs/DOCTOR.md", root);
    AUTO_BUF struct buf doc = {0};
    read_file(path, &doc);
    bool complete = true;
    for (size_t i = 0; i < probe_count; i++) {
        AUTO_BUF struct buf line = {0};
        buf_printf(&line, "| `%s` | %s | %s | %s |\n", probes[i].id, probes[i].title,
                   probes[i].cost[0] == '\0' ? "for information" : probes[i].cost, probes[i].fix);
        if (strstr(buf_cstr(&doc), buf_cstr(&line)) != NULL)
            continue;
        print_error("%s", buf_cstr(&line));
        complete = false;
    }
    CHECK(complete);
}
