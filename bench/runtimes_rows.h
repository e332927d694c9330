#pragma once

/* Shared by the files of the suite: peers of kernels that are other programs. */

#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"
#include "runtime/interpreter.h"

struct bench;
struct jail;

struct place {
    struct jail *jail;
    struct interpreter *interpreter;
    const char *asked; /* the code that runs, or ran last */
};

/* runtimes_place.c: an error is reported and ends the program. */
/* The program ends with these words when nothing follows them for two minutes. */
void runtimes_step(const char *doing);
void runtimes_check(int done, const struct err *err);
double runtimes_since_us(int64_t begin_ns);
/* Until the kernel tells this; the bytes of output on the way. Silence for long is an error. */
size_t runtimes_wait(struct place *place, enum interpreter_event_type type);
size_t runtimes_run(struct place *place, const char *code, struct str language,
                    enum interpreter_event_type until);
void runtimes_place_done(struct place *place);

/* `python3 -c "import numpy, pandas; ..."`, whole processes. */
void runtimes_cold(struct bench *bench, int samples);
/* A Jupyter kernel through its own client: its start, its next run. */
void runtimes_ipykernel(struct bench *bench);
/* Interpreters with the same imports that wait. */
void runtimes_plain_memory(struct bench *bench, int count);

/* Node kernels beside plain Node; nothing when node24 was not added to $SG_RUNTIMES, or
 * build/runtimes. */
void runtimes_node(struct bench *bench);

/* Proportional memory of a process and all its descendants. */
int64_t runtimes_pss_kb(pid_t root, int *ret_count);

/* runtimes_http.c */
void runtimes_http(struct bench *bench);
