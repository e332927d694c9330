#include "cli/run/repl_input.h"

struct scan {
    struct str code;
    size_t at;
    int depth;    /* of brackets */
    bool is_open; /* a quote or a comment reaches behind the end */
    bool is_python, is_shell, is_script;
};

static bool sees(const struct scan *scan, const char *text)
{
    return str_starts(str_slice(scan->code, scan->at, scan->code.len), str_of(text));
}

static void skip_line(struct scan *scan)
{
    while (scan->at < scan->code.len && scan->code.ptr[scan->at] != '\n')
        scan->at++;
}

/* Behind the quote that ends it; `end` may have three characters. A plain quote of Python and
 * JavaScript ends with its line, whatever is wrong with that. */
static void skip_quoted(struct scan *scan, const char *end)
{
    bool spans = end[1] != '\0' || end[0] == '`' || scan->is_shell;
    bool escapes = !(scan->is_shell && end[0] == '\'');
    scan->at += strlen(end);
    while (scan->at < scan->code.len && !sees(scan, end)) {
        if (!spans && scan->code.ptr[scan->at] == '\n')
            return;
        scan->at += escapes && scan->code.ptr[scan->at] == '\\' ? 2 : 1;
    }
    scan->is_open = spans && scan->at >= scan->code.len;
    scan->at = MIN(scan->at + strlen(end), scan->code.len);
}

static bool skip_text(struct scan *scan)
{
    static const char *const triples[] = {"\"\"\"", "'''"};
    char c = scan->code.ptr[scan->at];
    for (size_t i = 0; scan->is_python && i < countof(triples); i++)
        if (sees(scan, triples[i])) {
            skip_quoted(scan, triples[i]);
            return true;
        }
    const char quote[2] = {c, '\0'};
    if (c == '"' || c == '\'' || (c == '`' && scan->is_script))
        skip_quoted(scan, quote);
    else if ((c == '#' && (scan->is_python || scan->is_shell)) ||
             (scan->is_script && sees(scan, "//")))
        skip_line(scan);
    else if (scan->is_script && sees(scan, "/*")) {
        while (scan->at < scan->code.len && !sees(scan, "*/"))
            scan->at++;
        scan->is_open = scan->at >= scan->code.len;
        scan->at = MIN(scan->at + 2, scan->code.len);
    } else
        return false;
    return true;
}

static void scan_brackets(struct scan *scan)
{
    while (scan->at < scan->code.len) {
        if (skip_text(scan))
            continue;
        char c = scan->code.ptr[scan->at++];
        if (c == '(' || c == '[' || c == '{')
            scan->depth++;
        else if (c == ')' || c == ']' || c == '}')
            scan->depth--;
    }
}

/* A block of Python goes on until an empty line. */
static bool has_block(struct str code)
{
    struct str line;
    bool is_indented = false, opens = false;
    while (str_split(&code, '\n', &line)) {
        struct str text = str_trim(line);
        if (text.len == 0 || text.ptr[0] == '#')
            continue;
        is_indented = line.ptr[0] == ' ' || line.ptr[0] == '\t';
        opens |= str_ends(text, STR(":")) || text.ptr[0] == '@';
    }
    return opens || is_indented;
}

/* if, case and loops of a shell against what ends them. */
static int shell_depth(struct str code)
{
    static const struct {
        const char *word;
        int step;
    } words[] = {{"if", 1}, {"case", 1}, {"do", 1}, {"fi", -1}, {"esac", -1}, {"done", -1}};
    int depth = 0;
    for (size_t at = 0; at < code.len;) {
        size_t end = at;
        while (end < code.len && strchr(" \t\n;&|()", code.ptr[end]) == NULL)
            end++;
        for (size_t i = 0; i < countof(words); i++)
            if (str_eq(str_slice(code, at, end), str_of(words[i].word)))
                depth += words[i].step;
        at = end + 1;
    }
    return depth;
}

bool repl_is_unfinished(struct str code, struct str language)
{
    struct scan scan = {.code = code,
                        .is_python = str_eq(language, STR("python")),
                        .is_shell = str_eq(language, STR("bash"))};
    scan.is_script = !scan.is_python && !scan.is_shell;
    struct str text = str_trim(code);
    if (str_ends(code, STR("\n\n")) || text.len == 0)
        return false;
    scan_brackets(&scan);
    return scan.is_open || scan.depth > 0 || str_ends(text, STR("\\")) ||
           (scan.is_python && has_block(code)) || (scan.is_shell && shell_depth(code) > 0);
}
