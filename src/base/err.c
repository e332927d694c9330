#include "base/err.h"

#include <errno.h>
#include <stdarg.h>

static const struct {
    const char *wire;
    int status;
} table[ERR_COUNT] = {
#define X(name, wire, status) [ERR_##name] = {wire, status},
    ERR_MAP(X)
#undef X
};

void err_set_(struct err *err, enum err_code code, const char *fmt, ...)
{
    err->code = code;
    err->sys = 0;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(err->msg, sizeof err->msg, fmt, args);
    va_end(args);
}

void err_sys_(struct err *err, int sys, const char *fmt, ...)
{
    err->code = err_code_of_errno(sys);
    err->sys = sys;
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(err->msg, sizeof err->msg, fmt, args);
    va_end(args);
    if (len >= 0 && (size_t)len < sizeof err->msg)
        (void)snprintf(err->msg + len, sizeof err->msg - (size_t)len, ": %s", strerror(sys));
}

void err_wrap_(struct err *err, const char *fmt, ...)
{
    char inner[ERR_MSG_MAX];
    memcpy(inner, err->msg, sizeof inner);
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(err->msg, sizeof err->msg, fmt, args);
    va_end(args);
    if (len >= 0 && (size_t)len < sizeof err->msg)
        (void)snprintf(err->msg + len, sizeof err->msg - (size_t)len, ": %s", inner);
}

const char *err_wire_name(enum err_code code)
{
    return (unsigned)code < ERR_COUNT ? table[code].wire : table[ERR_INTERNAL].wire;
}

int err_http_status(enum err_code code)
{
    return (unsigned)code < ERR_COUNT ? table[code].status : table[ERR_INTERNAL].status;
}

enum err_code err_code_of_errno(int sys)
{
    switch (sys) {
    case ENOENT:
    case ESRCH:
    case ENXIO:
        return ERR_NOT_FOUND;
    case EPERM:
    case EACCES:
    case EXDEV: /* fd_open_in tells which of its meanings it has */
        return ERR_FORBIDDEN;
    case EROFS:
        return ERR_READ_ONLY;
    case ENOTDIR:
        return ERR_NOT_A_DIRECTORY;
    case EISDIR:
        return ERR_NOT_A_FILE;
    case EINVAL:
    case ELOOP:
    case ENAMETOOLONG:
    case EILSEQ:
        return ERR_INVALID;
    case EEXIST:
    case ENOTEMPTY:
        return ERR_CONFLICT;
    case EBUSY:
    case EADDRINUSE:
    case ETXTBSY:
        return ERR_BUSY;
    case EFBIG:
    case E2BIG:
    case EMSGSIZE:
        return ERR_TOO_LARGE;
    case ENOSPC:
    case EDQUOT:
        return ERR_NO_SPACE;
    case EMFILE:
    case ENFILE:
    case EAGAIN:
    case ENOMEM:
        return ERR_LIMIT;
    case ENOSYS:
    case EOPNOTSUPP:
    case EAFNOSUPPORT:
    case EPROTONOSUPPORT:
        return ERR_UNSUPPORTED;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case ENETUNREACH:
    case EHOSTUNREACH:
        return ERR_UNAVAILABLE;
    case ETIMEDOUT:
        return ERR_TIMEOUT;
    case ECANCELED:
        return ERR_CANCELED;
    default:
        return ERR_INTERNAL;
    }
}
