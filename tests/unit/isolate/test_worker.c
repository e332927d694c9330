#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "isolate/client/worker.h"
#include "isolate/inside/filter.h"
#include "isolate/wire/wire.h"

/* The locked process around the isolates, from outside and from inside. */

static const char *const bridges[] = {"echo", NULL};
static const struct worker_options options = {.bridges = bridges};

static struct isolate_limits limits_of(int64_t ms)
{
    struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
    limits.timeout_ms = ms;
    return limits;
}

static struct worker *start(void)
{
    struct err err = {0};
    struct worker *worker = NULL;
    CHECK_OK(worker_start(&options, &worker, &err));
    return worker;
}

static void collect(void *user, enum isolate_stream stream, struct str text)
{
    buf_printf(user, "%d:%.*s|", stream, STR_ARG(text));
}

static bool echo(UNUSED void *user, struct worker *worker, uint64_t id, struct str name,
                 struct str args, const char **why)
{
    struct err err = {0};
    if (!str_eq(name, STR("echo"))) {
        *why = "unknown";
        return false;
    }
    CHECK_OK(worker_answer(worker, id, true, args, &err));
    return true;
}

static void run(struct worker *worker, uint32_t isolate, const char *code, const char *json,
                const char *console)
{
    struct err err = {0};
    struct isolate_limits limits = limits_of(1000);
    AUTO_BUF struct buf out = {0};
    struct worker_host host = {.user = &out, .console = collect, .bridge = echo};
    struct isolate_call call = {.code = str_of(code), .is_session = isolate != 0};
    AUTO_RESULT struct isolate_result result = {0};
    CHECK_OK(worker_run(worker, isolate, &limits, &call, &host, &result, &err));
    CHECK_CSTR(buf_cstr(&result.error_stack), "");
    CHECK_CSTR(buf_cstr(&result.json), json);
    CHECK_CSTR(buf_cstr(&out), console);
}

TEST(worker_runs_code)
{
    AUTO_WORKER struct worker *worker = start();
    run(worker, 0, "1+1", "2", "");
    run(worker, 0, "console.log('a'); console.error({b: 1}); [1]", "[1]", "0:a|1:{ b: 1 }|");
    run(worker, 0, "await api.echo(1, 'x')", "[1,\"x\"]", "");
    run(worker, 0, "(await Promise.all([1, 2, 3].map(n => api.echo(n)))).flat()", "[1,2,3]", "");
    run(worker, 0, "await new Promise(r => setTimeout(r, 5)); await api.echo(2)", "[2]", "");
    CHECK_INT(worker_runs(worker), 5);
}

/* What was begun, to its last event. */
static struct worker_event last(struct worker *worker)
{
    struct worker_event event;
    for (worker_next(worker, &event); event.type < WORKER_DONE; worker_next(worker, &event)) {
        struct pollfd poller = {.fd = worker_fd(worker), .events = POLLIN};
        if (event.type == WORKER_WAITS)
            CHECK(poll(&poller, 1, 5000) >= 0);
    }
    return event;
}

TEST(worker_keeps_isolates)
{
    struct err err = {0};
    struct isolate_limits limits = limits_of(1000);
    AUTO_WORKER struct worker *worker = start();
    AUTO_WORKER struct worker *other = start();
    uint32_t a = 0, b = 0;
    CHECK_OK(worker_open(worker, &limits, &a, &err));
    CHECK_OK(worker_open(worker, &limits, &b, &err));
    run(worker, a, "globalThis.n = 1", "1", "");
    run(worker, b, "globalThis.n = 10", "10", "");
    run(worker, a, "++n", "2", "");
    run(worker, b, "n", "10", "");
    CHECK_OK(worker_begin_pause(worker, a, &err));
    struct worker_event paused = last(worker);
    CHECK_INT(paused.type, WORKER_BYTES);
    CHECK_OK(worker_begin_resume(other, paused.text, &limits, &err));
    struct worker_event resumed = last(other);
    CHECK_INT(resumed.type, WORKER_NUMBER);
    run(other, resumed.number, "++n", "3", "");
    CHECK_OK(worker_begin_resume(other, STR("junk"), &limits, &err));
    struct worker_event refused = last(other);
    CHECK_INT(refused.type, WORKER_FAILED);
    CHECK_INT(refused.err.code, ERR_INVALID);
    run(other, resumed.number, "n", "3", "");
    run(worker, a, "n", "2", "");
}

/* --- Answers that come late --- */

static uint64_t last_call;

static bool remember(UNUSED void *user, UNUSED struct worker *worker, uint64_t call,
                     UNUSED struct str name, UNUSED struct str args, UNUSED const char **why)
{
    last_call = call;
    return true;
}

TEST(worker_answers_between_runs_reach_only_their_isolate)
{
    struct err err = {0};
    struct isolate_limits limits = limits_of(300);
    AUTO_WORKER struct worker *worker = start();
    uint32_t a = 0;
    CHECK_OK(worker_open(worker, &limits, &a, &err));
    struct worker_host host = {.bridge = remember};
    struct isolate_call ask = {.code = STR("globalThis.got = api.echo(1); 1"), .is_session = true};
    AUTO_RESULT struct isolate_result result = {0};
    CHECK_OK(worker_run(worker, a, &limits, &ask, &host, &result, &err));
    CHECK_OK(worker_answer(worker, last_call, true, STR("\"late\""), &err));
    run(worker, a, "await got", "\"late\"", "");

    /* A fresh isolate times out waiting; its answer must not reach the next one's first call. */
    struct isolate_call wait = {.code = STR("await api.echo(1)")};
    CHECK_OK(worker_run(worker, 0, &limits, &wait, &host, &result, &err));
    CHECK_INT(result.status, ISOLATE_TIMEOUT);
    uint64_t stale = last_call;
    CHECK_OK(worker_answer(worker, stale, true, STR("\"stale\""), &err));
    run(worker, 0, "await api.echo('own')", "[\"own\"]", "");
}

/* While the worker is still writing lines. */
static void answer_long(void *user, UNUSED enum isolate_stream stream, UNUSED struct str text)
{
    struct err err = {0};
    AUTO_BUF struct buf json = {0};
    if (last_call == 0)
        return;
    buf_put_char(&json, '"');
    for (size_t i = 0; i < 4 << 20; i++)
        buf_put_char(&json, 'x');
    buf_put_char(&json, '"');
    CHECK_OK(worker_answer(*(struct worker **)user, last_call, true, buf_str(&json), &err));
    last_call = 0;
}

TEST(worker_and_host_do_not_wait_for_each_other)
{
    struct err err = {0};
    struct isolate_limits limits = limits_of(5000);
    limits.memory_bytes = 128 << 20;
    AUTO_WORKER struct worker *worker = start();
    struct worker_host host = {.user = &worker, .console = answer_long, .bridge = remember};
    struct isolate_call call = {
        .code = STR("const got = api.echo(1);"
                    "for (let i = 0; i < 100; i++) console.log('y'.repeat(8000));"
                    "(await got).length")};
    AUTO_RESULT struct isolate_result result = {0};
    CHECK_OK(worker_run(worker, 0, &limits, &call, &host, &result, &err));
    CHECK_CSTR(buf_cstr(&result.error_stack), "");
    CHECK_CSTR(buf_cstr(&result.json), "4194304");
    run(worker, 0, "1", "1", "");
}

static bool refuse(UNUSED void *user, UNUSED struct worker *worker, UNUSED uint64_t call,
                   UNUSED struct str name, UNUSED struct str args, const char **why)
{
    *why = "not \"this\" \\ way";
    return false;
}

TEST(worker_refusals_are_type_errors_with_their_line)
{
    struct err err = {0};
    struct isolate_limits limits = limits_of(1000);
    AUTO_WORKER struct worker *worker = start();
    struct worker_host host = {.bridge = refuse};
    struct isolate_call call = {.code = STR("1;\nawait api.echo(1)")};
    AUTO_RESULT struct isolate_result result = {0};
    CHECK_OK(worker_run(worker, 0, &limits, &call, &host, &result, &err));
    CHECK_CSTR(buf_cstr(&result.error_name), "TypeError");
    CHECK_CSTR(buf_cstr(&result.error_message), "not \"this\" \\ way");
    CHECK(str_find(buf_str(&result.error_stack), STR("script.js:2:")) < result.error_stack.len);
}

TEST(worker_reports_timeouts_and_goes_on)
{
    struct err err = {0};
    struct isolate_limits limits = limits_of(50);
    AUTO_WORKER struct worker *worker = start();
    struct isolate_call call = {.code = STR("for (;;) try { for (;;); } catch {}")};
    AUTO_RESULT struct isolate_result result = {0};
    CHECK_OK(worker_run(worker, 0, &limits, &call, NULL, &result, &err));
    CHECK_INT(result.status, ISOLATE_TIMEOUT);
    CHECK(!worker_is_dead(worker));
    run(worker, 0, "2", "2", "");
}

TEST(worker_is_killed_when_it_does_not_answer)
{
    struct err err = {0};
    struct isolate_limits limits = limits_of(50);
    AUTO_WORKER struct worker *worker = start();
    CHECK_INT(kill(worker_pid(worker), SIGSTOP), 0);
    struct isolate_call call = {.code = STR("1")};
    AUTO_RESULT struct isolate_result result = {0};
    CHECK_OK(worker_run(worker, 0, &limits, &call, NULL, &result, &err));
    CHECK_INT(result.status, ISOLATE_TIMEOUT);
    CHECK(worker_is_dead(worker));
    CHECK_ERR(worker_run(worker, 0, &limits, &call, NULL, &result, &err), ERR_GONE);
}

TEST(worker_death_is_a_crash)
{
    struct err err = {0};
    struct isolate_limits limits = limits_of(1000);
    AUTO_WORKER struct worker *worker = start();
    CHECK_INT(kill(worker_pid(worker), SIGKILL), 0);
    struct isolate_call call = {.code = STR("1")};
    AUTO_RESULT struct isolate_result result = {0};
    if (worker_run(worker, 0, &limits, &call, NULL, &result, &err) == 0)
        CHECK_INT(result.status, ISOLATE_CRASH);
    CHECK(worker_is_dead(worker));
}

/* --- Examined from outside --- */

TEST(worker_has_its_socket_and_nothing_else)
{
    AUTO_WORKER struct worker *worker = start();
    char path[64], line[256];
    (void)snprintf(path, sizeof path, "/proc/%d/fd", worker_pid(worker));
    DIR *dir = opendir(path);
    if (dir == NULL)
        SKIP("/proc of the worker cannot be read");
    int fds = 0;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir))
        fds += entry->d_name[0] != '.';
    (void)closedir(dir);
    CHECK_INT(fds, 1);
    (void)snprintf(path, sizeof path, "/proc/%d/status", worker_pid(worker));
    FILE *status = fopen(path, "re");
    CHECK(status != NULL);
    int seccomp = 0, no_new = 0, threads = 0;
    while (fgets(line, sizeof line, status) != NULL) {
        seccomp += strcmp(line, "Seccomp:\t2\n") == 0;
        no_new += strcmp(line, "NoNewPrivs:\t1\n") == 0;
        threads += strcmp(line, "Threads:\t1\n") == 0;
    }
    (void)fclose(status);
    CHECK_INT(seccomp + no_new + threads, 3);
}

/* Runs `probe` behind the filter; gives how the process ended. */
static int behind_filter(void (*probe)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        struct err err = {0};
        if (filter_lock(&err) < 0)
            _exit(99);
        probe();
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid);
    return status;
}

static void probe_open(void)
{
    (void)open("/etc/passwd", O_RDONLY | O_CLOEXEC);
}
static void probe_socket(void)
{
    (void)socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}
static void probe_fork(void)
{
    (void)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}
static void probe_exec(void)
{
    char *args[] = {NULL};
    (void)execve("/bin/true", args, args);
}
static void probe_kill(void)
{
    (void)syscall(SYS_kill, 1, 0);
}
static void probe_exec_memory(void)
{
    (void)mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
static void probe_make_exec(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)mprotect(page, 4096, PROT_READ | PROT_EXEC);
}
static void probe_dup(void)
{
    (void)syscall(SYS_dup, 0);
}
static void probe_fine(void)
{
    (void)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

TEST(worker_filter_ends_what_it_does_not_know)
{
    static void (*const probes[])(void) = {probe_open,      probe_socket, probe_fork,
                                           probe_exec,      probe_kill,   probe_exec_memory,
                                           probe_make_exec, probe_dup};
    for (size_t i = 0; i < countof(probes); i++) {
        int status = behind_filter(probes[i]);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
    }
    CHECK_INT(behind_filter(probe_fine), 0);
}

/* --- Raw bytes on the socket, towards the worker and from a worker that lies --- */

static int raw_worker(pid_t *ret_pid)
{
    int pair[2];
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    *ret_pid = fork();
    if (*ret_pid == 0) {
        (void)close(pair[0]);
        worker_serve(pair[1], &options, NULL);
    }
    (void)close(pair[1]);
    struct err err = {0};
    struct isolate_wire_frame frame;
    AUTO_BUF struct buf in = {0};
    CHECK_OK(isolate_wire_receive(pair[0], &in, 5000, &frame, &err));
    CHECK_INT(frame.type, WIRE_READY);
    return pair[0];
}

static void raw_case(const void *bytes, size_t size)
{
    pid_t pid = 0;
    AUTO_CLOSE int fd = raw_worker(&pid);
    CHECK(write(fd, bytes, size) == (ssize_t)size);
    (void)shutdown(fd, SHUT_WR);
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status)); /* by its own decision, not by a fault */
}

TEST(worker_ends_at_bad_requests)
{
    static const uint32_t cases[][4] = {
        {0, 0, 0, 0},           {0xffffffff, 1, 0, 0},          {0x7fffffff, 1, 0, 0},
        {0, 77, 0, 0},          {0, WIRE_DONE, 0, 0},           {4, WIRE_RUN, 0, 9},
        {4, WIRE_OPEN, 0, 9},   {0, WIRE_PAUSE, 5, 0},          {0, WIRE_PAUSE, 99999, 0},
        {4, WIRE_RESUME, 0, 1}, {0, WIRE_PAUSE, 0xffffffff, 0},
    };
    for (size_t i = 0; i < countof(cases); i++)
        raw_case(cases[i], WIRE_HEAD + (cases[i][0] == 4 ? 4 : 0));
    raw_case("abc", 3);
}

TEST(worker_takes_requests_byte_by_byte)
{
    struct err err = {0};
    pid_t pid = 0;
    AUTO_CLOSE int fd = raw_worker(&pid);
    struct isolate_limits limits = limits_of(1000);
    struct isolate_call call = {.code = STR("6*7")};
    AUTO_BUF struct buf out = {0}, in = {0};
    isolate_wire_begin(&out, WIRE_RUN, 0);
    isolate_wire_put_limits(&out, &limits);
    isolate_wire_put_call(&out, &call);
    isolate_wire_end(&out);
    for (size_t i = 0; i < out.len; i++)
        CHECK(write(fd, out.ptr + i, 1) == 1);
    struct isolate_wire_frame frame;
    CHECK_OK(isolate_wire_receive(fd, &in, 5000, &frame, &err));
    CHECK_INT(frame.type, WIRE_DONE);
    AUTO_RESULT struct isolate_result result = {0};
    CHECK(isolate_wire_get_result(&frame.body, &result));
    CHECK_CSTR(buf_cstr(&result.json), "42");
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

/* JS-05: what comes along with the bytes. */
static void send_with_fds(int to, struct str bytes)
{
    int fds[2] = {STDIN_FILENO, STDERR_FILENO};
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof fds)];
    } control = {0};
    struct iovec part = {(void *)(uintptr_t)bytes.ptr, bytes.len};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(head), fds, sizeof fds);
    CHECK(sendmsg(to, &message, 0) == (ssize_t)bytes.len);
}

static int count_fds(pid_t pid)
{
    char path[64];
    int count = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir))
        count += entry->d_name[0] != '.';
    (void)closedir(dir);
    return count;
}

static void put_run(struct buf *out, const char *code)
{
    struct isolate_limits limits = limits_of(1000);
    struct isolate_call call = {.code = str_of(code)};
    isolate_wire_begin(out, WIRE_RUN, 0);
    isolate_wire_put_limits(out, &limits);
    isolate_wire_put_call(out, &call);
    isolate_wire_end(out);
}

static void expect_done(int fd, const char *json)
{
    struct err err = {0};
    AUTO_BUF struct buf in = {0};
    struct isolate_wire_frame frame;
    CHECK_OK(isolate_wire_receive(fd, &in, 20000, &frame, &err));
    CHECK_INT(frame.type, WIRE_DONE);
    AUTO_RESULT struct isolate_result result = {0};
    CHECK(isolate_wire_get_result(&frame.body, &result));
    CHECK_CSTR(buf_cstr(&result.json), json);
}

TEST(worker_takes_no_descriptors)
{
    pid_t pid = 0;
    AUTO_CLOSE int fd = raw_worker(&pid);
    int before = count_fds(pid);
    AUTO_BUF struct buf out = {0};
    put_run(&out, "6*7");
    for (int i = 0; i < 100; i++) {
        send_with_fds(fd, buf_str(&out));
        expect_done(fd, "42");
    }
    CHECK_INT(count_fds(pid), before);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

TEST(worker_gives_no_descriptors)
{
    struct err err = {0};
    int pair[2];
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    AUTO_WORKER struct worker *worker = worker_adopt(pair[0]);
    struct isolate_limits limits = limits_of(1000);
    struct isolate_call call = {.code = STR("1")};
    AUTO_RESULT struct isolate_result done = {0}, result = {0};
    buf_put_cstr(&done.json, "1");
    AUTO_BUF struct buf out = {0};
    isolate_wire_begin(&out, WIRE_DONE, 0);
    isolate_wire_put_result(&out, &done);
    isolate_wire_end(&out);
    int before = count_fds(getpid());
    for (int i = 0; i < 100; i++) {
        send_with_fds(pair[1], buf_str(&out));
        CHECK_OK(worker_run(worker, 0, &limits, &call, NULL, &result, &err));
        CHECK_CSTR(buf_cstr(&result.json), "1");
    }
    CHECK_INT(count_fds(getpid()), before);
    (void)close(pair[1]);
}

static long resident_kb(pid_t pid)
{
    char path[64];
    long pages = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *file = fopen(path, "re");
    CHECK(file != NULL && fscanf(file, "%*s %ld", &pages) == 1);
    (void)fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

enum { PIPELINED = 1000000, AT_ONCE = 1000, MEMORY_MORE_KB = 16 << 10 };

/* Answers that nobody waits for, to any tag and any id. */
TEST(worker_bears_a_million_answers_nobody_asked_for)
{
    pid_t pid = 0;
    AUTO_CLOSE int fd = raw_worker(&pid);
    AUTO_BUF struct buf out = {0}, some = {0};
    put_run(&out, "'still here'");
    CHECK(write(fd, out.ptr, out.len) == (ssize_t)out.len);
    expect_done(fd, "\"still here\"");
    long before = resident_kb(pid);
    for (uint32_t i = 0; i < PIPELINED / AT_ONCE; i++) {
        struct err err = {0};
        buf_clear(&some);
        for (uint32_t j = 0; j < AT_ONCE; j++) {
            isolate_wire_begin(&out, WIRE_ANSWER, i);
            isolate_wire_put_u32(&out, j);
            isolate_wire_put_u32(&out, 1);
            isolate_wire_put_str(&out, STR("1"));
            isolate_wire_end(&out);
            buf_put(&some, buf_str(&out));
        }
        CHECK_OK(fd_write_all(fd, buf_str(&some), &err));
    }
    put_run(&out, "'still here'");
    CHECK(write(fd, out.ptr, out.len) == (ssize_t)out.len);
    expect_done(fd, "\"still here\"");
    CHECK(resident_kb(pid) - before < MEMORY_MORE_KB);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

/* A worker in foreign hands calls bridges without end and reads no answer. */
TEST(worker_that_floods_is_ended)
{
    struct err err = {0};
    int pair[2];
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    pid_t pid = fork();
    if (pid == 0) {
        AUTO_BUF struct buf call = {0};
        (void)close(pair[0]);
        for (uint32_t i = 0; i < PIPELINED; i++) {
            isolate_wire_begin(&call, WIRE_BRIDGE, 1);
            isolate_wire_put_u32(&call, i);
            isolate_wire_put_str(&call, STR("echo"));
            isolate_wire_put_str(&call, STR("[]"));
            isolate_wire_end(&call);
            if (send(pair[1], call.ptr, call.len, MSG_NOSIGNAL) < 0)
                _exit(0);
        }
        _exit(0);
    }
    (void)close(pair[1]);
    AUTO_WORKER struct worker *worker = worker_adopt(pair[0]);
    struct isolate_limits limits = limits_of(1000);
    struct isolate_call call = {.code = STR("1")};
    AUTO_RESULT struct isolate_result result = {0};
    CHECK_OK(worker_run(worker, 0, &limits, &call, NULL, &result, &err));
    CHECK(result.status == ISOLATE_CRASH || result.status == ISOLATE_TIMEOUT);
    CHECK(worker_is_dead(worker));
    CHECK(waitpid(pid, NULL, 0) == pid);
}

static void lying_case(const void *bytes, size_t size)
{
    struct err err = {0};
    int pair[2];
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    AUTO_WORKER struct worker *worker = worker_adopt(pair[0]);
    CHECK(write(pair[1], bytes, size) == (ssize_t)size);
    (void)shutdown(pair[1], SHUT_WR);
    struct isolate_limits limits = limits_of(200);
    struct isolate_call call = {.code = STR("1")};
    AUTO_RESULT struct isolate_result result = {0};
    if (worker_run(worker, 0, &limits, &call, NULL, &result, &err) == 0)
        CHECK_INT(result.status, ISOLATE_CRASH);
    CHECK(worker_is_dead(worker));
    (void)close(pair[1]);
}

TEST(worker_that_lies_is_ended)
{
    static const uint32_t cases[][5] = {
        {0xffffffff, WIRE_DONE, 0, 0, 0},
        {0, 0, 0, 0, 0},
        {0, WIRE_RUN, 0, 0, 0},
        {8, WIRE_DONE, 0, 77, 0},
        {8, WIRE_CONSOLE, 0, 2, 0},
        {8, WIRE_CONSOLE, 0, 0, 0xffffffff},
        {8, WIRE_BRIDGE, 0, 1, 0x7fffffff},
        {8, WIRE_FAILED, 0, 9999, 0},
        {0, WIRE_OPENED, 0, 0, 0},
        {0, WIRE_READY, 0, 0, 0},
    };
    for (size_t i = 0; i < countof(cases); i++)
        lying_case(cases[i], WIRE_HEAD + (cases[i][0] == 8 ? 8 : 0));
    lying_case("", 0);
}

/* What is passed on is escaped, so it must not be as long as a frame may be. */
static void put_long_result(struct buf *out, size_t json, size_t others)
{
    char *filler = mem_alloc(json + others);
    memset(filler, 1, json + others);
    isolate_wire_begin(out, WIRE_DONE, 0);
    isolate_wire_put_u32(out, ISOLATE_ERROR);
    isolate_wire_put_u32(out, 0);
    for (int i = 0; i < 5; i++)
        isolate_wire_put_u64(out, 0);
    isolate_wire_put_str(out, str_n(filler, json));
    for (int i = 0; i < 4; i++)
        isolate_wire_put_str(out, str_n(filler, others));
    isolate_wire_end(out);
    free(filler);
}

TEST(worker_that_says_too_much_is_cut_short)
{
    AUTO_BUF struct buf out = {0};
    AUTO_RESULT struct isolate_result result = {0};
    put_long_result(&out, 20 << 20, 10 << 20);
    struct str body = str_slice(buf_str(&out), WIRE_HEAD, out.len);
    CHECK(isolate_wire_get_result(&body, &result));
    CHECK_CSTR(buf_cstr(&result.json), "null");
    CHECK((result.text.len + (4 << 20)) * 6 < BUF_LIMIT_DEFAULT);
    CHECK((result.error_name.len + result.error_message.len + result.error_stack.len) * 6 <
          8 << 20);
}

TEST(worker_with_a_line_that_is_too_long_is_ended)
{
    AUTO_BUF struct buf out = {0};
    char *filler = mem_alloc(190 << 10);
    memset(filler, 1, 190 << 10);
    isolate_wire_begin(&out, WIRE_CONSOLE, 0);
    isolate_wire_put_u32(&out, 0);
    isolate_wire_put_str(&out, str_n(filler, 190 << 10));
    isolate_wire_end(&out);
    lying_case(out.ptr, out.len);
    free(filler);
}

TEST(worker_leaves_no_descriptors)
{
    int before = test_open_fds();
    for (int i = 0; i < 5; i++) {
        AUTO_WORKER struct worker *worker = start();
        run(worker, 0, "1", "1", "");
    }
    CHECK_INT(test_open_fds(), before);
}
