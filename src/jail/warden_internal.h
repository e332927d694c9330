#pragma once

/* What the files of the warden share: its one state, and the ways of a jail through it. */

#include "base/vec.h"
#include "jail/maker.h"
#include "jail/warden.h"

/* A jail's way. BUILDING: the seed was asked, its process sets itself up; control_fd is watched,
 * and pidfd once it is known. POOLED: finished, waits for an owner; pidfd is watched. OWNED: handed
 * over by warden_hand_over(). ENDING: killed by warden_end_jail(), pidfd is watched. BURIED: reaped
 * by on_dead(); what it held is being put away. FREE: the slot can be used again. */
enum state { FREE, BUILDING, POOLED, OWNED, ENDING, BURIED };

struct slot {
    enum state state;
    struct made made;
    uint32_t request; /* whom to answer; 0: nobody asked, it is for the pool */
    bool answer_end;
    bool frozen;      /* by its owner */
    bool is_dead;     /* while its owner does not know yet */
    uint32_t profile; /* of the pool, when it was made for it */
    uint32_t birth;   /* tells events of this jail from those of the slot's last */
    uint32_t zygote;  /* number of the one that its kernels are forked from; 0: none yet */
    uint32_t forking; /* kernels that the zygote is about to put into it */
    char *fence;      /* what such a kernel needs to know; NULL: none can be */
    size_t fence_len;
    bool is_ready;      /* while it is built: its fence stands */
    struct err *broken; /* or why it does not */
};

struct zygote {
    uint32_t number; /* counts from 1; 0: none */
    pid_t pid;
    int fd;
    uint32_t forks; /* that it was asked for */
    uint32_t jails; /* that have had kernels of it */
    int64_t since_ms;
    uint32_t owed;    /* answers */
    int64_t heard_ms; /* the last of them; or when it was asked, and owed none */
};

struct warden {
    struct maker maker;
    int daemon_fd;
    int epoll_fd;
    VEC(struct slot) slots;
    struct buf out;
    char in[WIRE_MAX];
    int fds[WIRE_FDS_MAX]; /* that came with the question under way; a handler may take them */
    /* The pool: plans like this one are served from it. */
    struct buf profile; /* the plan as a message, without what can be set on a finished jail */
    char profile_packet[WIRE_MAX];
    struct jail_plan profile_plan;
    uint32_t profile_number;
    size_t pool_target, pool_ready, pool_building;
    int64_t pool_idle_ns;   /* without a question for so long, it rests; 0: never */
    uint64_t served, built; /* jails handed out of the pool, and made for who asked */
    size_t owed;            /* being built for somebody who waits */
    size_t buried;
    uint32_t births;
    int64_t asked_ns;        /* when the last question came */
    int64_t refill_after_ns; /* breathing space after a failure */
    bool is_stocked;         /* nothing is left to do until somebody asks */
    bool leaving;
};

extern struct warden warden;

/* epoll words: of the daemon's socket, of the seed, and of zygotes with their numbers; those of
 * jails are warden_on_jail's own, and none of these. */
enum { WORD_DAEMON = UINT32_MAX, WORD_SEED = UINT32_MAX - 1 };
#define WORD_ZYGOTES (3ull << 32)

/* warden_verbs.c: what the daemon asks, and what it is told. */
void warden_on_daemon(void);
void warden_say(const int *fds, size_t fd_count);
void warden_say_done(uint32_t request);
void warden_say_failed(uint32_t request, const struct err *reason);
void warden_say_stats(uint32_t request, const struct slot *slot, const struct cgroup_stats *stats);

/* warden_jails.c: one jail from its first process to its last. */
int warden_build(const struct jail_plan *plan, uint32_t request, struct err *err) MUST_USE;
void warden_hand_over(size_t index, uint32_t request);
void warden_end_jail(size_t index);
/* Its groups are removed; the kernel may need a moment after the last process is reaped. */
void warden_clear_jail(struct slot *slot);
void warden_on_jail(uint64_t word);
void warden_unwatch_proxy(const struct slot *slot);
/* Hears what was said of all that are being built: what the seed has reported is known then. */
void warden_hear_births(void);
/* Ends those that nobody has reported. */
void warden_fail_unborn(void);

/* warden_seed.c: what becomes of jails when the seed is killed. */
void warden_watch_seed(void);
void warden_on_seed(void);
/* Ends and reaps copies that a seed which is gone has not reported. */
void warden_end_strays(void);
int warden_replace_seed(struct err *err) MUST_USE;

/* warden_pool.c: jails that wait, and work that nobody waits for. */
bool warden_serve_from_pool(const struct jail_plan *plan, uint32_t request);
void warden_on_pool(uint32_t request, struct wire_in *in);
bool warden_may_refill(void);
/* Tells a jail that was just finished to get ready for its first command. */
void warden_rehearse(const struct slot *slot);
/* After a jail that could not be made. */
void warden_pause_refill(void);
/* One piece of it, so that a question waits for no more than that. Says whether there is more. */
bool warden_idle_work(void);
int warden_wait_ms(bool more);

/* warden_zygote.c: the processes that kernels are forked from. All kernels of a jail are forked
 * from one, as long as that lives. */
void warden_on_template(uint32_t request, struct wire_in *in);
void warden_on_zygote(uint32_t number);
/* Whom to ask for a kernel: the one with this number, else the jail's own, else the present one.
 * NULL: there is none. */
struct zygote *warden_zygote_for(const struct slot *slot, uint32_t number);
/* The zygote was asked for a kernel of this jail. */
void warden_enter_zygote(struct slot *slot, struct zygote *zygote);
/* The jail's kernels are gone. */
void warden_leave_zygote(struct slot *slot);
void warden_tend_zygotes(void);
int warden_zygotes_wait_ms(int wait_ms);
void warden_end_zygotes(void);
bool warden_is_zygote(pid_t pid);

/* warden_fork.c: kernels into jails. */
void warden_on_fork(struct slot *slot, struct wire_in *in);
/* What a kernel that is forked into a jail of this plan needs to know; NULL when none can be. */
char *warden_fence_of(const struct jail_plan *plan, size_t *ret_len);
