#include "isolate/strip/tree.h"

#include <tree_sitter/api.h>

#include "base/clock.h"
#include "isolate/strip/heap.h"

/* The grammars' own entry points; their package has no header in C. */
const TSLanguage *tree_sitter_typescript(void);
const TSLanguage *tree_sitter_tsx(void);

enum {
    LANGS = 2,
    CLOCK_EVERY = 256,
    /* Symbols that may wait on the parser's stack. Merging two readings of the source recurses on
     * it, some 250 bytes a step; this keeps it below 4 MB of a thread's stack. */
    OPEN_MAX = 12000,
    PROBE_DEPTH = 400,
};

struct tree {
    struct heap heap;
    uint8_t *kinds[LANGS]; /* by symbol; NULL until the language is used */
};

/* One call of tree_walk. It outlives the longjmp out of the library, so it is not a local there. */
struct walk {
    struct tree *tree;
    enum strip_lang lang;
    struct str source;
    int64_t deadline_ns;
    struct tree_visitor *visitor;
    enum tree_result result;
    /* Locating a syntax error. */
    bool locates;
    size_t cancel;
    uint32_t version_row, version_column;
    uint32_t row, column;
    jmp_buf escape;
};

/* The library's allocation hooks have no argument, so the heap in use is the thread's. */
static _Thread_local struct heap *current;

static void *hook_malloc(size_t size)
{
    return heap_alloc(current, size);
}
static void *hook_calloc(size_t count, size_t size)
{
    return heap_calloc(current, count, size);
}
static void *hook_realloc(void *ptr, size_t size)
{
    return heap_realloc(current, ptr, size);
}
static void hook_free(void *ptr)
{
    heap_free(current, ptr);
}

static const TSLanguage *language(enum strip_lang lang)
{
    return lang == STRIP_TSX ? tree_sitter_tsx() : tree_sitter_typescript();
}

static const struct {
    const char *text;
    enum tree_kind kind;
    bool is_named;
} KINDS[] = {
#define X(name, text) {text, TREE_##name, true},
    TREE_KINDS(X)
#undef X
#define X(name, text) {text, TREE_##name, false},
        TREE_TOKENS(X)
#undef X
};

static enum tree_kind kind_of_symbol(const TSLanguage *lang, TSSymbol symbol)
{
    bool is_named = ts_language_symbol_type(lang, symbol) == TSSymbolTypeRegular;
    const char *text = ts_language_symbol_name(lang, symbol);
    for (size_t i = 0; i < countof(KINDS); i++)
        if (KINDS[i].is_named == is_named && strcmp(KINDS[i].text, text) == 0)
            return KINDS[i].kind;
    return TREE_OTHER;
}

/* One node of the parser's stack is one allocation, so counting these bounds its depth; their size
 * is the library's secret. It is found out with a source that is nothing but depth: the smallest
 * size that as many blocks have as there are open brackets. */
static void find_node_size(struct tree *tree)
{
    enum { SIZE_MIN = 192, SIZE_MAX_TRIED = 1024 };
    char source[PROBE_DEPTH];
    struct tree_visitor visitor = {.is_stopped = true};
    memset(source, '(', sizeof source);
    tree->heap.counted_max = PROBE_DEPTH / 2;
    enum tree_result result = TREE_DONE;
    for (size_t size = SIZE_MIN; size <= SIZE_MAX_TRIED && result != TREE_TOO_DEEP; size += 4) {
        tree->heap.counted_size = size;
        result = tree_walk(tree, STRIP_TS, str_n(source, sizeof source), INT64_MAX, &visitor, NULL);
    }
    assert(result == TREE_TOO_DEEP);
    tree->heap.counted_max = OPEN_MAX;
}

struct tree *tree_new(size_t heap_bytes)
{
    struct tree *tree = mem_alloc(sizeof *tree);
    tree->heap.limit = heap_bytes;
    ts_set_allocator(hook_malloc, hook_calloc, hook_realloc, hook_free);
    return tree;
}

/* Most programs that could strip types never do: what takes a millisecond waits for the first one
 * that does. */
static void get_ready(struct tree *tree, enum strip_lang which)
{
    if (tree->kinds[which] != NULL)
        return;
    const TSLanguage *lang = language(which);
    uint32_t count = ts_language_symbol_count(lang);
    tree->kinds[which] = mem_alloc(count);
    for (uint32_t s = 0; s < count; s++)
        tree->kinds[which][s] = (uint8_t)kind_of_symbol(lang, (TSSymbol)s);
    if (tree->heap.counted_max == 0)
        find_node_size(tree);
}

struct tree *tree_free(struct tree *tree)
{
    if (tree == NULL)
        return NULL;
    heap_done(&tree->heap);
    for (int i = 0; i < LANGS; i++)
        free(tree->kinds[i]);
    free(tree);
    return NULL;
}

static uint64_t micros_left(const struct walk *walk)
{
    int64_t left = (walk->deadline_ns - clock_now_ns()) / 1000;
    return left > 0 ? (uint64_t)left : 1; /* 0 would mean no limit */
}

static struct tree_node node_at(const struct walk *walk, TSNode node)
{
    TSSymbol symbol = ts_node_symbol(node);
    uint32_t count = ts_language_symbol_count(language(walk->lang));
    const struct tree_visitor *visitor = walk->visitor;
    uint32_t start = ts_node_start_byte(node), end = ts_node_end_byte(node);
    if (visitor->from != NULL) {
        end = end > start ? visitor->to[end - 1] : visitor->from[start];
        start = visitor->from[start];
    }
    return (struct tree_node){
        .kind = symbol < count ? (enum tree_kind)walk->tree->kinds[walk->lang][symbol] : TREE_OTHER,
        .is_named = ts_node_is_named(node),
        .start = start,
        .end = end,
    };
}

static void visit_all(struct walk *walk, TSNode root)
{
    struct tree_visitor *visitor = walk->visitor;
    TSTreeCursor cursor = ts_tree_cursor_new(root);
    for (uint32_t steps = 1; !visitor->is_stopped; steps++) {
        if (steps % CLOCK_EVERY == 0 && clock_now_ns() > walk->deadline_ns) {
            walk->result = TREE_TIMEOUT;
            break;
        }
        struct tree_node node = node_at(walk, ts_tree_cursor_current_node(&cursor));
        if (visitor->enter(visitor->ctx, &node)) {
            if (ts_tree_cursor_goto_first_child(&cursor))
                continue;
            visitor->leave(visitor->ctx);
        }
        while (!visitor->is_stopped && !ts_tree_cursor_goto_next_sibling(&cursor)) {
            if (!ts_tree_cursor_goto_parent(&cursor))
                return;
            visitor->leave(visitor->ctx);
        }
    }
}

/* The parser's own log is the one place that says where the last reading of the source failed:
 * "process ... row:R, col:C" names the reading at work, "detect_error" its end, "resume" that none
 * is left and guessing begins. */
static uint32_t number_after(const char *text, const char *word)
{
    const char *at = strstr(text, word);
    int64_t n = 0;
    if (at == NULL)
        return 0;
    at += strlen(word);
    if (!str_to_i64(str_n(at, strspn(at, "0123456789")), 0, UINT32_MAX, &n))
        return 0;
    return (uint32_t)n;
}

static void on_log(void *payload, TSLogType type, const char *text)
{
    struct walk *walk = payload;
    if (type != TSLogTypeParse || walk->cancel != 0)
        return;
    if (strncmp(text, "process ", 8) == 0) {
        walk->version_row = number_after(text, "row:");
        walk->version_column = number_after(text, "col:");
    } else if (strncmp(text, "detect_error", 12) == 0) {
        if (walk->version_row > walk->row ||
            (walk->version_row == walk->row && walk->version_column > walk->column)) {
            walk->row = walk->version_row;
            walk->column = walk->version_column;
        }
    } else if (strncmp(text, "resume", 6) == 0 || strncmp(text, "recover", 7) == 0) {
        walk->cancel = 1;
    }
}

static void find_error(struct walk *walk, TSParser *parser)
{
    ts_parser_reset(parser);
    ts_parser_set_logger(parser, (TSLogger){.payload = walk, .log = on_log});
    ts_parser_set_cancellation_flag(parser, &walk->cancel);
    ts_parser_set_timeout_micros(parser, micros_left(walk));
    (void)ts_parser_parse_string(parser, NULL, walk->source.ptr, (uint32_t)walk->source.len);
}

static void parse_and_visit(struct walk *walk)
{
    TSParser *parser = ts_parser_new();
    ts_parser_set_timeout_micros(parser, micros_left(walk));
    bool fits = ts_parser_set_language(parser, language(walk->lang));
    assert(fits);
    TSTree *parsed =
        ts_parser_parse_string(parser, NULL, walk->source.ptr, (uint32_t)walk->source.len);
    if (parsed == NULL) {
        walk->result = TREE_TIMEOUT;
        return;
    }
    TSNode root = ts_tree_root_node(parsed);
    if (ts_node_has_error(root)) {
        walk->result = TREE_SYNTAX;
        if (walk->locates)
            find_error(walk, parser);
        return;
    }
    visit_all(walk, root);
}

/* The byte at a row and column as the parser counts them: columns are bytes. */
static uint32_t offset_of(struct str source, uint32_t row, uint32_t column)
{
    size_t at = 0;
    for (uint32_t i = 0; i < row && at < source.len; i++) {
        const char *line = memchr(source.ptr + at, '\n', source.len - at);
        if (line == NULL)
            break;
        at = (size_t)(line - source.ptr) + 1;
    }
    return (uint32_t)MIN(at + column, source.len);
}

enum tree_result tree_walk(struct tree *tree, enum strip_lang lang, struct str source,
                           int64_t deadline_ns, struct tree_visitor *visitor, uint32_t *ret_at)
{
    get_ready(tree, lang);
    struct walk *walk = mem_alloc(sizeof *walk);
    *walk = (struct walk){.tree = tree,
                          .lang = lang,
                          .source = source,
                          .deadline_ns = deadline_ns,
                          .locates = ret_at != NULL,
                          .visitor = visitor};
    heap_reset(&tree->heap);
    tree->heap.escape = &walk->escape;
    current = &tree->heap;
    int why = setjmp(walk->escape);
    if (why == 0)
        parse_and_visit(walk);
    else
        walk->result = why == HEAP_COUNT ? TREE_TOO_DEEP : TREE_NO_MEMORY;
    current = NULL;
    tree->heap.escape = NULL;
    enum tree_result result = walk->result;
    if (result == TREE_SYNTAX && ret_at != NULL)
        *ret_at = offset_of(source, walk->row, walk->column);
    free(walk);
    return result;
}
