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

#include "base/vec.h"
#include "isolate/strip/lex.h"
#include "isolate/strip/text.h"

enum {
    DEPTH_MAX = 200000,
    NEAR_MAX = 64 << 10, /* how far a guess about a type looks ahead */

    ERASE_STATEMENT = 1 << 0, /* blank it all on leaving, a semicolon first where needed */
    ERASE_EXACT = 1 << 1,     /* blank it all on leaving */
    INSIDE = 1 << 2,          /* an ancestor is being erased */
    FIRST = 1 << 3,           /* the first of its parent's parameters */
    IS_THIS = 1 << 4,         /* a `this` parameter */
    DECORATED = 1 << 5,       /* a decorator came right before the next class member */
    FIRST_MODIFIER = 1 << 6,  /* begins with a modifier that was blanked */
    BODY = 1 << 7,            /* of a function: a statement world of its own */
    NO_VALUES = 1 << 8,       /* namespace that may hold only types */
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
    uint32_t namespace_at;      /* with NO_VALUES: the outermost namespace */
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
    bool is_simplified; /* the tree is of a simplified source */
    bool wants_simplified;
    struct erase_fault fault;
    struct tree_visitor visitor;
};

static void fail_as(struct erase *e, enum err_code code, uint32_t at, const char *message)
{
    if (e->fault.message == NULL)
        e->fault = (struct erase_fault){.message = message, .code = code, .at = at};
    e->visitor.is_stopped = true;
}

static void fail(struct erase *e, uint32_t at, const char *message)
{
    fail_as(e, ERR_UNSUPPORTED, at, message);
}

/* Blanks and puts `sign` at the first place that is not a line end. */
static void blank_with(struct erase *e, uint32_t from, uint32_t to, char sign)
{
    text_blank(e->out, from, to);
    for (uint32_t i = from; i < to; i++)
        if (e->out[i] == ' ') {
            e->out[i] = sign;
            return;
        }
}

static void blank(struct erase *e, uint32_t from, uint32_t to)
{
    text_blank(e->out, from, to);
}

/* Blanks and puts `)` in the place of the last character. */
static void blank_closing(struct erase *e, uint32_t from, uint32_t to)
{
    text_blank(e->out, from, to);
    for (uint32_t i = to; i > from; i--)
        if (e->out[i - 1] == ' ') {
            e->out[i - 1] = ')';
            return;
        }
}

/* Past a comma that follows, if one does. */
static uint32_t with_comma(const struct erase *e, uint32_t end)
{
    uint32_t at = text_skip_trivia(e->source, end);
    return at < e->source.len && e->source.ptr[at] == ',' ? at + 1 : end;
}

/* Class members own the semicolon (or, among signatures, the comma) behind them. */
static uint32_t with_semicolon(const struct erase *e, uint32_t end)
{
    uint32_t at = text_skip_trivia(e->source, end);
    bool has = at < e->source.len && (e->source.ptr[at] == ';' || e->source.ptr[at] == ',');
    return has ? at + 1 : end;
}

static bool is_function(enum tree_kind kind)
{
    switch (kind) {
    case TREE_ARROW:
    case TREE_FUNCTION:
    case TREE_FUNCTION_DECLARATION:
    case TREE_GENERATOR:
    case TREE_GENERATOR_DECLARATION:
    case TREE_METHOD:
        return true;
    default:
        return false;
    }
}

static bool is_class(enum tree_kind kind)
{
    return kind == TREE_CLASS || kind == TREE_CLASS_DECLARATION || kind == TREE_ABSTRACT_CLASS;
}

static bool is_parameter(enum tree_kind kind)
{
    return kind == TREE_REQUIRED_PARAMETER || kind == TREE_OPTIONAL_PARAMETER;
}

/* Whether the next child is a statement or a class member. */
static bool begins_statement(const struct frame *parent)
{
    switch (parent->kind) {
    case TREE_PROGRAM:
    case TREE_STATEMENT_BLOCK:
    case TREE_CLASS_BODY:
        return true;
    case TREE_SWITCH_CASE:
    case TREE_SWITCH_DEFAULT:
        return parent->mark != 0; /* the colon is past */
    default:
        return false;
    }
}

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

static struct frame *push(struct erase *e, struct frame *parent, const struct tree_node *node)
{
    struct frame frame = {
        .kind = node->kind,
        .start = node->start,
        .end = node->end,
        .last = node->start,
        .is_named = node->is_named,
        .semi_before = e->semi_needed,
    };
    if (parent != NULL)
        frame.stmt_end = begins_statement(parent) ? node->end : parent->stmt_end;
    if (e->stack.len >= DEPTH_MAX) {
        fail_as(e, ERR_TOO_LARGE, node->start, "nested too deeply");
        return NULL;
    }
    *vec_push(&e->stack) = frame;
    return vec_last(&e->stack);
}

/* Types and names: nothing in them to look at. */
static bool skip(struct frame *parent, const struct tree_node *node)
{
    if (parent != NULL)
        parent->last = node->end;
    return false;
}

static bool erase_here(struct erase *e, struct frame *parent, const struct tree_node *node)
{
    blank(e, node->start, node->end);
    return skip(parent, node);
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
    struct frame *frame = push(e, parent, node);
    if (frame == NULL)
        return false;
    frame->flags |= wraps ? INSIDE : how;
    return true;
}

/* ---- namespaces: erased when they hold types alone ---- */

static const char NAMESPACE_VALUES[] =
    "a namespace with values has a meaning at run time and cannot be erased; use a module or an "
    "object";

static bool enter_namespace(struct erase *e, struct frame *parent, const struct tree_node *node)
{
    uint32_t at =
        parent != NULL && (parent->flags & NO_VALUES) ? parent->namespace_at : node->start;
    if (!erase_statement(e, parent, node, ERASE_STATEMENT))
        return false;
    struct frame *frame = vec_last(&e->stack);
    frame->flags |= NO_VALUES;
    frame->namespace_at = at;
    return true;
}

static bool enter_in_namespace(struct erase *e, struct frame *parent, const struct tree_node *node)
{
    if (!node->is_named)
        return skip(parent, node);
    bool is_export = parent->kind == TREE_EXPORT;
    bool is_name = parent->kind == TREE_NAMESPACE && node->kind != TREE_STATEMENT_BLOCK;
    if (is_name || node->kind == TREE_TYPE_ALIAS || node->kind == TREE_INTERFACE ||
        (node->kind == TREE_IMPORT_ALIAS && !is_export))
        return skip(parent, node);
    if (node->kind == TREE_NAMESPACE)
        return enter_namespace(e, parent, node);
    if (node->kind != TREE_STATEMENT_BLOCK && node->kind != TREE_EXPORT &&
        node->kind != TREE_EXPRESSION_STATEMENT) {
        fail(e, parent->namespace_at, NAMESPACE_VALUES);
        return false;
    }
    uint32_t at = parent->namespace_at;
    struct frame *frame = push(e, parent, node);
    if (frame == NULL)
        return false;
    frame->flags |= NO_VALUES | INSIDE;
    frame->namespace_at = at;
    return true;
}

/* ---- words and signs ---- */

static void blank_modifier(struct erase *e, struct frame *parent, const struct tree_node *node)
{
    if (is_parameter(parent->kind)) {
        fail(e, node->start,
             "a parameter property has a meaning at run time and cannot be erased; declare a field "
             "and assign it in the constructor");
        return;
    }
    if (parent->last == parent->start && !(parent->flags & DECORATED)) {
        parent->flags |= FIRST_MODIFIER;
        parent->mark = node->start;
    }
    blank(e, node->start, node->end);
}

static void enter_type_word(struct frame *parent)
{
    if (parent->kind == TREE_IMPORT || parent->kind == TREE_EXPORT)
        parent->flags |= ERASE_STATEMENT;
    else if (parent->kind == TREE_IMPORT_SPECIFIER || parent->kind == TREE_EXPORT_SPECIFIER)
        parent->flags |= ERASE_EXACT;
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
        parent->flags |= ERASE_STATEMENT;
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
        blank(e, node->start, node->end);
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
    struct str near = str_slice(e->source, 0, (size_t)node->start + NEAR_MAX);
    uint32_t end = lex_generics_end(near, node->start, false);
    if (end == 0)
        return;
    struct token next = lex_token(near, end, false);
    if (may_follow_arguments(&next))
        blank(e, node->start, end);
}

static void enter_token(struct erase *e, struct frame *parent, const struct tree_node *node)
{
    switch (node->kind) {
    case TREE_ABSTRACT:
        /* On a line of its own it is a name. */
        if (is_class(parent->kind) &&
            !text_has_newline(e->source, node->end, text_skip_trivia(e->source, node->end)))
            blank(e, node->start, node->end);
        if (parent->kind == TREE_FIELD)
            parent->flags |= ERASE_STATEMENT;
        break;
    case TREE_DECLARE:
        if (parent->kind == TREE_FIELD)
            parent->flags |= ERASE_STATEMENT;
        break;
    case TREE_READONLY:
        if (parent->kind == TREE_FIELD || parent->kind == TREE_METHOD || is_parameter(parent->kind))
            blank_modifier(e, parent, node);
        break;
    case TREE_QUESTION:
    case TREE_BANG:
        enter_question_or_bang(e, parent, node);
        break;
    case TREE_TYPE:
        enter_type_word(parent);
        break;
    case TREE_TYPEOF:
        if (parent->kind == TREE_IMPORT || parent->kind == TREE_IMPORT_SPECIFIER ||
            parent->kind == TREE_EXPORT_SPECIFIER)
            fail_as(e, ERR_INVALID, node->start, "syntax error: unexpected 'typeof'");
        break;
    case TREE_TOKEN_AS:
    case TREE_TOKEN_SATISFIES:
        enter_assertion_word(parent, node);
        break;
    case TREE_EQUALS:
        if (parent->kind == TREE_EXPORT)
            fail(e, parent->start,
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
    if (parent->kind == TREE_BINARY)
        enter_operator(e, parent, node);
    if (parent->kind == TREE_FORMAL_PARAMETERS)
        parent->params_end = parent->last; /* what stands before the `)` in the end */
    parent->last = node->end;
}

/* ---- types ---- */

static bool enter_annotation(struct erase *e, struct frame *parent, const struct tree_node *node)
{
    if (parent->kind == TREE_PARENTHESIZED) {
        fail_as(e, ERR_INVALID, node->start, "syntax error: unexpected ':'");
        return false;
    }
    /* No line end may stand between the parameters and `=>`: the parenthesis moves behind it. */
    bool moves = parent->kind == TREE_ARROW && parent->close != 0 &&
                 text_has_newline(e->source, parent->params_end, node->end);
    if (moves)
        blank_closing(e, parent->close, node->end);
    else
        blank(e, node->start, node->end);
    return skip(parent, node);
}

static bool enter_generics(struct erase *e, struct frame *parent, const struct tree_node *node)
{
    if (is_function(parent->kind))
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
    blank(e, node->start, node->start + 1);
}

static bool enter_module(struct erase *e, struct frame *parent, const struct tree_node *node)
{
    /* Only `module "name"` is free of a value; the old word for namespace is refused elsewhere
     * too. */
    uint32_t name = text_skip_trivia(e->source, node->start + (uint32_t)strlen("module"));
    bool is_string =
        name < e->source.len && (e->source.ptr[name] == '"' || e->source.ptr[name] == '\'');
    if (!is_string) {
        fail(e, node->start, "'module' with a name cannot be erased; use 'namespace' for types");
        return false;
    }
    return erase_statement(e, parent, node, ERASE_STATEMENT);
}

/* Within what is being erased: only its end is of interest. */
static bool enter_inside(struct erase *e, struct frame *parent, const struct tree_node *node)
{
    if (node->kind == TREE_MODULE && parent->kind == TREE_AMBIENT) {
        if (!enter_module(e, parent, node))
            return false;
        vec_last(&e->stack)->flags = INSIDE;
        return true;
    }
    if (!node->is_named || !holds_implied_semicolon(node->kind))
        return skip(parent, node);
    struct frame *frame = push(e, parent, node);
    if (frame == NULL)
        return false;
    frame->flags |= INSIDE;
    return true;
}

static bool refuse(struct erase *e, const struct tree_node *node, const char *message)
{
    fail(e, node->start, message);
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
        *ret_enter = erase_statement(e, parent, node, ERASE_STATEMENT);
        return true;
    case TREE_FUNCTION_SIGNATURE:
        *ret_enter = erase_statement(e, parent, node, ERASE_EXACT);
        return true;
    case TREE_NAMESPACE:
        *ret_enter = enter_namespace(e, parent, node);
        return true;
    case TREE_MODULE:
        *ret_enter = enter_module(e, parent, node);
        return true;
    case TREE_ENUM:
        *ret_enter = refuse(e, node,
                            "an enum has a meaning at run time and cannot be erased; use an object "
                            "'as const'");
        return true;
    case TREE_IMPORT_ALIAS:
    case TREE_IMPORT_REQUIRE:
        *ret_enter = refuse(e, node,
                            "'import x =' has a meaning at run time and cannot be erased; use "
                            "'import ... from'");
        return true;
    case TREE_TYPE_ASSERTION:
        *ret_enter =
            refuse(e, node, "a '<T>value' assertion cannot be erased in place; write 'value as T'");
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
        blank(e, node->start, with_semicolon(e, node->end));
        *ret_enter = skip(parent, node);
        return true;
    case TREE_IMPLEMENTS:
        *ret_enter = erase_here(e, parent, node);
        return true;
    case TREE_ACCESSIBILITY:
    case TREE_OVERRIDE:
        blank_modifier(e, parent, node);
        *ret_enter = skip(parent, node);
        return true;
    case TREE_TYPE_IDENTIFIER:
        *ret_enter = skip(parent, node);
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
        if (is_function(parent->kind)) {
            frame->flags |= BODY;
            e->semi_needed = false;
        }
        break;
    case TREE_REQUIRED_PARAMETER:
    case TREE_OPTIONAL_PARAMETER:
        if (parent->kind == TREE_FORMAL_PARAMETERS && parent->last == parent->start + 1)
            frame->flags |= FIRST;
        break;
    case TREE_THIS:
        if (is_parameter(parent->kind) && (parent->flags & FIRST))
            parent->flags |= IS_THIS;
        break;
    case TREE_METHOD:
    case TREE_FIELD:
        frame->flags |= parent->flags & DECORATED;
        break;
    case TREE_COMPUTED_NAME:
        /* Without its modifier `[x]` would continue the member before. */
        if (parent->flags & FIRST_MODIFIER)
            e->out[parent->mark] = ';';
        break;
    default:
        break;
    }
    if (parent->kind == TREE_CLASS_BODY) {
        if (frame->kind == TREE_DECORATOR)
            parent->flags |= DECORATED;
        else
            parent->flags &= ~(uint32_t)DECORATED;
    }
}

static bool enter(void *ctx, const struct tree_node *node)
{
    struct erase *e = ctx;
    struct frame *parent = e->stack.len > 0 ? vec_last(&e->stack) : NULL;
    if (parent == NULL)
        return push(e, NULL, node) != NULL;
    if (node->kind == TREE_COMMENT || node->kind == TREE_HTML_COMMENT)
        return false;
    if (parent->flags & NO_VALUES)
        return enter_in_namespace(e, parent, node);
    if (parent->flags & INSIDE || (parent->flags & (ERASE_STATEMENT | ERASE_EXACT) &&
                                   parent->kind != TREE_FIELD && parent->kind != TREE_IMPORT))
        return enter_inside(e, parent, node);
    if (!node->is_named) {
        enter_token(e, parent, node);
        return false;
    }
    bool is_assertion = parent->kind == TREE_AS || parent->kind == TREE_SATISFIES;
    if (is_assertion && parent->mark != 0)
        return skip(parent, node);
    bool answer;
    if (enter_type(e, parent, node, &answer) || enter_member(e, parent, node, &answer) ||
        enter_declaration(e, parent, node, &answer))
        return answer;
    if (node->kind == TREE_FORMAL_PARAMETERS)
        enter_parameters(e, parent, node);
    struct frame *frame = push(e, parent, node);
    if (frame == NULL)
        return false;
    set_up(e, frame - 1, frame);
    return true;
}

/* ---- leaving ---- */

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
    struct str near = str_slice(e->source, 0, (size_t)frame->type_at + NEAR_MAX);
    uint32_t type_end = lex_type_end(near, frame->type_at);
    uint32_t tree_end = frame->last;
    if (type_end != 0)
        frame->last = type_end;
    uint32_t next = text_skip_trivia(e->source, frame->last);
    bool is_misread = frame->last < tree_end ||
                      (next < frame->stmt_end && begins_next_line(e, frame->last, next));
    if (is_misread && !e->is_simplified) {
        e->wants_simplified = true;
        e->visitor.is_stopped = true;
        return;
    }
    if (would_regroup(e, frame, parent)) {
        fail(e, frame->mark,
             "erasing this type assertion would regroup the operators around it; put it in "
             "parentheses");
        return;
    }
    bool has_semi = next < e->source.len && e->source.ptr[next] == ';';
    if (next >= frame->stmt_end && !has_semi)
        blank_with(e, frame->mark, frame->last, ';');
    else
        blank(e, frame->mark, frame->last);
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
        end = with_semicolon(e, end);
    if (frame->kind == TREE_IMPORT_SPECIFIER || frame->kind == TREE_EXPORT_SPECIFIER)
        end = with_comma(e, end);
    if (frame->flags & ERASE_STATEMENT && frame->semi_before)
        blank_with(e, frame->start, end, ';');
    else
        blank(e, frame->start, end);
}

static void leave_parameters(const struct frame *frame, struct frame *parent)
{
    parent->close = frame->last - 1;
    parent->params_end = frame->params_end;
}

/* Whether what ends here lacks a semicolon. */
static void note_end(struct erase *e, const struct frame *frame, const struct frame *parent)
{
    if (frame->flags & BODY) {
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

static void leave(void *ctx)
{
    struct erase *e = ctx;
    struct frame frame = vec_pop(&e->stack);
    if (e->stack.len == 0)
        return;
    struct frame *parent = vec_last(&e->stack);
    if (frame.last == frame.start)
        frame.last = frame.end; /* a word: nothing inside told where it ends */
    bool is_erased = frame.flags & (ERASE_STATEMENT | ERASE_EXACT);

    if (frame.kind == TREE_AS || frame.kind == TREE_SATISFIES)
        leave_assertion(e, &frame, parent);
    else if (frame.kind == TREE_FORMAL_PARAMETERS)
        leave_parameters(&frame, parent);
    else if (frame.flags & IS_THIS)
        blank(e, frame.start, with_comma(e, frame.last));
    else if (is_erased)
        erase_frame(e, &frame);

    parent->last = MAX(parent->last, frame.last);
    parent->edge = edge_of(&frame);
    if (is_erased || frame.flags & INSIDE)
        e->semi_needed = frame.semi_before;
    else
        note_end(e, &frame, parent);
}

/* ---- the door ---- */

struct erase *erase_new(void)
{
    struct erase *e = mem_alloc(sizeof *e);
    e->visitor = (struct tree_visitor){.ctx = e, .enter = enter, .leave = leave};
    return e;
}

struct erase *erase_free(struct erase *e)
{
    if (e != NULL)
        vec_done(&e->stack);
    free(e);
    return NULL;
}

struct tree_visitor *erase_begin(struct erase *e, struct str source, char *out, bool is_simplified)
{
    e->is_simplified = is_simplified;
    e->wants_simplified = false;
    e->source = source;
    e->out = out;
    e->stack.len = 0;
    e->semi_needed = false;
    e->fault = (struct erase_fault){0};
    e->visitor.is_stopped = false;
    return &e->visitor;
}

bool erase_wants_simplified(const struct erase *e)
{
    return e->wants_simplified;
}

struct erase_fault erase_fault(const struct erase *e)
{
    return e->fault;
}
