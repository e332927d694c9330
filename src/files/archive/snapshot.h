#pragma once

/* A snapshot as one stream: a tar.zst that can be held against its own manifest.
 *
 *     MANIFEST     sandglass snapshot 1
 *                  name NAME
 *                  part 000.tar BYTES SHA256
 *                  part 001.tar BYTES SHA256
 *     000.tar      the lowest layer, as files_tar_out packs it with `is_layer`
 *     001.tar      the one above it
 *
 * The manifest comes first and names all that follows. What comes in is judged entry by entry as in
 * files/archive/tar.h and counts only when every part had the bytes that the manifest names: until
 * then the tree is not to be used, and after a failure not at all. Needs libarchive. */

#include "files/archive/tar.h"

enum {
    FILES_SNAPSHOT_VERSION = 1,
    FILES_SNAPSHOT_PARTS_MAX = 48,
    FILES_SNAPSHOT_MANIFEST_MAX = 16 << 10,
    FILES_SNAPSHOT_NAME_MAX = 64,
};

/* Packs each directory in `path` as a part, in the order of their names. `name` is for people. The
 * tree is read twice and must not change meanwhile: CONFLICT. */
int files_snapshot_out(struct files *files, struct str path, struct str name,
                       const struct files_sink *sink, struct files_tar_result *ret_result,
                       struct err *err) MUST_USE;

/* Unpacks onto the root of the tree, part by part. INVALID when it is no such stream, is damaged,
 * cut off or holds something else than its manifest says; UNSUPPORTED for another version. */
int files_snapshot_in(struct files *files, const struct files_source *source,
                      const struct files_tar_limits *limits, struct files_tar_result *ret_result,
                      struct err *err) MUST_USE;
