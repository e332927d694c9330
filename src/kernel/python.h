#pragma once

/* A Python interpreter inside this process, through its stable ABI: the library is found when the
 * program runs, so that one program serves every Python 3. Included only by interpreter
 * programs. */

#include "base/embed.h"

struct err;

/* The newest libpython3.*.so of the usual places below `root` ("" for this process' own root), or
 * NOT_FOUND with the name of the package to install. `out` takes the path. */
int python_find(const char *root, char *out, size_t size, struct err *err) MUST_USE;

/* Loads the library, starts the interpreter and runs the modules in their order; each is
 * `sandglass.NAME`, "__init__" the package itself. Once in a process. */
int python_start(const char *library, const char *program, const struct embed_file *modules,
                 struct err *err) MUST_USE;

/* sandglass.main.prepare(names, is_zygote): imports what the comma-separated list names; those
 * that it could not import come back. A zygote gives up its environment: each fork brings its
 * own. */
int python_prepare(const char *names, bool is_zygote, char *ret_missing, size_t size,
                   struct err *err) MUST_USE;
/* sandglass.main.serve(fd): cells until the other side closes. */
int python_serve(int fd, struct err *err) MUST_USE;

/* How an interpreter writes its memory to a file (jail/zygote/zygote_image.h); without one it
 * reports that it cannot. Takes `fd`. 0 on success, -1 on failure, 1 in the interpreter that
 * continues from it, with the environment that it was started with. */
typedef int python_copy(int fd, uint64_t limit, struct str *ret_env, struct err *err);
void python_set_copy(python_copy *copy);

/* Around a fork: the interpreter's own hooks, the third in the child. That one may do then what a
 * first cell does (python_rehearse), of which nothing is seen later, and takes an environment at
 * last, `env` ("K=V", a NUL behind each). UNSUPPORTED when the sandbox has packages of its own by
 * names that are imported already. */
void python_before_fork(void);
void python_after_fork(void);
void python_in_child(void);
void python_rehearse(void);
int python_awake(struct str env, struct err *err) MUST_USE;
