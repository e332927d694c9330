#pragma once

/* Ctrl-C while code runs on this machine: the first one interrupts the code, the second one ends
 * the program. One a process. */

/* Before child processes are started: they do not get the Ctrl-C of the terminal. */
void interrupts_hold(void);
/* Once they are: from now on Ctrl-C calls `call` (may be NULL), from a signal handler, and makes
 * the descriptor readable. Gives the descriptor; -1: not possible. */
int interrupts_watch(void (*call)(void *ctx), void *ctx);
/* New code begins: the next Ctrl-C is its first. */
void interrupts_begin(void);
/* There was one since then. */
int interrupts_seen(void);
/* Around a prompt: Ctrl-C there gives a new prompt. `at_prompt` (a sigjmp_buf) is where the program
 * goes on; NULL when it left the prompt. */
void interrupts_at_prompt(void *at_prompt);
