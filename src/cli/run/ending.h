#pragma once

/* Signals that end this program while it is connected to a server.
 *
 * They are put into a descriptor, so that a verb can end its work in good order. A verb that does
 * not take a signal within ENDING_S seconds, because the server hangs, its connection is dead or
 * its own output is not read, is still ended; so is one that gets a second signal meanwhile.
 * One a process. */

#include <stdbool.h>

struct termios;

enum { ENDING_S = 5 };

/* From now on SIGINT, SIGTERM and SIGHUP make the descriptor readable. -1: not possible. */
int ending_watch(void);
/* The terminal settings to restore when the program ends; NULL: leave them unchanged. */
void ending_restore(const struct termios *before);
/* The next signal; 0: none. The program is ended after ENDING_S unless ending_done follows. */
int ending_take(void);
/* What the signal asked for was done. */
void ending_done(void);
/* Ends the program after ENDING_S with 128 + `signo` unless it ends before. */
void ending_expect(int signo);
