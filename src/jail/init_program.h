#pragma once

/* The programs that travel inside others, as bytes. */

#include "base/str.h"

struct str init_program(void);   /* in the warden */
struct str warden_program(void); /* in sandglass and whoever links the jail library */
