/* What JavaScript interpreters cannot do in JavaScript: move their socket to a descriptor that the
 * code does not use, write to it, and be interrupted while they compute. Loaded by script/node.mjs
 * and script/deno.mjs; runs inside the jail.
 *
 * A signal reaches JavaScript only between two of its turns, so code that never ends a turn would
 * never get it. Here a thread waits for SIGINT in addition to Node's own handler. If the main
 * thread does not call heard() soon, it is computing: then V8 terminates the running code, which
 * may be a cell or the call of a timer.
 *
 * Only Node's C interface and three functions of V8 without arguments are used, found by name when
 * the library is loaded, so that nothing of Node is needed to build it. */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#include "base/base.h"

enum { LINE_MIN = 10, PATIENCE_US = 30000, NAPI_OK = 0 };

/* Of Node-API, whose binary interface is stable (node_api.h). */
typedef struct napi_value_ *napi_value;
typedef struct napi_env_ *napi_env;
typedef struct napi_info_ *napi_info;
typedef napi_value (*napi_function)(napi_env env, napi_info info);
int napi_create_function(napi_env, const char *, size_t, napi_function, void *, napi_value *);
int napi_create_int32(napi_env, int32_t, napi_value *);
int napi_get_boolean(napi_env, bool, napi_value *);
int napi_get_buffer_info(napi_env, napi_value, void **, size_t *);
int napi_get_cb_info(napi_env, napi_info, size_t *, napi_value *, napi_value *, void **);
int napi_get_value_int32(napi_env, napi_value, int32_t *);
int napi_set_named_property(napi_env, napi_value, const char *, napi_value);
int napi_throw_error(napi_env, const char *code, const char *message);
napi_value napi_register_module_v1(napi_env env, napi_value exports);

/* One interrupt at a time:
 *   QUIET -> ASKED       on_sigint
 *   ASKED -> QUIET       heard(): the main thread deals with it
 *   ASKED -> TERMINATED  the thread, which then has V8 end what runs
 *   TERMINATED -> QUIET  heard(), which cancels the termination if it has not happened yet */
enum state { QUIET, ASKED, TERMINATED };
static atomic_int state = QUIET;
/* The current run, 0 for none, and the run that the interrupt was meant for: that run may end
 * before the interrupt is handled, and the next one must not be interrupted. */
static atomic_int run_now, run_meant;

static sem_t asked;
static struct sigaction nodes;
static void *isolate;
static void (*terminate)(void *isolate);
static void (*cancel)(void *isolate);

static void on_sigint(int signo, siginfo_t *info, void *context)
{
    int kept = errno;
    int quiet = QUIET;
    if (atomic_compare_exchange_strong(&state, &quiet, ASKED)) {
        atomic_store(&run_meant, atomic_load(&run_now));
        (void)sem_post(&asked);
    }
    if ((nodes.sa_flags & SA_SIGINFO) != 0)
        nodes.sa_sigaction(signo, info, context);
    else if (nodes.sa_handler != SIG_DFL && nodes.sa_handler != SIG_IGN)
        nodes.sa_handler(signo);
    errno = kept;
}

static void *node_addon_watch(void *ctx)
{
    for (;;) {
        int expected = ASKED;
        while (sem_wait(&asked) < 0)
            ;
        (void)usleep(PATIENCE_US);
        if (atomic_load(&run_meant) == atomic_load(&run_now) &&
            atomic_compare_exchange_strong(&state, &expected, TERMINATED))
            terminate(isolate);
    }
    return ctx;
}

/* An interrupt that was under way is dealt with now: the run that it was meant for, or 0. */
static int node_addon_settle(void)
{
    int was = atomic_exchange(&state, QUIET);
    if (was == TERMINATED)
        cancel(isolate);
    return was == QUIET ? 0 : atomic_load(&run_meant);
}

static napi_value heard(napi_env env, UNUSED napi_info info)
{
    napi_value result = NULL;
    (void)napi_create_int32(env, node_addon_settle(), &result);
    return result;
}

/* marked(id): the run under way, 0 for none. */
static napi_value marked(napi_env env, napi_info info)
{
    napi_value arg = NULL;
    size_t count = 1;
    int32_t id = 0;
    if (napi_get_cb_info(env, info, &count, &arg, NULL, NULL) == NAPI_OK &&
        napi_get_value_int32(env, arg, &id) == NAPI_OK)
        atomic_store(&run_now, id);
    return NULL;
}

/* Code that reads its standard input finds nothing there. */
static int node_addon_take_line(void)
{
    int line = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, LINE_MIN);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null >= 0)
        (void)dup2(null, STDIN_FILENO);
    (void)close(null);
    return line;
}

static napi_value take_line_from_js(napi_env env, UNUSED napi_info info)
{
    napi_value result = NULL;
    (void)napi_create_int32(env, node_addon_take_line(), &result);
    return result;
}

static bool find_engine(void)
{
    void *(*current)(void);
    *(void **)&current = dlsym(RTLD_DEFAULT, "_ZN2v87Isolate10GetCurrentEv");
    *(void **)&terminate = dlsym(RTLD_DEFAULT, "_ZN2v87Isolate18TerminateExecutionEv");
    *(void **)&cancel = dlsym(RTLD_DEFAULT, "_ZN2v87Isolate24CancelTerminateExecutionEv");
    if (current == NULL || terminate == NULL || cancel == NULL)
        return false;
    isolate = current();
    return true;
}

/* After Node's own handler is in place, which ours calls. False for programs that hide V8. */
static bool watch_sigint(void)
{
    struct sigaction ours = {.sa_sigaction = on_sigint, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigset_t all, before;
    pthread_t thread;
    if (!find_engine() || sem_init(&asked, 0, 0) < 0)
        return false;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int made = pthread_create(&thread, NULL, node_addon_watch, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return made == 0 && sigaction(SIGINT, NULL, &nodes) == 0 && sigaction(SIGINT, &ours, NULL) == 0;
}

static napi_value watch_from_js(napi_env env, UNUSED napi_info info)
{
    napi_value result = NULL;
    (void)napi_get_boolean(env, watch_sigint(), &result);
    return result;
}

/* Waits until the pipe has room, as a blocking write would. */
static ssize_t write_some(int fd, const void *bytes, size_t size)
{
    for (;;) {
        ssize_t done = write(fd, bytes, size);
        if (done >= 0 || (errno != EAGAIN && errno != EINTR))
            return done;
        (void)poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
    }
}

/* write(fd, bytes): how many were written. */
static napi_value write_from_js(napi_env env, napi_info info)
{
    napi_value args[2], result = NULL;
    size_t count = countof(args), size = 0;
    int32_t fd = -1;
    void *bytes = NULL;
    if (napi_get_cb_info(env, info, &count, args, NULL, NULL) != NAPI_OK ||
        napi_get_value_int32(env, args[0], &fd) != NAPI_OK ||
        napi_get_buffer_info(env, args[1], &bytes, &size) != NAPI_OK) {
        (void)napi_throw_error(env, "EINVAL", "write: needs a descriptor and bytes");
        return NULL;
    }
    ssize_t done = write_some(fd, bytes, size);
    if (done < 0)
        (void)napi_throw_error(env, "EIO", "write: the reader has closed the channel");
    else
        (void)napi_create_int32(env, (int32_t)done, &result);
    return result;
}

static void offer(napi_env env, napi_value exports, const char *name, napi_function function)
{
    napi_value value;
    if (napi_create_function(env, name, strlen(name), function, NULL, &value) == NAPI_OK)
        (void)napi_set_named_property(env, exports, name, value);
}

napi_value napi_register_module_v1(napi_env env, napi_value exports)
{
    offer(env, exports, "heard", heard);
    offer(env, exports, "marked", marked);
    offer(env, exports, "watch", watch_from_js);
    offer(env, exports, "takeLine", take_line_from_js);
    offer(env, exports, "write", write_from_js);
    return exports;
}
