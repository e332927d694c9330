#pragma once

/* Living jails for tests, and a line to an init that the test itself plays. */

#include "jail/client/jail.h"

/* One warden per test program. */
struct warden_link *place_warden(void);
/* Limits that this host cannot give are switched off by name, so that the rest can be tested. */
struct jail_plan place_plan(struct jail_plan plan);
struct jail *place_jail(struct jail_plan plan);

/* Starts "sh -c script" in it, waits, and gives what it wrote (65535 bytes at most). */
const char *place_shell(struct jail *jail, const char *script, struct jail_exit *ret_exit);

/* Waits for the next event of any kind; fails the test after a while. */
void place_next(struct jail *jail, struct jail_event *ret_event);
void place_warden_next(struct warden_link *warden, struct warden_event *ret_event);

/* A jail whose init is the holder of *ret_peer. */
struct jail *place_fake(int *ret_peer);
