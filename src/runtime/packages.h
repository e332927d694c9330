#pragma once

/* What provides a module that code asked for and did not find, and how it is installed: names are
 * a tenant's word, checked before they stand in a command line. */

#include "base/arena.h"
#include "base/str.h"

struct buf;
struct err;
struct runtime;

/* Where packages are installed, in the working tree: they live as long as a session's files.
 * Commands and cells look there, see env.c. */
#define PACKAGES_PYTHON "/workspace/.sandglass/python"
#define PACKAGES_NODE "/workspace/.sandglass/node"
#define PACKAGES_DENO "/workspace/.sandglass/deno"

enum {
    PACKAGES_MAX = 64, /* of one installation */
    PACKAGE_NAME_MAX = 200,
    PACKAGE_ARGS_MAX = PACKAGES_MAX + 16,
};

/* The distribution of a module: "cv2" gives "opencv-python-headless", an unknown name itself; of
 * npm
 * "@scope/name/file" gives "@scope/name". False for what cannot be the name of one, and for
 * languages without packages. */
bool package_of_module(const struct runtime *runtime, struct str module, struct str *ret_package);
/* "pandas", "requests>=2,<3", "left-pad@^1": one requirement, nothing that an installer takes for
 * an option, a path or an address. */
int package_check(struct str package, struct err *err) MUST_USE;

/* Whether the host's Python, which the runtime python3 is, has the module. */
bool package_is_on_host(struct str module);
/* "python3-numpy": Debian's package of a module, by its rule for names. */
void package_put_debian(struct str module, struct buf *out);
/* Debian's packages of those modules that the host lacks, separated by spaces. */
void packages_put_missing(const struct str *modules, size_t count, struct buf *out);

/* The command that installs them, NULL behind the last word; its texts belong to `arena`.
 * UNSUPPORTED for languages without packages. */
int package_command(const struct runtime *runtime, const struct str *packages, size_t count,
                    struct arena *arena, const char *ret_argv[PACKAGE_ARGS_MAX],
                    struct err *err) MUST_USE;
