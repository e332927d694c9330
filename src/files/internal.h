#pragma once

/* Shared by the files of this module. */

#include <sys/stat.h>

#include "base/fd.h"
#include "files/files.h"

struct files {
    int root_fd;
    unsigned how; /* FD_*: how its paths resolve */
    struct files_options options;
};

/* A path as the kernel wants it, checked for length, NUL and empty. */
struct files_path {
    char text[FILES_PATH_MAX + 1];
};
int files_path_check(struct str path, struct files_path *ret_path, struct err *err) MUST_USE;

/* The directory of a path, opened, and the name in it. */
struct files_place {
    int dir_fd;
    char name[FILES_NAME_MAX + 1];
};
void files_place_done(struct files_place *place);
#define AUTO_PLACE AUTO(files_place_done)
/* INVALID for "." and "..": the root and parents have no name here. */
int files_place_open(struct files *files, struct str path, bool make_parents,
                     struct files_place *ret_place, struct err *err) MUST_USE;

int files_check_writable(const struct files *files, struct err *err) MUST_USE;
/* openat within the tree; `path` is checked here. */
int files_open_path(struct files *files, struct str path, int flags, mode_t mode,
                    struct err *err) MUST_USE;
/* Opens, and fails with NOT_A_FILE unless it is a regular file (of the owner). Never blocks. */
int files_open_regular(struct files *files, struct str path, int flags, struct stat *ret_st,
                       struct err *err) MUST_USE;
int files_open_dir(struct files *files, struct str path, struct err *err) MUST_USE;
int files_check_regular(const struct files *files, const struct stat *st, struct str path,
                        struct err *err) MUST_USE;

/* chmod by descriptor, O_PATH ones included. -1 with errno. */
int files_chmod_fd(int fd, mode_t mode);
/* Removes one tree entry: what files_delete does from an open directory on. */
int files_delete_in(int dir_fd, const char *name, bool recursive,
                    struct files_delete_result *result, struct err *err) MUST_USE;

int64_t files_mtime_ns(const struct stat *st); /* the nearest that can be said */
void files_stat_from(const struct stat *st, struct files_stat *ret_stat);
/* "a FIFO", for messages. */
const char *files_type_name(mode_t mode);

/* A temporary name for an entry that is not in place yet; random, so it is unique. The name also
 * tells watchers whether the entry will be new: inotify does not. */
enum { FILES_TEMP_SIZE = 48 };
void files_temp_name(bool is_new, char out[FILES_TEMP_SIZE]);
bool files_is_temp_name(struct str name, bool *ret_is_new);

/* getdents64 into a buffer of the caller's: no DIR, no allocation. */
struct files_dirent {
    uint64_t ino;
    const char *name;   /* good until the next call; never "." or ".." */
    unsigned char type; /* DT_* */
};
enum { FILES_DIR_BUF = 32768 };
struct files_dir {
    int fd; /* borrowed */
    size_t at, len;
    char bytes[FILES_DIR_BUF] __attribute__((aligned(8)));
};
/* 1 with an entry, 0 at the end, -1 with errno. */
int files_dir_next(struct files_dir *dir, struct files_dirent *ret_entry);
