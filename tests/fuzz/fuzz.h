#pragma once

/* One parser per target. libFuzzer calls it with inputs of its own (-Dfuzz=true), replay.c with
 * the files of the corpus (every other build). */

#include <stddef.h>
#include <stdint.h>

/* Returns 0; a broken promise of the parser is an assert. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
