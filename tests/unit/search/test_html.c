#include "test.h"

#include <string.h>

#include "search/html.h"

static const char *convert(const char *html)
{
    static char kept[8192];
    struct err err = {0};
    AUTO_BUF struct buf out = {0};
    CHECK_OK(html_to_markdown(str_of(html), &out, &err));
    (void)snprintf(kept, sizeof kept, "%s", buf_cstr(&out));
    return kept;
}

TEST(page_becomes_markdown)
{
    CHECK_CSTR(convert("<html><head><title>The &amp; Guide</title><style>p{}</style></head><body>"
                       "<h2>Use</h2><p>Call <code>f()</code>\n  now.</p><ul><li>one<li>two</ul>"
                       "<pre>a &lt; b\n  c</pre><p>end</p></body></html>"),
               "# The & Guide\n\n## Use\n\nCall `f()` now.\n\n- one\n- two\n\n```\na < b\n  c\n```"
               "\n\nend\n");
}

TEST(scripts_and_menus_are_left_out)
{
    const char *text =
        convert("<body><nav>menu</nav><script>alert('x</p>')</script><p>kept</p>"
                "<style>b{}</style><noscript>no</noscript><footer>foot</footer></body>");
    CHECK_CSTR(text, "kept\n");
    CHECK_CSTR(convert("<body>around<main><p>inside</p></main>after</body>"), "inside\n");
}

TEST(broken_pages_give_text)
{
    CHECK(strstr(convert("<p>a<p>b</div></p></p><h1>c"), "# c") != NULL);
    CHECK_CSTR(convert(""), "\n");
    (void)convert("<<<<<>>>><!--");
    (void)convert("&#xffffffff; &#0; &bogus; <p \xff>\xfe");
}

TEST(encodings_of_pages)
{
    CHECK_CSTR(convert("<meta charset='iso-8859-1'><p>caf\xe9</p>"), "caf\xc3\xa9\n");
    CHECK_CSTR(convert("<meta charset='iso-8859-1'><p>caf\xc3\xa9</p>"), "caf\xc3\xa9\n");
}
