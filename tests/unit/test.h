#pragma once

/* Unit tests: TEST(name) { ... } registers itself; the program prints TAP (cmocka underneath). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/err.h"
#include "base/str.h"

void test_register(const char *name, CMUnitTestFunction func);

#define TEST(name)                                                                                 \
    static void test_##name(void **state);                                                         \
    __attribute__((constructor)) static void register_##name(void)                                 \
    {                                                                                              \
        test_register(#name, test_##name);                                                         \
    }                                                                                              \
    static void test_##name(UNUSED void **state)

#define CHECK(condition) assert_true(condition)
#define CHECK_INT(value, expected) assert_int_equal((value), (expected))
#define CHECK_CSTR(value, expected) assert_string_equal((value), (expected))
#define CHECK_STR(value, expected) test_check_str((value), (expected), __FILE__, __LINE__)
/* Both expect a `struct err err` in scope. */
#define CHECK_OK(call) test_check_ok((call), &err, #call, __FILE__, __LINE__)
#define CHECK_ERR(call, expected)                                                                  \
    test_check_err((call), &err, (expected), #call, __FILE__, __LINE__)
/* The message holds this text. */
#define CHECK_MSG(text) test_check_msg(&err, (text), __FILE__, __LINE__)
/* Ends the test as skipped. tests/skips.txt lists the reasons that the gate accepts. */
#define SKIP(reason) test_skip(reason)

void test_check_str(struct str value, const char *expected, const char *file, int line);
void test_check_ok(int result, const struct err *err, const char *call, const char *file, int line);
void test_check_err(int result, const struct err *err, enum err_code expected, const char *call,
                    const char *file, int line);
void test_check_msg(const struct err *err, const char *text, const char *file, int line);
void test_skip(const char *reason);

/* A directory of this test program's own, removed at its end. */
const char *test_tmpdir(void);
void test_write(const char *dir, const char *name, const char *text);
void test_symlink(const char *dir, const char *target, const char *name);
/* Descriptors open in this process, to compare before and after. */
int test_open_fds(void);
/* A size: the small one, or with SG_SOAK=N an N-th of the full one, if that is more. */
int test_sized(int small, int full);
