#include "cli/remote.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "config/config.h"

enum { URL_MAX = 1024 };

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

/* Also when only the scheme is missing, as in 127.0.0.1:7070. */
static int refuse_url(const struct cli_call *call, const char *url, struct err *err)
{
    bool has_scheme = strstr(url, "://") != NULL || url[0] == '\0';
    return err_set(err, ERR_INVALID, "%s '%.80s' is not a server's address; write %s%.80s%s",
                   cli_value(call, "url") != NULL ? "--url" : "SANDGLASS_URL", url,
                   has_scheme ? "http://HOST:PORT, https://HOST or unix:/PATH" : "http://",
                   has_scheme ? "" : url, has_scheme ? "" : ", https://HOST or unix:/PATH");
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
        return refuse_url(call, buf_cstr(&url), err);
    if (cli_value(call, "cacert") != NULL)
        sg_set_ca_file(*ret_client, cli_value(call, "cacert"));
    return 0;
}

int remote_failed(const sg_client *client, struct err *err)
{
    const char *code = sg_error_code(client);
    enum err_code known = ERR_UNAVAILABLE;
    for (enum err_code each = 0; each < ERR_COUNT; each++)
        if (strcmp(err_wire_name(each), code) == 0)
            known = each;
    if (strcmp(code, "tls_error") == 0)
        return err_set(err, known,
                       "TLS to %.100s failed: %.150s; name the certificate of a private authority "
                       "with --cacert FILE or SSL_CERT_FILE",
                       sg_url(client), sg_error(client));
    if (sg_status(client) == 0)
        return err_set(err, known,
                       "no server answers at %.100s: %.150s; start one with 'sandglass serve', or "
                       "name another with --url",
                       sg_url(client), sg_error(client));
    if (known == ERR_UNAUTHORIZED) /* the server's words are for curl */
        return err_set(err, known,
                       "the server rejected the token; set SANDGLASS_TOKEN to a valid one, or name "
                       "the server's configuration with --config");
    if (sg_status(client) < 300 && known == ERR_UNAVAILABLE) /* in the middle of its answer */
        return err_set(err, known, "lost the connection to the server: %.150s", sg_error(client));
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

/* The sandbox of a session. */
static int find_in_session(sg_client *client, const char *session, bool wakes, struct buf *ret_id,
                           struct err *err)
{
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf path = {0};
    remote_path(&path, wakes ? "/v1/sessions/%s/use" : "/v1/sessions/%s", session);
    if (remote_call(client, wakes ? "POST" : "GET", buf_cstr(&path), NULL, &answer, err) < 0)
        return -1;
    struct str id = remote_text(answer, wakes ? "id" : "sandbox");
    if (id.len == 0)
        return err_set(err, ERR_CONFLICT, "session '%.64s' is dormant: it has no sandbox now",
                       session);
    buf_put(ret_id, id);
    return 0;
}

/* Whether `given` names a sandbox or a session. `ret_name` gets the sandbox's id, or what was given
 * for the session. */
static int find_kind(sg_client *client, const char *given, bool *ret_is_session,
                     struct buf *ret_name, struct err *err)
{
    AUTO_JSON struct json_t *found = NULL;
    AUTO_BUF struct buf path = {0}, session = {0};
    bool is_session = str_starts(str_of(given), STR("session:"));
    remote_path(&path, "/v1/sandboxes/%s", given);
    remote_path(&session, "/v1/sessions/%s", given);
    if (is_session) {
        buf_put_cstr(ret_name, given + strlen("session:"));
    } else if (remote_call(client, "GET", buf_cstr(&path), NULL, &found, err) == 0) {
        buf_put(ret_name, remote_text(found, "id"));
    } else if (err->code == ERR_FORBIDDEN) { /* a token that may use it and not look at it */
        buf_put_cstr(ret_name, given);
    } else if (err->code != ERR_NOT_FOUND) {
        return -1;
    } else if (remote_call(client, "GET", buf_cstr(&session), NULL, NULL, err) == 0) {
        buf_put_cstr(ret_name, given);
        is_session = true;
    } else {
        return err->code != ERR_NOT_FOUND
                   ? -1
                   : err_set(err, ERR_NOT_FOUND, "no sandbox or session '%.64s'", given);
    }
    *ret_is_session = is_session;
    return 0;
}

int remote_find_kind(const struct cli_call *call, const char *given, bool *ret_is_session,
                     struct buf *ret_name, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    if (remote_open(call, &client, err) < 0)
        return -1;
    return find_kind(client, given, ret_is_session, ret_name, err);
}

int remote_find_sandbox(const struct cli_call *call, const char *given, bool wakes,
                        struct buf *ret_id, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_BUF struct buf name = {0};
    bool is_session = false;
    if (remote_open(call, &client, err) < 0 ||
        find_kind(client, given, &is_session, &name, err) < 0)
        return -1;
    if (is_session)
        return find_in_session(client, buf_cstr(&name), wakes, ret_id, err);
    buf_put(ret_id, buf_str(&name));
    return 0;
}

struct str remote_text(const struct json_t *object, const char *member)
{
    struct str text = {0};
    (void)!json_to_str(json_get(object, member), &text);
    return text;
}

static void remote_put_json(const struct json_t *answer, struct buf *out)
{
    struct json_out json = {.buf = out, .pretty = true};
    json_put_value(&json, answer);
    buf_put_char(out, '\n');
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
    if (answer != NULL && cli_has(call, "json"))
        remote_put_json(answer, &out);
    else if (answer != NULL && columns != NULL)
        remote_put_table(list == NULL ? answer : json_get(answer, list), columns, &out);
    cli_print(buf_str(&out));
    if (list != NULL && !cli_has(call, "json") && remote_text(answer, "next").len > 0)
        (void)fprintf(stderr, "sandglass: only the first %zu are shown\n",
                      json_len(json_get(answer, list)));
    return EXIT_OK;
}

int remote_show_one(const struct cli_call *call, const char *path,
                    const struct remote_column *columns, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf out = {0};
    if (remote_open(call, &client, err) < 0 ||
        remote_call(client, "GET", path, NULL, &answer, err) < 0)
        return -1;
    if (answer != NULL && cli_has(call, "json"))
        remote_put_json(answer, &out);
    else if (answer != NULL)
        remote_put_block(answer, columns, &out);
    cli_print(buf_str(&out));
    return EXIT_OK;
}

/* `id=$(sandglass sandbox create)`: what a script wants of the table. */
static const struct remote_column id_alone[] = {{"id", NULL}, {0}};

const struct remote_column *remote_made_columns(const struct remote_column *columns)
{
    return isatty(STDOUT_FILENO) == 1 ? columns : id_alone;
}

int remote_show_made(const struct cli_call *call, const char *path, const char *body,
                     const struct remote_column *columns, struct err *err)
{
    return remote_show(call, "POST", path, body, NULL, remote_made_columns(columns), err);
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

void remote_file_path(struct buf *out, const char *sandbox, const char *route, const char *path)
{
    remote_path(out, "/v1/sandboxes/%s/", sandbox);
    buf_put_cstr(out, route);
    remote_path(out, "?path=%s", path);
}
