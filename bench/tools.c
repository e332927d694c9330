/* The tools as a model's program calls them: grep and glob over 100,000 files of a sandbox, beside
 * ripgrep and fd in the same sandbox, all through the same route; and the round trip of a small
 * call over MCP, by pipes and by HTTP.
 *
 * Every row pays for one HTTP request; the peers' rows also pay for the start of a command. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/err.h"
#include "bench.h"
#include "http_rig.h"

enum { SAMPLES = 8, CALL_SAMPLES = 400, ANSWER_BYTES = RIG_ANSWER_MAX };

static int client = -1;
static char sandbox[64], session[64];
static int to_mcp = -1;
static FILE *from_mcp;

static void give_up(const char *what, const char *detail)
{
    (void)fprintf(stderr, "bench: %s: %s\n", what, detail);
    exit(1);
}

/* ---- the tree ------------------------------------------------------------------------------ */

/* The same as in the suite `files`: about thirty lines a file, one in a thousand with the needle.
 */
static const char make_tree[] =
    "{\"timeoutMs\": 300000, \"argv\": [\"python3\", \"-c\", \""
    "import os\\n"
    "for i in range(100000):\\n"
    "  d = f'/workspace/d{i % 20}/e{i % 1000}'\\n"
    "  os.makedirs(d, exist_ok=True)\\n"
    "  with open(f'{d}/f{i}.' + ('py' if i % 10 == 0 else 'js'), 'w') as f:\\n"
    "    f.writelines(f'    value_{j} = compute(input[{j * 7}], name {i});\\\\n' for j in "
    "range(30))\\n"
    "    if i % 1000 == 0: f.write('    raise NeedleError(found 4711)\\\\n')\\n"
    "\"]}";

static void make_sandbox(void)
{
    char body[ANSWER_BYTES], path[160];
    if (rig_ask(client, "POST", "/v1/sandboxes",
                "{\"tier\":\"jail\",\"limits\":{\"memoryMb\":3072,\"diskMb\":2048,\"cpus\":2}}",
                body) != 201 ||
        !rig_id(body, sandbox))
        give_up("make a sandbox", body);
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s/commands", sandbox);
    if (rig_ask(client, "POST", path, make_tree, body) != 201 ||
        strstr(body, "\"exitCode\":0") == NULL)
        give_up("make the tree", body);
}

struct tool_row {
    const char *tool, *args;
    const char *wanted; /* in the answer */
};

static void call_tool(void *ctx)
{
    const struct tool_row *row = ctx;
    char body[ANSWER_BYTES], path[160];
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s/tools/%s", sandbox, row->tool);
    if (rig_ask(client, "POST", path, row->args, body) != 200 || strstr(body, row->wanted) == NULL)
        give_up(row->tool, body);
}

/* ---- MCP ----------------------------------------------------------------------------------- */

#define HELLO                                                                                      \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"     \
    "\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}"
#define CALL                                                                                       \
    "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"exists\","     \
    "\"arguments\":{\"path\":\"none\"}}}"

static pid_t start_mcp(const char *program)
{
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        give_up("pipes", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(in[0], STDIN_FILENO);
        (void)dup2(out[1], STDOUT_FILENO);
        (void)execl(program, "sandglass", "mcp", (char *)NULL);
        _exit(127);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    to_mcp = in[1];
    from_mcp = fdopen(out[0], "r");
    return pid;
}

static void call_pipes(void *ctx)
{
    char line[ANSWER_BYTES];
    const char *message = ctx;
    size_t len = strlen(message);
    if (write(to_mcp, message, len) != (ssize_t)len || fgets(line, sizeof line, from_mcp) == NULL ||
        strstr(line, "\"result\"") == NULL)
        give_up("sandglass mcp", message);
}

/* The engine's list of sessions tells what the header of the first answer did. */
static void greet_http(void)
{
    char body[ANSWER_BYTES];
    if (rig_ask(client, "POST", "/mcp", HELLO, body) != 200 ||
        rig_ask(client, "GET", "/v1/sessions", NULL, body) != 200 || !rig_id(body, session))
        give_up("initialize over HTTP", body);
}

static void call_http(UNUSED void *ctx)
{
    char body[ANSWER_BYTES], header[128];
    (void)snprintf(header, sizeof header, "Mcp-Session-Id: %s\r\n", session);
    if (rig_ask_with(client, "POST", "/mcp", header, CALL, body) != 200 ||
        strstr(body, "\"result\"") == NULL)
        give_up("tools/call over HTTP", body);
}

static void measure_mcp(struct bench *bench, const char *program)
{
    pid_t pid = start_mcp(program);
    call_pipes((void *)(uintptr_t)(HELLO "\n"));
    greet_http();
    const struct bench_case cases[] = {
        {.name = "mcp_call_stdio",
         .run = call_pipes,
         .ctx = (void *)(uintptr_t)(CALL "\n"),
         .note = "exists"},
        {.name = "mcp_call_http", .run = call_http, .note = "exists, keep-alive"},
    };
    bench_interleaved(bench, cases, countof(cases), CALL_SAMPLES);
    (void)close(to_mcp);
    (void)waitpid(pid, NULL, 0);
    (void)fclose(from_mcp);
}

int main(int argc, char **argv)
{
    static struct tool_row grep = {"grep", "{\"pattern\":\"NeedleError\",\"maxResults\":1000}",
                                   "f99000.py"},
                           ripgrep = {"bash",
                                      "{\"command\":\"rg -uuu -j1 -n NeedleError /workspace\"}",
                                      "f99000.py"},
                           glob = {"glob", "{\"pattern\":\"**/*000.py\"}", "f99000.py"},
                           fd = {"bash",
                                 "{\"command\":\"fdfind -u -j1 --type f --glob '*000.py' "
                                 "/workspace\"}",
                                 "f99000.py"};
    const char *program = getenv("SANDGLASS_BIN");
    (void)signal(SIGPIPE, SIG_IGN);
    if (program == NULL || mkdtemp(rig_dir) == NULL)
        give_up("SANDGLASS_BIN", "set it to the program");
    pid_t server = rig_start(program);
    client = rig_connect(RIG_PORT);
    struct bench *bench = bench_begin("tools");
    measure_mcp(bench, program);
    make_sandbox();
    const struct bench_case cases[] = {
        {.name = "grep_100k", .peer = "ripgrep_100k", .run = call_tool, .ctx = &grep},
        {.name = "ripgrep_100k",
         .run = call_tool,
         .ctx = &ripgrep,
         .note = "by the tool bash, -j1"},
        {.name = "glob_100k", .peer = "fd_100k", .run = call_tool, .ctx = &glob},
        {.name = "fd_100k", .run = call_tool, .ctx = &fd, .note = "by the tool bash, -j1"},
    };
    bench_interleaved(bench, cases, countof(cases), SAMPLES);
    rig_end(server);
    const char *const clean[] = {"rm", "-rf", rig_dir, NULL};
    struct buf ignored = {0};
    (void)rig_output(clean, &ignored);
    buf_done(&ignored);
    return bench_end(bench, argc, argv);
}
