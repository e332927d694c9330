#pragma once

/* One kind of error for every module and every interface.
 *
 * A function that can fail returns 0 or -1 (or an fd) and takes `struct err *err` last. The struct
 * is plain and fixed-size: it needs no allocation and a child can write it to its parent. */

#include "base/base.h"

/* name, wire name, HTTP status: every surface reports the same code for the same cause. */
#define ERR_MAP(X)                                                                                 \
    X(NONE, "ok", 200)                                                                             \
    X(INVALID, "invalid", 400)                                                                     \
    X(NOT_A_FILE, "not_a_file", 400)                                                               \
    X(NOT_A_DIRECTORY, "not_a_directory", 400)                                                     \
    X(INVALID_PATTERN, "invalid_pattern", 400)                                                     \
    X(ZONE_NOT_CONFIGURED, "zone_not_configured", 400)                                             \
    X(PATTERN_TOO_COMPLEX, "pattern_too_complex", 400)                                             \
    X(BAD_CWD, "bad_cwd", 400)                                                                     \
    X(EXEC_FORMAT, "exec_format_error", 400)                                                       \
    X(UNAUTHORIZED, "unauthorized", 401)                                                           \
    X(FORBIDDEN, "forbidden", 403)                                                                 \
    X(PATH_ESCAPES, "path_escapes", 403)                                                           \
    X(READ_ONLY, "read_only", 403)                                                                 \
    X(NOT_EXECUTABLE, "not_executable", 403)                                                       \
    X(NOT_FOUND, "not_found", 404)                                                                 \
    X(PROGRAM_NOT_FOUND, "program_not_found", 404)                                                 \
    X(METHOD, "method_not_allowed", 405)                                                           \
    X(CONFLICT, "conflict", 409)                                                                   \
    X(NO_MATCH, "no_match", 409)                                                                   \
    X(AMBIGUOUS_MATCH, "ambiguous_match", 409)                                                     \
    X(GONE, "gone", 410)                                                                           \
    X(TOO_LARGE, "too_large", 413)                                                                 \
    X(TOO_MANY_RESULTS, "too_many_results", 413)                                                   \
    X(MEDIA_TYPE, "unsupported_media_type", 415)                                                   \
    X(MISDIRECTED, "misdirected", 421)                                                             \
    X(BUSY, "busy", 423)                                                                           \
    X(LIMIT, "limit_reached", 429)                                                                 \
    X(CANCELED, "canceled", 499)                                                                   \
    X(INTERNAL, "internal", 500)                                                                   \
    X(UNSUPPORTED, "unsupported", 501)                                                             \
    X(NO_LISTENER, "no_listener", 502)                                                             \
    X(BAD_ANSWER, "bad_answer", 502)                                                               \
    X(UNAVAILABLE, "unavailable", 503)                                                             \
    X(TIMEOUT, "timeout", 504)                                                                     \
    X(NO_SPACE, "no_space", 507)

enum err_code {
#define X(name, wire, status) ERR_##name,
    ERR_MAP(X)
#undef X
        ERR_COUNT
};

enum { ERR_MSG_MAX = 240 };

struct err {
    enum err_code code;
    int sys; /* errno when the kernel said no, else 0 */
    char msg[ERR_MSG_MAX];
};

/* Each gives -1, so that a failing function can end in `return err_set(...)`; as macros, so that
 * compilers and analysers see the -1. */
#define err_set(...) (err_set_(__VA_ARGS__), -1) /* err, code, fmt, ...: ours */
#define err_sys(...) (err_sys_(__VA_ARGS__), -1) /* err, errno, fmt, ...: the kernel's */
/* Puts context before the message: "start sandbox 'a1b2': mount '/proc': ...". */
#define err_wrap(...) (err_wrap_(__VA_ARGS__), -1) /* err, fmt, ... */

void err_set_(struct err *err, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);
void err_sys_(struct err *err, int sys, const char *fmt, ...) PRINTF_LIKE(3, 4);
void err_wrap_(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

const char *err_wire_name(enum err_code code);
int err_http_status(enum err_code code);
/* The code of an errno. */
enum err_code err_code_of_errno(int sys);
