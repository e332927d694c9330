#pragma once

/* The code of one verdict, for filter.c and filter_args.c. */

#include <linux/filter.h>
#include <linux/seccomp.h>

#include "jail/inside/filter.h"

enum { FILTER_CODE_MAX = 192, FILTER_X32_BIT = 0x40000000 };

/* Jumps inside it are relative, so it can stand anywhere. */
struct filter_code {
    struct sock_filter insns[FILTER_CODE_MAX];
    size_t len;
};

void filter_code(struct filter_code *code, enum filter_action action);
