#pragma once

/* Questions to a warden and to a jail for tests and benches, which may wait for the answer: each
 * asks as its namesake in jail/ with _ask_ does, and gives what the event says. */

#include "jail/client/files.h"
#include "jail/client/jail_fork.h"

int warden_pool(struct warden_link *warden, const struct jail_plan *plan, size_t count,
                int64_t idle_ms, struct err *err) MUST_USE;
int warden_count(struct warden_link *warden, struct warden_counts *ret_counts,
                 struct err *err) MUST_USE;
int jail_stat(struct jail *jail, struct jail_stats *ret_stats, struct err *err) MUST_USE;
int jail_freeze(struct jail *jail, bool frozen, struct err *err) MUST_USE;
int jail_seal(struct jail *jail, const struct jail_plan *plan, size_t kept, int64_t most_bytes,
              struct err *err) MUST_USE; /* a descriptor */
int jail_seal_with(struct jail *jail, const struct jail_plan *plan, const struct jail_seal *seal,
                   struct err *err) MUST_USE; /* a descriptor */
/* The same, waiting: about a second for numpy, pandas and matplotlib. */
int warden_zygote(struct warden_link *warden, int program_fd, const char *names,
                  char ret_missing[96], struct err *err) MUST_USE;
int jail_fork(struct jail *jail, const struct jail_command *command, const int fds[3],
              uint32_t *ret_id, struct err *err) MUST_USE;
int jail_connect(struct jail *jail, uint16_t port, struct err *err) MUST_USE; /* a descriptor */

/* Each as its namesake in files/. */
int jail_file_stat(struct jail *jail, struct str path, bool follow, struct files_stat *ret_stat,
                   struct err *err) MUST_USE;
/* At most JAIL_FILE_BYTES_MAX; more with JAIL_FILE_READ_TO. */
int jail_file_read(struct jail *jail, struct str path, const struct files_range *range,
                   struct buf *out, struct files_content *ret_content, struct err *err) MUST_USE;
/* At most JAIL_FILE_BYTES_MAX; more with JAIL_FILE_WRITE_FROM. Safe against a power cut only when
 * the options do not say no_sync. */
int jail_file_write(struct jail *jail, struct str path, struct str bytes,
                    const struct files_write_options *options, bool *ret_created,
                    struct err *err) MUST_USE;
int jail_file_list(struct jail *jail, struct str path, const struct files_list_options *options,
                   struct arena *arena, struct files_list *ret_list, struct err *err) MUST_USE;
int jail_file_glob(struct jail *jail, struct str dir, struct str pattern,
                   const struct files_glob_options *options, struct arena *arena,
                   struct files_glob *ret_glob, struct err *err) MUST_USE;
int jail_file_grep(struct jail *jail, struct str path, struct str pattern,
                   const struct files_grep_options *options, struct arena *arena,
                   struct files_grep *ret_grep, struct err *err) MUST_USE;
