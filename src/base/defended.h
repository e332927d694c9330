#pragma once

/* Defences that tools/mutants takes out one by one, to see that a test misses them.
 *
 * DEFENDED(SECCOMP) is 1, and 0 in a build with -Dwithout=seccomp, which defines
 * SG_WITHOUT_SECCOMP as 1. Always a constant: nothing is decided at run time. */

#define DEFENDED(name) (!DEFENDED_IS_ONE(SG_WITHOUT_##name))

#define DEFENDED_IS_ONE(value) DEFENDED_IS_ONE_(value)
#define DEFENDED_IS_ONE_(value) DEFENDED_PICK(DEFENDED_ARG_##value 1, 0)
#define DEFENDED_PICK(first, ...) DEFENDED_SECOND(first, __VA_ARGS__, 0)
#define DEFENDED_SECOND(first, second, ...) second
#define DEFENDED_ARG_1 0,
