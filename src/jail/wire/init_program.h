#pragma once

/* The programs that travel inside others: one row each. */

#include "base/embed.h"

extern const struct embed_file init_program[];   /* in the warden */
extern const struct embed_file warden_program[]; /* in every program that links the jail */
extern const struct embed_file helper_program[]; /* the same: it goes to init when needed */
