#pragma once

/* Trees as tar streams: plain or compressed with gzip or zstd in, plain or gzip out.
 *
 * An incoming archive is unpacked into a fresh directory next to its place and moved there at the
 * end, so a refused archive leaves the tree as it was. Names stay inside; no entry goes through a
 * link; links lead only to places inside the archive; there are no devices, no set-id bits, no
 * owners. Needs libarchive: not part of what pid 1 links. */

#include "files/files.h"

struct files_tar_limits { /* 0 means the default */
    uint64_t packed;      /* bytes of the stream: 256 MiB */
    uint64_t unpacked;    /* bytes of all files, holes included: 1 GiB */
    uint64_t entries;     /* 100,000 */
    uint64_t ratio;       /* unpacked to packed: 200 */
    unsigned depth;       /* components of a name: 64 */
};

enum files_tar_place {
    FILES_TAR_NEW,     /* CONFLICT when there is something already */
    FILES_TAR_REPLACE, /* existing contents are replaced, in one step */
    FILES_TAR_MERGE,   /* files replace files, directories are merged; also into "." */
    /* As a layer onto the root, which is not in use yet: existing entries are replaced, ".wh.X"
     * removes X, ".wh..wh..opq" removes everything that its directory had; links may lead
     * anywhere. */
    FILES_TAR_LAYER,
    FILES_TAR_SNAPSHOT, /* files/archive/snapshot.h */
    FILES_TAR_EXACT,    /* files/archive/keep.h; not of files_tar_in */
};

struct files_tar_result {
    uint64_t entries;
    uint64_t bytes;   /* of files; holes included */
    uint64_t skipped; /* out: sockets, devices, files that could not be read */
    uint64_t changed; /* out: files that shrank meanwhile and were filled up with zeros */
};

/* Unpacks to the directory `path`. Fails with INVALID (names, kinds, damage), TOO_LARGE (limits) or
 * CONFLICT (a name twice, a file where a directory is); the message names the entry. */
int files_tar_in(struct files *files, struct str path, enum files_tar_place place,
                 const struct files_source *source, const struct files_tar_limits *limits,
                 struct files_tar_result *ret_result, struct err *err) MUST_USE;

/* The defaults in the place of zeros; NULL for all of them. */
struct files_tar_limits files_tar_limits_of(const struct files_tar_limits *limits);

struct files_tar_out_options {
    bool gzip;
    bool is_kept;   /* for files/archive/keep.h: FILES_KEEP_OWN is left out */
    bool is_layer;  /* of an overlay: what it removes is packed as ".wh." entries */
    uint64_t limit; /* bytes of data, holes not counted: TOO_LARGE; 0 means none */
};

/* Packs what is below the directory `path`, or the file. Links are packed as links; holes stay
 * holes; times are kept to the second. In case of error the sink has got a part of an archive
 * without an end. */
int files_tar_out(struct files *files, struct str path, const struct files_sink *sink,
                  const struct files_tar_out_options *options, struct files_tar_result *ret_result,
                  struct err *err) MUST_USE;
