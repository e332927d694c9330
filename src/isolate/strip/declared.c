/* Which names a script declares at its top level. */

#include "isolate/strip/declared.h"
#include "base/buf.h"
#include "base/vec.h"

/* Where the walk is: the construct around the next node. */
enum place { PLACE_PROGRAM, PLACE_LIST, PLACE_PATTERN, PLACE_NAMED };

struct level {
    enum place place;
    bool is_over; /* what follows is a value, or a body */
};

struct names {
    struct str source;
    struct buf *out;
    VEC(struct level) levels;
};

static void declared_add(struct names *names, const struct tree_node *node)
{
    struct str name = str_slice(names->source, node->start, node->end);
    if (str_find_char(name, '\\') < name.len)
        return; /* spelled with escapes, which does not occur in practice */
    if (names->out->len > 0)
        buf_put_char(names->out, '\n');
    buf_put(names->out, name);
}

static bool go_in(struct names *names, enum place place)
{
    *vec_push(&names->levels) = (struct level){.place = place};
    return true;
}

static bool enter_statement(struct names *names, const struct tree_node *node)
{
    switch (node->kind) {
    case TREE_LEXICAL_DECLARATION:
    case TREE_VARIABLE_DECLARATION:
        return go_in(names, PLACE_LIST);
    case TREE_CLASS_DECLARATION:
    case TREE_ABSTRACT_CLASS:
    case TREE_FUNCTION_DECLARATION:
    case TREE_GENERATOR_DECLARATION:
        return go_in(names, PLACE_NAMED);
    default:
        return false;
    }
}

static bool is_name(const struct tree_node *node)
{
    return node->kind == TREE_IDENTIFIER || node->kind == TREE_TYPE_IDENTIFIER ||
           node->kind == TREE_SHORTHAND_PATTERN;
}

static bool declared_enter(void *ctx, const struct tree_node *node)
{
    struct names *names = ctx;
    if (names->levels.len == 0)
        return go_in(names, PLACE_PROGRAM);
    struct level *level = vec_last(&names->levels);
    if (level->place == PLACE_PROGRAM)
        return enter_statement(names, node);
    if (level->place == PLACE_LIST)
        return node->kind == TREE_VARIABLE_DECLARATOR && go_in(names, PLACE_PATTERN);
    if (level->is_over)
        return false;
    if (node->kind == TREE_EQUALS) {
        level->is_over = true;
        return false;
    }
    if (is_name(node)) {
        level->is_over = level->place == PLACE_NAMED;
        declared_add(names, node);
        return false;
    }
    if (level->place == PLACE_NAMED || !node->is_named || node->kind == TREE_COMPUTED_NAME)
        return false;
    return go_in(names, PLACE_PATTERN);
}

static void declared_leave(void *ctx)
{
    struct names *names = ctx;
    names->levels.len--;
}

bool declared_find(struct tree *tree, enum strip_lang lang, struct str source, int64_t deadline_ns,
                   struct buf *out)
{
    struct names names = {.source = source, .out = out};
    struct tree_visitor visitor = {.ctx = &names, .enter = declared_enter, .leave = declared_leave};
    enum tree_result result = tree_walk(tree, lang, source, deadline_ns, &visitor, NULL);
    vec_done(&names.levels);
    return result == TREE_DONE;
}
