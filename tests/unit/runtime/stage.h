#pragma once

/* An interpreter in a jail of its own, for tests. */

#include "test.h"

#include "base/buf.h"
#include "jail/client/jail_fork.h"
#include "runtime/interpreter.h"

struct stage {
    struct warden_link *warden;
    struct jail *jail;
    struct interpreter *interpreter;
    uint32_t id;
    struct buf out, err_out, shown, error;
    bool ok, gone;
    bool borrows_warden;    /* of another stage */
    const char *const *env; /* of interpreters; NULL: none */
};

void stage_close(struct stage *stage);
#define AUTO_STAGE AUTO(stage_close)

/* Events up to one of this type, or up to the interpreter's end. */
void until(struct stage *stage, enum interpreter_event_type end);
void run(struct stage *stage, const char *code);

/* Limits that the host lacks are off. */
struct jail_plan stage_plan(struct warden_link *warden);
/* A warden with a zygote that has imported these. */
void stage_zygote(struct stage *stage, const char *names);
/* Its process. */
pid_t stage_zygote_pid(const struct stage *stage);
/* The living children of a process whose name begins so ("(zygote"), at most `most`. */
size_t stage_children(pid_t parent, const char *called, pid_t *ret_pids, size_t most);
void stage_jail(struct stage *stage);
/* Forks an interpreter into the jail of the stage and waits until it is ready. */
void stage_fork(struct stage *stage);
/* Until a fork works again; the warden takes a moment to start another zygote. */
void stage_fork_again(struct stage *stage);
/* All of it; forked when the build says so. */
void stage_open(struct stage *stage);
/* The program of the interpreters as a memfd. */
int stage_program(void);
