#pragma once

/* Regular expressions for lines of text, with a bound on what a hostile one can cost. PCRE2 is
 * included only by regex.c. Perl's language without back-references. */

#include "base/str.h"

struct err;
struct regex;

enum {
    REGEX_PATTERN_MAX = 4096,
    REGEX_LINE_MAX = 65536, /* longer lines are judged by their beginning */
};

/* INVALID_PATTERN says what and where; PATTERN_TOO_COMPLEX when it is too large or nested too
 * deeply. With `literal` the pattern is plain text. */
int regex_new(struct str pattern, bool ignore_case, bool literal, struct regex **ret_regex,
              struct err *err) MUST_USE;
struct regex *regex_free(struct regex *regex);
DEFINE_FREEP(regex)
#define AUTO_REGEX AUTO(regex_freep)

/* Text that every matching line holds; empty when none is known. */
struct str regex_needle(const struct regex *regex);
/* The needle is all there is: a line that holds it matches. */
bool regex_is_literal(const struct regex *regex);

/* 1 for a match, 0 for none, -1 when the line would cost too much. At most about half a second,
 * and microseconds for honest patterns. Not for two threads at once on the same regex. */
int regex_match(struct regex *regex, struct str line);
/* Where the last match began; SIZE_MAX when that is not known. */
size_t regex_match_at(const struct regex *regex);
