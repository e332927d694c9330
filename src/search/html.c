#include "search/html.h"

#include <libxml/HTMLparser.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

enum { TAG_NAME_MAX = 16, LIST_DEPTH_MAX = 8 };

/* What an element does to the text. */
enum element {
    INLINE,
    BLOCK,   /* ends a paragraph */
    SKIP,    /* nothing inside counts */
    HEADING, /* h1 to h6 */
    ITEM,    /* li */
    LIST,    /* ul, ol */
    PRE,
    CODE,
    BREAK,
    CELL,
    ROW,
    TITLE,
    MAIN,
};

static const struct {
    const char *name;
    enum element element;
} elements[] = {
    {"p", BLOCK},       {"div", BLOCK},   {"section", BLOCK}, {"blockquote", BLOCK},
    {"figure", BLOCK},  {"dl", BLOCK},    {"dt", BLOCK},      {"dd", BLOCK},
    {"hr", BLOCK},      {"table", BLOCK}, {"body", BLOCK},    {"details", BLOCK},
    {"summary", BLOCK}, {"nav", SKIP},    {"footer", SKIP},   {"noscript", SKIP},
    {"template", SKIP}, {"svg", SKIP},    {"form", SKIP},     {"button", SKIP},
    {"aside", SKIP},    {"iframe", SKIP}, {"script", SKIP},   {"style", SKIP},
    {"textarea", SKIP}, {"select", SKIP}, {"h1", HEADING},    {"h2", HEADING},
    {"h3", HEADING},    {"h4", HEADING},  {"h5", HEADING},    {"h6", HEADING},
    {"li", ITEM},       {"ul", LIST},     {"ol", LIST},       {"pre", PRE},
    {"code", CODE},     {"br", BREAK},    {"td", CELL},       {"th", CELL},
    {"tr", ROW},        {"title", TITLE}, {"main", MAIN},     {"article", MAIN},
};

struct tag {
    char name[TAG_NAME_MAX];
    enum element element;
    bool is_end;
};

struct converting {
    struct buf *out;
    bool needs_gap, needs_blank;
    bool is_pre, only_main, is_title;
    size_t skipping; /* elements of `skipped` that are open */
    char skipped[TAG_NAME_MAX];
    size_t in_main, lists;
    bool is_full;
};

/* --- Writing --- */

static void html_put(struct converting *conv, struct str text)
{
    struct err ignored = {0};
    conv->is_full = conv->is_full || buf_append(conv->out, text, &ignored) < 0;
}

static bool is_hidden(const struct converting *conv)
{
    return conv->skipping > 0 || (conv->only_main && conv->in_main == 0 && !conv->is_title);
}

/* The blank line before a paragraph is written when something follows. */
static void end_paragraph(struct converting *conv)
{
    conv->needs_gap = conv->out->len > 0;
    conv->needs_blank = false;
}

static void open_text(struct converting *conv)
{
    if (conv->needs_gap)
        html_put(conv, STR("\n\n"));
    else if (conv->needs_blank && conv->out->len > 0 && conv->out->ptr[conv->out->len - 1] != '\n')
        html_put(conv, STR(" "));
    conv->needs_gap = conv->needs_blank = false;
}

static void put_visible(struct converting *conv, struct str text)
{
    if (is_hidden(conv))
        return;
    open_text(conv);
    html_put(conv, text);
}

/* A character of the page's text: blanks are one, except in code. */
static void put_char(struct converting *conv, struct str c)
{
    bool is_blank = c.len == 1 && strchr(" \t\r\n\f", c.ptr[0]) != NULL && c.ptr[0] != '\0';
    if (is_hidden(conv))
        return;
    if (conv->is_pre && c.len == 1 && c.ptr[0] != '\0')
        html_put(conv, c.ptr[0] == '\r' ? STR("") : c);
    else if (is_blank)
        conv->needs_blank = !conv->needs_gap;
    else if (c.len > 0 && c.ptr[0] != '\0')
        put_visible(conv, c);
}

/* --- Elements --- */

static void begin_heading(struct converting *conv, const struct tag *tag)
{
    end_paragraph(conv);
    put_visible(conv, str_slice(STR("######"), 0, (size_t)(tag->name[1] - '0')));
    conv->needs_blank = true;
}

static void begin_item(struct converting *conv)
{
    if (is_hidden(conv))
        return;
    size_t depth = MIN(MAX(conv->lists, (size_t)1), (size_t)LIST_DEPTH_MAX) - 1;
    if (conv->needs_gap)
        html_put(conv, STR("\n\n"));
    else if (conv->out->len > 0)
        html_put(conv, STR("\n"));
    conv->needs_gap = conv->needs_blank = false;
    html_put(conv, str_slice(STR("                "), 0, 2 * depth));
    html_put(conv, STR("- "));
}

static void turn_pre(struct converting *conv, bool is_end)
{
    if (is_hidden(conv) || conv->is_pre == !is_end)
        return;
    if (is_end) {
        html_put(conv, STR("\n```"));
        end_paragraph(conv);
    } else {
        end_paragraph(conv);
        put_visible(conv, STR("```\n"));
    }
    conv->is_pre = !is_end;
}

static void read_block_tag(struct converting *conv, const struct tag *tag)
{
    switch (tag->element) {
    case BLOCK:
        if (!conv->is_pre)
            end_paragraph(conv);
        break;
    case HEADING:
        if (tag->is_end)
            end_paragraph(conv);
        else
            begin_heading(conv, tag);
        break;
    case LIST:
        if (!tag->is_end && conv->lists == 0)
            end_paragraph(conv);
        if (tag->is_end && conv->lists > 0 && --conv->lists == 0)
            end_paragraph(conv);
        else if (!tag->is_end)
            conv->lists++;
        break;
    case ITEM:
        if (!tag->is_end)
            begin_item(conv);
        break;
    case PRE:
        turn_pre(conv, tag->is_end);
        break;
    case ROW:
        if (!is_hidden(conv) && !tag->is_end) {
            html_put(conv, STR("\n"));
            conv->needs_gap = false;
        }
        break;
    case CELL:
        if (!tag->is_end)
            put_visible(conv, STR("| "));
        conv->needs_blank = tag->is_end;
        break;
    default:
        break;
    }
}

/* The page's title is its heading of the first level, also where only <main> is shown. */
static void read_title_tag(struct converting *conv, const struct tag *tag)
{
    if (conv->out->len > 0 && !conv->is_title)
        return;
    end_paragraph(conv);
    conv->is_title = !tag->is_end;
    if (!tag->is_end)
        html_put(conv, STR("# "));
}

static void read_inline_tag(struct converting *conv, const struct tag *tag)
{
    if (tag->element == CODE && !conv->is_pre && !is_hidden(conv)) {
        if (tag->is_end)
            html_put(conv, STR("`"));
        else
            put_visible(conv, STR("`"));
    } else if (tag->element == BREAK && !is_hidden(conv)) {
        html_put(conv, STR("\n"));
    } else if (tag->element == MAIN) {
        end_paragraph(conv);
        if (!tag->is_end)
            conv->in_main++;
        else if (conv->in_main > 0)
            conv->in_main--;
    } else if (tag->element == TITLE) {
        read_title_tag(conv, tag);
    }
}

static void handle_tag(struct converting *conv, const struct tag *tag)
{
    if (conv->skipping > 0) {
        if (strcmp(tag->name, conv->skipped) == 0)
            conv->skipping += tag->is_end ? (size_t)-1 : 1;
        return;
    }
    if (tag->element == SKIP && !tag->is_end) {
        conv->skipping = 1;
        memcpy(conv->skipped, tag->name, sizeof conv->skipped);
        return;
    }
    read_block_tag(conv, tag);
    read_inline_tag(conv, tag);
}

/* --- What libxml2 calls --- */

static struct tag tag_of(const xmlChar *name, bool is_end)
{
    struct tag tag = {.is_end = is_end};
    (void)snprintf(tag.name, sizeof tag.name, "%s", (const char *)name);
    for (size_t e = 0; e < countof(elements); e++)
        if (strcmp((const char *)name, elements[e].name) == 0)
            tag.element = elements[e].element;
    return tag;
}

static void on_start(void *ctx, const xmlChar *name, UNUSED const xmlChar **attributes)
{
    struct tag tag = tag_of(name, false);
    handle_tag(ctx, &tag);
}

static void html_on_end(void *ctx, const xmlChar *name)
{
    struct tag tag = tag_of(name, true);
    handle_tag(ctx, &tag);
}

static void on_text(void *ctx, const xmlChar *text, int len)
{
    struct str rest = str_n((const char *)text, (size_t)len);
    while (rest.len > 0) {
        size_t size = (unsigned char)rest.ptr[0] < 0x80 ? 1 : str_utf8_len(rest);
        put_char(ctx, size == 0 ? STR("\xef\xbf\xbd") : str_slice(rest, 0, size));
        rest = str_slice(rest, MAX(size, (size_t)1), rest.len);
    }
}

static void find_main(void *ctx, const xmlChar *name, UNUSED const xmlChar **attributes)
{
    if (tag_of(name, false).element == MAIN)
        *(bool *)ctx = true;
}

static int parse(struct str html, htmlSAXHandler *calls, void *ctx, struct err *err)
{
    /* What the page says of its encoding counts only when it cannot be UTF-8. */
    bool is_utf8 = str_is_utf8(html);
    xmlCharEncoding encoding = is_utf8 ? XML_CHAR_ENCODING_UTF8 : XML_CHAR_ENCODING_NONE;
    int options = HTML_PARSE_NONET | HTML_PARSE_NOERROR | HTML_PARSE_NOWARNING;
    htmlParserCtxtPtr parser = htmlCreatePushParserCtxt(calls, ctx, NULL, 0, NULL, encoding);
    if (parser == NULL)
        return err_set(err, ERR_LIMIT, "no memory for the parser");
    (void)htmlCtxtUseOptions(parser, is_utf8 ? options | HTML_PARSE_IGNORE_ENC : options);
    (void)htmlParseChunk(parser, html.ptr, (int)html.len, 1);
    htmlFreeParserCtxt(parser);
    return 0;
}

int html_to_markdown(struct str html, struct buf *out, struct err *err)
{
    struct converting conv = {.out = out};
    htmlSAXHandler find = {.startElement = find_main};
    htmlSAXHandler calls = {
        .startElement = on_start, .endElement = html_on_end, .characters = on_text};
    if (html.len > HTML_MAX)
        return err_set(err, ERR_TOO_LARGE, "the page has more than %d MiB", HTML_MAX >> 20);
    if (parse(html, &find, &conv.only_main, err) < 0 || parse(html, &calls, &conv, err) < 0)
        return -1;
    if (conv.is_pre)
        html_put(&conv, STR("\n```"));
    html_put(&conv, STR("\n"));
    return conv.is_full ? err_set(err, ERR_TOO_LARGE, "the text of the page is too long") : 0;
}
