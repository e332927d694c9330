#pragma once

/* A directory's content as it was: put back exactly, or compared.
 *
 * For automatic checkpoints of /workspace. FILES_KEEP_OWN (files/mark.h) at the top of the
 * directory is neither packed nor touched. So are sockets, FIFOs, devices and what cannot be read.
 * Needs libarchive: not part of what pid 1 links. */

#include "files/archive/tar.h"

enum {
    FILES_DIFF_FILES_MAX = 1000,     /* that are listed */
    FILES_DIFF_TEXT_MAX = 64 << 10,  /* bytes of a file that is compared as text */
    FILES_DIFF_OUT_MAX = 1 << 20,    /* bytes of all unified texts */
    FILES_DIFF_ENTRIES_MAX = 200000, /* of one side */
};

/* Makes the content of the directory `path` what the archive holds: what the archive does not have
 * is deleted. The archive is unpacked next to it first: a damaged one changes nothing. Links may
 * lead anywhere. */
int files_keep_in(struct files *files, struct str path, const struct files_source *source,
                  const struct files_tar_limits *limits, struct files_tar_result *ret_result,
                  struct err *err) MUST_USE;

/* What differs between an archive and another one, or the directory as it is (`to` NULL). Appends
 * JSON to `out`: {"files": [{"path", "change": "added" | "changed" | "deleted", "sizeBefore",
 * "sizeAfter", "text"}], "truncated"}, sorted by path; `text` is unified and there for text files
 * of both sides that are small. Directories are not listed. */
int files_diff(struct files *files, struct str path, const struct files_source *from,
               const struct files_source *to, struct buf *out, struct err *err) MUST_USE;
