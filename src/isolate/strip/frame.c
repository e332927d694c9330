#include "isolate/strip/frame.h"

enum { DEPTH_MAX = 200000 };

void erase_fail_as(struct erase *e, enum err_code code, uint32_t at, const char *message)
{
    if (e->fault.message == NULL)
        e->fault = (struct erase_fault){.message = message, .code = code, .at = at};
    e->visitor.is_stopped = true;
}

void erase_fail(struct erase *e, uint32_t at, const char *message)
{
    erase_fail_as(e, ERR_UNSUPPORTED, at, message);
}

void erase_blank_with(struct erase *e, uint32_t from, uint32_t to, char sign)
{
    text_blank(e->out, from, to);
    for (uint32_t i = from; i < to; i++)
        if (e->out[i] == ' ') {
            e->out[i] = sign;
            return;
        }
}

void erase_blank(struct erase *e, uint32_t from, uint32_t to)
{
    text_blank(e->out, from, to);
}

void erase_blank_closing(struct erase *e, uint32_t from, uint32_t to)
{
    text_blank(e->out, from, to);
    for (uint32_t i = to; i > from; i--)
        if (e->out[i - 1] == ' ') {
            e->out[i - 1] = ')';
            return;
        }
}

uint32_t erase_with_comma(const struct erase *e, uint32_t end)
{
    uint32_t at = text_skip_trivia(e->source, end);
    return at < e->source.len && e->source.ptr[at] == ',' ? at + 1 : end;
}

uint32_t erase_with_semicolon(const struct erase *e, uint32_t end)
{
    uint32_t at = text_skip_trivia(e->source, end);
    bool has = at < e->source.len && (e->source.ptr[at] == ';' || e->source.ptr[at] == ',');
    return has ? at + 1 : end;
}

bool frame_is_function(enum tree_kind kind)
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

bool frame_is_class(enum tree_kind kind)
{
    return kind == TREE_CLASS || kind == TREE_CLASS_DECLARATION || kind == TREE_ABSTRACT_CLASS;
}

bool frame_is_parameter(enum tree_kind kind)
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

struct frame *frame_push(struct erase *e, const struct frame *parent, const struct tree_node *node)
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
        erase_fail_as(e, ERR_TOO_LARGE, node->start, "nested too deeply");
        return NULL;
    }
    *vec_push(&e->stack) = frame;
    return vec_last(&e->stack);
}
