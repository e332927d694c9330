#pragma once

/* What the files of the warden share: its one state, and the ways of a jail through it. */

#include "base/vec.h"
#include "jail/warden/builder.h"
#include "jail/wire/warden.h"

/* A jail's way. BUILDING: the init spawner was asked, its process sets itself up; control_fd is
 * watched, and pidfd once it is known. POOLED: finished, waits for an owner; pidfd is watched.
 * OWNED: handed over by warden_hand_over(). ENDING: killed by warden_end_jail(), pidfd is watched.
 * BURIED: reaped by on_dead(); what it held is being put away. FREE: the slot can be used again. */
enum state { FREE, BUILDING, POOLED, OWNED, ENDING, BURIED };

struct slot {
    enum state state;
    struct made made;
    uint32_t request; /* to answer; 0: without a request, for the pool */
    bool answer_end;
    bool frozen;         /* by its owner */
    bool is_dead;        /* while its owner does not know yet */
    uint32_t profile;    /* of the pool, when it was made for it */
    int64_t killed_ns;   /* when it was killed last; while ENDING */
    uint32_t generation; /* tells events of this jail from those of the slot's last */
    uint32_t zygote;     /* number of the one that its interpreters are forked from; 0: none yet */
    uint32_t forking;    /* interpreters that the zygote is about to start in it */
    char *confinement;   /* how such an interpreter confines itself; NULL: none can be forked */
    size_t confinement_len;
    bool is_ready;      /* while it is built: its isolation is set up */
    struct err *broken; /* or why it does not */
};

/* What a zygote has imported. */
enum zygote_kind {
    ZYGOTE_WHOLE, /* the packages of the configuration */
    ZYGOTE_PLAIN, /* none that a jail could have its own of */
    ZYGOTE_KINDS,
};

struct zygote {
    uint32_t number; /* counts from 1; 0: none */
    enum zygote_kind kind;
    pid_t pid;
    int fd;
    uint32_t forks;  /* that it was asked for */
    uint32_t jails;  /* that have had interpreters of it */
    uint32_t leases; /* saved memory of its interpreters that the daemon keeps and may restore */
    int64_t since_ms;
    uint32_t owed;    /* answers */
    int64_t heard_ms; /* the last of them; or when it was asked, and owed none */
};

struct warden {
    struct builder builder;
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
    size_t owed;            /* being built for a waiting request */
    size_t buried;
    size_t ending;
    uint32_t generations;
    int64_t asked_ns;        /* when the last question came */
    int64_t refill_after_ns; /* breathing space after a failure */
    bool is_stocked;         /* nothing is left to do until the next request */
    bool leaving;
};

extern struct warden warden;

/* epoll words: of the daemon's socket, of the init spawner, and of zygotes with their numbers;
 * those of jails are warden_on_jail's own, and none of these. */
enum { WORD_DAEMON = UINT32_MAX, WORD_INIT_SPAWNER = UINT32_MAX - 1 };
#define WORD_ZYGOTES (3ull << 32)

/* warden_verbs.c: requests of the daemon, and the answers. */
void warden_on_daemon(void);
void warden_say(const int *fds, size_t fd_count);
void warden_say_done(uint32_t request);
void warden_say_failed(uint32_t request, const struct err *reason);
/* `use` may be NULL. */
void warden_say_stats(uint32_t request, const struct slot *slot, const struct cgroup_stats *stats,
                      const struct cgroup_use *use);

/* warden_jails.c: one jail from its first process to its last. */
int warden_build(const struct jail_plan *plan, uint32_t request, struct err *err) MUST_USE;
void warden_hand_over(size_t index, uint32_t request);
void warden_end_jail(size_t index);
/* Kills those again that are not gone yet. */
void warden_tend_ending(void);
/* Its groups are removed; the kernel may need a moment after the last process is reaped. */
void warden_clear_jail(struct slot *slot);
void warden_on_jail(uint64_t word);
void warden_unwatch_proxy(const struct slot *slot);
/* Reads the start messages of all jails that are being built, so that all reports of the init
 * spawner are known. */
void warden_read_starts(void);
/* Ends jails whose start was not reported. */
void warden_fail_uncloned(void);

/* warden_init_spawner.c: what becomes of jails when the init spawner is killed. */
void warden_watch_init_spawner(void);
void warden_on_init_spawner(void);
/* Ends and reaps copies that an init spawner which is gone has not reported. */
void warden_end_strays(void);
int warden_replace_init_spawner(struct err *err) MUST_USE;

/* warden_pool.c: jails of the pool, and work that no request waits for. */
bool warden_serve_from_pool(const struct jail_plan *plan, uint32_t request);
void warden_on_pool(uint32_t request, struct wire_in *in);
bool warden_may_refill(void);
/* Tells a jail that was just finished to get ready for its first command. */
void warden_rehearse(const struct slot *slot);
/* After a jail that could not be made. */
void warden_pause_refill(void);
/* Does one step, so that a request waits for no more than that. Says whether there is more to
 * do. */
bool warden_idle_work(void);
int warden_wait_ms(bool more);

/* warden_zygote.c: the processes that interpreters are forked from. All interpreters of a jail are
 * forked from one, as long as that lives. */
void warden_on_make_zygote(uint32_t request, struct wire_in *in);
void warden_on_lease(uint32_t request, struct wire_in *in);
void warden_on_zygote(uint32_t number);
/* The zygote to ask for an interpreter: the one with this number, else the jail's own, else the
 * current one; with JAIL_ZYGOTE_PLAIN those of the plain kind. NULL: none. */
struct zygote *warden_zygote_for(const struct slot *slot, uint32_t number);
/* The zygote was asked for an interpreter of this jail. */
void warden_enter_zygote(struct slot *slot, struct zygote *zygote);
/* The jail's interpreters have ended. */
void warden_leave_zygote(struct slot *slot);
void warden_tend_zygotes(void);
/* For tests of what outlives its zygote: a zygote is replaced after few forks. */
void warden_replace_zygotes_soon(void);
int warden_zygotes_wait_ms(int wait_ms);
void warden_end_zygotes(void);
bool warden_is_zygote(pid_t pid);

/* warden_locks.c: ends processes of jails that have too many record locks. */
void warden_tend_locks(void);
int warden_locks_wait_ms(int wait_ms);

/* warden_fork.c: interpreters in jails. */
void warden_on_fork(struct slot *slot, struct wire_in *in);
/* What an interpreter that is forked into a jail of this plan needs to know; NULL when none can be.
 */
char *warden_confinement_of(const struct jail_plan *plan, size_t *ret_len);
