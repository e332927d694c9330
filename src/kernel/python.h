#pragma once

/* A Python interpreter inside this process, through its stable ABI: the library is found when the
 * program runs, so that one program serves every Python 3. Included by kernels alone. */

#include "base/embed.h"

struct err;

/* The newest libpython3.*.so of the usual places below `root` ("" for this process' own root), or
 * NOT_FOUND with the name of the package to install. `out` takes the path. */
int python_find(const char *root, char *out, size_t size, struct err *err) MUST_USE;

/* Loads the library, starts the interpreter and runs the modules in their order; each is
 * `sandglass.NAME`, "__init__" the package itself. Once in a process. */
int python_start(const char *library, const char *program, const struct embed_file *modules,
                 struct err *err) MUST_USE;

/* sandglass.main.prepare(names): imports what the comma-separated list names. */
int python_prepare(const char *names, struct err *err) MUST_USE;
/* sandglass.main.serve(fd): cells until the other side closes. */
int python_serve(int fd, struct err *err) MUST_USE;

/* Around fork: the interpreter's own hooks. python_fork is fork with them. */
int python_fork(void);
