#pragma once

/* The files that forks share with the sandboxes they were forked from: for quotas.
 *
 * A fork is based on layers that lie on the disk of its parent, or that were copied for the fork.
 * Layers on a disk are part of the parent's disk limit while the parent exists, and of no limit
 * afterwards; copies are part of no limit at all. So a sandbox keeps a list of what it is based on,
 * with sizes, and its tenant is charged for each entry once. */

#include "base/vec.h"
#include "engine/sandbox/sandbox.h"

struct engine;
struct sandbox;

typedef VEC(struct sandbox_base) sandbox_bases;

/* What `parent` is based on, and with it the image that a fork is made of. `call` identifies the
 * image if it was copied. */
void bases_of_fork(const struct sandbox *parent, struct str image, struct str call, int64_t bytes,
                   sandbox_bases *ret_bases);
void bases_copy(sandbox_bases *to, const struct sandbox_base *items, size_t count);
/* Bytes of the bases of all sandboxes of the tenant, each once, except disks of existing sandboxes.
 */
int64_t bases_bytes(const struct engine *engine, struct str tenant);
