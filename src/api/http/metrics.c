#include "api/http/metrics.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "api/route/route.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/vec.h"

static const double bounds_s[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                  0.05,   0.1,     0.25,   0.5,   1,      2.5,   5,    10};

struct status_count {
    int status;
    uint64_t count;
};

struct row {
    uint64_t buckets[countof(bounds_s)]; /* each counts its own span; summed up when written */
    uint64_t count;
    double sum_s;
    VEC(struct status_count) statuses;
};

/* The families and the names of their first labels. */
static const struct {
    const char *name, *help, *label; /* NULL: the tier tells all */
} families[METRICS_FAMILY_COUNT] = {
    [METRICS_CREATE] = {"sandglass_sandbox_create_seconds",
                        "From the request to a running sandbox.", NULL},
    [METRICS_EXEC] = {"sandglass_exec_seconds", "How long commands and evaluations ran.", "kind"},
    [METRICS_FILE] = {"sandglass_file_seconds",
                      "From the request to the response of a file operation.", "verb"},
};

struct series {
    const char *tier, *kind, *outcome; /* borrowed: constant texts */
    uint64_t buckets[countof(bounds_s)], count;
    double sum_s;
};

struct metrics {
    VEC(struct series) series[METRICS_FAMILY_COUNT];
    const struct route *routes;
    size_t route_count;
    int64_t start_ns;
    struct row *rows; /* one per route and one for what had none */
};

struct metrics *metrics_new(const struct route *routes)
{
    struct metrics *metrics = mem_alloc(sizeof *metrics);
    metrics->routes = routes;
    metrics->start_ns = clock_now_ns();
    while (routes[metrics->route_count].pattern != NULL)
        metrics->route_count++;
    metrics->rows = mem_alloc((metrics->route_count + 1) * sizeof *metrics->rows);
    return metrics;
}

struct metrics *metrics_free(struct metrics *metrics)
{
    if (metrics == NULL)
        return NULL;
    for (size_t i = 0; i <= metrics->route_count; i++)
        vec_done(&metrics->rows[i].statuses);
    for (size_t i = 0; i < METRICS_FAMILY_COUNT; i++)
        vec_done(&metrics->series[i]);
    free(metrics->rows);
    free(metrics);
    return NULL;
}

void metrics_count(struct metrics *metrics, int64_t route, int status, int64_t spent_ns)
{
    size_t index = route < 0 ? metrics->route_count : (size_t)route;
    assert(index <= metrics->route_count);
    struct row *row = &metrics->rows[index];
    double spent_s = (double)spent_ns / 1e9;
    for (size_t i = 0; i < countof(bounds_s); i++) {
        if (spent_s <= bounds_s[i]) {
            row->buckets[i]++;
            break;
        }
    }
    row->count++;
    row->sum_s += spent_s;
    VEC_EACH (known, &row->statuses) {
        if (known->status == status) {
            known->count++;
            return;
        }
    }
    *vec_push(&row->statuses) = (struct status_count){status, 1};
}

void metrics_head(struct buf *out, const char *name, const char *help, const char *type)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metrics_put(struct buf *out, const char *name, const char *help, const char *type,
                 double value)
{
    metrics_head(out, name, help, type);
    buf_printf(out, "%s %.17g\n", name, value);
}

static void put_labels(const struct metrics *metrics, size_t index, struct buf *out)
{
    bool known = index < metrics->route_count;
    buf_printf(out, "method=\"%s\",route=\"%s\"", known ? metrics->routes[index].method : "",
               known ? metrics->routes[index].pattern : "none");
}

static void put_requests(const struct metrics *metrics, struct buf *out)
{
    metrics_head(out, "sandglass_http_requests_total", "Requests answered.", "counter");
    for (size_t i = 0; i <= metrics->route_count; i++) {
        VEC_EACH (known, &metrics->rows[i].statuses) {
            buf_put_cstr(out, "sandglass_http_requests_total{");
            put_labels(metrics, i, out);
            buf_printf(out, ",status=\"%d\"} %llu\n", known->status,
                       (unsigned long long)known->count);
        }
    }
}

static void put_histogram(const struct metrics *metrics, size_t index, struct buf *out)
{
    static const char name[] = "sandglass_http_request_duration_seconds";
    const struct row *row = &metrics->rows[index];
    uint64_t sum = 0;
    for (size_t i = 0; i < countof(bounds_s); i++) {
        sum += row->buckets[i];
        buf_printf(out, "%s_bucket{", name);
        put_labels(metrics, index, out);
        buf_printf(out, ",le=\"%g\"} %llu\n", bounds_s[i], (unsigned long long)sum);
    }
    buf_printf(out, "%s_bucket{", name);
    put_labels(metrics, index, out);
    buf_printf(out, ",le=\"+Inf\"} %llu\n%s_sum{", (unsigned long long)row->count, name);
    put_labels(metrics, index, out);
    buf_printf(out, "} %.9g\n%s_count{", row->sum_s, name);
    put_labels(metrics, index, out);
    buf_printf(out, "} %llu\n", (unsigned long long)row->count);
}

/* The `field`-th number of a line, counted from 0 behind the last ')' (a name may hold blanks). */
static int64_t stat_field(struct str line, size_t field)
{
    size_t start = line.len;
    while (start > 0 && line.ptr[start - 1] != ')')
        start--;
    struct str rest = str_slice(line, start + 1, line.len), part = {0};
    int64_t n = 0;
    for (size_t i = 0; i <= field; i++)
        if (!str_split(&rest, ' ', &part))
            return 0;
    return str_to_i64(part, 0, INT64_MAX, &n) ? n : 0;
}

static int64_t count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int64_t count = -3; /* ".", ".." and the directory itself */
    if (dir == NULL)
        return 0;
    while (readdir(dir) != NULL) /* NOLINT(concurrency-mt-unsafe): only we use the stream */
        count++;
    (void)closedir(dir);
    return count;
}

static void put_process(struct buf *out)
{
    struct err err;
    AUTO_BUF struct buf stat = {0};
    AUTO_CLOSE int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || buf_read_all(&stat, fd, &err) < 0)
        buf_clear(&stat);
    /* Fields of proc(5), from the state (3) on. */
    struct str line = str_trim(buf_str(&stat));
    double ticks = (double)(stat_field(line, 14 - 3) + stat_field(line, 15 - 3));
    metrics_put(out, "process_cpu_seconds_total", "User and system time used.", "counter",
                ticks / (double)sysconf(_SC_CLK_TCK));
    metrics_put(out, "process_threads", "Threads.", "gauge", (double)stat_field(line, 20 - 3));
    metrics_put(out, "process_resident_memory_bytes", "Resident memory.", "gauge",
                (double)stat_field(line, 24 - 3) * (double)sysconf(_SC_PAGESIZE));
    metrics_put(out, "process_virtual_memory_bytes", "Virtual memory.", "gauge",
                (double)stat_field(line, 23 - 3));
    metrics_put(out, "process_open_fds", "Open descriptors.", "gauge", (double)count_fds());
    struct rlimit files = {0};
    (void)getrlimit(RLIMIT_NOFILE, &files);
    metrics_put(out, "process_max_fds", "Maximum number of open descriptors.", "gauge",
                (double)files.rlim_cur);
}

void metrics_observe(struct metrics *metrics, enum metrics_family family, const char *tier,
                     const char *kind, const char *outcome, double seconds)
{
    struct series *found = NULL;
    VEC_EACH (each, &metrics->series[family])
        if (strcmp(each->tier, tier) == 0 && strcmp(each->kind, kind) == 0 &&
            strcmp(each->outcome, outcome) == 0)
            found = each;
    if (found == NULL) {
        found = vec_push(&metrics->series[family]);
        found->tier = tier;
        found->kind = kind;
        found->outcome = outcome;
    }
    found->count++;
    found->sum_s += seconds;
    for (size_t i = 0; i < countof(bounds_s); i++)
        found->buckets[i] += seconds <= bounds_s[i];
}

static void put_series(const struct series *series, const char *name, const char *label,
                       struct buf *out)
{
    char labels[160];
    (void)snprintf(labels, sizeof labels, "tier=\"%s\"%s%s%s%s%s,outcome=\"%s\"", series->tier,
                   label == NULL ? "" : ",", label == NULL ? "" : label, label == NULL ? "" : "=\"",
                   label == NULL ? "" : series->kind, label == NULL ? "" : "\"", series->outcome);
    for (size_t i = 0; i < countof(bounds_s); i++)
        buf_printf(out, "%s_bucket{%s,le=\"%g\"} %llu\n", name, labels, bounds_s[i],
                   (unsigned long long)series->buckets[i]);
    buf_printf(out, "%s_bucket{%s,le=\"+Inf\"} %llu\n", name, labels,
               (unsigned long long)series->count);
    buf_printf(out, "%s_sum{%s} %.9g\n%s_count{%s} %llu\n", name, labels, series->sum_s, name,
               labels, (unsigned long long)series->count);
}

static void put_families(const struct metrics *metrics, struct buf *out)
{
    for (size_t i = 0; i < METRICS_FAMILY_COUNT; i++) {
        if (metrics->series[i].len > 0)
            metrics_head(out, families[i].name, families[i].help, "histogram");
        VEC_EACH (series, &metrics->series[i])
            put_series(series, families[i].name, families[i].label, out);
    }
}

void metrics_write(const struct metrics *metrics, struct buf *out)
{
    metrics_head(out, "sandglass_build_info", "The running version.", "gauge");
    buf_put_cstr(out, "sandglass_build_info{version=\"" SG_VERSION "\"} 1\n");
    metrics_put(out, "sandglass_uptime_seconds", "Seconds since the start.", "gauge",
                (double)(clock_now_ns() - metrics->start_ns) / 1e9);
    put_process(out);
    put_requests(metrics, out);
    metrics_head(out, "sandglass_http_request_duration_seconds",
                 "From the request line to the end of the response.", "histogram");
    for (size_t i = 0; i <= metrics->route_count; i++)
        if (metrics->rows[i].count > 0)
            put_histogram(metrics, i, out);
    put_families(metrics, out);
}
