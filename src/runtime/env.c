/* The environment of a sandbox. Its commands, terminals and interpreters have the same one, so that
 * what a shell installs is found by cells, and the other way round:
 *
 * - `pip install` writes to PYTHONUSERBASE, since the system's own directory is read-only; a
 * virtual environment is not affected. PYTHONPATH names one file of ours
 * (interpreter/site/sitecustomize.py).
 * - `npm install -g` writes to the prefix, packages on demand are next to them, and NODE_PATH lets
 *   `require` find both; for `import` the script of NODE_OPTIONS does
 * (interpreter/script/packages.cjs).
 * - PATH begins with the programs of the sandbox's runtime, then what was installed. */

#include "runtime/packages.h"
#include "runtime/runtimes.h"

#define SYSTEM "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define INSTALLED PACKAGES_PYTHON "/bin:" PACKAGES_NODE "/bin:" PACKAGES_NODE "/node_modules/.bin:"
#define NODE22 RUNTIME_TREES "/node22/bin:"
#define NODE24 RUNTIME_TREES "/node24/bin:"
#define DENO RUNTIME_TREES "/deno"

/* What a JavaScript cell of the sandbox runs in comes first, see choose.c. */
#define PATH_OF(own) "PATH=" own RUNTIME_DIR "/bin:" INSTALLED NODE24 NODE22 SYSTEM ":" DENO

#define PLAIN                                                                                      \
    "HOME=/home/sandbox", "USER=sandbox", "LANG=C.UTF-8", "PYTHONUSERBASE=" PACKAGES_PYTHON,       \
        "PIP_BREAK_SYSTEM_PACKAGES=1", "PIP_DISABLE_PIP_VERSION_CHECK=1",                          \
        "NPM_CONFIG_PREFIX=" PACKAGES_NODE, "NPM_CONFIG_UPDATE_NOTIFIER=false",                    \
        "NPM_CONFIG_AUDIT=false", "NPM_CONFIG_FUND=false",                                         \
        "NODE_PATH=" PACKAGES_NODE "/node_modules:" PACKAGES_NODE "/lib/node_modules"
#define WHOLE                                                                                      \
    PLAIN, "TERM=dumb", "PYTHONPATH=" RUNTIME_DIR "/python",                                       \
        "NODE_OPTIONS=--require=" RUNTIME_DIR "/packages.cjs", "DENO_DIR=" PACKAGES_DENO,          \
        "DENO_NO_UPDATE_CHECK=1", NULL

const char *const runtime_env_plain[] = {"PATH=" INSTALLED SYSTEM, PLAIN, NULL};
const char *const runtime_env_host[] = {PATH_OF(""), WHOLE};
const char *const runtime_env_node22[] = {PATH_OF(NODE22), WHOLE};
const char *const runtime_env_node24[] = {PATH_OF(NODE24), WHOLE};
const char *const runtime_env_deno[] = {PATH_OF(DENO ":"), WHOLE};

const char *const *runtime_env(struct str name)
{
    for (const struct runtime *row = runtimes; row->name != NULL; row++)
        if (str_eq(name, str_of(row->name)))
            return row->env;
    return runtime_env_host;
}

size_t runtime_env_set(const char **env, size_t count, const char *pair)
{
    const char *equals = strchr(pair, '=');
    assert(equals != NULL);
    size_t len = (size_t)(equals - pair) + 1, at = 0;
    while (at < count && strncmp(env[at], pair, len) != 0)
        at++;
    env[at] = pair;
    return count + (at == count);
}
