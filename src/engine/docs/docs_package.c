/* Documentation that packages bring along (docs = ["package"]): README, docs/, declarations and
 * docstrings, collected by a script in a sandbox of the snapshot that has them installed. The
 * server reads one file of that sandbox, and nothing of the packages runs. */

#include <stdlib.h>

#include "base/clock.h"
#include "base/embed.h"
#include "base/format/json.h"
#include "base/log.h"
#include "config/config.h"
#include "engine/code/eval.h"
#include "engine/docs/docs_internal.h"
#include "engine/file/file.h"
#include "engine/snapshot/snapshot_internal.h"
#include "search/collected.h"

enum { COLLECTED_MAX = 16 << 20, MEMORY_MB = 1024, SCRIPT_MS = 300000 };

extern const struct embed_file docs_scripts[];

/* Waiting for the snapshot and for `due_ms` -> collecting in a sandbox -> being read and indexed ->
 * freed, or waiting again after a failure. */
struct docs_packages {
    struct docs_service *service;
    struct arena arena;
    struct engine_caller caller;
    struct docs_source_spec *sources;
    size_t count;
    char sandbox[ID_SIZE];
    struct buf collected;
    bool is_begun;
    int64_t due_ms; /* on the boot clock */
    int tries;      /* that failed, one after the other */
};

/* --- The end --- */

struct recording {
    struct docs_job work; /* first */
    struct docs_source_spec *sources;
    size_t count;
    struct docs_pages *read; /* of each source */
    struct str collected;
    struct err why;
};

/* --- On a reader's thread --- */

/* Pages of one package; all of the file is checked each time. What is given points into the file.
 */
static int pages_of(const struct recording *recording, size_t package, struct docs_upload *pages,
                    size_t *ret_count, struct err *err)
{
    struct str rest = recording->collected;
    struct collected_page page;
    size_t count = 0;
    int got = 0;
    if (collected_begin(&rest, err) < 0)
        return -1;
    while ((got = collected_next(&rest, recording->count, &page, err)) > 0)
        if (page.package == package && count < DOCS_PAGES_MAX)
            pages[count++] = (struct docs_upload){page.path, page.text};
    *ret_count = count;
    return got;
}

static int prepare_record(struct docs_job *work, struct err *err)
{
    struct recording *recording = (struct recording *)work;
    recording->read = arena_array(&work->arena, struct docs_pages, recording->count + 1);
    struct docs_upload *pages = arena_array(&work->arena, struct docs_upload, DOCS_PAGES_MAX);
    for (size_t i = 0; recording->why.code == ERR_NONE && i < recording->count; i++) {
        size_t count = 0;
        if (pages_of(recording, i, pages, &count, &recording->why) == 0 &&
            docs_read_pages(work, pages, count, NULL, &recording->read[i], err) < 0)
            return -1;
    }
    return 0;
}

/* --- On the library's thread --- */

static int record_one(struct recording *recording, size_t at, struct library *library,
                      struct err *err)
{
    const struct docs_pages *read = &recording->read[at];
    struct docs_source row = docs_source_row(&recording->sources[at], "ready", read->left_out,
                                             clock_date_ms(), &recording->work.arena);
    if (recording->why.code == ERR_NONE)
        return library_put_pages(library, &row, read->items, read->count, err);
    row.state = STR("failed"); /* what was indexed stays */
    row.error = str_of(recording->why.msg);
    return library_put_source(library, &row, err);
}

static int run_record(struct docs_job *work, struct library *library, struct err *err)
{
    struct recording *recording = (struct recording *)work;
    for (size_t i = 0; i < recording->count; i++)
        if (record_one(recording, i, library, err) < 0)
            return -1;
    return 0;
}

/* The next round, or none when all went well. */
static void end_round(struct docs_packages *packages, const struct err *why)
{
    struct docs_service *service = packages->service;
    packages->tries = why == NULL ? 0 : packages->tries + 1;
    for (size_t i = 0; packages->tries <= 1 && i < packages->count; i++)
        docs_publish_source(service, &packages->sources[i], why);
    if (why == NULL) {
        docs_free_packages(service);
        return;
    }
    log_warn("docs.package", LOG_STR("error", why->msg));
    packages->due_ms = clock_boot_ms() + docs_retry_ms(service, packages->tries);
    packages->sandbox[0] = '\0';
    buf_done(&packages->collected);
    packages->is_begun = false;
}

static void record_done(struct docs_job *work, const struct err *why)
{
    struct recording *recording = (struct recording *)work;
    struct docs_service *service = work->service;
    struct err err = why != NULL ? *why : recording->why;
    docs_job_free(work);
    if (!service->is_closing && service->packages != NULL)
        end_round(service->packages, err.code == ERR_NONE ? NULL : &err);
}

static void docs_package_ignore(UNUSED void *ctx, UNUSED const struct err *why)
{
}

void docs_free_packages(struct docs_service *service)
{
    struct docs_packages *packages = service->packages;
    service->packages = NULL;
    if (packages == NULL)
        return;
    buf_done(&packages->collected);
    arena_done(&packages->arena);
    free(packages);
}

void docs_count_packages(const struct docs_service *service, size_t *waiting, size_t *failed)
{
    const struct docs_packages *packages = service->packages;
    if (packages != NULL)
        *(packages->tries == 0 ? waiting : failed) += packages->count;
}

static void docs_package_finish(struct docs_packages *packages, const struct err *why)
{
    struct docs_service *service = packages->service;
    struct recording *recording = mem_alloc(sizeof *recording);
    struct arena *arena = &recording->work.arena;
    if (packages->sandbox[0] != '\0')
        engine_sandbox_delete(service->engine, &packages->caller, str_of(packages->sandbox),
                              docs_package_ignore, NULL);
    recording->work.prepare = prepare_record;
    recording->work.run = run_record;
    recording->work.done = record_done;
    recording->count = packages->count;
    recording->sources = arena_array(arena, struct docs_source_spec, packages->count + 1);
    for (size_t i = 0; i < packages->count; i++)
        recording->sources[i] = packages->sources[i]; /* texts of the configuration */
    recording->collected = arena_dup(arena, buf_str(&packages->collected));
    if (why != NULL)
        recording->why = *why;
    docs_submit(service, &recording->work);
}

/* --- Collecting --- */

static void read_more(struct docs_packages *packages);

static void docs_package_on_read(void *ctx, const struct file_answer *answer, const struct err *why)
{
    struct docs_packages *packages = ctx;
    struct err err = {0};
    if (why == NULL && packages->collected.len + answer->bytes.len > COLLECTED_MAX) {
        (void)err_set(&err, ERR_TOO_LARGE, "the documentation is too long");
        why = &err;
    }
    if (why != NULL) {
        docs_package_finish(packages, why);
        return;
    }
    buf_put(&packages->collected, answer->bytes);
    if (answer->truncated && answer->bytes.len > 0)
        read_more(packages);
    else
        docs_package_finish(packages, NULL);
}

static void read_more(struct docs_packages *packages)
{
    struct file_place place = {.sandbox = str_of(packages->sandbox)};
    struct file_request request = {.op = FILE_READ,
                                   .path = STR("/workspace/docs.bin"),
                                   .offset = packages->collected.len,
                                   .limit = FILE_READ_MAX};
    engine_file(packages->service->engine, &packages->caller, &place, &request,
                docs_package_on_read, packages);
}

static void on_collected(void *ctx, UNUSED const struct eval_result *result, const struct err *why)
{
    struct docs_packages *packages = ctx;
    if (why != NULL)
        docs_package_finish(packages, why);
    else
        read_more(packages); /* a script that failed has left no file */
}

static void on_sandbox(void *ctx, const struct sandbox_info *sandbox, const struct err *why)
{
    static const struct eval_calls calls = {.on_done = on_collected};
    struct docs_packages *packages = ctx;
    AUTO_BUF struct buf code = {0};
    struct json_out out = {.buf = &code};
    if (why != NULL) {
        docs_package_finish(packages, why);
        return;
    }
    (void)snprintf(packages->sandbox, sizeof packages->sandbox, "%.*s", STR_ARG(sandbox->id));
    AUTO_ARENA struct arena arena = {0};
    struct str *names = arena_array(&arena, struct str, packages->count + 1);
    for (size_t i = 0; i < packages->count; i++)
        names[i] = packages->sources[i].package;
    buf_put_cstr(&code, "PACKAGES = ");
    json_put_texts(&out, names, packages->count);
    buf_put_char(&code, '\n');
    buf_put(&code, docs_scripts[0].bytes);
    struct eval_spec spec = {.sandbox = str_of(packages->sandbox),
                             .code = buf_str(&code),
                             .runtime = STR("python3"),
                             .timeout_ms = SCRIPT_MS};
    (void)engine_eval(packages->service->engine, &packages->caller, &spec, &calls, packages);
}

/* --- The beginning --- */

void docs_packages_tick(struct docs_service *service)
{
    struct docs_packages *packages = service->packages;
    const struct engine_dependencies *built = engine_dependencies(service->engine);
    struct err err = {0};
    if (packages == NULL || packages->is_begun || packages->due_ms > clock_boot_ms() ||
        built->state == NULL || strcmp(built->state, "building") == 0)
        return;
    packages->is_begun = true;
    if (strcmp(built->state, "ready") != 0) {
        (void)err_set(&err, ERR_UNAVAILABLE, "the packages could not be installed: %.150s",
                      built->detail);
        docs_package_finish(packages, &err);
        return;
    }
    struct str slug = str_of(built->slug);
    struct sandbox_spec spec = {.tier = ENGINE_TIER_JAIL,
                                .runtime = STR("python3"),
                                .snapshots = &slug,
                                .snapshot_count = 1,
                                .limits = {.memory_bytes = (int64_t)MEMORY_MB << 20}};
    engine_sandbox_create(service->engine, &packages->caller, &spec, on_sandbox, packages);
}

void docs_begin_packages(struct docs_service *service, const struct docs_source_spec *wanted,
                         size_t count)
{
    struct docs_packages *packages = mem_alloc(sizeof *packages);
    packages->service = service;
    packages->caller = (struct engine_caller){.tenant = STR(CONFIGURED)};
    packages->sources = arena_array(&packages->arena, struct docs_source_spec, count + 1);
    for (size_t i = 0; i < count; i++)
        if (str_eq(wanted[i].kind, STR("package")))
            packages->sources[packages->count++] = wanted[i];
    service->packages = packages;
    if (packages->count == 0)
        docs_free_packages(service);
}
