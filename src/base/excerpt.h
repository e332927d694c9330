#pragma once

/* The beginning and the end of a text that is too long to keep, and how much lies between them. */

#include "base/buf.h"

/* How much of one stream of output (standard output, standard error) an answer holds. */
enum { EXCERPT_STREAM_MAX = 1 << 20 };

/* All zero: an empty one. */
struct excerpt {
    struct buf head, tail; /* the tail is cut back when it is twice as long as it may be */
    size_t max;
    uint64_t cut, cut_lines; /* between them */
};

/* What is shown of it: whole lines on both sides of the gap, where lines end near there. */
struct excerpt_view {
    struct str head, tail;
    uint64_t cut, lines; /* of the gap; 0 when nothing is missing */
};

void excerpt_done(struct excerpt *excerpt);
/* Keeps at most `max` bytes of all that is put in, half of it from the beginning. */
void excerpt_put(struct excerpt *excerpt, struct str bytes, size_t max);
/* At most `max` bytes of it, which is not more than what is kept; 0: as many as that. */
struct excerpt_view excerpt_view(const struct excerpt *excerpt, size_t max);
/* As text, with a line where something is missing: `what` is the end of its sentence. */
void excerpt_view_put(const struct excerpt_view *view, const char *what, struct buf *out);

/* A line for readers: "... 12,345 bytes (67 lines) WHAT ..."; `lines` -1: not known. */
void excerpt_mark(uint64_t bytes, int64_t lines, const char *what, struct buf *out);
uint64_t excerpt_count_lines(struct str bytes);
