#pragma once

/* The languages that run as kernels in jails: one row each. Their programs travel inside sandglass
 * and are unpacked once into the data directory, which a jail then sees read-only. */

#include "base/str.h"

struct err;

/* Where a jail sees the unpacked kernels. */
#define RUNTIME_DIR "/opt/sandglass"

struct runtime {
    const char *name, *language, *summary;
    const char *argv[4]; /* inside; NULL behind the last */
    const char *needs;   /* a pattern of the host that must match; NULL: nothing */
    const char *remedy;  /* what to do when it does not */
};

extern const struct runtime runtimes[]; /* the last has no name */

/* NOT_FOUND for a name that no row has, with those that there are, and UNAVAILABLE with the remedy
 * for one whose program the host lacks. */
int runtime_find(struct str name, const struct runtime **ret_runtime, struct err *err) MUST_USE;

/* A kernel's program as a sealed file in memory, for warden_ask_template; a descriptor. */
int runtime_program(const char *name, struct err *err) MUST_USE;

bool runtime_is_name(struct str name);
/* The runtime that is named, else one of the language ("python", "bash", "javascript", ...; a
 * runtime's name serves too), which the sandbox's own is when it speaks it, else `own` itself. */
int runtime_choose(struct str name, struct str language, struct str own,
                   const struct runtime **ret_runtime, struct err *err) MUST_USE;
/* True when that is its name, or its language; empty ones are not asked. */
bool runtime_speaks(const struct runtime *runtime, struct str name, struct str language);

/* Gives the directory with the kernels of this very version, unpacking them when they are not
 * there yet. A crash in the middle leaves nothing that would be taken for them. */
int runtimes_unpack(const char *data_dir, char *out, size_t size, struct err *err) MUST_USE;
