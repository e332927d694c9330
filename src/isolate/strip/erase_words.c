/* The walk's decisions about words and signs: tokens without a node of their own, which mean
 * something by the node around them. */

#include "isolate/strip/frame.h"
#include "isolate/strip/lex.h"

void erase_modifier(struct erase *e, struct frame *parent, const struct tree_node *node)
{
    if (frame_is_parameter(parent->kind)) {
        erase_fail(
            e, node->start,
            "a parameter property has a meaning at run time and cannot be erased; declare a field "
            "and assign it in the constructor");
        return;
    }
    if (parent->last == parent->start && !(parent->flags & FRAME_DECORATED)) {
        parent->flags |= FRAME_FIRST_MODIFIER;
        parent->mark = node->start;
    }
    erase_blank(e, node->start, node->end);
}

static void enter_type_word(struct frame *parent)
{
    if (parent->kind == TREE_IMPORT || parent->kind == TREE_EXPORT)
        parent->flags |= FRAME_ERASE_STATEMENT;
    else if (parent->kind == TREE_IMPORT_SPECIFIER || parent->kind == TREE_EXPORT_SPECIFIER)
        parent->flags |= FRAME_ERASE_EXACT;
}

static void enter_assertion_word(struct frame *parent, const struct tree_node *node)
{
    bool is_assertion = parent->kind == TREE_AS || parent->kind == TREE_SATISFIES;
    if (is_assertion && parent->mark == 0)
        parent->mark = parent->last;
    if (is_assertion)
        parent->type_at = node->end;
    /* `export as namespace X` tells only the type checker something. */
    if (parent->kind == TREE_EXPORT)
        parent->flags |= FRAME_ERASE_STATEMENT;
}

static void enter_question_or_bang(struct erase *e, struct frame *parent,
                                   const struct tree_node *node)
{
    switch (parent->kind) {
    case TREE_OPTIONAL_PARAMETER:
    case TREE_METHOD:
    case TREE_FIELD:
    case TREE_VARIABLE_DECLARATOR:
    case TREE_NON_NULL:
        erase_blank(e, node->start, node->end);
        break;
    default:
        break;
    }
}

/* Whether a list of type arguments may end before this token, in an expression (the compiler's own
 * rule). */
static bool may_follow_arguments(const struct token *next)
{
    if (next->kind == TOKEN_TEMPLATE || lex_is_sign(next, '('))
        return true;
    if (lex_is_sign(next, '<') || lex_is_sign(next, '>') || lex_is_sign(next, '+') ||
        lex_is_sign(next, '-'))
        return false;
    if (next->after_newline || next->kind == TOKEN_END)
        return true;
    return next->kind == TOKEN_SIGN && next->sign != '{' && next->sign != '[' &&
           next->sign != '!' && next->sign != '~' && next->sign != '/' && next->sign != '@';
}

/* The grammar takes `` tag<T>`x` `` and some more for two comparisons. */
static void enter_operator(struct erase *e, struct frame *parent, const struct tree_node *node)
{
    parent->op = (uint8_t)text_operator(e->source, node->start);
    uint32_t length = node->end - node->start;
    bool is_angle = length <= 2 && e->source.ptr[node->start] == '<' &&
                    e->source.ptr[node->end - 1] == '<'; /* `f<<T>() => T>()` begins like a shift */
    if (!is_angle)
        return;
    struct str near = str_slice(e->source, 0, (size_t)node->start + ERASE_NEAR_MAX);
    uint32_t end = lex_generics_end(near, node->start, false);
    if (end == 0)
        return;
    struct token next = lex_token(near, end, false);
    if (may_follow_arguments(&next))
        erase_blank(e, node->start, end);
}

static void enter_abstract(struct erase *e, struct frame *parent, const struct tree_node *node)
{
    /* On a line of its own it is a name. */
    if (frame_is_class(parent->kind) &&
        !text_has_newline(e->source, node->end, text_skip_trivia(e->source, node->end)))
        erase_blank(e, node->start, node->end);
    if (parent->kind == TREE_FIELD)
        parent->flags |= FRAME_ERASE_STATEMENT;
}

/* Of an import or export; elsewhere it asks for the type of a value. */
static void enter_typeof(struct erase *e, const struct frame *parent, const struct tree_node *node)
{
    if (parent->kind == TREE_IMPORT || parent->kind == TREE_IMPORT_SPECIFIER ||
        parent->kind == TREE_EXPORT_SPECIFIER)
        erase_fail_as(e, ERR_INVALID, node->start, "syntax error: unexpected 'typeof'");
}

static void enter_word(struct erase *e, struct frame *parent, const struct tree_node *node)
{
    switch (node->kind) {
    case TREE_ABSTRACT:
        enter_abstract(e, parent, node);
        break;
    case TREE_DECLARE:
        if (parent->kind == TREE_FIELD)
            parent->flags |= FRAME_ERASE_STATEMENT;
        break;
    case TREE_READONLY:
        if (parent->kind == TREE_FIELD || parent->kind == TREE_METHOD ||
            frame_is_parameter(parent->kind))
            erase_modifier(e, parent, node);
        break;
    case TREE_TYPE:
        enter_type_word(parent);
        break;
    case TREE_TYPEOF:
        enter_typeof(e, parent, node);
        break;
    case TREE_TOKEN_AS:
    case TREE_TOKEN_SATISFIES:
        enter_assertion_word(parent, node);
        break;
    default:
        break;
    }
}

static void enter_sign(struct erase *e, struct frame *parent, const struct tree_node *node)
{
    switch (node->kind) {
    case TREE_QUESTION:
    case TREE_BANG:
        enter_question_or_bang(e, parent, node);
        break;
    case TREE_EQUALS:
        if (parent->kind == TREE_EXPORT)
            erase_fail(
                e, parent->start,
                "'export =' has a meaning at run time and cannot be erased; use 'export default'");
        break;
    case TREE_SEMICOLON:
        if (parent->kind == TREE_CLASS_BODY && e->out[node->start] == ';')
            e->semi_needed = false;
        break;
    case TREE_COLON:
        if (parent->kind == TREE_SWITCH_CASE || parent->kind == TREE_SWITCH_DEFAULT)
            parent->mark = node->end;
        break;
    default:
        break;
    }
}

void erase_token(struct erase *e, struct frame *parent, const struct tree_node *node)
{
    enter_word(e, parent, node);
    enter_sign(e, parent, node);
    if (parent->kind == TREE_BINARY)
        enter_operator(e, parent, node);
    if (parent->kind == TREE_FORMAL_PARAMETERS)
        parent->params_end = parent->last; /* what stands before the `)` in the end */
    parent->last = node->end;
}
