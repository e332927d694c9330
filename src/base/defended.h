#pragma once

/* Defences that tools/mutants takes out one by one, to see that a test misses them.
 *
 * DEFENDED(SECCOMP) is 1, and 0 in a build with -Dwithout=seccomp, whose base/without.h defines
 * SG_WITHOUT_SECCOMP as 1; in forked interpreters SG_WITHOUT_KERNEL_SECCOMP counts as well. Always
 * a constant: nothing is decided at run time. The header is of the build tree, and empty there but
 * for mutants; by a header and not by arguments, since only the files that ask are then compiled
 * again. */

#include "base/without.h"

#ifdef SG_OF_KERNELS
#define DEFENDED(name)                                                                             \
    (!DEFENDED_IS_ONE(SG_WITHOUT_##name) && !DEFENDED_IS_ONE(SG_WITHOUT_KERNEL_##name))
#else
#define DEFENDED(name) (!DEFENDED_IS_ONE(SG_WITHOUT_##name))
#endif

#define DEFENDED_IS_ONE(value) DEFENDED_IS_ONE_(value)
#define DEFENDED_IS_ONE_(value) DEFENDED_PICK(DEFENDED_ARG_##value 1, 0)
#define DEFENDED_PICK(first, ...) DEFENDED_SECOND(first, __VA_ARGS__, 0)
#define DEFENDED_SECOND(first, second, ...) second
#define DEFENDED_ARG_1 0,
