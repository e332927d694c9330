#pragma once

/* Between sandglass.c and stream.c: a client, and one request and its answer over libcurl. */

#include <curl/curl.h>
#include <stdbool.h>

#include "internal.h"

struct stream;

enum { SG_MESSAGE_SIZE = 512, SG_CODE_SIZE = 64 };

struct text {
    char *ptr;
    size_t len, cap;
};

struct sg_client {
    char *base;   /* "http://127.0.0.1:7070" */
    char *socket; /* path of a Unix socket, or NULL */
    char *ca_file;
    char *auth;  /* the header */
    CURL *plain; /* kept, so that its connection is */
    char error[SG_MESSAGE_SIZE], code[SG_CODE_SIZE];
    char reason[CURL_ERROR_SIZE]; /* libcurl's own, of the transfer under way */
    int status;
    long timeout_ms;       /* of a call; 0: none */
    struct stream *stream; /* that runs, or NULL */
    void (*on_close)(void *ctx);
    void *close_ctx;
};

/* What one transfer does with its answer. */
struct transfer {
    sg_client *client;
    CURL *curl;
    struct curl_slist *headers;
    struct text answer; /* the whole of it, or an error's body */
    struct text line;
    sg_sink *sink;
    sg_source *source;
    sg_line *on_line;
    void *ctx;
    bool was_ended; /* by a call-back */
};

/* Sets the handle up for one request; `json` NULL: no body. */
int transfer_prepare(struct transfer *transfer, const char *method, const char *path,
                     const char *json);
void transfer_add_header(struct transfer *transfer, const char *line);
/* Reports the result of the request to the caller; `ret_json` may be NULL. */
int transfer_conclude(struct transfer *transfer, CURLcode done, char **ret_json);
/* Frees all but the handle. */
void transfer_finish(struct transfer *transfer);
