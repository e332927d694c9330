#pragma once

/* HTML to Markdown, as far as search needs it: headings, paragraphs, lists, tables, code.
 *
 * libxml2 reads the page (included only in html.c) and calls back for each element and text; no
 * tree is made. A page of the web is a stranger's, and the parser is large: only the confined
 * process of search/reader.h calls this. Scripts, styles, menus and footers are left out; where the
 * page has <main> or <article>, everything else is. */

#include "base/buf.h"

struct err;

enum {
    HTML_MAX = 4 << 20,
    HTML_OUT_MAX = 8 << 20,
};

/* Appends to `out`. Any bytes may come in. TOO_LARGE: beyond the limit of `out`. */
int html_to_markdown(struct str html, struct buf *out, struct err *err) MUST_USE;
