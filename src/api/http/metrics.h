#pragma once

/* Figures for operators, in Prometheus' text form. */

#include "base/buf.h"

struct metrics;
struct route;

enum { METRICS_NO_ROUTE = -1 };

/* `routes` is borrowed. */
struct metrics *metrics_new(const struct route *routes) MUST_USE;
struct metrics *metrics_free(struct metrics *metrics);
DEFINE_FREEP(metrics)

/* One request ended. `route` is its place in the table or METRICS_NO_ROUTE. */
void metrics_count(struct metrics *metrics, int64_t route, int status, int64_t spent_ns);
/* Requests and their durations, build, uptime and the process itself. */
void metrics_write(const struct metrics *metrics, struct buf *out);
/* A figure of one's own: "sandglass_connections", "Open connections.", "gauge". */
void metrics_put(struct buf *out, const char *name, const char *help, const char *type,
                 double value);

/* A duration of its own family, by tier, what was done (may be "") and how it ended. Families and
 * labels are words of ours, so there are few. */
enum metrics_family { METRICS_CREATE, METRICS_EXEC, METRICS_FILE, METRICS_FAMILY_COUNT };
void metrics_observe(struct metrics *metrics, enum metrics_family family, const char *tier,
                     const char *kind, const char *outcome, double seconds);
/* A figure with labels of ours, after its head: metrics_head(out, "x", "X.", "gauge"). */
void metrics_head(struct buf *out, const char *name, const char *help, const char *type);
