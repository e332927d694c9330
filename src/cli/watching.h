#pragma once

/* A command that is watched while its log comes in, for the verbs that show one. */

#include <sys/ioctl.h>

#include "cli/remote.h"

struct watching {
    sg_client *client;
    const char *id;  /* of the command, for keys */
    uint64_t offset; /* behind what was seen */
    int code;        /* once it has ended */
    bool has_ended, prints_json;
    bool prints_gaps;       /* a line where output is missing; else only a message at the end */
    uint64_t missing_bytes; /* that did not come */
    bool is_paused;         /* its sandbox */
    bool is_raw;            /* the terminal: lines begin with a carriage return */
    bool is_left;           /* its user went, and it goes on */
    bool is_dropped;        /* the server stops, and ends it */
    bool is_unread;         /* our output was closed by its reader; further output is dropped */
    char why[512];          /* why it was ended; "": it ended normally */
    struct winsize size;
    struct err failure;
};

/* For sg_stream: prints what a line says. */
int watch_line(void *ctx, const char *line, size_t len);
/* Input for it; what a command that has ended does not read is lost, as in a pipe. */
void watch_send(struct watching *watching, struct str input, bool is_last);
/* The command's exit code, or -1 when the stream ended before it. Where output is missing, a
 * message says how much and the code is not 0. */
int watch_conclude(const struct watching *watching, int result, struct err *err);
