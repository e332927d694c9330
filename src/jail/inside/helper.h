#pragma once

/* The helper of init: one file operation that needs a heavy library (grep, tar), then it exits.
 *
 * A separate program, so that init stays small. It is embedded in every program that links the jail
 * and is passed to init as a descriptor with the request: a sealed file in memory that may be
 * executed but not read, which keeps its process from being looked into from its first instruction
 * on. */

/* Descriptors it starts with; the operation's data only when there is any. */
enum { HELPER_REPLY_FD = 3, HELPER_DATA_FD = 4, HELPER_PROGRAM_FD = 5 };

/* All of the helper: its question is the first packet on HELPER_REPLY_FD. */
int helper_main(void);
