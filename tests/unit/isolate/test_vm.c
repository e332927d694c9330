#include "test.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "isolate/vm/vm.h"

/* Only the engine: evaluation, traps, images, wiping. */

static const struct vm_limits limits = {.memory_bytes = 16 << 20, .stack_bytes = VM_STACK_MAX};

struct job {
    struct str code;
    enum vm_kind kind;
    double number;
    struct arena *arena;
    struct str text;
    bool expired;
};

static void run_job(struct vm *vm, void *arg)
{
    struct job *job = arg;
    vm_apply_limits(vm, &limits);
    vm_value value = vm_eval(vm, job->code, "test.js", 1, VM_EVAL_SCRIPT);
    job->kind = vm_kind_of(value);
    if (job->kind == VM_EXCEPTION) {
        value = vm_take_exception(vm);
        job->expired = vm_is_expired(vm);
    }
    if (job->kind == VM_NUMBER)
        job->number = vm_to_number(vm, value);
    else if (!vm_text(vm, value, job->arena, &job->text))
        job->text = STR("?");
    vm_drop(vm, value);
}

static struct vm *shared;
static struct vm_image *template;
static struct arena arena;

static void setup(void)
{
    struct err err = {0};
    CHECK_OK(rt_start(&err)); /* the harness takes SIGSEGV for itself before each test */
    if (shared != NULL)
        return;
    CHECK_OK(vm_new(&shared, &err));
    CHECK_OK(vm_boot(shared, &err));
    CHECK_OK(vm_save(shared, &template, &err));
}

static struct job fresh(const char *code, enum rt_trap expected)
{
    struct err err = {0};
    setup();
    CHECK_OK(vm_load(shared, template, &limits, &err));
    vm_set_arena(shared, &arena);
    struct job job = {.code = str_of(code), .arena = &arena};
    int64_t now = clock_now_ns();
    rt_alarm(300);
    CHECK_INT(vm_try(shared, now + 200000000, now + 250000000, run_job, &job), expected);
    rt_alarm(0);
    return job;
}

TEST(vm_evaluates)
{
    CHECK(fresh("1+1", RT_OK).number == 2);
    CHECK(fresh("0.5+1", RT_OK).number == 1.5);
    CHECK(fresh("-1e300*10", RT_OK).number == -1e301);
    CHECK_STR(fresh("'a'+'b'", RT_OK).text, "ab");
    CHECK_INT(fresh("throw new Error('x')", RT_OK).kind, VM_EXCEPTION);
    CHECK_STR(fresh("throw new Error('x')", RT_OK).text, "Error: x");
}

TEST(vm_copies_are_fresh)
{
    (void)fresh("globalThis.leak = 1; let hidden = 2", RT_OK);
    CHECK_STR(fresh("typeof leak + typeof hidden", RT_OK).text, "undefinedundefined");
}

TEST(vm_random_differs_between_copies)
{
    double a = fresh("Math.random()", RT_OK).number, b = fresh("Math.random()", RT_OK).number;
    CHECK(a != b);
}

TEST(vm_survives_deep_recursion)
{
    struct job job = fresh("function f() { f() } try { f() } catch (e) { e.name }", RT_OK);
    CHECK_STR(job.text, "RangeError");
    CHECK(fresh("1+1", RT_OK).number == 2);
}

TEST(vm_ends_endless_loops)
{
    struct job job = fresh("for (;;) { try { for (;;); } catch (e) {} finally { } }", RT_OK);
    CHECK_INT(job.kind, VM_EXCEPTION);
    CHECK(job.expired);
    CHECK(fresh("1+1", RT_OK).number == 2);
}

TEST(vm_traps_what_does_not_listen)
{
    struct err err = {0};
    setup();
    CHECK_OK(vm_load(shared, template, &limits, &err));
    struct job job = {.code = STR("for (;;);"), .arena = &arena};
    rt_alarm(20); /* no soft deadline: the engine is never asked to stop */
    CHECK_INT(vm_try(shared, 0, clock_now_ns() + 30000000, run_job, &job), RT_TRAP_DEADLINE);
    rt_alarm(0);
    CHECK(fresh("1+1", RT_OK).number == 2);
}

static void poke(struct vm *vm, void *arg)
{
    vm_poke(vm, *(uint32_t *)arg);
}

TEST(vm_writes_out_of_bounds_are_traps)
{
    struct err err = {0};
    setup();
    static const uint32_t addresses[] = {0x7fffffff, 0xffff0000, 0xffffffff, 64 << 20};
    for (size_t i = 0; i < countof(addresses); i++) {
        CHECK_OK(vm_load(shared, template, &limits, &err));
        uint32_t at = addresses[i];
        CHECK_INT(vm_try(shared, 0, 0, poke, &at), RT_TRAP_MEMORY);
        struct vm_image *image = NULL;
        CHECK_ERR(vm_save(shared, &image, &err), ERR_GONE);
    }
    CHECK(fresh("1+1", RT_OK).number == 2);
}

TEST(vm_image_round_trips)
{
    struct err err = {0};
    (void)fresh("let counter = 41; const f = () => ++counter", RT_OK);
    AUTO_VM_IMAGE struct vm_image *decoded = NULL;
    AUTO_BUF struct buf bytes = {0};
    CHECK_OK(vm_save_bytes(shared, vm_engine_key(), &bytes, &err));
    CHECK_OK(vm_image_decode(buf_str(&bytes), vm_engine_key(), &decoded, &err));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(vm_load(shared, decoded, &limits, &err));
        struct job job = {.code = STR("f()"), .arena = &arena};
        CHECK_INT(vm_try(shared, 0, 0, run_job, &job), RT_OK);
        CHECK(job.number == 42);
    }
}

TEST(vm_image_refuses_damage)
{
    struct err err = {0};
    (void)fresh("1", RT_OK);
    AUTO_VM_IMAGE struct vm_image *image = NULL, *decoded = NULL;
    CHECK_OK(vm_save(shared, &image, &err));
    AUTO_BUF struct buf bytes = {0};
    CHECK_OK(vm_save_bytes(shared, vm_engine_key(), &bytes, &err));
    CHECK_ERR(vm_image_decode(STR(""), vm_engine_key(), &decoded, &err), ERR_INVALID);
    CHECK_ERR(vm_image_decode(str_slice(buf_str(&bytes), 0, bytes.len - 1), vm_engine_key(),
                              &decoded, &err),
              ERR_INVALID);
    for (size_t at = 0; at < 300; at += 3) {
        bytes.ptr[at] ^= 0x55;
        if (vm_image_decode(buf_str(&bytes), vm_engine_key(), &decoded, &err) == 0)
            decoded = vm_image_free(decoded);
        bytes.ptr[at] ^= 0x55;
    }
}

/* The memory is reused: nothing of the isolate before may be in it. */
static void search(struct vm *vm, void *arg)
{
    struct job *job = arg;
    job->number = 0;
    vm_value value = vm_eval(vm, STR("'x'.repeat(10)"), "t", 1, VM_EVAL_SCRIPT);
    vm_drop(vm, value);
}

TEST(vm_wipes_what_was_there)
{
    struct err err = {0};
    AUTO_BUF struct buf empty = {0};
    (void)fresh("1", RT_OK);
    CHECK_OK(vm_save_bytes(shared, vm_engine_key(), &empty, &err));
    (void)fresh("var keep = []; for (let i = 0; i < 20000; i++) keep.push('SECRET-' + i);"
                "(function deep(n) { return n ? deep(n - 1) + 'SECRETSTACK'.length : 0 })(500)",
                RT_OK);
    CHECK_OK(vm_load(shared, template, &limits, &err));
    struct job job = {.arena = &arena};
    CHECK_INT(vm_try(shared, 0, 0, search, &job), RT_OK);
    AUTO_BUF struct buf bytes = {0};
    CHECK_OK(vm_save_bytes(shared, vm_engine_key(), &bytes, &err));
    CHECK(str_find(buf_str(&bytes), STR("SECRET-")) == bytes.len);
    CHECK(str_find(buf_str(&bytes), STR("SECRETSTACK")) == bytes.len);
    CHECK(bytes.len < empty.len + (256 << 10));
}
