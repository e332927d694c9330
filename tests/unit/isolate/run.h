#pragma once

/* One engine for a whole test program, and short ways to run code in it. */

#include "test.h"

#include "base/buf.h"
#include "isolate/inside/isolate.h"

struct isolate_engine *test_engine(void);
struct isolate_limits test_limits(void); /* the defaults, with a second to run */

/* Runs in a fresh isolate; console lines in `out`, each ending in a newline, stderr's with "! ". */
struct isolate_result test_run(const char *code, struct buf *out);
struct isolate_result test_run_in(struct isolate *isolate, const struct isolate_call *call,
                                  struct buf *out);
void test_expect_json(const char *code, const char *json);
void test_expect_error(const char *code, enum isolate_status status, const char *name,
                       const char *message);
void test_expect_console(const char *code, const char *lines);
