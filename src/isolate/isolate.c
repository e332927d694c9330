#include "isolate/isolate.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/embed.h"
#include "base/err.h"
#include "isolate/internal.h"
#include "isolate/strip/strip.h"

#define OWN_FILE                                                                                   \
    "<sandglass>" /* of the bootstrap, so that its frames can be taken out of stacks               \
                   */

const char *isolate_status_name(enum isolate_status status)
{
    static const char *const names[] = {
        [ISOLATE_OK] = "ok",           [ISOLATE_ERROR] = "error",
        [ISOLATE_TIMEOUT] = "timeout", [ISOLATE_MEMORY] = "out_of_memory",
        [ISOLATE_CRASH] = "crash",
    };
    return (size_t)status < countof(names) ? names[status] : "unknown";
}

struct vm_limits host_vm_limits(const struct isolate_limits *limits)
{
    return (struct vm_limits){
        .memory_bytes =
            MAX(MIN(limits->memory_bytes, (uint64_t)VM_MEMORY_MAX), (uint64_t)VM_MEMORY_MIN),
        .stack_bytes = MIN(limits->stack_bytes, (uint32_t)VM_STACK_MAX),
    };
}

/* --- The template --- */

struct boot {
    struct isolate_engine *engine;
    const char *const *bridges;
    const char *failed; /* the piece that did not work */
    struct buf core;    /* bytecode of what goes into the template */
};

static bool learn_entries(struct vm *vm, vm_value object, struct entries *entries)
{
    struct {
        const char *name;
        vm_value *to;
    } rows[] = {
        {"tick", &entries->tick},       {"settle", &entries->settle},
        {"abandon", &entries->abandon}, {"setBridges", &entries->set_bridges},
        {"setEnv", &entries->set_env},  {"peek", &entries->peek},
        {"stop", &entries->stop},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        *rows[i].to = vm_get(vm, object, rows[i].name); /* held for good, by the image */
        if (vm_kind_of(*rows[i].to) != VM_OBJECT)
            return false;
    }
    return true;
}

static bool set_bridges(struct vm *vm, const struct boot *boot)
{
    AUTO_BUF struct buf json = {0};
    buf_put_char(&json, '[');
    for (size_t i = 0; boot->bridges != NULL && boot->bridges[i] != NULL; i++)
        buf_printf(&json, "%s\"%s\"", i > 0 ? "," : "", boot->bridges[i]);
    buf_put_char(&json, ']');
    vm_value names = vm_parse_json(vm, buf_str(&json));
    vm_value done = vm_call(vm, boot->engine->entries.set_bridges, vm_undefined(), &names, 1);
    vm_drop(vm, names);
    return vm_kind_of(done) != VM_EXCEPTION;
}

/* Compiling leaves litter in the heap, so it is done before the template begins. */
static void compile_pieces(struct vm *vm, void *arg)
{
    struct boot *boot = arg;
    struct isolate_engine *engine = boot->engine;
    (void)snprintf(engine->version, sizeof engine->version, "quickjs-ng %s", vm_engine_version(vm));
    for (const struct embed_file *file = isolate_bootstrap; file->name != NULL; file++) {
        struct buf *out = &boot->core;
        if (strcmp(file->name, "core") != 0) {
            assert(engine->chunk_count < CHUNKS_MAX);
            struct chunk *chunk = &engine->chunks[engine->chunk_count++];
            chunk->name = file->name;
            out = &chunk->bytecode;
        }
        boot->failed = file->name;
        if (!vm_compile(vm, file->bytes, OWN_FILE, out))
            return;
    }
    boot->failed = NULL;
}

static void boot_template(struct vm *vm, void *arg)
{
    struct boot *boot = arg;
    boot->failed = "core";
    vm_value make = vm_eval_bytecode(vm, buf_str(&boot->core)), host = vm_host_function(vm);
    if (vm_kind_of(make) == VM_EXCEPTION)
        return;
    vm_value entries = vm_call(vm, make, vm_undefined(), &host, 1);
    if (vm_kind_of(entries) != VM_OBJECT || !learn_entries(vm, entries, &boot->engine->entries) ||
        !set_bridges(vm, boot))
        return;
    vm_drop(vm, make);
    vm_drop(vm, host);
    vm_drop(vm, entries);
    struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
    struct vm_limits vm_limits = host_vm_limits(&limits);
    vm_apply_limits(vm, &vm_limits);
    boot->failed = NULL;
}

static int boot_step(struct vm *vm, void (*step)(struct vm *, void *), struct boot *boot,
                     struct err *err)
{
    enum rt_trap trap = vm_try(vm, 0, 0, step, boot);
    if (trap == RT_OK && boot->failed == NULL)
        return 0;
    return err_set(err, ERR_INTERNAL, "evaluate the bootstrap '%s': %s",
                   boot->failed != NULL ? boot->failed : "", rt_trap_text(trap));
}

static int make_template(struct vm *vm, struct boot *boot, struct err *err)
{
    AUTO_VM_IMAGE struct vm_image *empty = NULL;
    const struct vm_limits limits = {.memory_bytes = VM_MEMORY_MAX, .stack_bytes = VM_STACK_MAX};
    if (vm_boot(vm, err) < 0 || vm_save(vm, &empty, err) < 0 ||
        boot_step(vm, compile_pieces, boot, err) < 0 || vm_load(vm, empty, &limits, err) < 0 ||
        boot_step(vm, boot_template, boot, err) < 0)
        return -1;
    return vm_save(vm, &boot->engine->template, err);
}

int isolate_engine_new(const char *const *bridges, struct isolate_engine **ret_engine,
                       struct err *err)
{
    AUTO_ENGINE struct isolate_engine *engine = mem_alloc(sizeof *engine);
    engine->strip = strip_new((struct strip_limits){0});
    AUTO_VM struct vm *vm = NULL;
    AUTO_ARENA struct arena arena = {0};
    if (vm_new(&vm, err) < 0)
        return -1;
    vm_set_arena(vm, &arena);
    struct boot boot = {.engine = engine, .bridges = bridges};
    int made = make_template(vm, &boot, err);
    buf_done(&boot.core);
    vm_set_arena(vm, NULL);
    if (made < 0)
        return -1;
    engine->spares[engine->spare_count++] = vm;
    vm = NULL;
    *ret_engine = engine;
    engine = NULL;
    return 0;
}

struct isolate_engine *isolate_engine_free(struct isolate_engine *engine)
{
    if (engine == NULL)
        return NULL;
    for (size_t i = 0; i < engine->spare_count; i++)
        (void)vm_free(engine->spares[i]);
    for (size_t i = 0; i < engine->chunk_count; i++)
        buf_done(&engine->chunks[i].bytecode);
    (void)vm_image_free(engine->template);
    (void)strip_free(engine->strip);
    free(engine);
    return NULL;
}

const char *isolate_engine_version(const struct isolate_engine *engine)
{
    return engine->version;
}

int engine_take_vm(struct isolate_engine *engine, struct vm **ret_vm, struct err *err)
{
    if (engine->spare_count == 0)
        return vm_new(ret_vm, err);
    *ret_vm = engine->spares[--engine->spare_count];
    return 0;
}

void engine_give_vm(struct isolate_engine *engine, struct vm *vm)
{
    if (engine->spare_count < SPARES_MAX)
        engine->spares[engine->spare_count++] = vm;
    else
        (void)vm_free(vm);
}

/* --- Isolates --- */

int isolate_bare(struct isolate_engine *engine, const struct isolate_limits *limits,
                 struct isolate **ret_isolate, struct err *err)
{
    struct vm *vm = NULL;
    if (engine_take_vm(engine, &vm, err) < 0)
        return -1;
    struct isolate *isolate = mem_alloc(sizeof *isolate);
    isolate->engine = engine;
    isolate->vm = vm;
    isolate->limits = *limits;
    isolate->born_ns = clock_now_ns();
    vm_set_hooks(vm, &host_hooks, isolate);
    vm_set_arena(vm, &isolate->arena);
    *ret_isolate = isolate;
    return 0;
}

int isolate_new(struct isolate_engine *engine, const struct isolate_limits *limits,
                struct isolate **ret_isolate, struct err *err)
{
    AUTO_ISOLATE struct isolate *isolate = NULL;
    struct vm_limits vm_limits = host_vm_limits(limits);
    if (isolate_bare(engine, limits, &isolate, err) < 0 ||
        vm_load(isolate->vm, engine->template, &vm_limits, err) < 0)
        return err_wrap(err, "make an isolate");
    *ret_isolate = isolate;
    isolate = NULL;
    return 0;
}

struct isolate *isolate_free(struct isolate *isolate)
{
    if (isolate == NULL)
        return NULL;
    while (isolate->answers != NULL) {
        struct answer *next = isolate->answers->next;
        free(isolate->answers);
        isolate->answers = next;
    }
    vm_set_hooks(isolate->vm, NULL, NULL);
    vm_set_arena(isolate->vm, NULL);
    engine_give_vm(isolate->engine, isolate->vm);
    arena_done(&isolate->arena);
    buf_done(&isolate->code);
    free(isolate);
    return NULL;
}

uint64_t isolate_memory(const struct isolate *isolate)
{
    return vm_memory_size(isolate->vm);
}

void isolate_result_done(struct isolate_result *result)
{
    buf_done(&result->json);
    buf_done(&result->text);
    buf_done(&result->error_name);
    buf_done(&result->error_message);
    buf_done(&result->error_stack);
    *result = (struct isolate_result){0};
}
