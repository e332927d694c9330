#pragma once

/* File operations in a jail as data: what is asked, what is answered, and how both travel.
 *
 * One struct holds every question and one every answer; a verb uses the fields its line names and
 * leaves the others zero. Both ends read with the same code, which checks lengths and kinds; what
 * an answer may say to its question is judged by the client. */

#include "files/archive/tar.h"
#include "files/files.h"
#include "files/grep.h"
#include "files/watch.h"
#include "jail/wire/wire.h"

enum { JAIL_FILE_BYTES_MAX = 64 << 10 }; /* of contents in a question or an answer */

/* Small ones are served at once by init itself; the others by a process of their own each. Where an
 * answer names `stat`, it is that of the file read or of the current file; all zero when it no
 * longer exists. */
enum jail_file_verb {
    JAIL_FILE_STAT = 64, /* path, follow: stat; of a link itself also bytes, its target */
    JAIL_FILE_READ,      /* path, offset, limit: bytes, size, truncated, is_binary, stat */
    JAIL_FILE_WRITE,     /* path, bytes, mode, parents, must_be_new, sync, if_same: created, stat */
    JAIL_FILE_APPEND,    /* path, bytes: size, stat */
    JAIL_FILE_MKDIR,     /* path, mode, parents: stat */
    JAIL_FILE_RENAME,    /* path, to, replace: stat of the new place */
    JAIL_FILE_CHMOD,     /* path, mode: stat */
    JAIL_FILE_SYMLINK,   /* path, to (the target as written): stat of the link */
    JAIL_FILE_DELETE,    /* path, recursive: count removed, skipped */
    JAIL_FILE_LIST,      /* path, recursive, limit, after: parts of entries; truncated, skipped */
    JAIL_FILE_GLOB,    /* path, pattern, limit, skip_hidden, skip_usual, with_dirs: parts of paths;
                          truncated, skipped */
    JAIL_FILE_EDIT,    /* path, bytes, with, all: count replaced, stat */
    JAIL_FILE_WATCH,   /* path, recursive: parts of events, the first one empty; answers when the
                          directory is gone or the operation is cancelled */
    JAIL_FILE_READ_TO, /* path, offset, limit (0: to the end), fd: size, moved, truncated,
                          is_binary, stat */
    JAIL_FILE_WRITE_FROM, /* path, fd, limit, expected, mode, parents, must_be_new, sync, if_same:
                             created, moved, stat */
    JAIL_FILE_GREP,       /* path, pattern, glob, limit, line_max, cpu_ms, context, literal,
                             ignore_case, skip_hidden, skip_usual: parts of matches; count searched,
                             skipped, binary,       hard_lines, truncated, timed_out */
    JAIL_FILE_TAR_IN,     /* path, fd, place (EXACT: files/archive/keep.h), tar: count, moved */
    JAIL_FILE_TAR_OUT,    /* path, fd, gzip, limit: count, moved, skipped, changed; place SNAPSHOT:
                             path, fd, to (its name) */
    JAIL_FILE_MARK,       /* path: count, changed, moved: files/archive/keep.h's sums */
    JAIL_FILE_DIFF,       /* path, fd, limit (length of the first archive), follow (there is a
                             second one behind it): files_diff's text is appended to the fd */
    JAIL_FILE_VERBS_END,
};

struct jail_file {
    enum jail_file_verb verb;
    struct str path; /* absolute, inside */
    struct str to;
    union {
        struct str bytes;   /* contents; of an edit the text to replace */
        struct str pattern; /* of glob and grep */
    };
    union {
        struct str with;  /* of an edit: the new text */
        struct str after; /* of a list: the last path of the page before */
        struct str glob;  /* of grep: only these files */
    };
    bool follow, recursive, parents, replace, must_be_new, sync, all;
    bool skip_hidden, skip_usual, with_dirs, literal, ignore_case, gzip;
    mode_t mode;
    uint64_t offset;
    uint64_t limit;   /* 0: the default of the verb in files/ */
    bool is_expected; /* WRITE_FROM: fewer or more than `expected` bytes leave the file as it was */
    uint64_t expected;
    bool if_same; /* NO_MATCH unless the file has this size and time of change */
    uint64_t same_size;
    int64_t same_mtime_ns;
    uint32_t context;
    uint64_t line_max, cpu_ms;
    enum files_tar_place place;
    struct files_tar_limits tar;
};

struct jail_file_answer {
    struct files_stat stat;
    struct str bytes;
    bool created, truncated, is_binary, timed_out;
    uint64_t size, count, moved, skipped, binary, hard_lines, changed;
};

void file_put_question(struct buf *out, const struct jail_file *question);
/* The strings stay in the packet. False when it cannot be read. */
bool file_get_question(struct wire_in *in, enum jail_file_verb verb,
                       struct jail_file *ret_question);
void file_put_answer(struct buf *out, const struct jail_file_answer *answer);
bool file_get_answer(struct wire_in *in, struct jail_file_answer *ret_answer);

/* Records of a part. A path that is below something is what a directory could hold: not absolute,
 * no "." or "..", no empty name, no NUL. */
void file_put_entry(struct buf *out, const struct files_entry *entry);
bool file_get_entry(struct wire_in *in, struct files_entry *ret_entry);
void file_put_path(struct buf *out, struct str path);
bool file_get_path(struct wire_in *in, struct str *ret_path);
void file_put_match(struct buf *out, const struct files_match *match);
bool file_get_match(struct wire_in *in, struct files_match *ret_match);
void file_put_event(struct buf *out, const struct files_event *event);
bool file_get_event(struct wire_in *in, struct files_event *ret_event);
