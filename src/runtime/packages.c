#include "runtime/packages.h"

#include <glob.h>

#include "base/buf.h"
#include "base/err.h"
#include "runtime/runtimes.h"

/* Modules whose distribution has another name. */
static const struct {
    const char *module, *package;
} python_names[] = {
    {"Crypto", "pycryptodome"},
    {"OpenSSL", "pyOpenSSL"},
    {"PIL", "pillow"},
    {"attr", "attrs"},
    {"bs4", "beautifulsoup4"},
    {"charset_normalizer", "charset-normalizer"},
    {"cv2", "opencv-python-headless"},
    {"dateutil", "python-dateutil"},
    {"docx", "python-docx"},
    {"dotenv", "python-dotenv"},
    {"fitz", "PyMuPDF"},
    {"git", "GitPython"},
    {"google", "google-api-python-client"},
    {"igraph", "python-igraph"},
    {"jose", "python-jose"},
    {"jwt", "PyJWT"},
    {"kafka", "kafka-python"},
    {"ldap3", "ldap3"},
    {"magic", "python-magic"},
    {"markdown", "Markdown"},
    {"mpl_toolkits", "matplotlib"},
    {"multipart", "python-multipart"},
    {"mysql", "mysql-connector-python"},
    {"MySQLdb", "mysqlclient"},
    {"nacl", "PyNaCl"},
    {"newspaper", "newspaper3k"},
    {"pkg_resources", "setuptools"},
    {"pptx", "python-pptx"},
    {"psycopg2", "psycopg2-binary"},
    {"pythoncom", "pywin32"},
    {"pyximport", "Cython"},
    {"rest_framework", "djangorestframework"},
    {"serial", "pyserial"},
    {"skimage", "scikit-image"},
    {"sklearn", "scikit-learn"},
    {"slugify", "python-slugify"},
    {"socks", "PySocks"},
    {"telegram", "python-telegram-bot"},
    {"tlz", "toolz"},
    {"usb", "pyusb"},
    {"websocket", "websocket-client"},
    {"whois", "python-whois"},
    {"wx", "wxPython"},
    {"yaml", "PyYAML"},
    {"zmq", "pyzmq"},
};

static bool is_word(char c)
{
    return char_is_alnum(c) || c == '_';
}

/* strchr finds the NUL behind its text, too. */
static bool is_one_of(const char *set, char c)
{
    return c != '\0' && strchr(set, c) != NULL;
}

/* Packages of npm: known by the sort of runtime that wants them. */
enum sort { NO_PACKAGES, PYTHON, NODE, DENO };

static enum sort sort_of(const struct runtime *runtime)
{
    if (strcmp(runtime->language, "python") == 0)
        return PYTHON;
    if (strcmp(runtime->name, "deno") == 0)
        return DENO;
    return strcmp(runtime->language, "javascript") == 0 ? NODE : NO_PACKAGES;
}

/* ---- names ---- */

static bool python_package(struct str module, struct str *ret_package)
{
    struct str top = str_slice(module, 0, str_find_char(module, '.'));
    if (top.len == 0 || top.len > PACKAGE_NAME_MAX || top.ptr[0] == '_')
        return false;
    for (size_t i = 0; i < top.len; i++)
        if (!is_word(top.ptr[i]))
            return false;
    *ret_package = top;
    for (size_t i = 0; i < countof(python_names); i++)
        if (str_eq(top, str_of(python_names[i].module)))
            *ret_package = str_of(python_names[i].package);
    return true;
}

/* The length of one part of an npm name, 0 if it is invalid. */
static size_t npm_part(struct str text)
{
    size_t len = 0;
    while (len < text.len &&
           (is_word(text.ptr[len]) || (len > 0 && is_one_of(".-~", text.ptr[len]))))
        len++;
    return len;
}

/* The length of "name" or "@scope/name" at the beginning, 0 if it is invalid. */
static size_t npm_name(struct str text)
{
    size_t scope = 0;
    if (text.len > 0 && text.ptr[0] == '@') {
        scope = npm_part(str_slice(text, 1, text.len)) + 2;
        if (scope == 2 || scope > text.len || text.ptr[scope - 1] != '/')
            return 0;
    }
    size_t name = npm_part(str_slice(text, scope, text.len));
    return name == 0 || scope + name > PACKAGE_NAME_MAX ? 0 : scope + name;
}

/* "name", "@scope/name", either with "@" and a range of versions. */
static bool is_npm(struct str text)
{
    size_t at = npm_name(text);
    if (at == 0 || text.len > PACKAGE_NAME_MAX)
        return false;
    if (at < text.len && (text.ptr[at++] != '@' || at == text.len))
        return false;
    for (; at < text.len; at++)
        if (!is_word(text.ptr[at]) && !is_one_of(".-~^<>=|*+ ", text.ptr[at]))
            return false;
    return true;
}

static struct str without_scheme(struct str text)
{
    bool has = str_starts(text, STR("npm:")) || str_starts(text, STR("jsr:"));
    return str_slice(text, has ? 4 : 0, text.len);
}

/* "name/file" is of "name"; Deno's "npm:name@1" and "jsr:@scope/name" are what they say. */
static bool npm_package(enum sort sort, struct str module, struct str *ret_package)
{
    if (sort == DENO && without_scheme(module).len < module.len) {
        *ret_package = module;
        return is_npm(without_scheme(module));
    }
    size_t len = npm_name(module);
    *ret_package = str_slice(module, 0, len);
    return len > 0 && (len == module.len || module.ptr[len] == '/');
}

bool package_of_module(const struct runtime *runtime, struct str module, struct str *ret_package)
{
    enum sort sort = sort_of(runtime);
    if (sort == PYTHON)
        return python_package(module, ret_package);
    return sort != NO_PACKAGES && npm_package(sort, module, ret_package);
}

static bool is_requirement(struct str package)
{
    bool is_fine = package.len > 0 && package.len <= PACKAGE_NAME_MAX && is_word(package.ptr[0]);
    for (size_t i = 0; i < package.len && is_fine; i++)
        is_fine = is_word(package.ptr[i]) || is_one_of("-.,<>=!~*[]; '\"+", package.ptr[i]);
    return is_fine;
}

static int packages_refuse(struct str package, const char *like, struct err *err)
{
    return err_set(err, ERR_INVALID, "'%.*s' is not a requirement like %s",
                   (int)MIN(package.len, (size_t)64), package.ptr == NULL ? "" : package.ptr, like);
}

int package_check(struct str package, struct err *err)
{
    if (is_requirement(package) || is_npm(without_scheme(package)))
        return 0;
    return packages_refuse(package, "'pandas', 'requests>=2,<3' or 'left-pad@^1'", err);
}

static int check_for(enum sort sort, struct str package, struct err *err)
{
    if (sort == PYTHON)
        return is_requirement(package)
                   ? 0
                   : packages_refuse(package, "'pandas' or 'requests>=2,<3'", err);
    bool is_fine = is_npm(sort == DENO ? without_scheme(package) : package);
    return is_fine ? 0 : packages_refuse(package, "'left-pad' or 'left-pad@^1'", err);
}

/* ---- what the host has ---- */

bool package_is_on_host(struct str module)
{
    /* Debian's, what an administrator installed, other distributions', Python's own. */
    static const char *const dirs[] = {"/usr/lib/python3.*", "/usr/lib/python3/dist-packages",
                                       "/usr/local/lib/python3.*/dist-packages",
                                       "/usr/lib/python3.*/site-packages",
                                       "/usr/lib64/python3.*/site-packages"};
    char pattern[512];
    bool is_there = false;
    for (size_t i = 0; i < countof(dirs) && !is_there; i++) {
        glob_t found = {0};
        (void)snprintf(pattern, sizeof pattern, "%s/%.*s{,.py}", dirs[i],
                       (int)MIN(module.len, (size_t)PACKAGE_NAME_MAX), module.ptr);
        is_there = glob(pattern, GLOB_BRACE, NULL, &found) == 0;
        globfree(&found);
    }
    return is_there;
}

void package_put_debian(struct str module, struct buf *out)
{
    buf_put_cstr(out, "python3-");
    for (size_t i = 0; i < module.len; i++) {
        char c = module.ptr[i];
        buf_put_char(out, (char)(c == '_' ? '-' : c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c));
    }
}

void packages_put_missing(const struct str *modules, size_t count, struct buf *out)
{
    for (size_t i = 0; i < count; i++) {
        if (package_is_on_host(modules[i]))
            continue;
        if (out->len > 0)
            buf_put_char(out, ' ');
        package_put_debian(modules[i], out);
    }
}

/* ---- installers ---- */

static const char *const pip[] = {"/usr/bin/python3",
                                  "-m",
                                  "pip",
                                  "install",
                                  "--user", /* to PYTHONUSERBASE, see env.c */
                                  "--no-input",
                                  "--no-cache-dir",
                                  "--disable-pip-version-check",
                                  "--no-warn-script-location",
                                  "-vv", /* else it does not say why an index gave nothing */
                                  NULL};
/* The host's npm, run by the runtime's Node: that is first in its PATH. */
static const char *const npm[] = {
    "/usr/bin/env",     "npm",       "install",    "--prefix",  PACKAGES_NODE,
    "--cache",          "/tmp/.npm", "--no-audit", "--no-fund", "--no-update-notifier",
    "--loglevel=error", NULL};
static const char deno_program[] = RUNTIME_TREES "/deno/deno";
static const char *const deno[] = {deno_program, "cache", "--quiet", "--no-config", NULL};

static const char *const *const installers[] = {[PYTHON] = pip, [NODE] = npm, [DENO] = deno};

int package_command(const struct runtime *runtime, const struct str *packages, size_t count,
                    struct arena *arena, const char *ret_argv[PACKAGE_ARGS_MAX], struct err *err)
{
    enum sort sort = sort_of(runtime);
    size_t used = 0;
    if (sort == NO_PACKAGES)
        return err_set(err, ERR_UNSUPPORTED, "%s has no packages to install", runtime->name);
    if (count > PACKAGES_MAX)
        return err_set(err, ERR_LIMIT, "more than %d packages at once", PACKAGES_MAX);
    for (const char *const *word = installers[sort]; *word != NULL; word++)
        ret_argv[used++] = *word;
    for (size_t i = 0; i < count; i++) {
        if (check_for(sort, packages[i], err) < 0)
            return -1;
        bool is_bare = sort == DENO && without_scheme(packages[i]).len == packages[i].len;
        ret_argv[used++] =
            arena_printf(arena, "%s%.*s", is_bare ? "npm:" : "", STR_ARG(packages[i])).ptr;
    }
    ret_argv[used] = NULL;
    return 0;
}
