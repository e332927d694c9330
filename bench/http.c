/* The server over HTTP keep-alive: code in an isolate, a jail from nothing to its first command, a
 * burst of a hundred, and how many requests a second it answers, beside nginx with a static file.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "bench.h"

enum { PORT = 17171, NGINX_PORT = 17172, ANSWER_MAX = 64 << 10, BURST = 100 };

static char dir[] = "/tmp/sandglass-bench-XXXXXX";
static char token[128];

/* ---- a client ------------------------------------------------------------------------------ */

static int connect_to(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* One request; gives the status, and the answer's body in `body`. */
static int ask(int fd, const char *method, const char *path, const char *json, char *body)
{
    char text[2048], answer[ANSWER_MAX];
    size_t len = 0;
    int size = snprintf(text, sizeof text,
                        "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n"
                        "%sContent-Length: %zu\r\n\r\n%s",
                        method, path, PORT, token,
                        json == NULL ? "" : "Content-Type: application/json\r\n",
                        json == NULL ? 0 : strlen(json), json == NULL ? "" : json);
    if (write(fd, text, (size_t)size) != size)
        return -1;
    for (;;) {
        ssize_t count = read(fd, answer + len, sizeof answer - 1 - len);
        if (count <= 0)
            return -1;
        len += (size_t)count;
        answer[len] = '\0';
        const char *end = strstr(answer, "\r\n\r\n"), *length = strstr(answer, "Content-Length: ");
        if (end == NULL)
            continue;
        int64_t wanted = 0;
        if (length != NULL && length < end) {
            struct str digits = str_of(length + 16);
            (void)!str_to_i64(str_slice(digits, 0, str_find_char(digits, '\r')), 0, ANSWER_MAX,
                              &wanted);
        }
        if (len < (size_t)(end + 4 - answer) + (size_t)wanted)
            continue;
        if (body != NULL)
            (void)snprintf(body, ANSWER_MAX, "%s", end + 4);
        int64_t status = 0;
        (void)!str_to_i64(str_n(answer + 9, 3), 0, 999, &status);
        return (int)status;
    }
}

static bool id_of(const char *body, char out[64])
{
    const char *at = strstr(body, "\"id\":\"");
    if (at == NULL)
        return false;
    struct str id = str_of(at + 6);
    (void)snprintf(out, 64, "%.*s", (int)str_find_char(id, '"'), id.ptr);
    return true;
}

/* Make, run `true`, and tell the time of both; then delete. False when one of them failed. */
static bool life(int fd, double *ret_us)
{
    char body[ANSWER_MAX], path[160], id[64];
    int64_t start = clock_now_ns();
    if (ask(fd, "POST", "/v1/sandboxes", "{\"tier\":\"jail\"}", body) != 201 || !id_of(body, id))
        return false;
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s/commands", id);
    bool ran = ask(fd, "POST", path, "{\"argv\":[\"/bin/true\"]}", body) == 201 &&
               strstr(body, "\"exitCode\":0") != NULL;
    *ret_us = (double)(clock_now_ns() - start) / 1000;
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s", id);
    return ask(fd, "DELETE", path, NULL, NULL) == 204 && ran;
}

/* ---- the rows ------------------------------------------------------------------------------ */

static void measure_isolate(struct bench *bench, int fd)
{
    enum { SAMPLES = 2000 };
    static double samples[SAMPLES];
    char body[ANSWER_MAX];
    size_t count = 0;
    for (size_t i = 0; i < SAMPLES + 200; i++) {
        int64_t start = clock_now_ns();
        if (ask(fd, "POST", "/v1/run_code", "{\"code\":\"1+1\",\"language\":\"js\"}", body) != 200)
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
        if (!life(fd, &us))
            break;
        if (i >= 30)
            samples[count++] = us;
    }
    if (count > 0)
        bench_samples(bench, "http_jail", "us", samples, count, NULL,
                      "create and first command, keep-alive");
}

static void *one_of_many(void *arg)
{
    double us = 0;
    int fd = connect_to(PORT);
    bool *good = arg;
    *good = fd >= 0 && life(fd, &us);
    (void)close(fd);
    return NULL;
}

static void measure_burst(struct bench *bench)
{
    enum { ROUNDS = 10 };
    double samples[ROUNDS];
    size_t failures = 0;
    for (size_t round = 0; round < ROUNDS; round++) {
        pthread_t threads[BURST];
        bool good[BURST] = {0};
        int64_t start = clock_now_ns();
        for (size_t i = 0; i < BURST; i++)
            (void)pthread_create(&threads[i], NULL, one_of_many, &good[i]);
        for (size_t i = 0; i < BURST; i++) {
            (void)pthread_join(threads[i], NULL);
            failures += !good[i];
        }
        samples[round] = (double)(clock_now_ns() - start) / 1e6;
        (void)usleep(200000);
    }
    bench_samples(bench, "http_burst_100", "ms", samples, ROUNDS, NULL,
                  "100 at once: create, command, delete");
    bench_figure(bench, "http_burst_failures", "count", (double)failures, NULL, "of 1,000");
}

/* ---- requests a second --------------------------------------------------------------------- */

/* Runs a program to its end and gives what it printed; false when it is not there. */
static bool output_of(const char *const *argv, struct buf *out)
{
    struct err err;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(ends[1], 1);
        (void)execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    (void)close(ends[1]);
    (void)!buf_read_all(out, ends[0], &err);
    (void)close(ends[0]);
    int status = 0;
    (void)waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void measure_rate(struct bench *bench, const char *name, const char *url, const char *peer)
{
    const char *const argv[] = {"wrk", "-t1", "-c32", "-d4s", url, NULL};
    AUTO_BUF struct buf out = {0};
    double rate = 0;
    if (!output_of(argv, &out))
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
    (void)snprintf(conf, sizeof conf, "%s/nginx.conf", dir);
    (void)snprintf(prefix, sizeof prefix, "%s/", dir);
    buf_printf(&text,
               "daemon off; worker_processes 1; pid %s/nginx.pid; error_log /dev/null;\n"
               "events { worker_connections 512; }\n"
               "http { access_log off; client_body_temp_path %s; proxy_temp_path %s;\n"
               "fastcgi_temp_path %s; uwsgi_temp_path %s; scgi_temp_path %s; keepalive_requests "
               "10000000;\nserver { listen 127.0.0.1:%d; root %s; } }\n",
               dir, dir, dir, dir, dir, dir, NGINX_PORT, dir);
    int fd = open(conf, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    (void)!fd_write_all(fd, buf_str(&text), &err);
    (void)close(fd);
    (void)snprintf(conf + sizeof conf / 2, sizeof conf / 2, "%s/file.json", dir);
    fd = open(conf + sizeof conf / 2, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    (void)!fd_write_all(fd, STR("{\"status\":\"ok\"}\n"), &err);
    (void)close(fd);
    (void)chmod(dir, 0755);
    pid_t pid = fork();
    if (pid == 0) {
        (void)execl("/usr/sbin/nginx", "nginx", "-p", prefix, "-c", conf, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 50; i++) {
        int client = connect_to(NGINX_PORT);
        if (client >= 0) {
            (void)close(client);
            return pid;
        }
        (void)usleep(100000);
    }
    return pid;
}

/* ---- the server ---------------------------------------------------------------------------- */

static pid_t start_server(const char *program)
{
    char config[128], data[128], listen[64], path[160];
    struct err err;
    (void)snprintf(config, sizeof config, "%s/config.toml", dir);
    (void)snprintf(data, sizeof data, "%s/data", dir);
    (void)snprintf(listen, sizeof listen, "127.0.0.1:%d", PORT);
    int fd = open(config, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    (void)!fd_write_all(fd,
                        STR("[server]\nmax_connections_per_address = 1024\n"
                            "log_level = \"error\"\n"),
                        &err);
    (void)close(fd);
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);
        (void)dup2(null, 1);
        (void)execl(program, "sandglass", "serve", "--config", config, "--data-dir", data,
                    "--listen", listen, (char *)NULL);
        _exit(127);
    }
    (void)snprintf(path, sizeof path, "%s/token", data);
    for (int i = 0; i < 100; i++) {
        int client = connect_to(PORT);
        AUTO_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t len = file < 0 ? 0 : read(file, token, sizeof token - 1);
        if (client >= 0)
            (void)close(client);
        if (client >= 0 && len > 0) {
            token[strcspn(token, "\n")] = '\0';
            return pid;
        }
        (void)usleep(50000);
    }
    return pid;
}

static void end(pid_t pid)
{
    (void)kill(pid, SIGTERM);
    (void)waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
    const char *program = getenv("SANDGLASS_BIN");
    char url[96];
    if (program == NULL || mkdtemp(dir) == NULL)
        return 1;
    struct bench *bench = bench_begin("http");
    (void)signal(SIGPIPE, SIG_IGN);
    pid_t server = start_server(program);
    int fd = connect_to(PORT);
    if (fd < 0) {
        (void)fprintf(stderr, "bench: the server did not start\n");
        end(server);
        return 1;
    }
    measure_isolate(bench, fd);
    measure_jail(bench, fd);
    measure_burst(bench);
    pid_t nginx = start_nginx();
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/healthz", PORT);
    measure_rate(bench, "http_healthz_rps", url, "nginx_static_rps");
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/file.json", NGINX_PORT);
    measure_rate(bench, "nginx_static_rps", url, NULL);
    end(nginx);
    (void)close(fd);
    end(server);
    const char *const clean[] = {"rm", "-rf", dir, NULL};
    AUTO_BUF struct buf nothing = {0};
    (void)!output_of(clean, &nothing);
    return bench_end(bench, argc, argv);
}
