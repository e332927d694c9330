#pragma once

/* The server that is measured, and a client that keeps its connection. */

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"

struct bench;

enum { RIG_PORT = 17171, RIG_NGINX_PORT = 17172, RIG_ANSWER_MAX = 64 << 10 };

extern char rig_dir[]; /* of this process only; made by main */
extern char rig_token[128];

int rig_connect(int port); /* -1: nobody listens */
/* One request; gives the status, and the answer's body in `body` (RIG_ANSWER_MAX, or NULL). */
int rig_ask(int fd, const char *method, const char *path, const char *json, char *body);
/* With `headers`, each with its line's end. */
int rig_ask_with(int fd, const char *method, const char *path, const char *headers,
                 const char *json, char *body);
bool rig_id(const char *body, char out[64]);
/* Make, run `true`, and tell the time of both; then delete. False when one of them failed. */
bool rig_life(int fd, double *ret_us);

pid_t rig_spawn(const char *program);
pid_t rig_start(const char *program); /* returns when it answers */
void rig_end(pid_t pid);
/* Runs a program to its end and gives what it printed; false when it is not there. */
bool rig_output(const char *const *argv, struct buf *out);
/* At full size (SG_BENCH_LONG=1), or in a few seconds. */
bool rig_is_long(void);

/* http_bulk.c */
void measure_transfer(struct bench *bench, int fd, pid_t server);
void measure_idle(struct bench *bench, int fd, pid_t server);
void measure_cycles(struct bench *bench, pid_t server);
/* Kills the server among sandboxes and starts the next one, which it gives back. */
pid_t measure_restart(struct bench *bench, const char *program, int *fd, pid_t server);
