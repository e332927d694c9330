#pragma once

/* `sandglass serve`: the daemon from start to end. */

#include "base/base.h"

struct err;

struct config;
struct provider_table;

struct server_options {
    const struct config *config;               /* the engine's */
    const struct provider_table *const *tiers; /* the engine's */
    const char *listen;                        /* "127.0.0.1:7070", "unix:/path" */
    const char *data_dir;                      /* made if it is not there */
    const char *token_file;   /* made at first start; NULL: `token` in the data directory */
    const char *const *names; /* further host names by which clients may call us; ends with NULL */
    const char *tls_cert, *tls_key;  /* PEM files; NULL: no TLS */
    const char *tls_listen;          /* NULL: on `listen` itself, the first byte decides */
    const char *domain;              /* below which exposed ports have names; NULL: none */
    const char *unix_socket;         /* a path to listen on besides; NULL: none */
    const char *const *cors_origins; /* ends with NULL; NULL: none */
    unsigned connections_max, per_address_max; /* 0: http.h's defaults, here and below */
    int64_t head_ms, body_idle_ms, keep_alive_ms, reader_idle_ms; /* see http.h */
    int64_t drain_ms;                              /* what running requests get at the end */
    void (*on_ready)(const char *text, void *ctx); /* gets the lines for the terminal, once */
    void *ctx;
};

/* Runs until SIGTERM, SIGINT or SIGHUP; then takes no more requests, finishes those that run (up to
 * `drain_ms`) and gives 0. A second signal ends it at once and gives 1. -1 when it could not
 * start: port in use, data directory in use or not writable, ... */
int server_run(const struct server_options *options, struct err *err) MUST_USE;
