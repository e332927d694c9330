#pragma once

/* What commands put out: collected into one answer, followed as events, or as plain bytes. */

#include "base/str.h"

struct api;
struct command_info;
struct request;

/* A command that is being started for `request`, which is held. */
struct v1_start {
    struct request *request;
    struct api *api;
    bool is_stream;
};

/* Answers a held request with the command `id` once it has ended, with what it put out. */
void v1_collect(struct request *request, struct api *api, struct str id, int status);
/* Answers it with events, from the beginning of the log until the command ends. */
void v1_follow(struct request *request, const struct command_info *command);
