#pragma once

/* Shared by the files of the suite: peers of kernels that are other programs. */

#include <stdint.h>
#include <sys/types.h>

struct bench;
struct jail;
struct kernel;

struct place {
    struct jail *jail;
    struct kernel *kernel;
};

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
