#pragma once

/* The languages that run as kernels in jails: one row each, with where it comes from and how it
 * starts. The kernels' own programs travel inside sandglass and are unpacked once into the data
 * directory; interpreters that the host does not have are added to it (runtime/obtain.h). A jail
 * sees both read-only, at fixed places. */

#include "base/str.h"

struct arena;
struct err;
struct jail_plan;

#define RUNTIME_DIR "/opt/sandglass"  /* where a jail sees the unpacked kernels, */
#define RUNTIME_TREES "/opt/runtimes" /* and everything that was added */
/* Where programs of a jail are looked for; last what is missing on a plain host (write_names). */
#define RUNTIME_PATH                                                                               \
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" RUNTIME_DIR "/bin"

/* In the environment of a kernel that is made ahead: it goes the ways of a first cell by itself. */
#define RUNTIME_AHEAD "SANDGLASS_KERNEL_AHEAD=1"

enum { RUNTIME_PATH_MAX = 4096, RUNTIME_VERSION_SIZE = 64 };

enum runtime_source {
    RUNTIME_HOST,   /* the host's own: there, or to be installed by its means */
    RUNTIME_NPM,    /* a package of programs, known by its digest */
    RUNTIME_DEBIAN, /* a tree that mmdebstrap makes: the root of its jails */
};

struct runtime {
    const char *name, *summary;
    const char *language;   /* what code is when nobody says */
    const char *also;       /* another one that it takes, or NULL */
    const char *argv[8];    /* inside; NULL behind the last */
    const char *const *env; /* inside; NULL behind the last */
    /* The last word on one of them where packages can be installed (runtime/packages.h), or NULL.
     */
    const char *packages_env;
    enum runtime_source source;
    const char *needs;  /* a pattern of the host that must match; NULL: nothing */
    const char *remedy; /* what to do when it does not */
    /* What is added: */
    const char *version, *package, *integrity; /* "sha512-..." of the package */
    const char *program;                       /* that the tree must hold, from its root */
    const char *release, *proof; /* a system: of Debian, and what `program -c` must be able to do */
    /* What a template is made of (runtime_program), NULL: there is none; and what it imports unless
     * the configuration says otherwise. */
    const char *forks, *imports;
    bool is_advised; /* of those of its language the one to add where there is none */
};

extern const struct runtime runtimes[]; /* the last has no name */

enum runtime_state {
    RUNTIME_READY,
    RUNTIME_ABSENT,
    RUNTIME_OLD, /* added by a sandglass that knew another version; works, and can be added again */
};

/* `version` takes the one that is there, or "". */
enum runtime_state runtime_look(const struct runtime *runtime, const char *data_dir,
                                char version[RUNTIME_VERSION_SIZE]);

/* The row of that name. NOT_FOUND for a name that no row has, with those that there are. */
int runtime_named(struct str name, const struct runtime **ret_runtime, struct err *err) MUST_USE;
/* The same, and it can start here: else UNAVAILABLE with what to do. */
int runtime_find(struct str name, const struct runtime **ret_runtime, struct err *err) MUST_USE;
/* The data directory whose runtimes this process uses: once, before the first runtime_find. */
void runtimes_use(const char *data_dir);

/* A kernel's program as a sealed file in memory, for warden_ask_template; a descriptor. */
int runtime_program(const char *name, struct err *err) MUST_USE;

bool runtime_is_name(struct str name);
/* The runtime that is named, else one of the language ("python", "bash", "javascript", ...; a
 * runtime's name serves too), which the sandbox's own is when it speaks it, else `own` itself.
 * INVALID when the one that is named does not run the language. */
int runtime_choose(struct str name, struct str language, struct str own,
                   const struct runtime **ret_runtime, struct err *err) MUST_USE;
/* True when that is its name, or its language; empty ones are not asked. */
bool runtime_speaks(const struct runtime *runtime, struct str name, struct str language);

/* Directories of the host that a jail with kernels needs. */
struct runtime_places {
    char kernels[RUNTIME_PATH_MAX], trees[RUNTIME_PATH_MAX], base[RUNTIME_PATH_MAX];
};

/* Makes them where they are not there yet. NULL: for any runtime that needs no root of its own. */
int runtime_places_make(const struct runtime *runtime, const char *data_dir,
                        struct runtime_places *ret_places, struct err *err) MUST_USE;
/* The root tree of jails that are made for the runtime of that name; NULL: the host's own. */
const char *runtime_root(struct str name, const char *data_dir, struct arena *arena);
/* Whether kernels of it run in a jail that was made for the runtime `own`: else UNSUPPORTED. */
int runtime_fits(const struct runtime *runtime, struct str own, struct err *err) MUST_USE;
/* Adds them to the plan of a jail, which borrows them: kernels of this runtime can be started in
 * it, and of every other that needs no root of its own. */
void runtime_places_plan(const struct runtime *runtime, const struct runtime_places *places,
                         struct jail_plan *plan);
