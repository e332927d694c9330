/* A server of a program's own: started with it, reached by a Unix socket, ended with it. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

enum { PATH_SIZE = 108, TOKEN_SIZE = 256, START_MS = 30000, STOP_MS = 15000, STEP_MS = 20 };

struct local {
    pid_t pid;
    char dir[PATH_SIZE];
};

static void nap(void)
{
    struct timespec time = {.tv_nsec = STEP_MS * 1000000L};
    (void)nanosleep(&time, NULL);
}

/* Takes the directory away by rm: what a server leaves there is its own business. */
static void remove_dir(const char *dir)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)execlp("rm", "rm", "-rf", "--", dir, (char *)NULL);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static void local_free(void *ctx)
{
    struct local *local = ctx;
    bool is_over = local->pid <= 0;
    if (!is_over)
        (void)kill(local->pid, SIGTERM);
    for (int ms = 0; !is_over && ms < STOP_MS; ms += STEP_MS) {
        is_over = waitpid(local->pid, NULL, WNOHANG) != 0;
        if (!is_over)
            nap();
    }
    if (!is_over) {
        (void)kill(local->pid, SIGKILL);
        (void)waitpid(local->pid, NULL, 0);
    }
    if (local->dir[0] != '\0')
        remove_dir(local->dir);
    free(local);
}

static void run_server(const char *program, const char *dir, pid_t parent)
{
    char listen_at[PATH_SIZE + 16], log_path[PATH_SIZE + 16];
    (void)snprintf(listen_at, sizeof listen_at, "unix:%s/socket", dir);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)dup2(null, STDIN_FILENO);
    (void)dup2(null, STDOUT_FILENO);
    /* What it logs is not this program's to say. */
    (void)snprintf(log_path, sizeof log_path, "%s/server.log", dir);
    int log = open(log_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    (void)dup2(log, STDERR_FILENO);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM); /* it does not outlive a program that crashes */
    if (getppid() != parent)
        _exit(127); /* which it did before it could be asked for */
    (void)execlp(program, program, "serve", "--listen", listen_at, "--data-dir", dir, (char *)NULL);
    _exit(127);
}

static bool read_token(const char *dir, char *token)
{
    char path[PATH_SIZE + 16];
    (void)snprintf(path, sizeof path, "%s/token", dir);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool is_there = fgets(token, TOKEN_SIZE, file) != NULL;
    (void)fclose(file);
    token[strcspn(token, "\r\n")] = '\0';
    return is_there && token[0] != '\0';
}

/* NULL when the server ended or is not ready in time. */
static sg_client *wait_for(struct local *local)
{
    char url[PATH_SIZE + 16], token[TOKEN_SIZE];
    (void)snprintf(url, sizeof url, "unix:%s/socket", local->dir);
    for (int ms = 0; ms < START_MS; ms += STEP_MS) {
        if (waitpid(local->pid, NULL, WNOHANG) != 0) {
            local->pid = 0;
            return NULL;
        }
        if (read_token(local->dir, token)) {
            sg_client *client = sg_open(url, token);
            if (client != NULL && sg_call(client, "GET", "/readyz", NULL, NULL) == 0)
                return client;
            sg_close(client);
        }
        nap();
    }
    return NULL;
}

sg_client *sg_open_local(const char *program)
{
    struct local *local = calloc(1, sizeof *local);
    if (local == NULL)
        return NULL;
    (void)snprintf(local->dir, sizeof local->dir, "/var/tmp/sandglass-local-XXXXXX");
    if (mkdtemp(local->dir) == NULL)
        local->dir[0] = '\0';
    pid_t parent = getpid();
    if (local->dir[0] != '\0')
        local->pid = fork();
    if (local->pid == 0 && local->dir[0] != '\0')
        run_server(program == NULL ? "sandglass" : program, local->dir, parent);
    sg_client *client = local->pid > 0 ? wait_for(local) : NULL;
    if (client == NULL)
        local_free(local);
    else
        sg_client_on_close(client, local_free, local);
    return client;
}
