#include "cli/remote.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/vec.h"
#include "engine/config.h"

enum { CELL_MAX = 48, URL_MAX = 1024 };

const struct cli_option remote_only[] = {REMOTE_OPTIONS, {0}};

static int read_token(const char *file, struct buf *token, struct err *err)
{
    AUTO_CLOSE int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || buf_read_all(token, fd, err) < 0)
        return err_set(err, ERR_UNAUTHORIZED,
                       "token file '%s' cannot be read; start 'sandglass serve' or set "
                       "SANDGLASS_TOKEN",
                       file);
    while (token->len > 0 && token->ptr[token->len - 1] <= ' ')
        token->ptr[--token->len] = '\0';
    return 0;
}

/* "127.0.0.1:7070" or "unix:/path" as a URL; a server on all addresses is near, too. */
static void put_url(const struct config_server *server, struct buf *url)
{
    struct str listen = server->listen;
    if (str_starts(listen, STR("unix:"))) {
        buf_put(url, listen);
        return;
    }
    struct str near =
        str_starts(listen, STR("0.0.0.0:")) ? str_slice(listen, 7, listen.len) : listen;
    bool is_tls = server->tls_cert.len > 0 && server->tls_listen.len == 0;
    buf_printf(url, "%s://%s%.*s", is_tls ? "https" : "http",
               near.len < listen.len ? "127.0.0.1" : "", STR_ARG(near));
}

/* What the server of the data directory said of itself, else what the configuration says. */
static void find_url(const struct config_server *server, struct buf *url)
{
    AUTO_BUF struct buf path = {0};
    AUTO_BUF struct buf told = buf_with_limit(URL_MAX);
    struct err ignored;
    buf_printf(&path, "%.*s/run/url", STR_ARG(server->data_dir));
    AUTO_CLOSE int fd = open(buf_cstr(&path), O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && buf_read_all(&told, fd, &ignored) == 0 && told.len > 0)
        buf_put(url, buf_str(&told));
    else
        put_url(server, url);
}

int remote_open(const struct cli_call *call, sg_client **ret_client, struct err *err)
{
    AUTO_CONFIG struct config *config = NULL;
    AUTO_BUF struct buf url = {0};
    AUTO_BUF struct buf token = {0};
    const char *given = cli_value(call, "url");
    const char *known = getenv("SANDGLASS_TOKEN"); /* NOLINT(concurrency-mt-unsafe): one thread */
    if (given == NULL)
        given = getenv("SANDGLASS_URL"); /* NOLINT(concurrency-mt-unsafe): one thread */
    if (config_load(cli_value(call, "config"), &config, err) < 0)
        return -1;
    if (given != NULL)
        buf_put_cstr(&url, given);
    else
        find_url(&config->server, &url);
    if (known == NULL && read_token(config->server.token_file.ptr, &token, err) < 0)
        return -1;
    *ret_client = sg_open(buf_cstr(&url), known == NULL ? buf_cstr(&token) : known);
    if (token.len > 0)
        explicit_bzero(token.ptr, token.len);
    if (*ret_client == NULL)
        return err_set(err, ERR_INVALID, "'%.80s' is not a server's address", buf_cstr(&url));
    return 0;
}

int remote_failed(const sg_client *client, struct err *err)
{
    const char *code = sg_error_code(client);
    enum err_code known = ERR_UNAVAILABLE;
    for (enum err_code each = 0; each < ERR_COUNT; each++)
        if (strcmp(err_wire_name(each), code) == 0)
            known = each;
    if (sg_status(client) == 0)
        return err_set(err, known,
                       "no server answers at %.100s: %.150s; start one with 'sandglass serve', or "
                       "name another with --url",
                       sg_url(client), sg_error(client));
    if (known == ERR_UNAUTHORIZED) /* the server's words are for curl */
        return err_set(err, known,
                       "the server does not know this token; set SANDGLASS_TOKEN to one that it "
                       "does, or name its configuration with --config");
    if (sg_status(client) < 300 && known == ERR_UNAVAILABLE) /* in the middle of its answer */
        return err_set(err, known, "the connection to the server is lost: %.150s",
                       sg_error(client));
    return err_set(err, known == ERR_INVALID ? ERR_CONFLICT : known, "%s", sg_error(client));
}

int remote_call(sg_client *client, const char *method, const char *path, const char *body,
                struct json_t **ret_json, struct err *err)
{
    char *text = NULL;
    if (sg_call(client, method, path, body, &text) < 0)
        return remote_failed(client, err);
    int result = 0;
    if (ret_json != NULL && text[0] != '\0')
        result = json_parse(str_trim(str_of(text)), ret_json, err);
    sg_free(text);
    return result;
}

struct str remote_text(const struct json_t *object, const char *member)
{
    struct str text = {0};
    (void)!json_to_str(json_get(object, member), &text);
    return text;
}

/* ---- tables -------------------------------------------------------------------------------- */

static const struct json_t *member_of(const struct json_t *object, const char *path)
{
    struct str rest = str_of(path), part;
    while (object != NULL && str_split(&rest, '.', &part)) {
        char name[64];
        (void)snprintf(name, sizeof name, "%.*s", STR_ARG(part));
        object = json_kind(object) == JSON_KIND_OBJECT ? json_get(object, name) : NULL;
    }
    return object;
}

static void put_text(struct str text, struct buf *out)
{
    size_t end = MIN(text.len, (size_t)CELL_MAX);
    while (end < text.len && end > 0 && ((unsigned char)text.ptr[end] & 0xc0) == 0x80)
        end--; /* not within a character */
    cli_put_plain(out, str_slice(text, 0, end));
}

static void put_one(const struct json_t *value, struct buf *out)
{
    struct str text;
    struct json_out json = {.buf = out};
    if (json_to_str(value, &text))
        put_text(text, out);
    else
        json_put_value(&json, value);
}

static void put_cell(const struct json_t *value, struct buf *out)
{
    enum json_kind kind = value == NULL ? JSON_KIND_NULL : json_kind(value);
    bool is_list = kind == JSON_KIND_ARRAY;
    size_t count = is_list ? json_len(value) : 1;
    if (kind == JSON_KIND_NULL || count == 0)
        buf_put_char(out, '-');
    else
        for (size_t i = 0; i < count; i++) {
            buf_put_cstr(out, i == 0 ? "" : ",");
            put_one(is_list ? json_at(value, i) : value, out);
        }
}

static void put_row(const struct json_t *row, const struct remote_column *columns,
                    const size_t *widths, struct buf *out)
{
    for (size_t i = 0; columns[i].member != NULL; i++) {
        AUTO_BUF struct buf cell = {0};
        if (row == NULL)
            buf_put_cstr(&cell, columns[i].head);
        else
            put_cell(member_of(row, columns[i].member), &cell);
        bool is_last = columns[i + 1].member == NULL;
        buf_printf(out, "%-*s%s", is_last ? 0 : (int)widths[i], buf_cstr(&cell),
                   is_last ? "\n" : "  ");
    }
}

void remote_put_table(const struct json_t *rows, const struct remote_column *columns,
                      struct buf *out)
{
    size_t widths[16] = {0};
    bool is_list = json_kind(rows) == JSON_KIND_ARRAY;
    bool has_head = columns[0].head != NULL;
    size_t count = is_list ? json_len(rows) : 1;
    for (size_t i = 0; columns[i].member != NULL; i++) {
        widths[i] = has_head ? strlen(columns[i].head) : 0;
        for (size_t k = 0; k < count; k++) {
            AUTO_BUF struct buf cell = {0};
            put_cell(member_of(is_list ? json_at(rows, k) : rows, columns[i].member), &cell);
            widths[i] = MAX(widths[i], cell.len);
        }
    }
    if (has_head)
        put_row(NULL, columns, widths, out);
    for (size_t k = 0; k < count; k++)
        put_row(is_list ? json_at(rows, k) : rows, columns, widths, out);
}

void remote_put_lines(const struct json_t *texts, struct buf *out)
{
    for (size_t i = 0; texts != NULL && i < json_len(texts); i++) {
        struct str text;
        if (!json_to_str(json_at(texts, i), &text))
            continue;
        cli_put_plain(out, text);
        buf_put_char(out, '\n');
    }
}

int remote_show(const struct cli_call *call, const char *method, const char *path, const char *body,
                const char *list, const struct remote_column *columns, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf out = {0};
    if (remote_open(call, &client, err) < 0 ||
        remote_call(client, method, path, body, &answer, err) < 0)
        return -1;
    if (answer != NULL && cli_has(call, "json")) {
        struct json_out json = {.buf = &out, .pretty = true};
        json_put_value(&json, answer);
        buf_put_char(&out, '\n');
    } else if (answer != NULL && columns != NULL) {
        remote_put_table(list == NULL ? answer : json_get(answer, list), columns, &out);
    }
    cli_print(buf_str(&out));
    return EXIT_OK;
}

/* `id=$(sandglass sandbox create)`: what a script wants of a table with one row. */
static const struct remote_column id_alone[] = {{"id", NULL}, {0}};

int remote_show_made(const struct cli_call *call, const char *path, const char *body,
                     const struct remote_column *columns, struct err *err)
{
    bool person = isatty(STDOUT_FILENO) == 1;
    return remote_show(call, "POST", path, body, NULL, person ? columns : id_alone, err);
}

void remote_put_text(const struct cli_call *call, const char *option, struct json_out *out)
{
    const char *text = cli_value(call, option);
    if (text != NULL)
        json_key(out, option), json_put_cstr(out, text);
}

int remote_put_number(const struct cli_call *call, const char *option, const char *member,
                      struct json_out *out, struct err *err)
{
    const char *text = cli_value(call, option);
    int64_t n;
    if (text == NULL)
        return 0;
    if (!str_to_i64(str_of(text), -1, INT64_MAX, &n))
        return err_set(err, ERR_INVALID, "--%s must be a number, got '%.40s'", option, text);
    json_key(out, member), json_put_i64(out, n);
    return 0;
}

int remote_put_pairs(const struct cli_call *call, const char *option, const char *member,
                     struct json_out *out, struct err *err)
{
    bool any = false;
    for (size_t i = 0; i < call->given_count; i++) {
        struct str pair = str_of(call->given[i].value);
        if (strcmp(call->given[i].option->name, option) != 0)
            continue;
        size_t equals = str_find_char(pair, '=');
        if (equals == 0 || equals >= pair.len)
            return err_set(err, ERR_INVALID, "--%s takes K=V, got '%.80s'", option, pair.ptr);
        if (!any)
            json_key(out, member), json_begin_object(out);
        any = true;
        json_key_str(out, str_slice(pair, 0, equals));
        json_put_str(out, str_slice(pair, equals + 1, pair.len));
    }
    if (any)
        json_end_object(out);
    return 0;
}

void remote_path(struct buf *out, const char *format, const char *argument)
{
    char *escaped = sg_escape(argument);
    for (const char *c = format; *c != '\0'; c++) {
        if (c[0] == '%' && c[1] == 's') {
            buf_put_cstr(out, escaped == NULL ? "" : escaped);
            c++;
        } else {
            buf_put_char(out, *c);
        }
    }
    sg_free(escaped);
}

void remote_file_path(struct buf *out, const char *sandbox, const char *door, const char *path)
{
    remote_path(out, "/v1/sandboxes/%s/", sandbox);
    buf_put_cstr(out, door);
    remote_path(out, "?path=%s", path);
}
