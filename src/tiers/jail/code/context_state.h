#pragma once

/* The states of an interpreter's process, of the line to it, of its memory, and of its stay outside
 * the jail's root. Each move is made by a function below, which asserts that the tables of
 * context_state.c have it; context_assert checks the states together. */

#include "base/base.h"

struct context;

/* The process of a context. `interpreter` is NULL in NONE and set in the other states.
 *
 *     state     what holds                             leaves for, by
 *     NONE      not asked for                          ASKED: context_start
 *     ASKED     `op` waits for events, `inner` is      STARTED: interpreter_on_event
 *               open; it does not run yet              ENDED (refused): the same
 *     STARTED   it runs, and signals reach it          ENDED: interpreter_on_event
 *     ENDED     exited, refused, or its jail has       ASKED: start_otherwise, as the
 *               ended; its last output may be unread   fork was refused
 *
 * tier_contexts_end makes ENDED of ASKED and STARTED. context_drop_interpreter makes NONE of all.
 */
enum process_state { PROCESS_NONE, PROCESS_ASKED, PROCESS_STARTED, PROCESS_ENDED };

/* The line between the daemon and the interpreter.
 *
 *     state     what holds                             leaves for, by
 *     NONE      `interpreter` is NULL                  OPEN: context_start
 *     OPEN      it has not said that it is ready       READY, GONE: context_pump
 *     READY     it takes requests                      GONE: context_pump
 *     GONE      closed by the interpreter, which is
 *               killed: it is of no use any more
 *
 * context_drop_interpreter makes NONE of all. */
enum line_state { LINE_NONE, LINE_OPEN, LINE_READY, LINE_GONE };

/* Where the variables of an interpreter come from (live.c).
 *
 *     state     what holds                             leaves for, by
 *     OWN       no saved state was meant for it        MAPPING, READING, LOST: revive_one
 *     MAPPING   it starts, is to map saved state and   RESTORED, LOST: live_on_ready
 *               has not said that it is ready          LOST: live_on_death, tier_live_end
 *     READING   the same; it copies the saved state    as MAPPING
 *     RESTORED  it has continued from saved state      MAPPING, READING: revive_one
 *     LOST      it began without the saved state;      MAPPING, READING: revive_one
 *               `reason` says why
 *
 * In MAPPING and READING the place's `reviving` counts it. `memory_fd` is open only there, until
 * the process has started. RESTORED and LOST stay when the interpreter is started again. */
enum memory_state { MEMORY_OWN, MEMORY_MAPPING, MEMORY_READING, MEMORY_RESTORED, MEMORY_LOST };

/* Its stay outside the jail's root (quiesce.c).
 *
 *     state     what holds                             leaves for, by
 *     NO        it is where its code left it           ASKED: tier_quiesce
 *     ASKED     asked to leave its working directory;  YES: quiesce_on_answer, quiesce_finish
 *               it has not answered                    NO: quiesce_on_death
 *     YES       it has, or its answer comes too late;  NO: tier_go_back, quiesce_on_death
 *               not yet asked to go back */
enum quiescent_state { QUIESCENT_NO, QUIESCENT_ASKED, QUIESCENT_YES };

void context_set_process(struct context *context, enum process_state state);
void context_set_line(struct context *context, enum line_state state);
void context_set_memory(struct context *context, enum memory_state state);
void context_set_quiescent(struct context *context, enum quiescent_state state);

/* MAPPING or READING. */
bool context_is_reviving(const struct context *context);

/* That the states fit together, at the end of each function that has changed them. */
void context_assert(const struct context *context);
