#pragma once

/* TypeScript to JavaScript by blanking: every type becomes spaces, in place.
 *
 * Lines and columns of what remains are those of the source, so an error at run time points to
 * the author's own line and no source map is needed. The rules are those of ts-blank-space and
 * of Node's type stripping: whatever can be erased is; what has a meaning at run time (enum,
 * namespace with values, parameter property, `import x = require()`, `export =`, `<T>x`) is
 * refused with its name and place. Decorators and JSX stay as they are.
 *
 * The source is hostile until proven otherwise. Parsing happens in a heap with a ceiling and under
 * a deadline. The parser library recurses in places, so the size of a source is also bounded by
 * the stack at hand: strip_new raises the soft limit of the main thread's stack (it only grows when
 * used) and must run before the process is locked. A `struct strip` belongs to the thread that
 * made it and is meant to be kept: its memory stays warm from one call to the next. */

#include "base/str.h"

struct buf;
struct err;
struct strip; /* the grammars and the memory to parse in */

enum {
    STRIP_SOURCE_MAX = 512 << 10, /* less where the stack is small: 40 KB with 8 MB */
    STRIP_HEAP_DEFAULT = 256 << 20,
    STRIP_TIMEOUT_DEFAULT_MS = 2000,
};

enum strip_lang {
    STRIP_TS,
    STRIP_TSX, /* JSX is understood, and `<T>x` is not an assertion */
};

struct strip_limits {
    size_t heap_bytes;  /* 0 means STRIP_HEAP_DEFAULT */
    int64_t timeout_ms; /* 0 means STRIP_TIMEOUT_DEFAULT_MS */
};

/* Counted from 1; columns in UTF-16 units, as JavaScript engines count them. */
struct strip_place {
    uint32_t line;
    uint32_t column;
};

struct strip *strip_new(struct strip_limits limits) MUST_USE;
struct strip *strip_free(struct strip *strip);
DEFINE_FREEP(strip)
#define AUTO_STRIP AUTO(strip_freep)

/* Appends the JavaScript of `source` to `out`. Fails with
 *   INVALID      a syntax error, bytes that are not UTF-8, or a NUL
 *   UNSUPPORTED  a construct that cannot be erased
 *   TOO_LARGE    source, nesting or parse memory past its ceiling
 *   TIMEOUT      the deadline passed
 * The message begins with "line L, column C: " where there is a place; it is also in `ret_place`
 * (may be NULL; line 0 when the failure has no place). `out` is left as it was on failure. */
int strip_run(struct strip *strip, enum strip_lang lang, struct str source, struct buf *out,
              struct strip_place *ret_place, struct err *err) MUST_USE;

/* The names that a script (without types) declares at its top level, by const, let, var, class and
 * function, appended to `out` with a newline between them. Nothing when it cannot be parsed. */
void strip_names(struct strip *strip, struct str source, struct buf *out);

/* A script (without types) whose static imports are dynamic ones, appended to `out`; see imports.c.
 * False when it has none or is a module. */
bool strip_imports(struct strip *strip, struct str source, struct buf *out) MUST_USE;
