#pragma once

/* A value that must not be seen: in memory of its own that is locked, left out of core files, wiped
 * and unmapped at the end. It has no printf form, so that no log or message can hold it. */

#include "base/str.h"

struct err;
struct secret;

enum { SECRET_MAX = 64 << 10 };

/* Copies `value`. TOO_LARGE past SECRET_MAX. */
int secret_new(struct str value, struct secret **ret_secret, struct err *err) MUST_USE;
/* Takes the value of a variable out of the environment: it is wiped there, where /proc/PID/environ
 * shows it, and removed. NULL, and no error, when it is not set or empty. */
int secret_take_env(const char *name, struct secret **ret_secret, struct err *err) MUST_USE;
struct secret *secret_free(struct secret *secret);
DEFINE_FREEP(secret)
#define AUTO_SECRET AUTO(secret_freep)

/* The value, for the one place that sends it. Do not copy it. */
struct str secret_reveal(const struct secret *secret);
