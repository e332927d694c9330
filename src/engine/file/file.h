#pragma once

/* Files of a sandbox, a session or a volume. Part of engine/engine.h.
 *
 * Paths are absolute, as code inside sees them; a volume by itself has its root at /workspace. A
 * volume that no sandbox uses is served by a place made for it. */

#include "engine/caller.h"

enum {
    FILE_PATH_MAX = 4096,
    FILE_READ_MAX = 1 << 20,
    FILE_WRITE_MAX = 16 << 20,
    FILE_LIST_MAX = 10000,
    FILE_MATCHES_MAX = 1000,
    /* Of the names and lines in one answer; it is truncated where more would come. As JSON a byte
     * may be six, and an answer must fit into a buffer. */
    FILE_ANSWER_MAX = 8 << 20,
};

/* One of the three. */
struct file_place {
    struct str sandbox, session, volume;
};

enum file_type { FILE_REGULAR, FILE_DIRECTORY, FILE_SYMLINK, FILE_OTHER };
const char *file_type_name(enum file_type type); /* "file", "directory", ... */

struct file_info {
    struct str path; /* in lists: below the listed directory */
    enum file_type type;
    uint32_t mode;
    uint64_t size;
    int64_t mtime_ns;
    struct str target; /* of a symbolic link; only in the answer to stat */
};

/* op: what it needs besides `path`; what the answer holds. */
enum file_op {
    FILE_STAT,         /* follow; info */
    FILE_LIST,         /* recursive, limit, after; entries, truncated */
    FILE_READ,         /* offset, limit (FILE_READ_MAX); info, bytes, truncated */
    FILE_WRITE,        /* bytes, mode, make_parents, must_be_new, if_match; info, created */
    FILE_APPEND,       /* bytes; info */
    FILE_MKDIR,        /* mode, make_parents; info */
    FILE_MOVE,         /* to, replace; info */
    FILE_DELETE,       /* recursive; count */
    FILE_CHMOD,        /* mode; info */
    FILE_SYMLINK_MAKE, /* to (the target); info */
    FILE_EDIT,         /* old_text, new_text, all; info, count */
    FILE_GLOB,         /* pattern, limit, search_all; entries (absolute paths only), truncated */
    FILE_GREP, /* pattern, ignore_case, include (a glob), context, limit, search_all; matches (with
                  absolute paths), truncated */
    FILE_OP_COUNT
};

struct file_request {
    enum file_op op;
    struct str path, to, after, pattern, include;
    struct str bytes, old_text, new_text;
    struct str if_match; /* an etag; NO_MATCH when the file has another */
    uint64_t offset;
    size_t limit; /* 0: the op's own */
    uint32_t mode, context;
    bool follow, recursive, make_parents, must_be_new, replace, all, ignore_case;
    bool search_all; /* also in directories that searches leave out, see files_is_usual */
};

struct file_match {
    struct str path, text;
    uint64_t line, column;
    bool is_context; /* a line around a match */
};

struct file_answer {
    struct file_info info;
    const struct file_info *entries;
    size_t entry_count;
    const struct file_match *matches;
    size_t match_count;
    struct str bytes;
    uint64_t count;
    bool truncated, created;
};

/* The path of something found below `dir`, as other verbs take it. */
struct str file_path_below(struct str dir, struct str below, struct arena *arena);

/* Counts what comes into an answer; false when it must end before that. */
bool file_has_room(size_t *used, size_t more) MUST_USE;

typedef void file_done(void *ctx, const struct file_answer *answer, const struct err *why);
void engine_file(struct engine *engine, const struct engine_caller *caller,
                 const struct file_place *place, const struct file_request *request,
                 file_done *done, void *ctx);

/* Changes when the content may have: for ETag headers. */
enum { FILE_ETAG_SIZE = 40 };
void file_etag(const struct file_info *info, char out[FILE_ETAG_SIZE]);
/* What file_etag was made of; false for any other text. */
bool file_etag_parse(struct str etag, int64_t *ret_mtime_ns, uint64_t *ret_size) MUST_USE;

/* Bytes of any length, downward: a file from `offset` on (`limit` 0: to its end), or a tree as a
 * tar archive. */
struct file_reader;
struct file_reader_calls {
    void (*on_head)(void *ctx, const struct file_info *info); /* once, before the bytes */
    void (*on_data)(void *ctx, struct str bytes);
    void (*on_end)(void *ctx, const struct err *why); /* NULL: all of it came */
};
struct file_get {
    struct str path;
    bool as_tar;
    bool as_kept;     /* and a tar: for FILE_TAR_EXACT; `limit` bytes at most */
    bool as_snapshot; /* each directory below is a layer of one; files/archive/snapshot.h */
    struct str name;  /* of the snapshot */
    uint64_t offset, limit;
};
int engine_file_get(struct engine *engine, const struct engine_caller *caller,
                    const struct file_place *place, const struct file_get *get,
                    const struct file_reader_calls *calls, void *ctx,
                    struct file_reader **ret_reader, struct err *err) MUST_USE;
struct file_reader *file_reader_free(struct file_reader *reader); /* at any time */
DEFINE_FREEP(file_reader)
void file_reader_pause(struct file_reader *reader);
void file_reader_resume(struct file_reader *reader);

/* Bytes of any length, upward: a file (readers see the old one until the end), or a tar archive
 * that is unpacked below `path`. */
struct file_writer;
enum file_tar {
    FILE_TAR_NEW,      /* creates `path`; CONFLICT if it exists */
    FILE_TAR_MERGE,    /* files replace files, directories are merged */
    FILE_TAR_LAYER,    /* onto the root of a sandbox that becomes a snapshot */
    FILE_TAR_SNAPSHOT, /* the same of an exported one, held against its manifest */
    FILE_TAR_EXACT, /* `path` holds what the archive holds and nothing else; files/archive/keep.h */
};
struct file_put {
    struct str path, if_match;
    bool as_tar, make_parents, must_be_new;
    enum file_tar tar;
    uint32_t mode;
};
struct file_writer_calls {
    void (*on_drain)(void *ctx); /* room again after file_writer_write gave false */
    /* Called after file_writer_finish, or earlier when writing fails. `answer`: info, created; for
     * a tar, count. */
    void (*on_done)(void *ctx, const struct file_answer *answer, const struct err *why);
};
int engine_file_put(struct engine *engine, const struct engine_caller *caller,
                    const struct file_place *place, const struct file_put *put,
                    const struct file_writer_calls *calls, void *ctx,
                    struct file_writer **ret_writer, struct err *err) MUST_USE;
/* Takes all of it. False: wait for on_drain before more. */
bool file_writer_write(struct file_writer *writer, struct str bytes);
void file_writer_finish(struct file_writer *writer);
/* Before on_done: nothing of it is kept. */
struct file_writer *file_writer_free(struct file_writer *writer);
DEFINE_FREEP(file_writer)

enum file_change { FILE_CREATED, FILE_MODIFIED, FILE_DELETED, FILE_MOVED, FILE_OVERFLOW };
struct file_event {
    enum file_change change;
    struct str path, from;
    bool is_directory;
};
struct file_watcher;
struct file_watch_calls {
    void (*on_event)(void *ctx, const struct file_event *event);
    void (*on_end)(void *ctx, const struct err *why);
};
int engine_file_watch(struct engine *engine, const struct engine_caller *caller,
                      const struct file_place *place, struct str path, bool recursive,
                      const struct file_watch_calls *calls, void *ctx,
                      struct file_watcher **ret_watcher, struct err *err) MUST_USE;
struct file_watcher *file_watcher_free(struct file_watcher *watcher);
DEFINE_FREEP(file_watcher)
