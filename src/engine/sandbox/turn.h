#pragma once

/* Automatic checkpoints of /workspace: before each call that may change files, undone one by one.
 * Part of engine/engine.h.
 *
 * Where a sandbox was made with `checkpoints` TURN, its /workspace is checked before a command, a
 * run or a change of files starts. When it differs from the last checkpoint it is packed, inside
 * the sandbox, and the archive becomes a blob. So a checkpoint covers only /workspace, whether it
 * is a volume or not, without /workspace/.sandglass, where packages are installed; an undo does not
 * change processes and variables. A session keeps its checkpoints while it is dormant. */

#include "engine/file/file.h"
#include "engine/sandbox/sandbox.h"

#define TURN_ROOT "/workspace"

struct turn_info {
    struct str id, before; /* the verb that it was made for; "undo": what an undo has replaced */
    int64_t created_ms, size_bytes;
};

struct turn_list {
    const struct turn_info *turns; /* oldest first */
    size_t count;
    const struct sandbox_checkpoint *checkpoints; /* checkpoints made by requests; of a sandbox */
    size_t checkpoint_count;
    bool is_on;
    struct str note; /* why the last one was not made; empty: it was */
    int64_t note_ms;
};
/* Of a sandbox or a session. Texts are borrowed until the next turn of the loop. */
int engine_turn_list(struct engine *engine, const struct engine_caller *caller,
                     const struct file_place *place, struct arena *arena,
                     struct turn_list *ret_list, struct err *err) MUST_USE;

/* Restores /workspace from a checkpoint (empty `to`: the newest that differs from the current
 * files). The replaced files are saved as a checkpoint "undo" first; `to` and later checkpoints are
 * deleted. NOT_FOUND: no such checkpoint; CONFLICT: the sandbox has no automatic checkpoints. */
typedef void turn_done(void *ctx, const struct turn_info *turn, const struct err *why);
void engine_turn_undo(struct engine *engine, const struct engine_caller *caller,
                      const struct file_place *place, struct str to, turn_done *done, void *ctx);

/* The text is files_diff's, made inside; it is for json_parse. Empty `from`: the newest one; empty
 * `to`: /workspace as it is. */
typedef void turn_diff_done(void *ctx, struct str json, const struct err *why);
void engine_turn_diff(struct engine *engine, const struct engine_caller *caller,
                      const struct file_place *place, struct str from, struct str to,
                      turn_diff_done *done, void *ctx);
