#pragma once

/* The confinement of a process that computes with what strangers wrote: no privilege, no files but
 * those that are open, no network, no programs. Cannot be undone. Used by the reader of documents
 * and by the embedder; each has a list of its own of the system calls that it needs. */

#include <sys/resource.h>

#include "base/base.h"

struct err;

/* PLAIN: allowed. NO_EXEC: not with PROT_EXEC in the third argument. REFUSED: fails with ENOENT,
 * since libraries look for things that they can do without. */
enum confine_how { CONFINE_PLAIN, CONFINE_NO_EXEC, CONFINE_REFUSED };

struct confine_rule {
    int call;
    enum confine_how how;
};

struct confine_limit {
    int what; /* RLIMIT_... */
    rlim_t value;
};

enum { CONFINE_RULES_MAX = 64 };

struct confine_list {
    const struct confine_rule *rules;
    size_t rule_count;
    const struct confine_limit *limits;
    size_t limit_count;
};

/* Before threads are started: they inherit it. `is_background`: at a low priority. */
void confine_privileges(bool is_background);
/* After that: limits, and the filter for all threads. A system call outside of the list ends the
 * process. */
int confine_calls(const struct confine_list *list, struct err *err) MUST_USE;
