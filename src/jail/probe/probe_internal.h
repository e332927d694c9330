#pragma once

/* What the probe files share: saying a result, small files, entering namespaces, the functions that
 * the table names. Only for the files of src/jail/probe. */

#include <sys/types.h>

#include "jail/probe/probe.h"

#define PROBE_RUN(name)                                                                            \
    void name(const struct probe *probe, const struct probe_env *env, struct probe_result *result)

void probe_say(struct probe_result *result, enum probe_status status, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
/* MISSING, with the errno's text behind the words. Gives -1. */
int probe_fail(struct probe_result *result, int sys, const char *fmt, ...) PRINTF_LIKE(3, 4);
void probe_fix(struct probe_result *result, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Whole small files; the text is trimmed. -1 with errno. */
int probe_read(const char *path, char *out, size_t out_size);
int probe_write(const char *path, const char *text);
/* A number in a file, or `absent`. */
int64_t probe_read_number(const char *path, int64_t absent);
/* `word` is one of the words in a list separated by blanks or commas. */
bool probe_has_word(struct str list, struct str word);

/* Waits for a child of this process; gives its exit code, or 128 + signal, or -1. */
int probe_wait(pid_t pid);

/* Enters a new user namespace (and `flags` with it) as its root. -1 with the result reported, and
 * with the probable reason, which the kernel does not tell. */
int probe_enter_user(unsigned flags, struct probe_result *result);
/* Enters `flags`, inside a user namespace of our own only when that is the way for this user. */
int probe_enter(unsigned flags, bool *ret_in_user, struct probe_result *result);

bool probe_cgroup_tidy(const struct probe_env *env);
void probe_cgroups_read(struct probe_cgroups *cgroups);

PROBE_RUN(probe_ns_user);
PROBE_RUN(probe_ns_kind);
PROBE_RUN(probe_ns_unprivileged);
PROBE_RUN(probe_ns_settings);
PROBE_RUN(probe_mount_proc);
PROBE_RUN(probe_overlay_root);
PROBE_RUN(probe_overlay_user);
PROBE_RUN(probe_idmap);
PROBE_RUN(probe_disk_tmpfs);
PROBE_RUN(probe_disk_project);
PROBE_RUN(probe_disk_loop);
PROBE_RUN(probe_cgroup_layout);
PROBE_RUN(probe_cgroup_limit);
PROBE_RUN(probe_cgroup_kill);
PROBE_RUN(probe_cgroup_freeze);
PROBE_RUN(probe_cgroup_clone);
PROBE_RUN(probe_seccomp_filter);
PROBE_RUN(probe_seccomp_notify);
PROBE_RUN(probe_landlock);
PROBE_RUN(probe_pidfd);
PROBE_RUN(probe_clone3);
PROBE_RUN(probe_close_range);
PROBE_RUN(probe_openat2);
PROBE_RUN(probe_memfd_exec);
PROBE_RUN(probe_userfaultfd);
PROBE_RUN(probe_io_uring);
PROBE_RUN(probe_kvm);
PROBE_RUN(probe_limit_files);
PROBE_RUN(probe_limit_memlock);
PROBE_RUN(probe_runtime);
