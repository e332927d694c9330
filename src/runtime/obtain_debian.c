/* Runtimes that are a Debian system of their own: mmdebstrap makes an archive of it from the mirror
 * that this machine uses, whose lists it checks against Debian's keys; the archive is unpacked in a
 * jail, and tried as the root of one.
 *
 * Packages that were downloaded stay in incoming/NAME.debs until the runtime is added, and so does
 * a complete archive: the next call continues what was interrupted. That needs root: without it
 * mmdebstrap works under ids that may not see the data directory.
 *
 * None of its processes outlives ours, however we end: the next call would write to the same
 * files. */

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "runtime/obtain_internal.h"

enum { ARGS_MAX = 48, LINE_MAX_LEN = 1024 };

/* ---- the mirror ---- */

static bool take_url(struct str line, struct buf *out)
{
    struct str url = str_trim(line);
    if (!str_starts(url, STR("http://")) && !str_starts(url, STR("https://")) &&
        !str_starts(url, STR("file:")))
        return false;
    buf_put(out, url);
    return true;
}

/* Where apt has this machine's own release from; the mirror has others, too. */
static bool from_apt(struct buf *out)
{
    static const char *const argv[] = {"apt-get",     "indextargets",         "--format",
                                       "$(REPO_URI)", "Created-By: Packages", "Origin: Debian",
                                       NULL};
    AUTO_BUF struct buf answer = buf_with_limit(64 << 10);
    struct err ignored;
    if (obtain_run(argv, &answer, &ignored) < 0)
        return false;
    struct str rest = buf_str(&answer), line;
    while (str_split(&rest, '\n', &line))
        if (str_find(line, STR("security")) >= line.len && take_url(line, out))
            return true;
    return false;
}

static int find_mirror(struct buf *out, struct err *err)
{
    const char *given = getenv("SANDGLASS_DEBIAN_MIRROR"); /* NOLINT(concurrency-mt-unsafe) */
    if (given != NULL && !take_url(str_of(given), out))
        return err_set(err, ERR_INVALID, "SANDGLASS_DEBIAN_MIRROR is not a URL: '%.80s'", given);
    if (given == NULL && !from_apt(out))
        return err_set(
            err, ERR_UNAVAILABLE,
            "no Debian mirror is configured on this machine: set SANDGLASS_DEBIAN_MIRROR");
    return 0;
}

/* ---- mmdebstrap ---- */

/* What it says of its own steps, in fewer words. */
static const struct {
    const char *says, *step;
} steps[] = {
    {"apt-get update", "reading lists"},    {"downloading packages", "downloading"},
    {"extracting archives", "unpacking"},   {"installing essential", "installing the base"},
    {"installing remaining", "installing"}, {"installing packages", "installing"},
    {"creating tarball", "packing"},
};

struct telling {
    const struct obtaining *obtaining;
    char last_error[200];
};

static void obtain_debian_on_line(void *ctx, struct str line)
{
    struct telling *telling = ctx;
    for (size_t i = 0; i < countof(steps) && str_starts(line, STR("I: ")); i++)
        if (str_find(line, str_of(steps[i].says)) < line.len)
            obtain_say(telling->obtaining, steps[i].step, 0, 0);
    if (str_starts(line, STR("E: ")))
        (void)snprintf(telling->last_error, sizeof telling->last_error, "%.*s",
                       STR_ARG(str_slice(line, 3, line.len)));
}

/* Paths stand in commands of a shell there. */
static bool is_quotable(const char *path)
{
    return strchr(path, '\'') == NULL && strchr(path, '\n') == NULL;
}

struct words {
    const char *argv[ARGS_MAX];
    size_t count;
    char include[512], bind[RUNTIME_PATH_MAX + 128], scratch[RUNTIME_PATH_MAX + 16];
};

static void add_word(struct words *words, const char *word)
{
    assert(words->count + 1 < ARGS_MAX);
    words->argv[words->count++] = word;
    words->argv[words->count] = NULL;
}

/* As root in name spaces of its own, so that no mount and no process outlives it, with its tree in
 * ours, which the next one clears. Otherwise it clears up itself, and has to be told. */
static void add_program(struct words *words, const char *tree, bool is_root)
{
    static const char *const alone[] = {"unshare",      "--mount",      "--pid",
                                        "--mount-proc", "--kill-child", "--fork"};
    add_word(words, "setpriv");
    add_word(words, "--pdeathsig");
    add_word(words, is_root ? "KILL" : "TERM");
    if (is_root) {
        (void)snprintf(words->scratch, sizeof words->scratch, "TMPDIR=%s", tree);
        add_word(words, "env");
        add_word(words, words->scratch);
        for (size_t i = 0; i < countof(alone); i++)
            add_word(words, alone[i]);
    }
    add_word(words, "mmdebstrap");
    add_word(words, is_root ? "--mode=root" : "--mode=unshare");
}

static void add_cache(struct words *words, const char *cache)
{
    (void)snprintf(words->bind, sizeof words->bind,
                   "--setup-hook=mkdir -p \"$1/var/cache/apt/archives\" && "
                   "mount --bind '%s' \"$1/var/cache/apt/archives\"",
                   cache);
    add_word(words, words->bind);
    add_word(words, "--customize-hook=umount \"$1/var/cache/apt/archives\"");
    add_word(words, "--skip=download/empty");
    add_word(words, "--skip=essential/unlink");
}

/* What the jail's own /etc says, too. */
static const char furnish[] =
    "--customize-hook=printf 'sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh\\n' "
    ">> \"$1/etc/passwd\"; printf 'sandbox:x:1000:\\n' >> \"$1/etc/group\"; "
    "printf '127.0.0.1 localhost\\n::1 localhost\\n' > \"$1/etc/hosts\"; "
    "printf 'sandbox\\n' > \"$1/etc/hostname\"; : > \"$1/etc/resolv.conf\"";

static void make_words(const struct obtaining *obtaining, const char *cache, const char *mirror,
                       struct words *words)
{
    static const char *const always[] = {
        "--variant=essential",
        "--format=tar",
        "--skip=output/dev",
        "--aptopt=APT::Install-Recommends \"false\"",
        "--aptopt=Acquire::Languages \"none\"",
        "--aptopt=Acquire::Retries \"3\"",
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
    };
    const struct runtime *runtime = obtaining->item->system;
    bool is_root = geteuid() == 0;
    add_program(words, obtaining->tree, is_root);
    for (size_t i = 0; i < countof(always); i++)
        add_word(words, always[i]);
    add_word(words, furnish);
    if (is_root)
        add_cache(words, cache);
    (void)snprintf(words->include, sizeof words->include, "--include=%s", runtime->package);
    add_word(words, words->include);
    add_word(words, runtime->release);
    add_word(words, "-");
    add_word(words, mirror);
}

static int run_mmdebstrap(const struct obtaining *obtaining, const char *cache, int out_fd,
                          struct err *err)
{
    static struct words words;
    AUTO_BUF struct buf mirror = {0};
    struct telling telling = {.obtaining = obtaining};
    struct err why = {0};
    if (find_mirror(&mirror, err) < 0)
        return -1;
    words = (struct words){0};
    make_words(obtaining, cache, buf_cstr(&mirror), &words);
    obtain_say(obtaining, "starting mmdebstrap", 0, 0);
    if (obtain_run_telling(words.argv, out_fd, obtain_debian_on_line, &telling, &why) == 0)
        return 0;
    if (strstr(telling.last_error, "/etc/subuid") != NULL)
        return err_set(err, ERR_UNAVAILABLE,
                       "mmdebstrap: this user has no id range in /etc/subuid and "
                       "/etc/subgid: add some (usermod --add-subuids 100000-165535 --add-subgids "
                       "100000-165535 USER), or add the runtime as root");
    if (telling.last_error[0] != '\0')
        return err_set(err, ERR_UNAVAILABLE, "mmdebstrap: %s", telling.last_error);
    *err = why;
    return -1;
}

static int has_mmdebstrap(struct err *err)
{
    static const char *const argv[] = {"mmdebstrap", "--version", NULL};
    AUTO_BUF struct buf ignored = buf_with_limit(LINE_MAX_LEN);
    struct err why = {0};
    if (obtain_run(argv, &ignored, &why) == 0)
        return 0;
    return err_set(err, ERR_UNAVAILABLE,
                   "this runtime is built with mmdebstrap, which is missing or does not run; "
                   "install the package mmdebstrap");
}

/* ---- the archive ---- */

/* Complete when it has its name. */
static int make_archive(const struct obtaining *obtaining, const char *archive, const char *cache,
                        struct err *err)
{
    char part[RUNTIME_PATH_MAX];
    (void)snprintf(part, sizeof part, "%.4000s.part", archive);
    if (has_mmdebstrap(err) < 0 || fd_make_dirs(cache, 0755, err) < 0)
        return -1;
    if (!is_quotable(cache))
        return err_set(err, ERR_INVALID, "the data directory's path contains a quote");
    AUTO_CLOSE int fd = SYS(open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", part);
    if (run_mmdebstrap(obtaining, cache, fd, err) < 0) {
        (void)unlink(part);
        return -1;
    }
    if (SYS(rename(part, archive)) < 0)
        return err_sys(err, errno, "rename '%s'", part);
    return 0;
}

/* What the next try would have needed. */
static void drop_cache(const struct obtaining *obtaining, const char *archive)
{
    char name[64];
    struct err ignored;
    (void)unlink(archive);
    (void)snprintf(name, sizeof name, "%s.debs", obtaining->item->name);
    (void)!obtain_discard(obtaining, name, &ignored);
}

int obtain_debian(struct obtaining *obtaining, char ret_ready[RUNTIME_PATH_MAX], struct err *err)
{
    const struct runtime *runtime = obtaining->item->system;
    char archive[RUNTIME_PATH_MAX], cache[RUNTIME_PATH_MAX];
    if (obtaining->how->file != NULL)
        return err_set(
            err, ERR_INVALID,
            "this runtime is built from Debian packages and cannot be added from a file");
    (void)snprintf(archive, sizeof archive, "%.3800s/%s-%s.tar", obtaining->incoming, runtime->name,
                   runtime->version);
    (void)snprintf(cache, sizeof cache, "%.3800s/%s.debs", obtaining->incoming, runtime->name);
    if (access(archive, R_OK) < 0 && make_archive(obtaining, archive, cache, err) < 0)
        return -1;
    AUTO_CLOSE int fd = SYS(open(archive, O_RDONLY | O_CLOEXEC));
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", archive);
    (void)snprintf(ret_ready, RUNTIME_PATH_MAX, "%.3900s/new", obtaining->tree);
    obtain_say(obtaining, "unpacking the archive", 0, 0);
    if (obtain_untar(obtaining->tree, fd, err) < 0)
        return -1;
    CRASH_POINT("runtime.unpacked");
    obtain_say(obtaining, "trying", 0, 0);
    if (obtain_try_root(ret_ready, runtime, err) < 0)
        return -1;
    drop_cache(obtaining, archive);
    return 0;
}
