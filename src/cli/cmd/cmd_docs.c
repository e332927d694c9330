/* sandglass docs ...: documents that a running server searches. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "cli/cmd/commands.h"
#include "cli/remote.h"
#include "search/chunk.h"
#include "search/directory.h"

enum { UPLOAD_MAX = 12 << 20 }; /* of all pages: a request of the server has 16 MiB */

static const struct remote_column columns[] = {
    {"id", "ID"},       {"package", "PACKAGE"}, {"kind", "KIND"},   {"location", "LOCATION"},
    {"state", "STATE"}, {"pages", "PAGES"},     {"error", "ERROR"}, {0}};

/* --- add --- */

static void put_page(struct json_out *out, struct str path, struct str text)
{
    json_begin_object(out);
    json_key(out, "path"), json_put_str(out, path);
    json_key(out, "text"), json_put_str(out, text);
    json_end_object(out);
}

static int put_directory(const char *path, struct json_out *out, struct err *err)
{
    AUTO_ARENA struct arena arena = {0};
    struct docs_upload *pages = NULL;
    size_t count = 0, bytes = 0;
    if (directory_read(str_of(path), &arena, &pages, &count, err) < 0)
        return -1;
    if (count == 0)
        return err_set(err, ERR_NOT_FOUND, "'%s' has no documents: .md, .mdx, .txt, .rst or .d.ts",
                       path);
    json_key(out, "pages"), json_begin_array(out);
    for (size_t i = 0; i < count; i++) {
        bytes += pages[i].text.len;
        if (bytes > UPLOAD_MAX)
            return err_set(err, ERR_TOO_LARGE,
                           "'%s' has more than %d MiB of documents: add its parts, or let the "
                           "server read it (docs of a dependency in config.toml)",
                           path, UPLOAD_MAX >> 20);
        if (str_is_utf8(pages[i].text))
            put_page(out, pages[i].path, pages[i].text);
    }
    json_end_array(out);
    return 0;
}

static int put_file(const char *path, struct json_out *out, struct err *err)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    AUTO_BUF struct buf text = buf_with_limit(DOCUMENT_MAX);
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", path);
    if (buf_read_all(&text, fd, err) < 0)
        return err_wrap(err, "read '%s'", path);
    if (!str_is_utf8(buf_str(&text)))
        return err_set(err, ERR_INVALID, "'%s' is not UTF-8 text", path);
    json_key(out, "text"), json_put_str(out, buf_str(&text));
    return 0;
}

static int put_source(const struct cli_call *call, struct json_out *out, struct err *err)
{
    const char *source = call->args[0], *name = cli_value(call, "name");
    struct stat st;
    if (str_starts(str_of(source), STR("http://")) || str_starts(str_of(source), STR("https://"))) {
        json_key(out, "url"), json_put_cstr(out, source);
        return 0;
    }
    if (stat(source, &st) < 0)
        return err_sys(err, errno, "'%s' is neither a URL nor a file", source);
    json_key(out, "name"), json_put_cstr(out, name != NULL ? name : source);
    return S_ISDIR(st.st_mode) ? put_directory(source, out, err) : put_file(source, out, err);
}

static int add(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf body = {0};
    struct json_out out = {.buf = &body};
    json_begin_object(&out);
    remote_put_text(call, "package", &out);
    if (put_source(call, &out, err) < 0)
        return -1;
    json_end_object(&out);
    return remote_show_made(call, "/v1/docs", buf_cstr(&body), columns, err);
}

static const struct cli_option add_options[] = {
    {0, "package", "NAME", "What it documents, such as @acme/sdk or pypi:requests"},
    {0, "name", "NAME", "Name of the upload (default: the path); a second one replaces the first"},
    REMOTE_OPTIONS,
    {0},
};

const struct cli_verb cmd_docs_add = {
    .name = "docs add",
    .args = "URL|FILE|DIR",
    .summary = "Add documents to the search",
    .details = "A URL is fetched by the server in the background, and again from time to time. A "
               "file or the documents below a directory are uploaded: Markdown, MDX, HTML, "
               "plain text and TypeScript declarations.",
    .options = add_options,
    .args_min = 1,
    .args_max = 1,
    .run = add,
};

/* --- ls, rm, status --- */

static int cmd_docs_list(const struct cli_call *call, struct err *err)
{
    return remote_show(call, "GET", "/v1/docs", NULL, "sources", columns, err);
}

static int remove_one(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf path = {0};
    remote_path(&path, "/v1/docs/%s", call->args[0]);
    return remote_show(call, "DELETE", buf_cstr(&path), NULL, NULL, NULL, err);
}

/* How results are ranked now. */
static void put_mode(const struct json_t *docs, struct buf *out)
{
    int64_t chunks = 0, vectors = 0;
    (void)!json_to_i64(json_get(docs, "chunks"), &chunks);
    (void)!json_to_i64(json_get(docs, "vectors"), &vectors);
    if (remote_text(docs, "model").len == 0)
        buf_put_cstr(out,
                     "; by words only: 'sandglass model add minilm' on the server adds ranking "
                     "by meaning");
    else
        buf_put_cstr(out, vectors < chunks ? "; by words, and by meaning where there are vectors"
                                           : "; by words and by meaning");
}

static int status(const struct cli_call *call, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_JSON struct json_t *ready = NULL;
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text};
    if (remote_open(call, &client, err) < 0 ||
        remote_call(client, "GET", "/readyz", NULL, &ready, err) < 0)
        return -1;
    const struct json_t *docs = json_get(ready, "docs");
    if (cli_has(call, "json")) {
        json_put_value(&out, docs);
    } else {
        cli_put_plain(&text, remote_text(docs, "state"));
        buf_put_cstr(&text, ": ");
        cli_put_plain(&text, remote_text(docs, "detail"));
        put_mode(docs, &text);
    }
    buf_put_char(&text, '\n');
    cli_print(buf_str(&text));
    return EXIT_OK;
}

REMOTE_VERB(cmd_docs_ls, "docs ls", "", "List the documents of a running server", remote_only, 0,
            cmd_docs_list);
REMOTE_VERB(cmd_docs_rm, "docs rm", "ID", "Remove documents from the search", remote_only, 1,
            remove_one);
REMOTE_VERB(cmd_docs_status, "docs status", "", "Show what is indexed and what is waiting",
            remote_only, 0, status);

/* --- search --- */

static void cmd_docs_put_result(const struct json_t *result, struct buf *out)
{
    double score = 0;
    struct str rest = remote_text(result, "excerpt"), line;
    (void)!json_to_f64(json_get(result, "score"), &score);
    buf_printf(out, "%.2f  ", score);
    cli_put_plain(out, remote_text(result, "heading"));
    buf_put_cstr(out, "\n      ");
    cli_put_plain(out, remote_text(result, "url"));
    buf_put_char(out, '\n');
    while (str_split(&rest, '\n', &line)) {
        buf_put_cstr(out, "      ");
        cli_put_plain(out, line);
        buf_put_char(out, '\n');
    }
    buf_put_char(out, '\n');
}

static void put_results(const struct json_t *answer, struct buf *out)
{
    const struct json_t *results = json_get(answer, "results");
    struct str corrected = remote_text(answer, "corrected");
    int64_t total = 0;
    if (corrected.len > 0) {
        buf_put_cstr(out, "Corrected: ");
        cli_put_plain(out, corrected);
        buf_put_cstr(out, "\n\n");
    }
    for (size_t i = 0; i < json_len(results); i++)
        cmd_docs_put_result(json_at(results, i), out);
    (void)!json_to_i64(json_get(answer, "total"), &total);
    if (total == 0)
        buf_put_cstr(out, "Nothing found.\n");
    else if (total > (int64_t)json_len(results))
        buf_printf(out, "%lld more; see --limit.\n",
                   (long long)total - (long long)json_len(results));
}

static void put_query(const struct cli_call *call, const char *option, const char *format,
                      struct buf *path)
{
    const char *value = cli_value(call, option);
    if (value != NULL)
        remote_path(path, format, value);
}

static int search(const struct cli_call *call, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf path = {0};
    AUTO_BUF struct buf query = {0};
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text};
    for (size_t i = 0; i < call->arg_count; i++)
        buf_printf(&query, "%s%s", i > 0 ? " " : "", call->args[i]);
    remote_path(&path, "/v1/docs/search?query=%s", buf_cstr(&query));
    put_query(call, "package", "&package=%s", &path);
    put_query(call, "session", "&session=%s", &path);
    put_query(call, "limit", "&limit=%s", &path);
    if (remote_open(call, &client, err) < 0 ||
        remote_call(client, "GET", buf_cstr(&path), NULL, &answer, err) < 0)
        return -1;
    if (cli_has(call, "json")) {
        json_put_value(&out, answer);
        buf_put_char(&text, '\n');
    } else {
        put_results(answer, &text);
    }
    cli_print(buf_str(&text));
    return EXIT_OK;
}

static const struct cli_option search_options[] = {
    {0, "package", "NAME", "Only documents of this package"},
    {0, "session", "ID", "Also the saved modules of this session"},
    {0, "limit", "N", "Number of results (default 5)"},
    REMOTE_OPTIONS,
    {0},
};

const struct cli_verb cmd_docs_search = {
    .name = "docs search",
    .args = "WORD...",
    .summary = "Search documents and saved modules",
    .options = search_options,
    .args_min = 1,
    .args_max = CLI_ARGS_MAX,
    .run = search,
};
