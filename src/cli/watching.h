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
    bool is_left;    /* its user went, and it goes on */
    bool is_dropped; /* the server stops, and ends it */
    const char *why; /* it ended, when not by itself; NULL: by itself */
    struct winsize size;
    struct err failure;
};

/* For sg_stream: prints what a line says. */
int watch_line(void *ctx, const char *line, size_t len);
/* Input for it; what a command that has ended does not read is lost, as in a pipe. */
void watch_send(struct watching *watching, struct str input, bool is_last);
/* The command's exit code, or -1 when the stream ended before it. */
int watch_conclude(const struct watching *watching, int result, struct err *err);
