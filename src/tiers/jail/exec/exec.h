#pragma once

/* Commands in a place; see engine/provider.h. */

#include "engine/provider.h"

void tier_exec(struct place *place, const struct exec_plan *plan, const struct exec_calls *calls,
               void *ctx);
int tier_exec_write(struct exec *exec, struct str bytes, struct err *err);
int32_t tier_exec_pid(const struct exec *exec);
size_t tier_exec_unsent(const struct exec *exec);
void tier_exec_close_stdin(struct exec *exec);
int tier_exec_signal(struct exec *exec, int signo, struct err *err);
int tier_exec_resize(struct exec *exec, uint16_t rows, uint16_t cols, struct err *err);
void tier_exec_flow(struct exec *exec, bool stop);
void tier_exec_free(struct exec *exec);
/* The place is ending: all commands end with an error. */
void tier_execs_end(struct place *place, const struct err *why);
