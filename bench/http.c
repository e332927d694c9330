/* The server over HTTP keep-alive: code in an isolate, a jail from nothing to its first command, a
 * burst of a hundred, checkpoints, requests a second beside nginx with a static file; in
 * http_bulk.c long transfers, and what idle sessions and many cycles cost. SG_BENCH_LONG=1 runs all
 * at full size. */

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "bench.h"
#include "http_rig.h"

enum { MANY = 100 };

/* ---- the rows ------------------------------------------------------------------------------ */

static void measure_isolate(struct bench *bench, int fd)
{
    enum { SAMPLES = 2000 };
    static double samples[SAMPLES];
    char body[RIG_ANSWER_MAX];
    size_t count = 0;
    for (size_t i = 0; i < SAMPLES + 200; i++) {
        int64_t start = clock_now_ns();
        if (rig_ask(fd, "POST", "/v1/run_code", "{\"code\":\"1+1\",\"language\":\"js\"}", body) !=
            200)
            break;
        if (i >= 200)
            samples[count++] = (double)(clock_now_ns() - start) / 1000;
    }
    if (count > 0)
        bench_samples(bench, "http_isolate", "us", samples, count, NULL,
                      "run_code 1+1, keep-alive");
}

static void measure_jail(struct bench *bench, int fd)
{
    enum { SAMPLES = 300 };
    static double samples[SAMPLES];
    size_t count = 0;
    for (size_t i = 0; i < SAMPLES + 30; i++) {
        double us;
        if (!rig_life(fd, &us))
            break;
        if (i >= 30)
            samples[count++] = us;
    }
    if (count > 0)
        bench_samples(bench, "http_jail", "us", samples, count, NULL,
                      "create and first command, keep-alive");
}

/* One request that must give `status`; its time goes to *us. */
static bool timed(int fd, const char *path, const char *json, int status, char *body, double *us)
{
    int64_t start = clock_now_ns();
    int got = rig_ask(fd, "POST", path, json, body);
    *us = (double)(clock_now_ns() - start) / 1000;
    return got == status;
}

/* Writes a file, keeps that, forks it, goes back to before it. */
static bool keep_fork_return(int fd, const char *sandbox, double us[3])
{
    char body[RIG_ANSWER_MAX], path[160], id[64];
    (void)snprintf(path, sizeof path, "%s/files?path=/workspace/new", sandbox);
    if (rig_ask(fd, "PUT", path, "something", NULL) != 201)
        return false;
    (void)snprintf(path, sizeof path, "%s/checkpoints", sandbox);
    if (!timed(fd, path, "{\"name\":\"next\"}", 201, body, &us[0]))
        return false;
    (void)snprintf(path, sizeof path, "%s/fork", sandbox);
    if (!timed(fd, path, "{\"checkpoint\":\"next\"}", 201, body, &us[1]) || !rig_id(body, id))
        return false;
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s", id);
    if (rig_ask(fd, "DELETE", path, NULL, NULL) != 204)
        return false;
    (void)snprintf(path, sizeof path, "%s/rollback", sandbox);
    return timed(fd, path, "{\"checkpoint\":\"base\"}", 200, body, &us[2]);
}

static void measure_copies(struct bench *bench, int fd)
{
    enum { SAMPLES = 100 };
    static const char *const rows[] = {"http_checkpoint", "http_fork", "http_rollback"};
    static double samples[3][SAMPLES];
    char body[RIG_ANSWER_MAX], id[64], sandbox[96], path[160];
    size_t count = 0;
    if (rig_ask(fd, "POST", "/v1/sandboxes", "{\"tier\":\"jail\"}", body) != 201 ||
        !rig_id(body, id))
        return;
    (void)snprintf(sandbox, sizeof sandbox, "/v1/sandboxes/%s", id);
    (void)snprintf(path, sizeof path, "%s/commands", sandbox);
    const char *fill =
        "{\"argv\":[\"sh\",\"-c\",\"mkdir d; cd d; for i in $(seq 999); do echo $i > $i; "
        "done\"]}";
    bool good = rig_ask(fd, "POST", path, fill, NULL) == 201;
    (void)snprintf(path, sizeof path, "%s/checkpoints", sandbox);
    good = good && rig_ask(fd, "POST", path, "{\"name\":\"base\"}", NULL) == 201;
    while (good && count < SAMPLES) {
        double us[3];
        good = keep_fork_return(fd, sandbox, us);
        for (size_t i = 0; good && i < countof(rows); i++)
            samples[i][count] = us[i];
        count += good;
    }
    for (size_t i = 0; count > 0 && i < countof(rows); i++)
        bench_samples(bench, rows[i], "us", samples[i], count, NULL,
                      "1,000 files, one of them new");
    (void)rig_ask(fd, "DELETE", sandbox, NULL, NULL);
}

/* Time to interactive as the ComputeSDK benchmark has it: from the call that creates a sandbox to
 * the end of its first command. One after the other is http_jail; here many are under way, begun
 * one each STAGGER_MS, or all at once. */
struct one {
    bool good;
    double us;
};

static void *one_of_many(void *arg)
{
    struct one *one = arg;
    int fd = rig_connect(RIG_PORT);
    one->good = fd >= 0 && rig_life(fd, &one->us);
    (void)close(fd);
    return NULL;
}

static size_t run_many(int64_t stagger_ms, double *times)
{
    pthread_t threads[MANY];
    struct one ones[MANY] = {0};
    size_t failures = 0;
    for (size_t i = 0; i < MANY; i++) {
        (void)pthread_create(&threads[i], NULL, one_of_many, &ones[i]);
        if (stagger_ms > 0)
            (void)usleep((unsigned)stagger_ms * 1000);
    }
    for (size_t i = 0; i < MANY; i++) {
        (void)pthread_join(threads[i], NULL);
        failures += !ones[i].good;
        times[i] = ones[i].us;
    }
    return failures;
}

static void measure_staggered(struct bench *bench)
{
    double times[MANY];
    size_t failures = run_many(rig_is_long() ? 200 : 20, times);
    bench_samples(bench, "http_tti_staggered", "us", times, MANY, NULL,
                  rig_is_long() ? "100, one each 200 ms" : "100, one each 20 ms");
    bench_figure(bench, "http_tti_staggered_failures", "count", (double)failures, NULL, "of 100");
}

static void measure_burst(struct bench *bench)
{
    enum { ROUNDS = 10 };
    static double times[ROUNDS * MANY];
    double samples[ROUNDS];
    size_t failures = 0;
    for (size_t round = 0; round < ROUNDS; round++) {
        int64_t start = clock_now_ns();
        failures += run_many(0, times + round * MANY);
        samples[round] = (double)(clock_now_ns() - start) / 1e6;
        (void)usleep(200000);
    }
    bench_samples(bench, "http_burst_100", "ms", samples, ROUNDS, NULL,
                  "100 at once: create, command, delete");
    bench_samples(bench, "http_tti_burst", "us", times, ROUNDS * MANY, NULL,
                  "100 at once: each one's create and first command");
    bench_figure(bench, "http_burst_failures", "count", (double)failures, NULL, "of 1,000");
}

/* ---- requests a second --------------------------------------------------------------------- */

static void measure_rate(struct bench *bench, const char *name, const char *url, const char *peer)
{
    char header[160];
    (void)snprintf(header, sizeof header, "Authorization: Bearer %s", rig_token);
    const char *const argv[] = {"wrk", "-t1", "-c32", "-d3s", "-H", header, url, NULL};
    AUTO_BUF struct buf out = {0};
    double rate = 0;
    if (!rig_output(argv, &out))
        return;
    const char *at = strstr(buf_cstr(&out), "Requests/sec:");
    if (at == NULL)
        return;
    struct str rest = str_trim(str_of(at + 13));
    if (str_to_f64(str_slice(rest, 0, str_find_char(rest, '\n')), &rate))
        bench_figure(bench, name, "1/s", rate, peer, "wrk, 32 connections");
}

static pid_t start_nginx(void)
{
    char conf[256], prefix[64];
    AUTO_BUF struct buf text = {0};
    struct err err;
    (void)snprintf(conf, sizeof conf, "%s/nginx.conf", rig_dir);
    (void)snprintf(prefix, sizeof prefix, "%s/", rig_dir);
    buf_printf(&text,
               "daemon off; worker_processes 1; pid %s/nginx.pid; error_log /dev/null;\n"
               "events { worker_connections 512; }\n"
               "http { access_log off; client_body_temp_path %s; proxy_temp_path %s;\n"
               "fastcgi_temp_path %s; uwsgi_temp_path %s; scgi_temp_path %s; keepalive_requests "
               "10000000;\nserver { listen 127.0.0.1:%d; root %s; } }\n",
               rig_dir, rig_dir, rig_dir, rig_dir, rig_dir, rig_dir, RIG_NGINX_PORT, rig_dir);
    int fd = open(conf, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    (void)!fd_write_all(fd, buf_str(&text), &err);
    (void)close(fd);
    (void)snprintf(conf + sizeof conf / 2, sizeof conf / 2, "%s/file.json", rig_dir);
    fd = open(conf + sizeof conf / 2, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    (void)!fd_write_all(fd, STR("{\"status\":\"ok\"}\n"), &err);
    (void)close(fd);
    (void)chmod(rig_dir, 0755);
    pid_t pid = fork();
    if (pid == 0) {
        (void)execl("/usr/sbin/nginx", "nginx", "-p", prefix, "-c", conf, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 50; i++) {
        int client = rig_connect(RIG_NGINX_PORT);
        if (client >= 0) {
            (void)close(client);
            return pid;
        }
        (void)usleep(100000);
    }
    return pid;
}

/* A small file of a sandbox, read over and over. */
static void measure_file_rate(struct bench *bench, int fd)
{
    char body[RIG_ANSWER_MAX], id[64], path[160], url[256];
    if (rig_ask(fd, "POST", "/v1/sandboxes", "{\"tier\":\"jail\"}", body) != 201 ||
        !rig_id(body, id))
        return;
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s/files?path=/workspace/a.json", id);
    if (rig_ask(fd, "PUT", path, "{\"status\":\"ok\"}", NULL) == 201) {
        (void)snprintf(url, sizeof url, "http://127.0.0.1:%d%s", RIG_PORT, path);
        measure_rate(bench, "http_file_rps", url, "nginx_static_rps");
    }
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s", id);
    (void)rig_ask(fd, "DELETE", path, NULL, NULL);
}

static void measure_rates(struct bench *bench, int fd)
{
    char url[96];
    pid_t nginx = start_nginx();
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/healthz", RIG_PORT);
    measure_rate(bench, "http_healthz_rps", url, "nginx_static_rps");
    measure_file_rate(bench, fd);
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/file.json", RIG_NGINX_PORT);
    measure_rate(bench, "nginx_static_rps", url, NULL);
    rig_end(nginx);
}

int main(int argc, char **argv)
{
    const char *program = getenv("SANDGLASS_BIN");
    if (program == NULL || mkdtemp(rig_dir) == NULL)
        return 1;
    struct bench *bench = bench_begin("http");
    (void)signal(SIGPIPE, SIG_IGN);
    pid_t server = rig_start(program);
    int fd = rig_connect(RIG_PORT);
    if (fd < 0) {
        (void)fprintf(stderr, "bench: the server did not start\n");
        rig_end(server);
        return 1;
    }
    measure_isolate(bench, fd);
    measure_jail(bench, fd);
    measure_copies(bench, fd);
    measure_staggered(bench);
    measure_burst(bench);
    measure_rates(bench, fd);
    measure_transfer(bench, fd, server);
    measure_cycles(bench, server);
    measure_idle(bench, fd, server);
    server = measure_restart(bench, program, &fd, server);
    (void)close(fd);
    rig_end(server);
    const char *const clean[] = {"rm", "-rf", rig_dir, NULL};
    AUTO_BUF struct buf nothing = {0};
    (void)!rig_output(clean, &nothing);
    return bench_end(bench, argc, argv);
}
