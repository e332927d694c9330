/* What is decided when a node is left: assertions, whole statements, and whether the code so far
 * lacks a semicolon. */

#include "isolate/strip/frame.h"
#include "isolate/strip/lex.h"

static bool is_logical(uint8_t op)
{
    return op == BIND_NULLISH || op == BIND_OR || op == BIND_AND;
}

/* Without `as T` the operators on its two sides meet: `1 + 1 as T / 2` would regroup, and
 * `a ?? b as T || c` would not parse. */
static bool would_regroup(const struct erase *e, const struct frame *frame,
                          const struct frame *parent)
{
    uint8_t next = (uint8_t)text_operator(e->source, text_skip_trivia(e->source, frame->last));
    uint8_t tight = frame->edge.tight;
    uint8_t logical = frame->edge.logical;
    if (parent->kind == TREE_BINARY && parent->op != 0 && frame->edge.binary == 0) {
        tight = parent->op >= BIND_RELATION ? parent->op : 0;
        logical = is_logical(parent->op) ? parent->op : 0;
    }
    if (next == 0)
        return false;
    if (tight != 0 && (next > tight || (next == tight && next == BIND_POWER)))
        return true;
    return is_logical(logical) && is_logical(next) && next != logical &&
           (next == BIND_NULLISH || logical == BIND_NULLISH);
}

/* The grammar reads on where the language ends a statement: after a type, `(`, `[` or a template on
 * a new line begins the next one. */
static bool begins_next_line(const struct erase *e, uint32_t end, uint32_t next)
{
    return next < e->source.len && strchr("([`", e->source.ptr[next]) != NULL &&
           text_has_newline(e->source, end, next);
}

static void leave_assertion(struct erase *e, struct frame *frame, const struct frame *parent)
{
    /* The text tells the end of the type better: the grammar stops `as A.b.C` after the second
     * name. */
    struct str near = str_slice(e->source, 0, (size_t)frame->type_at + ERASE_NEAR_MAX);
    uint32_t type_end = lex_type_end(near, frame->type_at);
    uint32_t tree_end = frame->last;
    if (type_end != 0)
        frame->last = type_end;
    uint32_t next = text_skip_trivia(e->source, frame->last);
    bool is_misread = frame->last < tree_end ||
                      (next < frame->stmt_end && begins_next_line(e, frame->last, next));
    if (is_misread) { /* simplify.h separates the two; here it did not get that far */
        erase_fail_as(e, ERR_INVALID, frame->mark,
                      "cannot tell where this type assertion ends; put it in parentheses");
        return;
    }
    if (would_regroup(e, frame, parent)) {
        erase_fail(e, frame->mark,
                   "erasing this type assertion would regroup the operators around it; put it in "
                   "parentheses");
        return;
    }
    bool has_semi = next < e->source.len && e->source.ptr[next] == ';';
    if (next >= frame->stmt_end && !has_semi)
        erase_blank_with(e, frame->mark, frame->last, ';');
    else
        erase_blank(e, frame->mark, frame->last);
}

static struct edge edge_of(const struct frame *frame)
{
    struct edge edge = frame->edge;
    switch (frame->kind) {
    case TREE_BINARY:
        edge.tight = frame->op >= BIND_RELATION ? frame->op : edge.tight;
        if (frame->op >= BIND_RELATION)
            edge.logical = 0;
        else if (edge.binary == 0 || edge.binary >= BIND_RELATION)
            edge.logical = is_logical(frame->op) ? frame->op : 0;
        edge.binary = frame->op;
        return edge;
    case TREE_AS:
    case TREE_SATISFIES:
    case TREE_ASSIGNMENT:
    case TREE_AUGMENTED:
    case TREE_ARROW:
    case TREE_TERNARY:
    case TREE_YIELD:
        return edge;
    default:
        return (struct edge){0};
    }
}

static void erase_frame(struct erase *e, const struct frame *frame)
{
    uint32_t end = frame->last;
    bool ends_in_name = end > 0 && strchr("\"'", e->source.ptr[end - 1]) != NULL;
    if (frame->kind == TREE_FIELD || (frame->kind == TREE_AMBIENT && ends_in_name))
        end = erase_with_semicolon(e, end);
    if (frame->kind == TREE_IMPORT_SPECIFIER || frame->kind == TREE_EXPORT_SPECIFIER)
        end = erase_with_comma(e, end);
    if (frame->flags & FRAME_ERASE_STATEMENT && frame->semi_before)
        erase_blank_with(e, frame->start, end, ';');
    else
        erase_blank(e, frame->start, end);
}

static void leave_parameters(const struct frame *frame, struct frame *parent)
{
    parent->close = frame->last - 1;
    parent->params_end = frame->params_end;
}

/* Whether what ends here lacks a semicolon. */
static void note_end(struct erase *e, const struct frame *frame, const struct frame *parent)
{
    if (frame->flags & FRAME_BODY) {
        e->semi_needed = frame->semi_before;
        return;
    }
    /* What the heritage is made of has told; the clause itself may be all types. */
    if (frame->kind == TREE_CLASS_HERITAGE || frame->kind == TREE_EXTENDS)
        return;
    if (parent->kind == TREE_FOR) {
        if (frame->kind != TREE_EMPTY_STATEMENT)
            e->semi_needed = true;
        return;
    }
    e->semi_needed = frame->last == 0 || e->source.ptr[frame->last - 1] != ';';
}

void erase_leave(void *ctx)
{
    struct erase *e = ctx;
    struct frame frame = vec_pop(&e->stack);
    if (e->stack.len == 0)
        return;
    struct frame *parent = vec_last(&e->stack);
    if (frame.last == frame.start)
        frame.last = frame.end; /* a word: nothing inside told where it ends */
    bool is_erased = frame.flags & (FRAME_ERASE_STATEMENT | FRAME_ERASE_EXACT);

    if (frame.kind == TREE_AS || frame.kind == TREE_SATISFIES)
        leave_assertion(e, &frame, parent);
    else if (frame.kind == TREE_FORMAL_PARAMETERS)
        leave_parameters(&frame, parent);
    else if (frame.flags & FRAME_IS_THIS)
        erase_blank(e, frame.start, erase_with_comma(e, frame.last));
    else if (is_erased)
        erase_frame(e, &frame);

    parent->last = MAX(parent->last, frame.last);
    parent->edge = edge_of(&frame);
    if (is_erased || frame.flags & FRAME_INSIDE)
        e->semi_needed = frame.semi_before;
    else
        note_end(e, &frame, parent);
}
