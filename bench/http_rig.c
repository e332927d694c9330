/* The server that is measured, and a client that keeps its connection. */

#include "http_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"

char rig_dir[] = "/tmp/sandglass-bench-XXXXXX";
char rig_token[128];

/* ---- a client ------------------------------------------------------------------------------ */

int rig_connect(int port)
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

int rig_ask(int fd, const char *method, const char *path, const char *json, char *body)
{
    return rig_ask_with(fd, method, path, "", json, body);
}

int rig_ask_with(int fd, const char *method, const char *path, const char *headers,
                 const char *json, char *body)
{
    char text[2048], answer[RIG_ANSWER_MAX];
    size_t len = 0;
    int size = snprintf(text, sizeof text,
                        "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n"
                        "%s%sContent-Length: %zu\r\n\r\n%s",
                        method, path, RIG_PORT, rig_token, headers,
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
            (void)!str_to_i64(str_slice(digits, 0, str_find_char(digits, '\r')), 0, RIG_ANSWER_MAX,
                              &wanted);
        }
        if (len < (size_t)(end + 4 - answer) + (size_t)wanted)
            continue;
        if (body != NULL)
            (void)snprintf(body, RIG_ANSWER_MAX, "%s", end + 4);
        int64_t status = 0;
        (void)!str_to_i64(str_n(answer + 9, 3), 0, 999, &status);
        return (int)status;
    }
}

bool rig_id(const char *body, char out[64])
{
    const char *at = strstr(body, "\"id\":\"");
    if (at == NULL)
        return false;
    struct str id = str_of(at + 6);
    (void)snprintf(out, 64, "%.*s", (int)str_find_char(id, '"'), id.ptr);
    return true;
}

bool rig_life(int fd, double *ret_us)
{
    char body[RIG_ANSWER_MAX], path[160], id[64];
    int64_t start = clock_now_ns();
    if (rig_ask(fd, "POST", "/v1/sandboxes", "{\"tier\":\"jail\"}", body) != 201 ||
        !rig_id(body, id))
        return false;
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s/commands", id);
    bool ran = rig_ask(fd, "POST", path, "{\"argv\":[\"/bin/true\"]}", body) == 201 &&
               strstr(body, "\"exitCode\":0") != NULL;
    *ret_us = (double)(clock_now_ns() - start) / 1000;
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s", id);
    return rig_ask(fd, "DELETE", path, NULL, NULL) == 204 && ran;
}

/* ---- the server ---------------------------------------------------------------------------- */

pid_t rig_spawn(const char *program)
{
    char config[128], data[128], listen[64];
    struct err err;
    (void)snprintf(config, sizeof config, "%s/config.toml", rig_dir);
    (void)snprintf(data, sizeof data, "%s/data", rig_dir);
    (void)snprintf(listen, sizeof listen, "127.0.0.1:%d", RIG_PORT);
    int fd = open(config, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
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
    return pid;
}

pid_t rig_start(const char *program)
{
    char path[160];
    pid_t pid = rig_spawn(program);
    (void)snprintf(path, sizeof path, "%s/data/token", rig_dir);
    for (int i = 0; i < 100; i++) {
        int client = rig_connect(RIG_PORT);
        AUTO_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t len = file < 0 ? 0 : read(file, rig_token, sizeof rig_token - 1);
        if (client >= 0)
            (void)close(client);
        if (client >= 0 && len > 0) {
            rig_token[strcspn(rig_token, "\n")] = '\0';
            return pid;
        }
        (void)usleep(50000);
    }
    return pid;
}

void rig_end(pid_t pid)
{
    (void)kill(pid, SIGTERM);
    (void)waitpid(pid, NULL, 0);
}

bool rig_output(const char *const *argv, struct buf *out)
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

bool rig_is_long(void)
{
    const char *text = getenv("SG_BENCH_LONG");
    return text != NULL && strcmp(text, "1") == 0;
}
