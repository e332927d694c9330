#pragma once

/* Zones: the file façade for applications.
 *
 * A path begins with the name of a zone, /workspace (working files) or /cache (downloads), and each
 * zone is a directory of this machine. ".." is taken out of a path by its words, before anything is
 * opened: a path that leaves its zone is PATH_ESCAPES whatever exists there, and for a link that
 * leads out of it the kernel reports the same (files/files.h).
 *
 * zones_lock gives up, for this process and for good, everything but these directories. */

#include "files/files.h"

enum zone { ZONE_WORKSPACE, ZONE_CACHE, ZONE_COUNT };

enum {
    ZONES_FILE_MAX = 32 << 20, /* bytes of one file, read or written */
    ZONES_LINE_MAX = 1024,     /* bytes of a line that a search shows */
};

struct zones_options {
    const char *roots[ZONE_COUNT]; /* directories; NULL: not configured */
    bool read_only;
};

struct zones;

int zones_open(const struct zones_options *options, struct zones **ret_zones,
               struct err *err) MUST_USE;
/* Sandboxed mode: the zones are directories below `root`, which are made. */
int zones_open_below(const char *root, bool read_only, struct zones **ret_zones,
                     struct err *err) MUST_USE;
struct zones *zones_free(struct zones *zones);
DEFINE_FREEP(zones)
#define AUTO_ZONES AUTO(zones_freep)

struct zone_path {
    enum zone zone;
    char below[FILES_PATH_MAX]; /* "." for the zone itself */
};

/* INVALID, PATH_ESCAPES, or ZONE_NOT_CONFIGURED for a zone that there is not. */
int zone_path_parse(struct str path, struct zone_path *ret_path, struct err *err) MUST_USE;
/* INVALID for a zone itself, which is not to be `what` ("written", "deleted"). */
int zone_path_refuse_zone(const struct zone_path *at, struct str path, const char *what,
                          struct err *err) MUST_USE;
/* "workspace", "cache"; false for any other. */
bool zone_of_name(struct str name, enum zone *ret_zone) MUST_USE;

/* NOT_FOUND, NOT_A_FILE, TOO_LARGE, ...; ZONE_NOT_CONFIGURED where the zone has no directory. */
int zones_read(struct zones *zones, struct str path, struct buf *out, struct err *err) MUST_USE;
/* Makes directories on the way. READ_ONLY, TOO_LARGE, NOT_A_FILE, ... */
int zones_write(struct zones *zones, struct str path, struct str bytes, bool *ret_created,
                struct err *err) MUST_USE;
/* A directory that is not empty needs `recursive` (CONFLICT); a zone itself stays (INVALID). */
int zones_delete(struct zones *zones, struct str path, bool recursive, struct err *err) MUST_USE;
int zones_exists(struct zones *zones, struct str path, bool *ret_exists, struct err *err) MUST_USE;
/* Names, each with a NUL behind it, in their order. TOO_MANY_RESULTS past FILES_LIST_MAX. */
int zones_list(struct zones *zones, struct str path, struct buf *out, struct err *err) MUST_USE;
/* Its path on this machine, for other programs; it need not exist. */
int zones_resolve(struct zones *zones, struct str path, struct buf *out, struct err *err) MUST_USE;

/* Searches and edits; `asked` and what is appended to `out` are JSON. zones_glob takes {"pattern",
 * "limit"?, "searchAll"?} and gives {"paths", "truncated"}; zones_grep takes {"pattern",
 * "include"?, "ignoreCase"?, "limit"?, "searchAll"?} and gives {"matches": [{"path", "line",
 * "column"?, "text"}], "truncated"}; zones_edit takes {"old", "new", "all"?} and gives {"count"}.
 */
int zones_glob(struct zones *zones, struct str path, struct str asked, struct buf *out,
               struct err *err) MUST_USE;
int zones_grep(struct zones *zones, struct str path, struct str asked, struct buf *out,
               struct err *err) MUST_USE;
int zones_edit(struct zones *zones, struct str path, struct str asked, struct buf *out,
               struct err *err) MUST_USE;

/* From here on this process can access only the zones and its open descriptors: Landlock if the
 * kernel has it, no new privileges, and only the system calls that file operations need. */
int zones_lock(const struct zones *zones, struct err *err) MUST_USE;

/* Serves verbs from `in_fd` to its end. A question is a line "VERB PATH-BYTES DATA-BYTES" and those
 * bytes behind it; an answer is a line "ok BYTES" or "error CODE BYTES" and those bytes. Verbs:
 * read, write (data), delete, delete_all, exists ("1" or "0"), list (names with NUL), resolve, and
 * glob, grep, edit, whose data and answers are JSON. What is no question ends it with INVALID. */
int zones_serve(struct zones *zones, int in_fd, int out_fd, struct err *err) MUST_USE;
