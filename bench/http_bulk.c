/* Long transfers beside cp, and what stays of many: cycles of create, run and delete; sessions and
 * sandboxes that nobody uses. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/vec.h"
#include "bench.h"
#include "http_rig.h"

enum { PIECE = 256 << 10, CYCLE_THREADS = 4 };

/* ---- the server, looked at ----------------------------------------------------------------- */

static int64_t rss_kib(pid_t pid)
{
    char path[64];
    struct err err;
    AUTO_BUF struct buf text = {0};
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || buf_read_all(&text, fd, &err) < 0)
        return 0;
    const char *at = strstr(buf_cstr(&text), "VmRSS:");
    int64_t kib = 0;
    if (at != NULL) {
        struct str rest = str_trim(str_of(at + 6));
        (void)!str_to_i64(str_slice(rest, 0, str_find_char(rest, ' ')), 0, INT64_MAX, &kib);
    }
    return kib;
}

static int64_t descriptors(pid_t pid)
{
    char path[64];
    int64_t count = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    if (dir == NULL)
        return 0;
    while (readdir(dir) != NULL) /* NOLINT(concurrency-mt-unsafe) */
        count++;
    (void)closedir(dir);
    return count;
}

/* ---- transfers ----------------------------------------------------------------------------- */

struct transfer {
    pid_t server;
    int64_t bytes;
    int64_t peak_kib; /* the server's, at most */
};

static void look(struct transfer *transfer)
{
    int64_t kib = rss_kib(transfer->server);
    transfer->peak_kib = MAX(transfer->peak_kib, kib);
}

static int read_head(int fd, char *piece, size_t size, size_t *ret_len, size_t *ret_body)
{
    size_t len = 0;
    for (;;) {
        ssize_t count = read(fd, piece + len, size - 1 - len);
        if (count <= 0)
            return -1;
        len += (size_t)count;
        piece[len] = '\0';
        const char *end = strstr(piece, "\r\n\r\n");
        if (end == NULL)
            continue;
        int64_t status = 0;
        (void)!str_to_i64(str_n(piece + 9, 3), 0, 999, &status);
        *ret_len = len;
        *ret_body = (size_t)(end + 4 - piece);
        return (int)status;
    }
}

static int put_head(int fd, const char *method, const char *path, int64_t bytes)
{
    char text[1024];
    int size = snprintf(text, sizeof text,
                        "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n"
                        "Content-Length: %lld\r\n\r\n",
                        method, path, RIG_PORT, rig_token, (long long)bytes);
    return write(fd, text, (size_t)size) == size ? 0 : -1;
}

/* MB/s, or 0 when it failed. */
static double upload(int fd, const char *path, struct transfer *transfer)
{
    static char piece[PIECE];
    struct err err;
    size_t len = 0, body = 0;
    int64_t start = clock_now_ns();
    memset(piece, 'a', sizeof piece);
    if (put_head(fd, "PUT", path, transfer->bytes) < 0)
        return 0;
    for (int64_t sent = 0; sent < transfer->bytes; sent += PIECE) {
        if (fd_write_all(fd, str_n(piece, sizeof piece), &err) < 0)
            return 0;
        if (sent % (PIECE * 64LL) == 0)
            look(transfer);
    }
    if (read_head(fd, piece, sizeof piece, &len, &body) / 100 != 2)
        return 0;
    return (double)transfer->bytes / 1e6 / ((double)(clock_now_ns() - start) / 1e9);
}

static double download(int fd, const char *path, struct transfer *transfer)
{
    static char piece[PIECE];
    size_t len = 0, body = 0;
    int64_t start = clock_now_ns();
    if (put_head(fd, "GET", path, 0) < 0 ||
        read_head(fd, piece, sizeof piece, &len, &body) / 100 != 2)
        return 0;
    int64_t got = (int64_t)(len - body), next = 0;
    while (got < transfer->bytes) {
        ssize_t count = read(fd, piece, sizeof piece);
        if (count <= 0)
            return 0;
        got += count;
        if (got >= next) {
            look(transfer);
            next = got + PIECE * 64LL;
        }
    }
    return (double)got / 1e6 / ((double)(clock_now_ns() - start) / 1e9);
}

/* The same bytes beside it in the same file system. */
static double copy(int64_t bytes)
{
    char from[128], to[128], size[32];
    (void)snprintf(from, sizeof from, "%s/from", rig_dir);
    (void)snprintf(to, sizeof to, "%s/to", rig_dir);
    (void)snprintf(size, sizeof size, "%lld", (long long)bytes);
    const char *const fill[] = {"sh", "-c", "head -c \"$1\" /dev/zero >\"$0\"", from, size, NULL};
    const char *const cp[] = {"cp", "--reflink=never", "--sparse=never", from, to, NULL};
    const char *const clean[] = {"rm", "-f", from, to, NULL};
    AUTO_BUF struct buf out = {0};
    if (!rig_output(fill, &out))
        return 0;
    int64_t start = clock_now_ns();
    bool good = rig_output(cp, &out);
    double rate = (double)bytes / 1e6 / ((double)(clock_now_ns() - start) / 1e9);
    (void)!rig_output(clean, &out);
    return good ? rate : 0;
}

static void transfer_rows(struct bench *bench, int fd, pid_t server, const char *path)
{
    const char *note = rig_is_long() ? "2 GiB, a volume on disk" : "256 MiB, a volume on disk";
    struct transfer transfer = {server, rig_is_long() ? 2LL << 30 : 256LL << 20, 0};
    int64_t before = rss_kib(server);
    double up = upload(fd, path, &transfer);
    double down = up > 0 ? download(fd, path, &transfer) : 0;
    if (up > 0)
        bench_figure(bench, "http_upload", "MB/s", up, "cp_file", note);
    if (down > 0)
        bench_figure(bench, "http_download", "MB/s", down, "cp_file", note);
    bench_figure(bench, "cp_file", "MB/s", copy(transfer.bytes), NULL, "cp, the same size");
    bench_figure(bench, "http_transfer_growth", "KiB", (double)(transfer.peak_kib - before), NULL,
                 "the server's memory meanwhile, at most");
}

void measure_transfer(struct bench *bench, int fd, pid_t server)
{
    char body[RIG_ANSWER_MAX], volume[64], sandbox[64], text[256], path[192];
    if (rig_ask(fd, "POST", "/v1/volumes", "{\"tier\":\"jail\",\"capacityMb\":3072}", body) !=
            201 ||
        !rig_id(body, volume))
        return;
    (void)snprintf(text, sizeof text, "{\"tier\":\"jail\",\"volume\":\"%s\"}", volume);
    if (rig_ask(fd, "POST", "/v1/sandboxes", text, body) == 201 && rig_id(body, sandbox)) {
        (void)snprintf(path, sizeof path, "/v1/sandboxes/%s/files?path=/workspace/big", sandbox);
        transfer_rows(bench, fd, server, path);
        (void)snprintf(path, sizeof path, "/v1/sandboxes/%s", sandbox);
        (void)rig_ask(fd, "DELETE", path, NULL, NULL);
    }
    (void)snprintf(path, sizeof path, "/v1/volumes/%s", volume);
    (void)rig_ask(fd, "DELETE", path, NULL, NULL);
}

/* ---- many cycles --------------------------------------------------------------------------- */

struct cycles {
    size_t count, failures;
};

static void *cycle(void *arg)
{
    struct cycles *cycles = arg;
    int fd = rig_connect(RIG_PORT);
    double us = 0;
    for (size_t i = 0; i < cycles->count; i++)
        cycles->failures += !rig_life(fd, &us);
    (void)close(fd);
    return NULL;
}

static size_t run_cycles(size_t count)
{
    pthread_t threads[CYCLE_THREADS];
    struct cycles each[CYCLE_THREADS];
    size_t failures = 0;
    for (size_t i = 0; i < CYCLE_THREADS; i++) {
        each[i] = (struct cycles){.count = count / CYCLE_THREADS};
        (void)pthread_create(&threads[i], NULL, cycle, &each[i]);
    }
    for (size_t i = 0; i < CYCLE_THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
        failures += each[i].failures;
    }
    return failures;
}

/* Records of commands are kept for a day, on disk: memory is to stay as it was. The first tenth of
 * the cycles fills what is kept of the last ones. */
void measure_cycles(struct bench *bench, pid_t server)
{
    size_t count = rig_is_long() ? 10000 : 1000;
    size_t failures = run_cycles(count / 10);
    (void)usleep(500000);
    int64_t before = rss_kib(server), fds = descriptors(server), start = clock_now_ns();
    failures += run_cycles(count);
    double seconds = (double)(clock_now_ns() - start) / 1e9;
    (void)usleep(500000);
    bench_figure(bench, "http_cycles_rate", "1/s", (double)count / seconds, NULL,
                 "create, true, delete; 4 at a time");
    bench_figure(bench, "http_cycles_growth", "B",
                 (double)(rss_kib(server) - before) * 1024 / (double)count, NULL,
                 rig_is_long() ? "the server's memory, each of 10,000" : "each of 1,000");
    bench_figure(bench, "http_cycles_descriptors", "count", (double)(descriptors(server) - fds),
                 NULL, "more than before");
    bench_figure(bench, "http_cycles_failures", "count", (double)failures, NULL, NULL);
}

/* ---- idle ---------------------------------------------------------------------------------- */

typedef VEC(char *) id_list;

static void make_many(int fd, const char *path, const char *json, size_t count, id_list *ids)
{
    char body[RIG_ANSWER_MAX], id[64];
    while (ids->len < count && rig_ask(fd, "POST", path, json, body) == 201 && rig_id(body, id))
        *vec_push(ids) = mem_dup_cstr(id);
}

static void delete_many(int fd, const char *path, id_list *ids)
{
    char at[192];
    VEC_EACH (id, ids) {
        (void)snprintf(at, sizeof at, "%s/%s", path, *id);
        (void)rig_ask(fd, "DELETE", at, NULL, NULL);
        free(*id);
    }
    vec_done(ids);
}

void measure_idle(struct bench *bench, int fd, pid_t server)
{
    id_list sessions = {0}, sandboxes = {0};
    int64_t before = rss_kib(server);
    make_many(fd, "/v1/sessions", "{\"sandbox\":{\"tier\":\"jail\"}}", 1000, &sessions);
    if (sessions.len > 0)
        bench_figure(bench, "http_session_idle", "B",
                     (double)(rss_kib(server) - before) * 1024 / (double)sessions.len, NULL,
                     "the server's memory, each of 1,000 sessions");
    bench_figure(bench, "http_sessions_rss", "KiB", (double)rss_kib(server), NULL,
                 "the server with 1,000 sessions");
    delete_many(fd, "/v1/sessions", &sessions);
    before = rss_kib(server);
    int64_t fds = descriptors(server);
    make_many(fd, "/v1/sandboxes", "{\"tier\":\"jail\"}", rig_is_long() ? 1000 : 200, &sandboxes);
    if (sandboxes.len > 0) {
        bench_figure(bench, "http_sandbox_idle", "B",
                     (double)(rss_kib(server) - before) * 1024 / (double)sandboxes.len, NULL,
                     rig_is_long() ? "the server's memory, each of 1,000 jails" : "each of 200");
        bench_figure(bench, "http_sandbox_descriptors", "count",
                     (double)(descriptors(server) - fds) / (double)sandboxes.len, NULL, "each");
    }
    delete_many(fd, "/v1/sandboxes", &sandboxes);
}

/* ---- starting again ------------------------------------------------------------------------ */

/* Milliseconds until the path is answered with 200. */
static double ms_until(const char *path, int64_t start)
{
    for (;;) {
        int fd = rig_connect(RIG_PORT);
        int status = fd < 0 ? -1 : rig_ask(fd, "GET", path, NULL, NULL);
        if (fd >= 0)
            (void)close(fd);
        double ms = (double)(clock_now_ns() - start) / 1e6;
        if (status == 200 || ms > 30000)
            return ms;
        (void)usleep(1000);
    }
}

pid_t measure_restart(struct bench *bench, const char *program, int *fd, pid_t server)
{
    id_list sandboxes = {0};
    const char *note =
        rig_is_long() ? "after kill -9 among 1,000 jails" : "after kill -9 among 200";
    make_many(*fd, "/v1/sandboxes", "{\"tier\":\"jail\"}", rig_is_long() ? 1000 : 200, &sandboxes);
    (void)kill(server, SIGKILL);
    (void)waitpid(server, NULL, 0);
    (void)close(*fd);
    int64_t start = clock_now_ns();
    server = rig_spawn(program);
    bench_figure(bench, "http_restart_alive", "ms", ms_until("/healthz", start), NULL, note);
    bench_figure(bench, "http_restart_ready", "ms", ms_until("/readyz", start), NULL, note);
    *fd = rig_connect(RIG_PORT);
    delete_many(*fd, "/v1/sandboxes", &sandboxes);
    return server;
}
