#pragma once

/* The languages that run as interpreters in jails: one row each, with where it comes from and how
 * it starts. The interpreters' own programs travel inside sandglass and are unpacked once into the
 * data directory; interpreters that the host does not have are added to it (runtime/obtain.h). A
 * jail sees both read-only, at fixed places. */

#include "base/str.h"

struct arena;
struct err;
struct jail_plan;

#define RUNTIME_DIR "/opt/sandglass"  /* where a jail sees the unpacked interpreters, */
#define RUNTIME_TREES "/opt/runtimes" /* and everything that was added */
/* In the environment of an interpreter that is made ahead: it goes the ways of a first cell by
 * itself. */
#define RUNTIME_AHEAD "SANDGLASS_KERNEL_AHEAD"

enum { RUNTIME_PATH_MAX = 4096, RUNTIME_VERSION_SIZE = 64 };

/* What reaches its time limit is asked to end (a command by SIGTERM, code by SIGINT), and is killed
 * when it still runs RUNTIME_GRACE_MS later. */
enum { RUNTIME_GRACE_MS = 2000, RUNTIME_REPEAT_MS = 250 };

enum runtime_source {
    RUNTIME_HOST,   /* the host's own: there, or to be installed by its means */
    RUNTIME_NPM,    /* a package of programs, known by its digest */
    RUNTIME_DEBIAN, /* a tree that mmdebstrap makes: the root of its jails */
};

struct runtime {
    const char *name, *summary;
    const char *language; /* the default language of code */
    const char *also;     /* another one that it takes, or NULL */
    const char *argv[8];  /* inside; NULL behind the last */
    /* Before the last of them where packages come with a snapshot, or NULL. */
    const char *snapshot_option;
    const char *const *env; /* of sandboxes of this runtime (runtime/env.c); NULL behind the last */
    enum runtime_source source;
    const char *needs;  /* a pattern of the host that must match; NULL: nothing */
    const char *remedy; /* what to do when it does not */
    /* What is added: */
    const char *version, *package, *integrity; /* "sha512-..." of the package */
    const char *program;                       /* that the tree must hold, from its root */
    const char *release, *proof; /* a system: of Debian, and what `program -c` must be able to do */
    /* What a zygote is made of (runtime_program); NULL: none. */
    const char *forks;
    bool is_advised; /* the runtime to add when its language has none */
};

extern const struct runtime runtimes[]; /* the last has no name */

/* The environment of a sandbox by its runtime: the same for its commands, terminals and
 * interpreters. An unknown name, also "", gives that of a sandbox of the host's programs. */
const char *const *runtime_env(struct str name);
/* The part of it that needs nothing of RUNTIME_DIR: for jails without it. */
extern const char *const runtime_env_plain[];
/* TERM of what runs on a terminal, unless the caller names another. */
#define RUNTIME_TERM "xterm-256color"
/* Puts "NAME=VALUE" into `env`, which has `count` variables and room for one more: the last value
 * of a variable takes the place of an earlier one. Gives the new count; `pair` stays the caller's.
 */
size_t runtime_env_set(const char **env, size_t count, const char *pair);
/* The rows' own. */
extern const char *const runtime_env_host[];
extern const char *const runtime_env_node22[];
extern const char *const runtime_env_node24[];
extern const char *const runtime_env_deno[];

enum runtime_state {
    RUNTIME_READY,
    RUNTIME_ABSENT,
    RUNTIME_OLD, /* added by a sandglass that knew another version; works, and can be added again */
};

/* `version` gets the installed version, or "". */
enum runtime_state runtime_look(const struct runtime *runtime, const char *data_dir,
                                char version[RUNTIME_VERSION_SIZE]);

/* The row of that name. NOT_FOUND for an unknown name, with a list of the known ones. */
int runtime_named(struct str name, const struct runtime **ret_runtime, struct err *err) MUST_USE;
/* The same, and it can start here: else UNAVAILABLE with what to do. */
int runtime_find(struct str name, const struct runtime **ret_runtime, struct err *err) MUST_USE;
/* The data directory whose runtimes this process uses: once, before the first runtime_find. */
void runtimes_use(const char *data_dir);

/* An interpreter's program as a sealed file in memory, for warden_ask_zygote; a descriptor. */
int runtime_program(const char *name, struct err *err) MUST_USE;

bool runtime_is_name(struct str name);
/* The runtime that is named, else one of the language ("python", "bash", "javascript", ...; a
 * runtime's name serves too), which the sandbox's own is when it speaks it, else `own` itself.
 * INVALID when the one that is named does not run the language. */
int runtime_choose(struct str name, struct str language, struct str own,
                   const struct runtime **ret_runtime, struct err *err) MUST_USE;
/* True when that is its name, or its language; empty ones are not asked. */
bool runtime_speaks(const struct runtime *runtime, struct str name, struct str language);

/* A shell ignores an interrupt that comes between two of its commands, so it is sent again every
 * RUNTIME_REPEAT_MS. */
bool runtime_repeats_interrupts(const struct runtime *runtime);

/* Directories of the host that a jail with interpreters needs. */
struct runtime_places {
    char interpreters[RUNTIME_PATH_MAX], trees[RUNTIME_PATH_MAX], base[RUNTIME_PATH_MAX];
};

/* Creates them if missing. NULL: for any runtime that does not need its own root. */
int runtime_places_make(const struct runtime *runtime, const char *data_dir,
                        struct runtime_places *ret_places, struct err *err) MUST_USE;
/* The root tree of jails that are made for the runtime of that name; NULL: the host's own. */
const char *runtime_root(struct str name, const char *data_dir, struct arena *arena);
/* Whether interpreters of it run in a jail that was made for the runtime `own`: else UNSUPPORTED.
 */
int runtime_fits(const struct runtime *runtime, struct str own, struct err *err) MUST_USE;
/* Adds them to the plan of a jail, which borrows them: interpreters of this runtime can be started
 * in it, and of every other that needs no root of its own. */
void runtime_places_plan(const struct runtime *runtime, const struct runtime_places *places,
                         struct jail_plan *plan);
