#include "runtime/memory_end.h"

#include "base/buf.h"

enum { MORE_MB = 1024 }; /* proposed where the limit is not known */

void memory_end_put(const struct memory_end *end, struct buf *out)
{
    long long limit_mb = end->limit_bytes > 0 ? end->limit_bytes >> 20 : 0;
    bool is_sandbox = end->sandbox.len > 0;
    long long more_mb = limit_mb > 0 ? limit_mb * 2 : MORE_MB;
    buf_printf(out, "out of memory: %.*s was killed", STR_ARG(end->what));
    if (limit_mb > 0)
        buf_printf(out, " at %s limit of %lld MiB", is_sandbox ? "the sandbox's" : "its", limit_mb);
    if (end->peak_bytes > 0)
        buf_printf(out, " (peak %lld MiB)", (long long)end->peak_bytes >> 20);
    if (end->rest != NULL)
        buf_printf(out, "; %s", end->rest);
    if (is_sandbox)
        buf_printf(out,
                   ". To raise the limit: `sandglass sandbox update %.*s --memory %lldm`, or PATCH "
                   "limits.memoryMb",
                   STR_ARG(end->sandbox), more_mb);
    if (end->is_of_session)
        buf_printf(out,
                   "; this lasts until the sandbox is replaced. To give a session more memory from "
                   "the start: `sandglass session create --memory %lldm` "
                   "(sandbox.limits.memoryMb); [sandbox] memory_mb sets the server's default",
                   more_mb);
    if (!is_sandbox)
        buf_put_cstr(out, "; --memory gives it more");
}
