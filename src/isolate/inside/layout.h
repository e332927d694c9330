#pragma once

/* Text of values as people know it from Node: quoting, columns, braces. Pure; memory of an arena.
 */

#include "base/str.h"

struct arena;

enum { LAYOUT_WIDTH = 80 };

struct layout_list {
    struct str *items;
    size_t len, cap;
};
void layout_push(struct layout_list *list, struct arena *arena, struct str item);

/* Length as JavaScript counts it. Lone surrogates (three bytes) count one. */
size_t layout_length(struct str text);
/* 'text' with whichever quotes need no escape. */
struct str layout_quote(struct arena *arena, struct str text);
/* The same text, each lone surrogate as U+FFFD: valid UTF-8. */
struct str layout_well_formed(struct arena *arena, struct str text);
/* The same text, later lines moved right. */
struct str layout_indent(struct arena *arena, struct str text, size_t indent);
/* Letters, digits and underscores: needs no quotes as a key. */
bool layout_is_name(struct str key);

struct layout_box {
    struct str base;        /* before the braces, or empty */
    struct str open, close; /* "{" or "Foo [", "}" */
    size_t indent;
    bool is_array;    /* many short entries are set in columns */
    bool is_numeric;  /* columns aligned to the right */
    bool has_more;    /* the last entry is "... n more items" */
    bool may_be_flat; /* shallow enough for one line */
};
struct str layout_join(struct arena *arena, struct layout_list entries,
                       const struct layout_box *box);
