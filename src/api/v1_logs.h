#pragma once

/* What commands put out: collected into one answer, followed as events, or as plain bytes. */

#include "base/str.h"

struct api;
struct request;

/* A command that is being started for `request`, which is held. */
struct v1_start {
    struct request *request;
    struct api *api;
    bool is_stream;
};

/* Answers a held request with the command `id` once it has ended, with what it put out. */
void v1_collect(struct request *request, struct api *api, struct str id, int status);
/* Answers with events, from `offset` of the log on, until the command ends. */
void v1_follow(struct request *request, struct api *api, struct str id, uint64_t offset);
