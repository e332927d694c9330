#pragma once

/* Path patterns, matched in time proportional to pattern times path; no pattern makes it more.
 *
 *     *      any run of characters but '/'
 *     **     as a whole component: any number of components, none included; elsewhere as *
 *     ?      one character but '/'
 *     [a-z]  one of these; [!a-z] and [^a-z] one but these; never '/'
 *     {a,b}  one of these, which may be patterns
 *     \x     x itself
 *
 * A wildcard also matches a leading dot. A character is a UTF-8 sequence; a byte that belongs to
 * none is a character of its own, so that every name can be matched. */

#include "base/str.h"

struct err;
struct glob;

enum { GLOB_PATTERN_MAX = 4096, GLOB_ALTERNATIVES_MAX = 1024, GLOB_STEPS_MAX = 65536 };

/* INVALID_PATTERN names the place; PATTERN_TOO_COMPLEX when the braces multiply too far. */
int glob_new(struct str pattern, struct glob **ret_glob, struct err *err) MUST_USE;
struct glob *glob_free(struct glob *glob);
DEFINE_FREEP(glob)
#define AUTO_GLOB AUTO(glob_freep)

/* Not for two threads at once on the same glob: it holds the matcher's working memory. */
bool glob_match(struct glob *glob, struct str path);
/* False when nothing below the directory `dir` ("a/b") can match. */
bool glob_may_match_below(struct glob *glob, struct str dir);
/* Work done so far, in transitions tried: what a test of the promise above counts. */
uint64_t glob_work(const struct glob *glob);
/* Transitions of the compiled pattern. */
size_t glob_size(const struct glob *glob);
