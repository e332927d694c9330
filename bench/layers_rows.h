#pragma once

/* Rows that `make bench SUITE=jail` and `SUITE=layers` share: checkpoint, rollback and fork of a
 * sandbox's files with its jail at rest and running, and pausing it. */

struct bench;
struct layers;

/* A data directory below /tmp for as long as `measure` runs. Ends the process on failure. */
void layers_rows_in_store(struct bench *bench,
                          void (*measure)(struct bench *bench, struct layers *layers));
void layers_rows_measure(struct bench *bench, struct layers *layers);
void layers_rows_check(int done, const char *message);
