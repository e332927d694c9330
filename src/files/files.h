#pragma once

/* A working tree by its root directory: the same verbs inside a jail and on the host.
 *
 * The kernel resolves every path beneath the root (fd_open_in), so a link planted in the tree leads
 * no read and no write out of it: PATH_ESCAPES. Only regular files are read and written; a FIFO, a
 * socket or a device is NOT_A_FILE at once. Paths are bytes without NUL, at most FILES_PATH_MAX of
 * them, relative to the root; "." is the root itself. Names are given back as they are on disk.
 *
 * Calls block; run them on a worker. A handle does not change after files_open, so any number of
 * threads may use it at once. Nothing here needs more than base: pid 1 of a jail links it. */

#include <sys/types.h>

#include "base/str.h"

struct arena;
struct buf;
struct err;
struct files; /* one tree; owns its root descriptor */

enum {
    FILES_PATH_MAX = 4096,
    FILES_NAME_MAX = 255,
    FILES_READ_MAX = 1 << 20,   /* of one read, when the caller names no limit */
    FILES_WRITE_MAX = 16 << 20, /* of one write or edit, when the caller names no limit */
    FILES_LIST_MAX = 10000,     /* entries of one page */
};

struct files_options {
    bool read_only; /* verbs that change something answer READ_ONLY */
    bool in_root;   /* "/" and links to "/..." mean the root of the tree, as after chroot */
    bool one_mount; /* mounts below the root are not entered */
    bool has_owner; /* only files of `owner` are read or written: FORBIDDEN */
    uid_t owner;
};

/* NULL options mean all false. */
int files_open(const char *root, const struct files_options *options, struct files **ret_files,
               struct err *err) MUST_USE;
/* Takes `root_fd`, a directory; it is closed in case of error too. */
int files_from_fd(int root_fd, const struct files_options *options, struct files **ret_files,
                  struct err *err) MUST_USE;
struct files *files_free(struct files *files);
DEFINE_FREEP(files)
#define AUTO_FILES AUTO(files_freep)

enum files_type { FILES_REGULAR, FILES_DIRECTORY, FILES_SYMLINK, FILES_OTHER };

struct files_stat {
    enum files_type type;
    mode_t mode; /* permission bits */
    uid_t uid;
    gid_t gid;
    uint64_t size;
    uint64_t disk_bytes; /* less than size when sparse */
    int64_t mtime_ns;
};

/* With `follow` a link is what it leads to, else itself. */
int files_stat(struct files *files, struct str path, bool follow, struct files_stat *ret_stat,
               struct err *err) MUST_USE;
/* False also for a dangling link and below something that is not a directory. */
int files_exists(struct files *files, struct str path, bool *ret_exists, struct err *err) MUST_USE;

struct files_range {
    uint64_t offset;
    size_t limit; /* 0 means FILES_READ_MAX */
};
struct files_content {
    uint64_t size;          /* of the file when it was opened */
    bool truncated;         /* the file continues after what was read */
    bool is_binary;         /* a NUL among the first 8 KiB of what was read */
    struct files_stat stat; /* of the file when it was opened */
};

/* Appends the bytes of the range to `out`; NULL for the file's beginning. Bytes, not text. */
int files_read(struct files *files, struct str path, const struct files_range *range,
               struct buf *out, struct files_content *ret_content, struct err *err) MUST_USE;

/* Where bytes come from: gives 0 at the end. */
struct files_source {
    ssize_t (*read)(void *ctx, void *space, size_t size, struct err *err);
    void *ctx;
};
/* Where bytes go to. */
struct files_sink {
    int (*write)(void *ctx, struct str bytes, struct err *err);
    void *ctx;
};

/* The same without a buffer that holds it all; a `limit` of 0 means to the end. In case of error
 * the sink has got a part of the bytes. */
int files_read_to(struct files *files, struct str path, uint64_t offset, uint64_t limit,
                  const struct files_sink *sink, struct files_content *ret_content,
                  struct err *err) MUST_USE;

struct files_write_options {
    mode_t mode;       /* of a new file; 0 means 0644. An existing file keeps its mode */
    bool make_parents; /* mkdir -p for the directory */
    bool must_be_new;  /* CONFLICT when there is something already */
    bool no_sync;      /* not proof against a power cut, only against readers and crashes */
    uint64_t limit;    /* TOO_LARGE past it; 0 means FILES_WRITE_MAX */
    /* NO_MATCH unless what is there has this size and time of change (which the kernel counts in
     * milliseconds); looked at before the first byte and again before the rename. NULL: whatever is
     * there. */
    const struct files_stat *if_same;
};

/* Writes a temporary file next to the target, syncs and renames: readers see the old file or the
 * new one. A link at the target is replaced, not followed. Set-id bits do not survive. NULL options
 * mean all zero. */
int files_write(struct files *files, struct str path, struct str bytes,
                const struct files_write_options *options, bool *ret_created,
                struct err *err) MUST_USE;
int files_write_from(struct files *files, struct str path, const struct files_source *source,
                     const struct files_write_options *options, bool *ret_created,
                     struct err *err) MUST_USE;
/* Creates the file if it does not exist; gives its size afterwards. */
int files_append(struct files *files, struct str path, struct str bytes, uint64_t *ret_size,
                 struct err *err) MUST_USE;

/* With `parents` as mkdir -p: succeeds if it exists. */
int files_mkdir(struct files *files, struct str path, mode_t mode, bool parents,
                struct err *err) MUST_USE;
/* With `replace` a file at the target goes, in one step; else CONFLICT. */
int files_rename(struct files *files, struct str from, struct str to, bool replace,
                 struct err *err) MUST_USE;
/* Permission bits; set-id and sticky bits are dropped. */
int files_chmod(struct files *files, struct str path, mode_t mode, struct err *err) MUST_USE;
/* The target is kept as written; it is checked when the link is followed. */
int files_symlink(struct files *files, struct str path, struct str target,
                  struct err *err) MUST_USE;
int files_readlink(struct files *files, struct str path, struct arena *arena,
                   struct str *ret_target, struct err *err) MUST_USE;

struct files_delete_result {
    uint64_t removed; /* entries */
    uint64_t kept;    /* entries that could not be removed: mounts, foreign files */
};

/* A link is removed, not followed; mounts are not entered; modes of directories are no obstacle to
 * their owner. A directory that is not empty needs `recursive` (CONFLICT). What cannot be removed
 * is left, the rest goes, and the call fails naming the first. The root itself is only emptied. */
int files_delete(struct files *files, struct str path, bool recursive,
                 struct files_delete_result *ret_result, struct err *err) MUST_USE;

struct files_entry {
    struct str path; /* below the listed directory */
    struct files_stat stat;
};
struct files_list_options {
    bool recursive;
    size_t limit;     /* 0 means FILES_LIST_MAX, which is also the most */
    struct str after; /* the last path of the page before; empty for the first page */
};
struct files_list {
    struct files_entry *entries; /* in the order of their paths, parents first */
    size_t count;
    bool truncated;    /* there is more: continue with `after` = the last path */
    uint64_t too_deep; /* directories that no path of FILES_PATH_MAX reaches */
};

/* Whether the directory holds at most `most` entries; looks at no more than that. */
int files_is_small_dir(struct files *files, struct str path, size_t most, bool *ret_is_small,
                       struct err *err) MUST_USE;

/* Links are listed, not followed. Entries that vanish meanwhile are left out. */
int files_list(struct files *files, struct str path, const struct files_list_options *options,
               struct arena *arena, struct files_list *ret_list, struct err *err) MUST_USE;

/* Replaces `old_text`. NO_MATCH when it is not found, AMBIGUOUS_MATCH with the count when it occurs
 * more than once and without `all`. A link is refused: it would be replaced by a file. */
int files_edit(struct files *files, struct str path, struct str old_text, struct str new_text,
               bool all, uint64_t *ret_replaced, struct err *err) MUST_USE;

enum { FILES_GLOB_MAX = 1000 };

struct files_glob_options {
    size_t limit;     /* 0 means FILES_GLOB_MAX */
    bool skip_hidden; /* leave out what begins with a dot */
    bool skip_usual;  /* leave out files_is_usual directories that the pattern does not name */
    bool with_dirs;   /* directories too */
};
struct files_glob {
    struct str *paths; /* below the searched directory, sorted */
    size_t count;
    bool truncated;  /* there are more: `count` of them come first in order */
    uint64_t unread; /* directories that could not be read */
};

/* A directory of tools, not of work, that searches leave out unless it is requested: .git,
 * node_modules, .sandglass. `path` is its path; `asked` a pattern, which may name it. */
bool files_is_usual(struct str path, struct str asked);

/* See files/glob.h for the language. Links are not followed. */
int files_glob(struct files *files, struct str dir, struct str pattern,
               const struct files_glob_options *options, struct arena *arena,
               struct files_glob *ret_glob, struct err *err) MUST_USE;
