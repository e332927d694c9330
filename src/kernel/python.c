#include "kernel/python.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <sys/socket.h>
#include <unistd.h>
#include <wchar.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/fd_pass.h"

struct object;

/* A function that Python calls: with one argument, a bytes object. */
struct method {
    const char *name;
    struct object *(*call)(struct object *, struct object *);
    int flags;
    const char *text;
};
enum { ONE_ARGUMENT = 8 };

/* The part of the stable ABI that we use: result, name, arguments. */
#define PYTHON_CALLS(X)                                                                            \
    X(void, Py_SetProgramName, (const wchar_t *))                                                  \
    X(void, Py_InitializeEx, (int))                                                                \
    X(struct object *, Py_CompileString, (const char *, const char *, int))                        \
    X(struct object *, PyImport_ExecCodeModule, (const char *, struct object *))                   \
    X(struct object *, PyImport_ImportModule, (const char *))                                      \
    X(struct object *, PyObject_CallMethod, (struct object *, const char *, const char *, ...))    \
    X(struct object *, PyBytes_FromStringAndSize, (const char *, ssize_t))                         \
    X(char *, PyBytes_AsString, (struct object *))                                                 \
    X(struct object *, PyCFunction_NewEx, (struct method *, struct object *, struct object *))     \
    X(int, PyObject_SetAttrString, (struct object *, const char *, struct object *))               \
    X(void, PyErr_Print, (void))                                                                   \
    X(void, Py_DecRef, (struct object *))                                                          \
    X(void, PyOS_BeforeFork, (void))                                                               \
    X(void, PyOS_AfterFork_Parent, (void))                                                         \
    X(void, PyOS_AfterFork_Child, (void))

#define X(result, name, args) result(*name) args;
static struct {
    PYTHON_CALLS(X)
} py;
#undef X

enum { FILE_INPUT = 257, NO_SIGNALS = 0 };

static const struct {
    const char *name;
    size_t offset;
} calls[] = {
#define X(result, name, args) {#name, offsetof(__typeof__(py), name)},
    PYTHON_CALLS(X)
#undef X
};

static int minor_version(const char *path)
{
    const char *dot = strstr(path, "libpython3.");
    return dot == NULL ? -1 : (int)strtol(dot + strlen("libpython3."), NULL, 10);
}

int python_find(const char *root, char *out, size_t size, struct err *err)
{
    char pattern[512];
    glob_t found = {0};
    int best = -1;
    (void)snprintf(pattern, sizeof pattern, "%s/usr/lib/*/libpython3.*.so.1.0", root);
    (void)glob(pattern, 0, NULL, &found);
    (void)snprintf(pattern, sizeof pattern, "%s/usr/lib/libpython3.*.so.1.0", root);
    (void)glob(pattern, GLOB_APPEND, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        int minor = minor_version(found.gl_pathv[i]);
        if (minor > best && strlen(found.gl_pathv[i]) < size) {
            best = minor;
            memcpy(out, found.gl_pathv[i], strlen(found.gl_pathv[i]) + 1);
        }
    }
    globfree(&found);
    if (best < 0)
        return err_set(
            err, ERR_NOT_FOUND,
            "libpython3 is not installed; install the package 'libpython3-stdlib libpython3.11'");
    return 0;
}

static int python_load(const char *library, struct err *err)
{
    /* Global, because extension modules look up symbols in the program that loaded them. */
    void *handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
    if (handle == NULL)
        return err_set(err, ERR_UNAVAILABLE, "%s", dlerror());
    for (size_t i = 0; i < countof(calls); i++) {
        void *symbol = dlsym(handle, calls[i].name);
        if (symbol == NULL)
            return err_set(err, ERR_UNSUPPORTED, "'%s' has no %s", library, calls[i].name);
        memcpy((char *)&py + calls[i].offset, &symbol, sizeof symbol);
    }
    return 0;
}

/* Says on standard error what Python has to say, and answers in one line. */
static int python_failed(struct err *err, const char *what)
{
    py.PyErr_Print();
    return err_set(err, ERR_INTERNAL, "python: %s", what);
}

static int run_module(const struct embed_file *file, struct err *err)
{
    char name[64], text[64];
    bool package = strcmp(file->name, "__init__") == 0;
    (void)snprintf(name, sizeof name, "sandglass%s%s", package ? "" : ".",
                   package ? "" : file->name);
    (void)snprintf(text, sizeof text, "run '%s'", name);
    struct object *code = py.Py_CompileString(file->bytes.ptr, "<sandglass>", FILE_INPUT);
    struct object *module = code == NULL ? NULL : py.PyImport_ExecCodeModule(name, code);
    if (module == NULL)
        return python_failed(err, text);
    py.Py_DecRef(module);
    py.Py_DecRef(code);
    return 0;
}

int python_start(const char *library, const char *program, const struct embed_file *modules,
                 struct err *err)
{
    static wchar_t name[256]; /* the interpreter keeps the pointer */
    if (python_load(library, err) < 0)
        return -1;
    (void)swprintf(name, countof(name), L"%s", program);
    py.Py_SetProgramName(name);
    py.Py_InitializeEx(NO_SIGNALS);
    for (const struct embed_file *file = modules; file->name != NULL; file++)
        if (run_module(file, err) < 0)
            return -1;
    return 0;
}

static struct object *kernel_module; /* held for good: a fork has no time to look it up */

static int find_kernel(struct err *err)
{
    if (kernel_module == NULL)
        kernel_module = py.PyImport_ImportModule("sandglass.main");
    return kernel_module == NULL ? python_failed(err, "import the modules of the interpreter") : 0;
}

/* --- Its memory as a file --- */

static python_copy *copy_kernel;

void python_set_copy(python_copy *copy)
{
    copy_kernel = copy;
}

/* The descriptor of the file comes with one byte behind the frame that announced it. */
static int take_descriptor(int line)
{
    char byte;
    struct iovec part = {&byte, 1};
    int fd = -1;
    size_t count = 0;
    return fd_recv(line, &part, 1, &fd, 1, &count, 0) < 0 ? -1 : fd;
}

static struct object *as_bytes(char mark, struct str text)
{
    AUTO_BUF struct buf out = {0};
    buf_put_char(&out, mark);
    buf_put(&out, text);
    return py.PyBytes_FromStringAndSize(out.ptr, (ssize_t)out.len);
}

struct copy_request {
    uint64_t limit;
    int32_t line;
};

/* sandglass.main.copy(request): b"+" when it is done, b"-" and why not, b"=" and the environment in
 * the interpreter that continues. */
static struct object *copy_self(UNUSED struct object *module, struct object *argument)
{
    struct copy_request request;
    struct str env = {0};
    struct err err = {0};
    const char *bytes = py.PyBytes_AsString(argument);
    if (bytes == NULL)
        return NULL;
    memcpy(&request, bytes, sizeof request.limit + sizeof request.line);
    int fd = take_descriptor(request.line);
    if (fd < 0 || copy_kernel == NULL) {
        fd_close(&fd);
        return as_bytes(
            '-', STR("the interpreter was started from its executable, not forked from a zygote"));
    }
    py.PyOS_BeforeFork();
    int done = copy_kernel(fd, request.limit, &env, &err);
    if (done > 0) {
        py.PyOS_AfterFork_Child();
        return as_bytes('=', env);
    }
    py.PyOS_AfterFork_Parent();
    return done < 0 ? as_bytes('-', str_of(err.msg)) : as_bytes('+', (struct str){0});
}

static int offer_copy(struct err *err)
{
    static struct method method = {"copy", copy_self, ONE_ARGUMENT, NULL};
    struct object *function = py.PyCFunction_NewEx(&method, NULL, NULL);
    if (function == NULL || py.PyObject_SetAttrString(kernel_module, "copy", function) < 0)
        return python_failed(err, "offer copies");
    py.Py_DecRef(function);
    return 0;
}

/* --- Its life --- */

int python_prepare(const char *names, bool is_zygote, char *ret_missing, size_t size,
                   struct err *err)
{
    if (find_kernel(err) < 0 || offer_copy(err) < 0)
        return -1;
    struct object *missing =
        py.PyObject_CallMethod(kernel_module, "prepare", "(si)", names, (int)is_zygote);
    const char *text = missing == NULL ? NULL : py.PyBytes_AsString(missing);
    if (text == NULL)
        return python_failed(err, "prepare");
    (void)snprintf(ret_missing, size, "%s", text);
    py.Py_DecRef(missing);
    return 0;
}

int python_serve(int fd, struct err *err)
{
    if (find_kernel(err) < 0)
        return -1;
    struct object *done = py.PyObject_CallMethod(kernel_module, "serve", "(i)", fd);
    if (done == NULL)
        return python_failed(err, "serve");
    py.Py_DecRef(done);
    return 0;
}

void python_in_child(void)
{
    py.PyOS_AfterFork_Child();
}

void python_rehearse(void)
{
    struct object *done = py.PyObject_CallMethod(kernel_module, "rehearse", "()");
    if (done != NULL)
        py.Py_DecRef(done);
}

void python_before_fork(void)
{
    py.PyOS_BeforeFork();
}

void python_after_fork(void)
{
    py.PyOS_AfterFork_Parent();
}

int python_awake(struct str env, struct err *err)
{
    struct object *bytes = py.PyBytes_FromStringAndSize(env.ptr, (ssize_t)env.len);
    struct object *other =
        bytes == NULL ? NULL : py.PyObject_CallMethod(kernel_module, "awake", "(O)", bytes);
    const char *name = other == NULL ? NULL : py.PyBytes_AsString(other);
    if (name == NULL)
        return python_failed(err, "awake");
    if (name[0] != '\0')
        return err_set(err, ERR_UNSUPPORTED, "the sandbox has its own '%s'", name);
    return 0;
}
