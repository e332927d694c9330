#pragma once

/* News of a tree, by inotify. Not safe for two threads at once on the same watch. */

#include "files/files.h"

struct files_watch;

enum {
    FILES_WATCH_DIRS_MAX = 8192,    /* directories of one watch: LIMIT */
    FILES_WATCH_EVENTS_MAX = 16384, /* waiting to be fetched; more is an overflow */
};

enum files_event_type {
    FILES_EVENT_CREATE,
    FILES_EVENT_WRITE,
    FILES_EVENT_REMOVE,
    FILES_EVENT_RENAME_FROM, /* shares its cookie with the RENAME_TO, if that is in the tree */
    FILES_EVENT_RENAME_TO,   /* from another place that is watched; else it is a CREATE */
    FILES_EVENT_CHMOD,
    FILES_EVENT_OVERFLOW, /* news were lost: look again at what matters */
    FILES_EVENT_GONE,     /* the watched directory itself, unless it is the root; nothing follows */
};

struct files_event {
    enum files_event_type type;
    bool is_dir;
    uint32_t cookie;
    struct str path; /* below the watched directory; good until the next call */
};

/* With `recursive`, directories that are created later are watched too; what they contain by then
 * is reported as created. Links are not followed. `files` must outlive the watch. */
int files_watch_new(struct files *files, struct str path, bool recursive,
                    struct files_watch **ret_watch, struct err *err) MUST_USE;
struct files_watch *files_watch_free(struct files_watch *watch);
DEFINE_FREEP(files_watch)
#define AUTO_FILES_WATCH AUTO(files_watch_freep)

/* 1 with an event, 0 on timeout. A timeout of 0 does not wait, -1 waits without limit. */
int files_watch_next(struct files_watch *watch, int timeout_ms, struct files_event *ret_event,
                     struct err *err) MUST_USE;
