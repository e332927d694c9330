#include "runtime/packages.h"

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
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_python(const struct runtime *runtime)
{
    return strcmp(runtime->language, "python") == 0;
}

bool package_of_module(const struct runtime *runtime, struct str module, struct str *ret_package)
{
    struct str top = str_slice(module, 0, str_find_char(module, '.'));
    if (!is_python(runtime) || top.len == 0 || top.len > PACKAGE_NAME_MAX || top.ptr[0] == '_')
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

int package_check(struct str package, struct err *err)
{
    bool is_fine = package.len > 0 && package.len <= PACKAGE_NAME_MAX && is_word(package.ptr[0]);
    for (size_t i = 0; i < package.len && is_fine; i++)
        is_fine = is_word(package.ptr[i]) || strchr("-.,<>=!~*[]; '\"+", package.ptr[i]) != NULL;
    return is_fine
               ? 0
               : err_set(err, ERR_INVALID,
                         "'%.*s' is no requirement like 'pandas' or 'requests>=2,<3'",
                         (int)MIN(package.len, (size_t)64), package.ptr == NULL ? "" : package.ptr);
}

int package_command(const struct runtime *runtime, const struct str *packages, size_t count,
                    struct arena *arena, const char *ret_argv[PACKAGE_ARGS_MAX], struct err *err)
{
    static const char *const pip[] = {"/usr/bin/python3",
                                      "-m",
                                      "pip",
                                      "install",
                                      "--target",
                                      PACKAGES_PYTHON,
                                      "--upgrade",
                                      "--no-input",
                                      "--no-cache-dir",
                                      "--disable-pip-version-check",
                                      "--no-warn-script-location",
                                      "--quiet"};
    size_t used = 0;
    if (!is_python(runtime))
        return err_set(err, ERR_UNSUPPORTED, "%s has no packages to install", runtime->name);
    if (count > PACKAGES_MAX)
        return err_set(err, ERR_LIMIT, "more than %d packages at once", PACKAGES_MAX);
    for (size_t i = 0; i < countof(pip); i++)
        ret_argv[used++] = pip[i];
    for (size_t i = 0; i < count; i++) {
        if (package_check(packages[i], err) < 0)
            return -1;
        ret_argv[used++] = arena_dup(arena, packages[i]).ptr;
    }
    ret_argv[used] = NULL;
    return 0;
}
