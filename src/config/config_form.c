/* What strings of the configuration must look like. A value that passes can be handed on without
 * quoting: none of them may begin with '-' or hold a control character. */

#include "config/config_schema.h"

#include "base/err.h"
#include "io/listen.h"

/* One or more of letters, digits and `others`, beginning with a letter or digit. */
static bool is_word(struct str s, const char *others)
{
    if (s.len == 0 || !char_is_alnum(s.ptr[0]))
        return false;
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] == '\0' || (!char_is_alnum(s.ptr[i]) && strchr(others, s.ptr[i]) == NULL))
            return false;
    return true;
}

static bool is_lower(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] >= 'A' && s.ptr[i] <= 'Z')
            return false;
    return true;
}

static bool is_one_line(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.ptr[i] < 0x20 || s.ptr[i] == 0x7f)
            return false;
    return s.len > 0;
}

static bool is_port(struct str s)
{
    int64_t port;
    return s.len <= 5 && str_to_i64(s, 0, 65535, &port);
}

static bool is_host_name(struct str s)
{
    if (s.len == 0 || s.len > 253)
        return false;
    struct str part;
    while (str_split(&s, '.', &part))
        if (part.len > 63 || !is_word(part, "-") || part.ptr[part.len - 1] == '-')
            return false;
    return true;
}

/* The server's own reading: what passes here can be listened on, if the machine has it. */
static bool is_address(struct str s)
{
    struct addr addr;
    struct err err;
    return addr_parse(s, &addr, &err) == 0;
}

static bool is_egress_host(struct str s)
{
    size_t colon = str_find_char(s, ':');
    if (colon < s.len && !is_port(str_slice(s, colon + 1, s.len)))
        return false;
    s = str_slice(s, 0, colon);
    if (str_starts(s, STR("*.")))
        s = str_slice(s, 2, s.len);
    return is_lower(s) && is_host_name(s);
}

static bool is_own_host(struct str s)
{
    return is_egress_host(s) && s.ptr[0] != '*';
}

static bool is_path(struct str s)
{
    return is_one_line(s) && (s.ptr[0] == '/' || str_starts(s, STR("~/")));
}

static bool is_url(struct str s)
{
    size_t scheme = str_starts(s, STR("https://")) ? 8 : str_starts(s, STR("http://")) ? 7 : 0;
    struct str rest = str_slice(s, scheme, s.len);
    for (size_t i = 0; i < rest.len; i++)
        if ((unsigned char)rest.ptr[i] <= 0x20 || (unsigned char)rest.ptr[i] >= 0x7f)
            return false;
    /* Credentials in a URL would be shown and logged with it. */
    struct str authority = str_slice(rest, 0, str_find_char(rest, '/'));
    return scheme > 0 && authority.len > 0 && authority.ptr[0] != ':' &&
           str_find_char(authority, '@') == authority.len;
}

static bool is_docs(struct str s)
{
    return str_eq(s, STR("package")) || is_url(s) || is_path(s);
}

static bool is_variable(struct str s)
{
    bool leads = s.len > 0 && (s.ptr[0] == '_' || is_word(str_slice(s, 0, 1), ""));
    for (size_t i = 0; i < s.len; i++)
        if (!char_is_alnum(s.ptr[i]) && s.ptr[i] != '_')
            return false;
    return leads && !char_is_digit(s.ptr[0]);
}

static bool is_package(struct str s)
{
    if (str_starts(s, STR("pypi:")))
        return is_word(str_slice(s, 5, s.len), "-_.");
    if (str_starts(s, STR("@"))) {
        size_t slash = str_find_char(s, '/');
        if (!is_word(str_slice(s, 1, slash), "-_.~"))
            return false;
        s = str_slice(s, slash + 1, s.len);
    }
    return s.len <= 214 && is_lower(s) && is_word(s, "-_.~");
}

static bool is_model(struct str s)
{
    size_t slash = str_find_char(s, '/');
    return is_one_line(s) && slash > 0 && slash + 1 < s.len;
}

static bool is_name(struct str s)
{
    return s.len <= 64 && is_lower(s) && is_word(s, "-_");
}

static bool is_version(struct str s)
{
    return is_word(s, "-_.+");
}

static const struct {
    bool (*matches)(struct str s);
    const char *name;
} forms[] = {
    [CONFIG_ANY] = {is_one_line, "one line of text"},
    [CONFIG_ADDRESS] = {is_address, "an address like 127.0.0.1:7070, [::1]:7070 or unix:/PATH"},
    [CONFIG_PATH] = {is_path, "a path that begins with / or ~/"},
    [CONFIG_URL] = {is_url, "a URL with http:// or https://, without user and password"},
    [CONFIG_DOCS] = {is_docs,
                     "a URL, a file or directory that begins with / or ~/, or \"package\""},
    [CONFIG_HOST] = {is_egress_host, "a host like api.example.com or *.example.com"},
    [CONFIG_OWN_HOST] = {is_own_host, "a host like box.example.com"},
    [CONFIG_VARIABLE] = {is_variable, "the name of an environment variable"},
    [CONFIG_PACKAGE] = {is_package, "an npm package name, or pypi: and a Python package name"},
    [CONFIG_VERSION] = {is_version, "a version like 1.2.3"},
    [CONFIG_NAME] = {is_name, "a name of lower-case letters, digits, - and _"},
    [CONFIG_MODEL] = {is_model, "a model as PROVIDER/MODEL"},
};
static_assert(countof(forms) == CONFIG_FORM_COUNT, "every form has its check");

const char *config_form_name(enum config_form form)
{
    return forms[form].name;
}

bool config_form_matches(enum config_form form, struct str s)
{
    return forms[form].matches(s);
}
