#pragma once

/* Lines that match a regular expression, in the files of a tree.
 *
 * Links are not followed, binary files are passed over, a tree of any size costs bounded memory.
 * Needs PCRE2: not part of what pid 1 links. */

#include "files/files.h"

enum {
    FILES_GREP_DEFAULT = 100, /* matches, when the caller names no limit */
    FILES_GREP_MAX = 1000,
    FILES_GREP_LINE_MAX = 65536,
    FILES_GREP_CPU_MS = 2000,
    FILES_GREP_CONTEXT_MAX = 10,
};

struct files_grep_options {
    struct str glob; /* only these files; without a '/' it is the name that counts */
    size_t limit;    /* 0 means FILES_GREP_DEFAULT, at most FILES_GREP_MAX */
    size_t line_max; /* longer lines are cut; 0 means FILES_GREP_LINE_MAX, which is also the most */
    int64_t cpu_ms;  /* 0 means FILES_GREP_CPU_MS; what is found by then is given */
    unsigned threads; /* 0 means 1 */
    /* Lines before and after each match that come with it, at most FILES_GREP_CONTEXT_MAX. In files
     * of more than 256 KiB some may be missing. */
    unsigned context;
    bool literal, ignore_case, skip_hidden;
    bool skip_usual; /* leave out files_is_usual directories that `glob` does not name */
};

struct files_match {
    struct str path; /* below the searched directory, or the file itself */
    uint64_t line;   /* from 1 */
    struct str text; /* without its newline */
    bool is_cut;
    bool is_context; /* a line around a match */
    uint64_t column; /* of the match, in bytes from 1; 0 when not known */
};
struct files_grep {
    struct files_match *matches; /* by path, then line; the limit counts those not of context */
    size_t count;
    bool truncated;      /* there may be more: the limit was reached, or the time */
    bool timed_out;      /* it was the time */
    uint64_t files;      /* searched */
    uint64_t binary;     /* passed over */
    uint64_t unread;     /* files and directories that could not be read */
    uint64_t hard_lines; /* would have cost too much; passed over */
};

/* `path` may also name a single file. PATTERN_TOO_COMPLEX when nothing but hard lines was met. */
int files_grep(struct files *files, struct str path, struct str pattern,
               const struct files_grep_options *options, struct arena *arena,
               struct files_grep *ret_grep, struct err *err) MUST_USE;
