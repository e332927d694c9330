/* The walk's decisions, after ts-blank-space.
 *
 * A frame per open node keeps what its children told so far; most decisions fall when a child is
 * met, some (a field that turns out to be `declare`) when the node is left. Blanking is done in
 * the copy, never in the source, so text can be asked about at any time.
 *
 * Erasing a whole statement can join its neighbours: `a` and `(b)` around a type on a line of its
 * own. So whether the code before lacks a semicolon (`semi_needed`) is known at every point, and a
 * blanked statement then begins with one. */

#include "isolate/strip/erase.h"

#include "isolate/strip/frame.h"

static bool holds_implied_semicolon(enum tree_kind kind)
{
    switch (kind) {
    case TREE_ABSTRACT_CLASS:
    case TREE_AMBIENT:
    case TREE_CLASS_DECLARATION:
    case TREE_ENUM:
    case TREE_EXPORT:
    case TREE_FUNCTION_SIGNATURE:
    case TREE_IMPORT_ALIAS:
    case TREE_INTERFACE:
    case TREE_LEXICAL_DECLARATION:
    case TREE_MODULE:
    case TREE_NAMESPACE:
    case TREE_TYPE_ALIAS:
    case TREE_VARIABLE_DECLARATION:
        return true;
    default:
        return false;
    }
}

/* Types and names: nothing in them to look at. */
static bool erase_skip(struct frame *parent, const struct tree_node *node)
{
    if (parent != NULL)
        parent->last = node->end;
    return false;
}

static bool erase_here(struct erase *e, struct frame *parent, const struct tree_node *node)
{
    erase_blank(e, node->start, node->end);
    return erase_skip(parent, node);
}

/* Erases the statement that begins at this node, together with an `export` around it. */
static bool erase_statement(struct erase *e, struct frame *parent, const struct tree_node *node,
                            uint32_t how)
{
    bool wraps = parent != NULL &&
                 (parent->kind == TREE_EXPORT ||
                  (parent->kind == TREE_EXPRESSION_STATEMENT && node->kind == TREE_NAMESPACE));
    if (wraps)
        parent->flags |= how;
    struct frame *frame = frame_push(e, parent, node);
    if (frame == NULL)
        return false;
    frame->flags |= wraps ? FRAME_INSIDE : how;
    return true;
}

/* ---- namespaces: erased when they contain only types ---- */

static const char NAMESPACE_VALUES[] =
    "a namespace with values has a meaning at run time and cannot be erased; use a module or an "
    "object";

static bool enter_namespace(struct erase *e, struct frame *parent, const struct tree_node *node)
{
    uint32_t at =
        parent != NULL && (parent->flags & FRAME_NO_VALUES) ? parent->namespace_at : node->start;
    if (!erase_statement(e, parent, node, FRAME_ERASE_STATEMENT))
        return false;
    struct frame *frame = vec_last(&e->stack);
    frame->flags |= FRAME_NO_VALUES;
    frame->namespace_at = at;
    return true;
}

static bool enter_in_namespace(struct erase *e, struct frame *parent, const struct tree_node *node)
{
    if (!node->is_named)
        return erase_skip(parent, node);
    bool is_export = parent->kind == TREE_EXPORT;
    bool is_name = parent->kind == TREE_NAMESPACE && node->kind != TREE_STATEMENT_BLOCK;
    if (is_name || node->kind == TREE_TYPE_ALIAS || node->kind == TREE_INTERFACE ||
        (node->kind == TREE_IMPORT_ALIAS && !is_export))
        return erase_skip(parent, node);
    if (node->kind == TREE_NAMESPACE)
        return enter_namespace(e, parent, node);
    if (node->kind != TREE_STATEMENT_BLOCK && node->kind != TREE_EXPORT &&
        node->kind != TREE_EXPRESSION_STATEMENT) {
        erase_fail(e, parent->namespace_at, NAMESPACE_VALUES);
        return false;
    }
    uint32_t at = parent->namespace_at;
    struct frame *frame = frame_push(e, parent, node);
    if (frame == NULL)
        return false;
    frame->flags |= FRAME_NO_VALUES | FRAME_INSIDE;
    frame->namespace_at = at;
    return true;
}

/* ---- types ---- */

static bool enter_annotation(struct erase *e, struct frame *parent, const struct tree_node *node)
{
    if (parent->kind == TREE_PARENTHESIZED) {
        erase_fail_as(e, ERR_INVALID, node->start, "syntax error: unexpected ':'");
        return false;
    }
    /* No line end may stand between the parameters and `=>`: the parenthesis moves behind it. */
    bool moves = parent->kind == TREE_ARROW && parent->close != 0 &&
                 text_has_newline(e->source, parent->params_end, node->end);
    if (moves)
        erase_blank_closing(e, parent->close, node->end);
    else
        erase_blank(e, node->start, node->end);
    return erase_skip(parent, node);
}

static bool enter_generics(struct erase *e, struct frame *parent, const struct tree_node *node)
{
    if (frame_is_function(parent->kind))
        parent->generics = node->start;
    return erase_here(e, parent, node);
}

/* A line end between a name and its parenthesis can end the statement (`async <T>\n(x) =>`), so
 * the parenthesis moves to where the type parameters began. */
static void enter_parameters(struct erase *e, struct frame *parent, const struct tree_node *node)
{
    if (parent->generics == 0 || !text_has_newline(e->source, parent->generics, node->start))
        return;
    e->out[parent->generics] = '(';
    erase_blank(e, node->start, node->start + 1);
}

static bool enter_module(struct erase *e, struct frame *parent, const struct tree_node *node)
{
    /* Only `module "name"` is free of a value; the old word for namespace is refused elsewhere
     * too. */
    uint32_t name = text_skip_trivia(e->source, node->start + (uint32_t)strlen("module"));
    bool is_string =
        name < e->source.len && (e->source.ptr[name] == '"' || e->source.ptr[name] == '\'');
    if (!is_string) {
        erase_fail(e, node->start,
                   "'module' with a name cannot be erased; use 'namespace' for types");
        return false;
    }
    return erase_statement(e, parent, node, FRAME_ERASE_STATEMENT);
}

/* Within what is being erased: only its end is of interest. */
static bool enter_inside(struct erase *e, struct frame *parent, const struct tree_node *node)
{
    if (node->kind == TREE_MODULE && parent->kind == TREE_AMBIENT) {
        if (!enter_module(e, parent, node))
            return false;
        vec_last(&e->stack)->flags = FRAME_INSIDE;
        return true;
    }
    if (!node->is_named || !holds_implied_semicolon(node->kind))
        return erase_skip(parent, node);
    struct frame *frame = frame_push(e, parent, node);
    if (frame == NULL)
        return false;
    frame->flags |= FRAME_INSIDE;
    return true;
}

static bool erase_refuse(struct erase *e, const struct tree_node *node, const char *message)
{
    erase_fail(e, node->start, message);
    return false;
}

/* Constructs that are erased or refused whole; `ret_enter` is the answer for those. */
static bool enter_declaration(struct erase *e, struct frame *parent, const struct tree_node *node,
                              bool *ret_enter)
{
    switch (node->kind) {
    case TREE_INTERFACE:
    case TREE_TYPE_ALIAS:
    case TREE_AMBIENT:
        *ret_enter = erase_statement(e, parent, node, FRAME_ERASE_STATEMENT);
        return true;
    case TREE_FUNCTION_SIGNATURE:
        *ret_enter = erase_statement(e, parent, node, FRAME_ERASE_EXACT);
        return true;
    case TREE_NAMESPACE:
        *ret_enter = enter_namespace(e, parent, node);
        return true;
    case TREE_MODULE:
        *ret_enter = enter_module(e, parent, node);
        return true;
    case TREE_ENUM:
        *ret_enter =
            erase_refuse(e, node,
                         "an enum has a meaning at run time and cannot be erased; use an object "
                         "'as const'");
        return true;
    case TREE_IMPORT_ALIAS:
    case TREE_IMPORT_REQUIRE:
        *ret_enter =
            erase_refuse(e, node,
                         "'import x =' has a meaning at run time and cannot be erased; use "
                         "'import ... from'");
        return true;
    case TREE_TYPE_ASSERTION:
        *ret_enter = erase_refuse(
            e, node, "a '<T>value' assertion cannot be erased in place; write 'value as T'");
        return true;
    default:
        return false;
    }
}

/* Class members without a body, and the parts of a class that are types. */
static bool enter_member(struct erase *e, struct frame *parent, const struct tree_node *node,
                         bool *ret_enter)
{
    switch (node->kind) {
    case TREE_ABSTRACT_METHOD_SIGNATURE:
    case TREE_INDEX_SIGNATURE:
    case TREE_METHOD_SIGNATURE:
        erase_blank(e, node->start, erase_with_semicolon(e, node->end));
        *ret_enter = erase_skip(parent, node);
        return true;
    case TREE_IMPLEMENTS:
        *ret_enter = erase_here(e, parent, node);
        return true;
    case TREE_ACCESSIBILITY:
    case TREE_OVERRIDE:
        erase_modifier(e, parent, node);
        *ret_enter = erase_skip(parent, node);
        return true;
    case TREE_TYPE_IDENTIFIER:
        *ret_enter = erase_skip(parent, node);
        return true;
    default:
        return false;
    }
}

static bool enter_type(struct erase *e, struct frame *parent, const struct tree_node *node,
                       bool *ret_enter)
{
    switch (node->kind) {
    case TREE_TYPE_ANNOTATION:
    case TREE_ASSERTS_ANNOTATION:
    case TREE_TYPE_PREDICATE_ANNOTATION:
        *ret_enter = enter_annotation(e, parent, node);
        return true;
    case TREE_TYPE_PARAMETERS:
    case TREE_TYPE_ARGUMENTS:
        *ret_enter = enter_generics(e, parent, node);
        return true;
    default:
        return false;
    }
}

/* What a new frame learns from its place. */
static void set_up(struct erase *e, struct frame *parent, struct frame *frame)
{
    switch (frame->kind) {
    case TREE_STATEMENT_BLOCK:
        if (frame_is_function(parent->kind)) {
            frame->flags |= FRAME_BODY;
            e->semi_needed = false;
        }
        break;
    case TREE_REQUIRED_PARAMETER:
    case TREE_OPTIONAL_PARAMETER:
        if (parent->kind == TREE_FORMAL_PARAMETERS && parent->last == parent->start + 1)
            frame->flags |= FRAME_FIRST;
        break;
    case TREE_THIS:
        if (frame_is_parameter(parent->kind) && (parent->flags & FRAME_FIRST))
            parent->flags |= FRAME_IS_THIS;
        break;
    case TREE_METHOD:
    case TREE_FIELD:
        frame->flags |= parent->flags & FRAME_DECORATED;
        break;
    case TREE_COMPUTED_NAME:
        /* Without its modifier `[x]` would continue the member before. */
        if (parent->flags & FRAME_FIRST_MODIFIER)
            e->out[parent->mark] = ';';
        break;
    default:
        break;
    }
    if (parent->kind == TREE_CLASS_BODY) {
        if (frame->kind == TREE_DECORATOR)
            parent->flags |= FRAME_DECORATED;
        else
            parent->flags &= ~(uint32_t)FRAME_DECORATED;
    }
}

static bool erase_enter(void *ctx, const struct tree_node *node)
{
    struct erase *e = ctx;
    struct frame *parent = e->stack.len > 0 ? vec_last(&e->stack) : NULL;
    if (parent == NULL)
        return frame_push(e, NULL, node) != NULL;
    if (node->kind == TREE_COMMENT || node->kind == TREE_HTML_COMMENT)
        return false;
    if (parent->flags & FRAME_NO_VALUES)
        return enter_in_namespace(e, parent, node);
    if (parent->flags & FRAME_INSIDE ||
        (parent->flags & (FRAME_ERASE_STATEMENT | FRAME_ERASE_EXACT) &&
         parent->kind != TREE_FIELD && parent->kind != TREE_IMPORT))
        return enter_inside(e, parent, node);
    if (!node->is_named) {
        erase_token(e, parent, node);
        return false;
    }
    bool is_assertion = parent->kind == TREE_AS || parent->kind == TREE_SATISFIES;
    if (is_assertion && parent->mark != 0)
        return erase_skip(parent, node);
    bool answer;
    if (enter_type(e, parent, node, &answer) || enter_member(e, parent, node, &answer) ||
        enter_declaration(e, parent, node, &answer))
        return answer;
    if (node->kind == TREE_FORMAL_PARAMETERS)
        enter_parameters(e, parent, node);
    struct frame *frame = frame_push(e, parent, node);
    if (frame == NULL)
        return false;
    set_up(e, frame - 1, frame);
    return true;
}

/* ---- entry point ---- */

struct erase *erase_new(void)
{
    struct erase *e = mem_alloc(sizeof *e);
    e->visitor = (struct tree_visitor){.ctx = e, .enter = erase_enter, .leave = erase_leave};
    return e;
}

struct erase *erase_free(struct erase *e)
{
    if (e != NULL)
        vec_done(&e->stack);
    free(e);
    return NULL;
}

struct tree_visitor *erase_begin(struct erase *e, struct str source, char *out)
{
    e->source = source;
    e->out = out;
    e->stack.len = 0;
    e->semi_needed = false;
    e->fault = (struct erase_fault){0};
    e->visitor.is_stopped = false;
    return &e->visitor;
}

struct erase_fault erase_fault(const struct erase *e)
{
    return e->fault;
}
