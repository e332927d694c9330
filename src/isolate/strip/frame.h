#pragma once

/* What the walk knows about the nodes it is inside of; only for erase.c, erase_words.c and
 * leave.c. */

#include "base/vec.h"
#include "isolate/strip/erase.h"
#include "isolate/strip/text.h"

enum {
    ERASE_NEAR_MAX = 64 << 10, /* how far a guess about a type looks ahead */

    FRAME_ERASE_STATEMENT = 1 << 0, /* blank it all on leaving, a semicolon first where needed */
    FRAME_ERASE_EXACT = 1 << 1,     /* blank it all on leaving */
    FRAME_INSIDE = 1 << 2,          /* an ancestor is being erased */
    FRAME_FIRST = 1 << 3,           /* the first of its parent's parameters */
    FRAME_IS_THIS = 1 << 4,         /* a `this` parameter */
    FRAME_DECORATED = 1 << 5,       /* a decorator came right before the next class member */
    FRAME_FIRST_MODIFIER = 1 << 6,  /* begins with a modifier that was blanked */
    FRAME_BODY = 1 << 7,            /* of a function: a statement world of its own */
    FRAME_NO_VALUES = 1 << 8,       /* namespace that may hold only types */
};

/* What binds to the left of an expression's right edge: erasing `as T` there lets the next
 * operator see it. */
struct edge {
    uint8_t binary;  /* operator of the expression itself, when it is a binary one */
    uint8_t tight;   /* operator that `as` would take in: relational or tighter */
    uint8_t logical; /* ?? || && that has the edge as its right operand */
};

struct frame {
    enum tree_kind kind;
    uint32_t flags;
    uint32_t start, end;
    uint32_t last;     /* end of its last token so far; comments do not count */
    uint32_t stmt_end; /* of the innermost statement or class member */
    uint32_t mark;     /* assertion: end of its expression; member: its first modifier; case: `:` */
    uint32_t generics; /* function: start of `<`; 0 is none */
    uint32_t type_at;  /* assertion: past its word */
    uint32_t params_end, close; /* function: end of the last parameter; its `)` */
    uint32_t namespace_at;      /* with FRAME_NO_VALUES: the outermost namespace */
    struct edge edge;           /* of the last expression inside */
    uint8_t op;                 /* binary expression */
    bool semi_before;           /* semi_needed when it was entered */
    bool is_named;
};

struct erase {
    struct str source;
    char *out;
    VEC(struct frame) stack;
    bool semi_needed;
    struct erase_fault fault;
    struct tree_visitor visitor;
};

/* Ends the walk with a message; the first one stays. */
void erase_fail_as(struct erase *e, enum err_code code, uint32_t at, const char *message);
void erase_fail(struct erase *e, uint32_t at, const char *message); /* UNSUPPORTED */

void erase_blank(struct erase *e, uint32_t from, uint32_t to);
/* Blanks and puts `sign` at the first place that is not a line end. */
void erase_blank_with(struct erase *e, uint32_t from, uint32_t to, char sign);
/* Blanks and puts `)` in the place of the last character. */
void erase_blank_closing(struct erase *e, uint32_t from, uint32_t to);
/* Past a comma that follows, if one does. */
uint32_t erase_with_comma(const struct erase *e, uint32_t end);
/* Class members own the semicolon (or, among signatures, the comma) behind them. */
uint32_t erase_with_semicolon(const struct erase *e, uint32_t end);

bool frame_is_function(enum tree_kind kind);
bool frame_is_class(enum tree_kind kind);
bool frame_is_parameter(enum tree_kind kind);
/* NULL when it is one too many; `parent` may be NULL, and has moved afterwards. */
struct frame *frame_push(struct erase *e, const struct frame *parent, const struct tree_node *node);

/* erase_words.c: a token in `parent` that is no node with a name. */
void erase_token(struct erase *e, struct frame *parent, const struct tree_node *node);
/* A modifier of a class member goes; that of a parameter is refused. */
void erase_modifier(struct erase *e, struct frame *parent, const struct tree_node *node);

/* leave.c: the visitor's second half. */
void erase_leave(void *ctx);
