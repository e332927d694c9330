#pragma once

/* Saved state of interpreters from inside, for live.c and live_keep.c. */

#include "tiers/jail/code/interpreter.h"
#include "tiers/jail/code/live.h"

enum { LIVE_SEALS = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

/* One interpreter's. */
struct live_part {
    struct str id, cwd;
    const struct runtime *runtime;
    struct engine_pairs env;
    uint32_t run_count;
    bool has_state;
    int fd; /* -1: it starts fresh */
    char reason[CONTEXT_REASON_MAX];
};

struct live_interpreters {
    int refs;
    struct arena arena;
    struct str sandbox;
    uint32_t zygote;  /* that their interpreters are forks of */
    bool forks_plain; /* of their place */
    struct live_part parts[CONTEXTS_MAX];
    size_t count;
    /* Of a kept one (live_keep.c): */
    bool is_kept;              /* interpreters copy it instead of mapping it */
    int64_t bytes;             /* of all parts */
    struct provider *provider; /* whose list it is on; NULL: none, or that is closed */
    struct live_interpreters *next;
    bool has_lease; /* on the zygote */
};

struct live_interpreters *live_new(void);
/* A part without memory, about the same interpreter. */
struct live_part *live_add(struct live_interpreters *live, const struct live_part *like);
/* It leaves the list of its provider, and the zygote is free to go. */
void live_leave(struct live_interpreters *live);
