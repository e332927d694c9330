/* Zones over directories of this machine: a worker that can reach nothing else, and the questions
 * to it. See docs/ZONES.md. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"

enum { MESSAGE_SIZE = 512, CODE_SIZE = 64, HEAD_SIZE = 128, ZONE_ARG_SIZE = 4200 };

struct sg_zones {
    pid_t pid;
    int fd; /* both ways */
    char error[MESSAGE_SIZE], code[CODE_SIZE];
};

static int fail(sg_zones *zones, const char *code, const char *message)
{
    (void)snprintf(zones->error, sizeof zones->error, "%s", message);
    (void)snprintf(zones->code, sizeof zones->code, "%s", code);
    return -1;
}

static int fail_gone(sg_zones *zones)
{
    return fail(zones, "unavailable",
                "the zone worker exited: check that the program and its directories exist");
}

/* What the worker may reach: options and their values, NULL for none. */
struct reach {
    const char *option[2], *value[2];
};

static void run_worker(const char *program, const struct reach *reach, int read_only, int fd)
{
    const char *argv[10] = {program, "fs"};
    int count = 2;
    for (int i = 0; i < 2; i++)
        if (reach->option[i] != NULL)
            argv[count++] = reach->option[i], argv[count++] = reach->value[i];
    if (read_only)
        argv[count++] = "--read-only";
    argv[count] = "serve";
    if (dup2(fd, STDIN_FILENO) >= 0 && dup2(fd, STDOUT_FILENO) >= 0)
        (void)execvp(program, (char *const *)(uintptr_t)argv);
    _exit(127);
}

static sg_zones *start(const char *program, const struct reach *reach, int read_only)
{
    int ends[2];
    sg_zones *zones = calloc(1, sizeof *zones);
    if (program == NULL)
        program = "sandglass";
    if (zones == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        free(zones);
        return NULL;
    }
    zones->fd = ends[0];
    zones->pid = fork();
    if (zones->pid == 0)
        run_worker(program, reach, read_only, ends[1]);
    (void)close(ends[1]);
    if (zones->pid < 0) {
        (void)close(zones->fd);
        free(zones);
        return NULL;
    }
    return zones;
}

sg_zones *sg_zones_open(const char *program, const char *workspace, const char *cache,
                        int read_only)
{
    char first[ZONE_ARG_SIZE], second[ZONE_ARG_SIZE];
    (void)snprintf(first, sizeof first, "workspace=%s", workspace == NULL ? "" : workspace);
    (void)snprintf(second, sizeof second, "cache=%s", cache == NULL ? "" : cache);
    struct reach reach = {
        .option = {workspace == NULL ? NULL : "--direct", cache == NULL ? NULL : "--direct"},
        .value = {first, second}};
    return start(program, &reach, read_only);
}

sg_zones *sg_zones_open_root(const char *program, const char *root, int read_only)
{
    struct reach reach = {.option = {"--root"}, .value = {root}};
    return root == NULL ? NULL : start(program, &reach, read_only);
}

void sg_zones_close(sg_zones *zones)
{
    if (zones == NULL)
        return;
    (void)close(zones->fd); /* the end of its input is its end */
    while (waitpid(zones->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    free(zones);
}

const char *sg_zones_error(const sg_zones *zones)
{
    return zones->error;
}

const char *sg_zones_error_code(const sg_zones *zones)
{
    return zones->code;
}

/* One step of moving bytes; a worker that has gone must not end this program by a signal. */
typedef ssize_t step(int fd, void *bytes, size_t len);

static ssize_t send_some(int fd, void *bytes, size_t len)
{
    return send(fd, bytes, len, MSG_NOSIGNAL);
}

static bool move(int fd, char *bytes, size_t len, step *some)
{
    while (len > 0) {
        ssize_t count = some(fd, bytes, len);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        bytes += count;
        len -= (size_t)count;
    }
    return true;
}

static bool put(int fd, const char *bytes, size_t len)
{
    return move(fd, (char *)(uintptr_t)bytes, len, send_some);
}

static bool get(int fd, char *bytes, size_t len)
{
    return move(fd, bytes, len, read);
}

static bool get_line(int fd, char line[HEAD_SIZE])
{
    for (size_t len = 0; len < HEAD_SIZE - 1; len++) {
        if (!get(fd, line + len, 1))
            return false;
        if (line[len] == '\n') {
            line[len] = '\0';
            return true;
        }
    }
    return false;
}

/* "ok BYTES" or "error CODE BYTES"; gives the bytes, with a NUL behind them. */
static int take_answer(sg_zones *zones, char **ret_bytes, size_t *ret_len)
{
    char line[HEAD_SIZE];
    if (!get_line(zones->fd, line))
        return fail_gone(zones);
    char *size = strrchr(line, ' ');
    size_t len = size == NULL ? 0 : strtoul(size + 1, NULL, 10);
    char *bytes = malloc(len + 1);
    if (size == NULL || bytes == NULL || !get(zones->fd, bytes, len)) {
        free(bytes);
        return fail_gone(zones);
    }
    bytes[len] = '\0';
    if (strncmp(line, "error ", 6) == 0) {
        *size = '\0';
        (void)fail(zones, line + 6, bytes);
        free(bytes);
        return -1;
    }
    *ret_bytes = bytes;
    *ret_len = len;
    return 0;
}

static int ask(sg_zones *zones, const char *verb, const char *path, const char *data, size_t len,
               char **ret_bytes, size_t *ret_len)
{
    char head[HEAD_SIZE], *bytes = NULL;
    size_t count = 0;
    int size = snprintf(head, sizeof head, "%s %zu %zu\n", verb, strlen(path), len);
    zones->error[0] = zones->code[0] = '\0';
    if (!put(zones->fd, head, (size_t)size) || !put(zones->fd, path, strlen(path)) ||
        !put(zones->fd, data, len))
        return fail_gone(zones);
    if (take_answer(zones, &bytes, &count) < 0)
        return -1;
    if (ret_bytes == NULL) {
        free(bytes);
        return 0;
    }
    *ret_bytes = bytes;
    *ret_len = count;
    return 0;
}

int sg_zones_read(sg_zones *zones, const char *path, char **ret_bytes, size_t *ret_len)
{
    return ask(zones, "read", path, "", 0, ret_bytes, ret_len);
}

int sg_zones_write(sg_zones *zones, const char *path, const char *bytes, size_t len)
{
    return ask(zones, "write", path, bytes, len, NULL, NULL);
}

int sg_zones_delete(sg_zones *zones, const char *path, int recursive)
{
    return ask(zones, recursive ? "delete_all" : "delete", path, "", 0, NULL, NULL);
}

int sg_zones_exists(sg_zones *zones, const char *path)
{
    char *bytes = NULL;
    size_t len = 0;
    if (ask(zones, "exists", path, "", 0, &bytes, &len) < 0)
        return -1;
    int exists = len == 1 && bytes[0] == '1';
    free(bytes);
    return exists;
}

int sg_zones_list(sg_zones *zones, const char *path, char **ret_names, size_t *ret_len)
{
    return ask(zones, "list", path, "", 0, ret_names, ret_len);
}

int sg_zones_resolve(sg_zones *zones, const char *path, char **ret_path)
{
    size_t len;
    return ask(zones, "resolve", path, "", 0, ret_path, &len);
}

static int ask_json(sg_zones *zones, const char *verb, const char *path, const char *asked_json,
                    char **ret_json)
{
    size_t len;
    return ask(zones, verb, path, asked_json, strlen(asked_json), ret_json, &len);
}

int sg_zones_glob(sg_zones *zones, const char *path, const char *asked_json, char **ret_json)
{
    return ask_json(zones, "glob", path, asked_json, ret_json);
}

int sg_zones_grep(sg_zones *zones, const char *path, const char *asked_json, char **ret_json)
{
    return ask_json(zones, "grep", path, asked_json, ret_json);
}

int sg_zones_edit(sg_zones *zones, const char *path, const char *asked_json, char **ret_json)
{
    return ask_json(zones, "edit", path, asked_json, ret_json);
}
