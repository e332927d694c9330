#pragma once

/* Only for inspect*.c: one walk over a value, and what kind of thing each object on it is. */

#include "isolate/inside/inspect.h"
#include "isolate/inside/layout.h"

enum { WALK_DEPTH_MAX = 128 };

struct walk {
    const struct inspect *how;
    size_t start; /* arena bytes before the walk */
    size_t indent;
    int current_depth;
    vm_value seen[WALK_DEPTH_MAX], circular[WALK_DEPTH_MAX];
    size_t seen_count, circular_count;
};

/* Enough was written or time is up: finish quickly. */
bool walk_is_full(struct walk *walk);
struct str walk_primitive(struct walk *walk, vm_value value);
/* Asks the bootstrap; undefined when it threw. */
vm_value walk_peek(struct walk *walk, const char *what, vm_value value, double max);
double walk_number(struct walk *walk, vm_value object, const char *name); /* 0 when it is none */
/* The object says itself how it looks. */
bool walk_custom(struct walk *walk, vm_value object, struct str *ret_text);
bool walk_has_own_to_string(struct walk *walk, vm_value object);
/* [cause] and [errors], which are not enumerable. */
void walk_error_extras(struct walk *walk, vm_value error, struct layout_list *out, int depth,
                       struct str (*text)(struct walk *, enum vm_slot, vm_value, int));

struct shape {
    enum vm_class class;
    struct str name; /* of its constructor; empty for none */
    struct str open, close;
    struct str base; /* stands for the object when it has no properties: functions, dates, errors */
    uint32_t size;   /* of arrays, maps and sets */
    bool is_plain;
};
struct shape shape_of(struct walk *walk, vm_value object);
/* "[Foo]" for what is nested too deeply. */
struct str shape_brief(struct walk *walk, const struct shape *shape);
