/* Runtimes and models that npm packages bring: a download from the registry of this machine, taken
 * up again where it broke off, compared with our digest, and only then opened. */

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crypto/hash.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/format/base64.h"
#include "base/sys.h"
#include "egress/net/groups.h"
#include "io/download.h"
#include "runtime/obtain_internal.h"

enum { PACKAGE_MAX = 512 << 20 };

/* ---- the registry ---- */

/* The registry that is configured, else the one that npm uses here, with a '/' at its end. */
static int put_registry(struct str configured, struct buf *out, struct err *err)
{
    AUTO_GROUP_HOSTS struct group_hosts hosts = {0};
    struct group_sources sources = {.registries = {[GROUP_NPM] = configured}};
    if (group_expand(STR("npm"), &sources, &hosts, err) < 0)
        return err_wrap(err, "adding it without --file needs a registry");
    struct str rest = buf_str(&hosts.settings), line, name;
    if (str_split(&rest, '\n', &line) && str_split(&line, '=', &name))
        buf_put(out, line);
    if (!str_ends(buf_str(out), STR("/")))
        buf_put_char(out, '/');
    return 0;
}

/* REGISTRY/@scope/name/-/name-1.2.3.tgz */
static int package_url(const struct obtaining *obtaining, struct buf *out, struct err *err)
{
    const struct obtain_item *item = obtaining->item;
    const char *slash = strrchr(item->package, '/');
    if (put_registry(obtaining->how->npm_registry, out, err) < 0)
        return -1;
    buf_printf(out, "%s/-/%s-%s.tgz", item->package, slash == NULL ? item->package : slash + 1,
               item->version);
    return 0;
}

/* ---- the package ---- */

static int check_digest(const struct obtaining *obtaining, int fd, struct err *err)
{
    unsigned char digest[HASH_SHA512_SIZE];
    AUTO_BUF struct buf text = {0};
    if (SYS(lseek(fd, 0, SEEK_SET)) < 0)
        return err_sys(err, errno, "read the package");
    obtain_say(obtaining, "checking", 0, 0);
    if (hash_sha512_fd(fd, digest, err) < 0)
        return -1;
    buf_put_cstr(&text, "sha512-");
    base64_put(str_n((const char *)digest, sizeof digest), &text);
    if (!str_eq(buf_str(&text), str_of(obtaining->item->integrity)))
        return err_set(err, ERR_INVALID, "the package is not %s %s: its digest is %.30s...",
                       obtaining->item->package, obtaining->item->version, buf_cstr(&text));
    if (SYS(lseek(fd, 0, SEEK_SET)) < 0)
        return err_sys(err, errno, "read the package");
    return 0;
}

static void on_download(void *ctx, uint64_t have, uint64_t total)
{
    obtain_say(ctx, "downloading", have, total);
}

/* Where npm reaches its registry through an authority that the system does not know, one of these
 * names it. */
static const char *npm_authority(void)
{
    static const char *const names[] = {"npm_config_cafile", "NPM_CONFIG_CAFILE",
                                        "NODE_EXTRA_CA_CERTS"};
    for (size_t i = 0; i < countof(names); i++) {
        const char *file = getenv(names[i]);
        if (file != NULL && file[0] != '\0')
            return file;
    }
    return NULL;
}

static int fetch(struct obtaining *obtaining, int fd, struct err *err)
{
    AUTO_BUF struct buf url = {0};
    if (package_url(obtaining, &url, err) < 0)
        return -1;
    struct download download = {.url = buf_cstr(&url),
                                .fd = fd,
                                .limit = PACKAGE_MAX,
                                .extra_ca = npm_authority(),
                                .progress = on_download,
                                .ctx = obtaining};
    obtain_say(obtaining, "downloading", 0, 0);
    if (download_run(&download, err) < 0)
        return err_wrap(err, "download '%s'", buf_cstr(&url));
    return 0;
}

/* Whether an earlier try had got all of it. */
static bool is_whole(const struct obtaining *obtaining, int fd)
{
    struct stat st;
    struct err ignored;
    return fstat(fd, &st) == 0 && st.st_size > 0 && check_digest(obtaining, fd, &ignored) == 0;
}

/* A download that is complete and wrong is of no use to the next try. */
static int fetch_checked(struct obtaining *obtaining, const char *part, int *ret_fd,
                         struct err *err)
{
    AUTO_CLOSE int fd = SYS(open(part, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", part);
    if (!is_whole(obtaining, fd) && fetch(obtaining, fd, err) < 0)
        return -1;
    if (check_digest(obtaining, fd, err) < 0) {
        (void)unlink(part);
        return -1;
    }
    *ret_fd = fd_take(&fd);
    return 0;
}

static int copy_to(int to_fd, int from_fd, struct err *err)
{
    char bytes[64 << 10];
    for (uint64_t all = 0;;) {
        ssize_t got = SYS(read(from_fd, bytes, sizeof bytes));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_sys(err, errno, "read");
        if (got == 0)
            return 0;
        all += (uint64_t)got;
        if (all > PACKAGE_MAX)
            return err_set(err, ERR_TOO_LARGE, "more than %d bytes", PACKAGE_MAX);
        if (fd_write_all(to_fd, str_n(bytes, (size_t)got), err) < 0)
            return -1;
    }
}

/* Compares and opens a private copy, because the owner of the file could change it between both. */
static int open_given(struct obtaining *obtaining, const char *part, int *ret_fd, struct err *err)
{
    const char *file = obtaining->how->file;
    AUTO_CLOSE int given = SYS(open(file, O_RDONLY | O_CLOEXEC));
    if (given < 0)
        return err_sys(err, errno, "open '%s'", file);
    AUTO_CLOSE int fd = SYS(open(part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", part);
    if (copy_to(fd, given, err) < 0 || check_digest(obtaining, fd, err) < 0) {
        (void)unlink(part);
        return err_wrap(err, "'%s'", file);
    }
    *ret_fd = fd_take(&fd);
    return 0;
}

static int try_it(const struct obtaining *obtaining, const char *dir, struct err *err)
{
    const struct obtain_item *item = obtaining->item;
    char program[256];
    obtain_say(obtaining, "trying", 0, 0);
    if (item->program == NULL)
        return obtaining->how->check == NULL ? 0 : obtaining->how->check(dir, err);
    (void)snprintf(program, sizeof program, "new/package/%s", item->program);
    return obtain_try(obtaining->tree, program, item->version, err);
}

int obtain_npm(struct obtaining *obtaining, char ret_ready[RUNTIME_PATH_MAX], struct err *err)
{
    const struct obtain_item *item = obtaining->item;
    char part[RUNTIME_PATH_MAX], ready[RUNTIME_PATH_MAX];
    AUTO_CLOSE int fd = -1;
    (void)snprintf(part, sizeof part, "%.3800s/%s-%s.part", obtaining->incoming, item->name,
                   item->version);
    if ((obtaining->how->file != NULL ? open_given(obtaining, part, &fd, err)
                                      : fetch_checked(obtaining, part, &fd, err)) < 0)
        return -1;
    obtain_say(obtaining, "unpacking", 0, 0);
    if (obtain_unpack(obtaining->tree, fd, err) < 0)
        return -1;
    CRASH_POINT("runtime.unpacked");
    (void)snprintf(ready, sizeof ready, "%.3900s/new/package", obtaining->tree);
    if (try_it(obtaining, ready, err) < 0)
        return -1;
    memcpy(ret_ready, ready, sizeof ready);
    (void)unlink(part);
    return 0;
}
