/* The same questions through a server: what users wait for, what it takes until documents are found
 * and how much the daemon grows. Documents are read by the confined process, questions are embedded
 * by the other one. */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "bench.h"
#include "http_rig.h"
#include "search.h"

enum { SAMPLES = 600, WAIT_MS = 100, FIRST = 10000, ALL = 100000 };

struct served {
    const char *pages_dir;
    pid_t server;
    int client;
    size_t copies;
    char body[RIG_ANSWER_MAX];
};

static pid_t running; /* ended with this program, also when it gives up */

static void end_server(void)
{
    if (running > 0)
        rig_end(running);
    running = 0;
}

static int64_t number_after(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    int64_t value = -1;
    if (at == NULL)
        return -1;
    struct str rest = str_trim(str_of(at + strlen(name)));
    size_t end = 0;
    while (end < rest.len && rest.ptr[end] >= '0' && rest.ptr[end] <= '9')
        end++;
    (void)!str_to_i64(str_slice(rest, 0, end), 0, INT64_MAX, &value);
    return value;
}

/* Of /readyz, once the server is ready. */
static int64_t figure(struct served *self, const char *name)
{
    int status;
    while ((status = rig_ask(self->client, "GET", "/readyz", NULL, self->body)) == 503)
        (void)usleep(WAIT_MS * 1000);
    if (status != 200)
        give_up("/readyz", self->body);
    const char *docs = strstr(self->body, "\"docs\":");
    return docs == NULL ? -1 : number_after(docs, name);
}

static double resident_mb(const struct served *self)
{
    struct err err = {0};
    char path[64];
    AUTO_BUF struct buf text = {0};
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)self->server);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || buf_read_all(&text, fd, &err) < 0)
        give_up("read", path);
    return (double)number_after(buf_cstr(&text), "VmRSS:") * 1024 / 1e6;
}

/* The pages again and again, each time of another package. */
static void add_until(struct served *self, int64_t chunks)
{
    AUTO_ARENA struct arena arena = {0};
    char *root = realpath(self->pages_dir, NULL);
    if (root == NULL)
        give_up("no pages", self->pages_dir);
    while (figure(self, "\"chunks\":") < chunks) {
        struct str json = arena_printf(&arena, "{\"directory\":\"%s\",\"package\":\"copy%zu\"}",
                                       root, self->copies++);
        if (rig_ask(self->client, "POST", "/v1/docs", json.ptr, self->body) != 201)
            give_up("add pages", self->body);
    }
    free(root);
}

/* True once each chunk has its vector; false without a model. */
static bool await_vectors(struct served *self)
{
    int64_t vectors = 0, chunks = figure(self, "\"chunks\":");
    if (strstr(self->body, "\"model\":\"minilm") == NULL)
        return false;
    while ((vectors = figure(self, "\"vectors\":")) < chunks)
        (void)usleep(WAIT_MS * 1000);
    return vectors > 0;
}

static void put_query(struct buf *out, struct str text)
{
    buf_put_cstr(out, "/v1/docs/search?query=");
    for (size_t i = 0; i < text.len; i++)
        buf_printf(out, "%%%02X", (unsigned char)text.ptr[i]);
}

static void time_questions(struct bench *bench, struct served *self, const char *name,
                           const struct question *questions, size_t count, const char *mode)
{
    static double samples[SAMPLES];
    for (size_t i = 0; i < SAMPLES; i++) {
        AUTO_BUF struct buf path = {0};
        put_query(&path, questions[i % count].text);
        int64_t begun = clock_now_ns();
        int status = rig_ask(self->client, "GET", buf_cstr(&path), NULL, self->body);
        samples[i] = (double)(clock_now_ns() - begun) / 1e3;
        if (status != 200 || strstr(self->body, mode) == NULL)
            give_up(name, self->body);
    }
    bench_samples(bench, name, "us", samples, SAMPLES, NULL, "one HTTP request each");
}

static void measure(struct bench *bench, struct served *self, const struct question *questions,
                    size_t count)
{
    double before = resident_mb(self);
    int64_t begun = clock_now_ns();
    add_until(self, FIRST);
    bench_figure(bench, "index_served_10k", "ms", (double)(clock_now_ns() - begun) / 1e6, NULL,
                 "with the process that reads; found by keywords then");
    bool has_model = await_vectors(self);
    if (has_model)
        time_questions(bench, self, "query_served_10k", questions, count, "\"hybrid\"");
    else
        time_questions(bench, self, "keyword_served_10k", questions, count, "\"keyword\"");
    bench_figure(bench, "memory_served_10k", "MB", resident_mb(self) - before, NULL,
                 "how much the daemon grew");
    add_until(self, ALL);
    if (has_model && await_vectors(self))
        time_questions(bench, self, "query_served_100k", questions, count, "\"hybrid\"");
}

static void remove_dir(const char *dir)
{
    const char *argv[] = {"rm", "-rf", dir, NULL};
    AUTO_BUF struct buf none = {0};
    (void)rig_output(argv, &none);
}

void served_rows(struct bench *bench, const char *pages_dir, const char *model_dir,
                 const struct question *questions, size_t count)
{
    struct served *self = mem_alloc(sizeof *self);
    char data[128], models[160];
    const char *program = getenv("SANDGLASS_BIN");
    if (program == NULL || count == 0 || mkdtemp(rig_dir) == NULL) {
        (void)fprintf(stderr, "served rows: left out: SANDGLASS_BIN names no sandglass\n");
        free(self);
        return;
    }
    /* The model's directory is models/files/minilm of a data directory. */
    AUTO_BUF struct buf from = {0};
    char *root = realpath(model_dir, NULL);
    (void)snprintf(data, sizeof data, "%s/data", rig_dir);
    (void)snprintf(models, sizeof models, "%s/models", data);
    buf_printf(&from, "%s/../..", root == NULL ? "/nonexistent" : root);
    if (mkdir(data, 0700) < 0 || symlink(buf_cstr(&from), models) < 0)
        give_up("make a directory", data);
    free(root);
    (void)setenv("SANDGLASS_ZYGOTE_AT_START", "false", 1);
    self->pages_dir = pages_dir;
    running = self->server = rig_start(program);
    (void)atexit(end_server);
    self->client = rig_connect(RIG_PORT);
    if (self->client < 0)
        give_up("start the server", program);
    measure(bench, self, questions, count);
    (void)close(self->client);
    end_server();
    remove_dir(rig_dir);
    free(self);
}
