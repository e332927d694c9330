/* A package becomes a tree: unpacked and tried in a jail, then closed for writing. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "jail/client/files.h"
#include "runtime/obtain_internal.h"

enum { TRY_MS = 60000, UNTAR_MS = 1800000, WORD_MAX = 4096 };

/* Packages of programs are larger than what tenants may bring. */
static const struct files_tar_limits limits = {.packed = 512 << 20, .unpacked = (uint64_t)2 << 30};

static int make_jail(struct jail_plan plan, struct warden_link **ret_warden, struct jail **ret_jail,
                     struct err *err)
{
    if (warden_start(ret_warden, err) < 0)
        return -1;
    /* No tenant's code runs here, so no memory limit is needed: runtimes can also be added on a
     * host that lacks that limit. */
    const struct jail_host *host = warden_host(*ret_warden);
    plan.limits.memory_bytes = host->no_memory[0] != '\0' ? JAIL_UNLIMITED : (int64_t)1 << 30;
    plan.limits.pids = host->no_pids[0] != '\0' ? JAIL_UNLIMITED : 0;
    plan.limits.cpu_milli = host->no_cpu[0] != '\0' ? JAIL_UNLIMITED : 0;
    return jail_make(*ret_warden, &plan, ret_jail, err);
}

int obtain_unpack(const char *tree, int archive_fd, struct err *err)
{
    AUTO_WARDEN struct warden_link *warden = NULL;
    AUTO_JAIL struct jail *jail = NULL;
    struct jail_file question = {.verb = JAIL_FILE_TAR_IN,
                                 .path = STR("/workspace/new"),
                                 .place = FILES_TAR_NEW,
                                 .tar = limits};
    struct jail_file_answer answer;
    if (make_jail((struct jail_plan){.workspace = tree}, &warden, &jail, err) < 0)
        return -1;
    int done = jail_file(jail, &question, archive_fd, &answer, err);
    jail = jail_free(jail);
    return done;
}

static int obtain_tree_wait_for(struct jail *jail, int timeout_ms, struct err *err)
{
    struct jail_exit how;
    if (jail_wait(jail, timeout_ms, &how, err) < 0)
        return -1;
    if (how.code != 0 || how.signal != 0)
        return err_set(err, ERR_UNAVAILABLE, "it ended with %s %d",
                       how.signal != 0 ? "signal" : "status",
                       how.signal != 0 ? how.signal : how.code);
    return 0;
}

int obtain_untar(const char *tree, int archive_fd, struct err *err)
{
    static const char *const argv[] = {
        "/bin/sh", "-c",
        "umask 022 && mkdir /workspace/new && exec tar -x -C /workspace/new --no-same-owner", NULL};
    AUTO_WARDEN struct warden_link *warden = NULL;
    AUTO_JAIL struct jail *jail = NULL;
    struct jail_command command = {.argv = argv};
    uint32_t id;
    AUTO_CLOSE int null = SYS(open("/dev/null", O_RDWR | O_CLOEXEC));
    if (null < 0)
        return err_sys(err, errno, "open '/dev/null'");
    if (make_jail((struct jail_plan){.workspace = tree}, &warden, &jail, err) < 0)
        return -1;
    int done = jail_start(jail, &command, (int[]){archive_fd, null, null}, &id, NULL, err);
    if (done == 0)
        done = obtain_tree_wait_for(jail, UNTAR_MS, err);
    jail = jail_free(jail);
    return done < 0 ? err_wrap(err, "unpack the archive with tar") : 0;
}

/* The last line, up to the end of the text: there a program reports its error. */
static const char *last_line(struct str text)
{
    struct str all = str_trim(text);
    size_t at = all.len;
    while (at > 0 && all.ptr[at - 1] != '\n')
        at--;
    return all.ptr + at;
}

static int run_program(struct jail *jail, const char *const *argv, const char *const *env,
                       struct buf *word, struct err *err)
{
    struct jail_command command = {.argv = argv, .env = env};
    uint32_t id;
    int pair[2];
    if (SYS(pipe2(pair, O_CLOEXEC)) < 0)
        return err_sys(err, errno, "make a pipe");
    AUTO_CLOSE int ours = pair[0], theirs = pair[1];
    AUTO_CLOSE int null = SYS(open("/dev/null", O_RDWR | O_CLOEXEC));
    if (null < 0)
        return err_sys(err, errno, "open '/dev/null'");
    if (jail_start(jail, &command, (int[]){null, theirs, theirs}, &id, NULL, err) < 0)
        return -1;
    fd_close(&theirs);
    struct err ignored;
    int done = obtain_tree_wait_for(jail, TRY_MS, err);
    int got = buf_read_all(word, ours, done < 0 ? &ignored : err);
    if (done < 0 && got == 0 && word->len > 0)
        return err_wrap(err, "its last output was '%.100s'", last_line(buf_str(word)));
    return done < 0 ? done : got;
}

static int try_in(struct jail_plan plan, const char *const *argv, const char *const *env,
                  const char *version, struct err *err)
{
    AUTO_WARDEN struct warden_link *warden = NULL;
    AUTO_JAIL struct jail *jail = NULL;
    AUTO_BUF struct buf word = buf_with_limit(WORD_MAX);
    if (make_jail(plan, &warden, &jail, err) < 0)
        return -1;
    int done = run_program(jail, argv, env, &word, err);
    if (done == 0 && str_find(buf_str(&word), str_of(version)) >= word.len)
        done = err_set(err, ERR_INVALID, "it reports the version '%.60s', not %s", buf_cstr(&word),
                       version);
    if (done < 0)
        (void)err_wrap(err, "'%s %s' does not work here", argv[0], argv[1]);
    jail = jail_free(jail);
    return done;
}

int obtain_try(const char *tree, const char *program, const char *version, struct err *err)
{
    char path[RUNTIME_PATH_MAX];
    (void)snprintf(path, sizeof path, "/workspace/%s", program);
    return try_in((struct jail_plan){.workspace = tree}, (const char *[]){path, "--version", NULL},
                  NULL, version, err);
}

int obtain_try_root(const char *root, const struct runtime *runtime, struct err *err)
{
    return try_in((struct jail_plan){.base = root},
                  (const char *[]){runtime->program, "-c", runtime->proof, NULL}, runtime->env,
                  runtime->version, err);
}

static int seal_entry(int dir_fd, const char *name, struct err *err)
{
    struct stat st;
    if (SYS(fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW)) < 0)
        return err_sys(err, errno, "inspect '%s'", name);
    if (S_ISLNK(st.st_mode))
        return 0;
    if (S_ISDIR(st.st_mode)) {
        AUTO_CLOSE int inner =
            SYS(openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (inner < 0)
            return err_sys(err, errno, "open '%s'", name);
        if (obtain_seal(inner, err) < 0)
            return -1;
    }
    if (SYS(fchmodat(dir_fd, name, st.st_mode & 0555, 0)) < 0)
        return err_sys(err, errno, "chmod '%s'", name);
    return 0;
}

static int seal_entries(DIR *dir, struct err *err)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir); /* NOLINT(concurrency-mt-unsafe): our own */
        if (entry == NULL)
            return errno == 0 ? 0 : err_sys(err, errno, "read a directory");
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            seal_entry(dirfd(dir), entry->d_name, err) < 0)
            return -1;
    }
}

int obtain_seal(int dir_fd, struct err *err)
{
    int copy = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (dir == NULL) {
        fd_close(&copy);
        return err_sys(err, errno, "read a directory");
    }
    int done = seal_entries(dir, err);
    (void)closedir(dir);
    return done;
}
