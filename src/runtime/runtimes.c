#include "runtime/runtimes.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/embed.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/id.h"

extern const struct embed_file kernel_programs[]; /* made by the build */

const struct runtime runtimes[] = {
    {.name = "python3",
     .language = "python",
     .summary = "the host's Python",
     .argv = {RUNTIME_DIR "/kernel-python", "json", NULL},
     .needs = "/usr/lib/*/libpython3.*.so.1.0",
     .remedy = "install Debian's package libpython3.11, or libpython3 of your distribution"},
    {.name = "bash",
     .language = "bash",
     .summary = "one shell",
     .argv = {RUNTIME_DIR "/kernel-bash", NULL},
     .needs = "/bin/bash",
     .remedy = "install the package bash"},
    {0},
};

static bool is_there(const char *pattern)
{
    glob_t found = {0};
    bool hit = pattern == NULL || glob(pattern, 0, NULL, &found) == 0;
    globfree(&found);
    return hit;
}

int runtime_find(struct str name, const struct runtime **ret_runtime, struct err *err)
{
    for (const struct runtime *row = runtimes; row->name != NULL; row++) {
        if (!str_eq(name, str_of(row->name)))
            continue;
        if (!is_there(row->needs))
            return err_set(err, ERR_UNAVAILABLE, "runtime '%s' is not on this machine: %s",
                           row->name, row->remedy);
        *ret_runtime = row;
        return 0;
    }
    return err_set(err, ERR_NOT_FOUND, "no runtime '%.*s'; there are python3 and bash",
                   STR_ARG(name));
}

/* The name tells the content, so another version never finds these. */
static void content_name(char out[24])
{
    AUTO_BUF struct buf all = {0};
    char hex[HASH_HEX_SIZE];
    for (const struct embed_file *file = kernel_programs; file->name != NULL; file++)
        buf_put(&all, file->bytes);
    hash_sha256_hex(buf_str(&all), hex);
    (void)snprintf(out, 24, "kernels-%.12s", hex);
}

static int write_programs(const char *dir, struct err *err)
{
    AUTO_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", dir);
    for (const struct embed_file *file = kernel_programs; file->name != NULL; file++)
        if (fd_replace_file(fd, file->name, file->bytes, 0555, err) < 0)
            return -1;
    return 0;
}

int runtimes_unpack(const char *data_dir, char *out, size_t size, struct err *err)
{
    char name[24], part[4096], unique[ID_SIZE];
    struct stat st;
    content_name(name);
    if ((size_t)snprintf(out, size, "%s/runtimes/%s", data_dir, name) >= size)
        return err_set(err, ERR_TOO_LARGE, "the data directory's path is too long");
    if (stat(out, &st) == 0)
        return 0;
    id_new(unique);
    (void)snprintf(part, sizeof part, "%s.%s", out, unique);
    if (fd_make_dirs(part, 0755, err) < 0 || write_programs(part, err) < 0)
        return err_wrap(err, "unpack the kernels");
    /* Somebody else may have been quicker with the same bytes. */
    if (rename(part, out) < 0 && errno != EEXIST && errno != ENOTEMPTY)
        return err_sys(err, errno, "unpack the kernels to '%s'", out);
    return 0;
}

int runtime_program(const char *name, struct err *err)
{
    enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL };
    const struct embed_file *file = kernel_programs;
    while (file->name != NULL && strcmp(file->name, name) != 0)
        file++;
    if (file->name == NULL)
        return err_set(err, ERR_NOT_FOUND, "no kernel '%s'", name);
    AUTO_CLOSE int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return err_sys(err, errno, "memfd_create");
    if (fd_write_all(fd, file->bytes, err) < 0)
        return -1;
    if (fcntl(fd, F_ADD_SEALS, SEALS) < 0)
        return err_sys(err, errno, "seal '%s'", name);
    return fd_take(&fd);
}
