/* Snapshots from dependencies: packages are installed in a separate sandbox, with their real
 * installers and a network that reaches only the registries; the files which that sandbox has
 * written are the snapshot, and the sandbox is deleted.
 *
 * The slug is made from the sorted list, so the same list is built once: a request for a list that
 * is being built waits for that build. A failed build leaves only its reason.
 *
 * Of the configuration's list, all packages that can be installed are installed: when an installer
 * fails, its packages are installed one after the other, each together with those before it, and
 * the ones that fail are left out, with their reasons. A list from a request is built completely or
 * not at all. */

#include "engine/snapshot/snapshot_building.h"

#include "base/id.h"
#include "base/map.h"
#include "config/config.h"
#include "egress/net/groups.h"
#include "engine/answer.h"
#include "engine/internal.h"
#include "engine/provider.h"
#include "engine/sandbox/sandbox_internal.h"
#include "io/pool.h"

/* --- The end --- */

static void snapshot_build_ignore(UNUSED void *ctx, UNUSED const struct err *why)
{
}

static void building_free(struct building *building)
{
    struct engine *engine = building->engine;
    for (struct building **at = &engine->buildings; *at != NULL; at = &(*at)->next)
        if (*at == building) {
            *at = building->next;
            break;
        }
    (void)timer_free(building->timer);
    group_hosts_done(&building->hosts);
    buf_done(&building->tail);
    buf_done(&building->described);
    vec_done(&building->answers);
    arena_done(&building->arena);
    free(building);
}

/* Whatever came of it, its sandbox goes. */
static void drop_sandbox(struct building *building)
{
    struct sandbox *sandbox = sandbox_find_worked(building->engine, str_of(building->sandbox));
    if (building->sandbox[0] == '\0' || sandbox == NULL)
        return;
    if (building->is_working)
        sandbox_end_work(sandbox);
    building->sandbox[0] = '\0';
    engine_sandbox_delete(building->engine, &building->caller, sandbox->info.id,
                          snapshot_build_ignore, NULL);
}

static void snapshot_build_finish(struct building *building, const struct err *why)
{
    struct err copy = why == NULL ? (struct err){0} : *why;
    drop_sandbox(building);
    VEC_EACH (answer, &building->answers)
        answer_give(*answer, why == NULL ? NULL : &copy);
    building_free(building);
}

void building_fail(struct building *building, const struct err *why)
{
    struct err copy = *why;
    snapshot_build_failed(building->engine, str_of(building->snapshot), &copy);
    snapshot_build_finish(building, &copy);
}

static void snapshot_build_on_recorded(void *ctx, const struct err *why)
{
    struct building *building = ctx;
    if (why != NULL)
        building_fail(building, why);
    else
        snapshot_build_finish(building, NULL);
}

static void on_picture(void *ctx, struct str image, int64_t size, const struct err *why)
{
    struct building *building = ctx;
    if (why != NULL)
        building_fail(building, why);
    else
        snapshot_build_ready(building->engine, str_of(building->snapshot), image, size,
                             snapshot_build_on_recorded, building);
}

static void freeze(struct building *building, struct sandbox *sandbox)
{
    const struct provider_table *table = engine_table(building->engine, sandbox->info.tier);
    snapshot_build_progress(building->engine, str_of(building->snapshot), "being frozen");
    snapshot_set_packages(building->engine, str_of(building->snapshot),
                          buf_str(&building->described));
    table->snapshot_create(sandbox->place, str_of(building->snapshot), on_picture, building);
}

static void freeze_it(struct building *building)
{
    struct sandbox *sandbox = map_get(&building->engine->sandboxes, str_of(building->sandbox));
    struct err err = {0};
    if (sandbox == NULL || sandbox->place == NULL) {
        (void)err_set(&err, ERR_GONE, "the sandbox of the build no longer exists");
        building_fail(building, &err);
        return;
    }
    freeze(building, sandbox);
}

static void on_checked(void *ctx, struct str described)
{
    struct building *building = ctx;
    AUTO_BUF struct buf kept = {0};
    buf_put(&kept, described);
    buf_clear(&building->described);
    buf_put(&building->described, buf_str(&kept));
    freeze_it(building);
}

/* A file that an isolate cannot load is not a module. */
void building_freeze(struct building *building)
{
    snapshot_check_bundles(building->engine, &building->caller, buf_str(&building->described),
                           on_checked, building);
}

/* --- The sandbox --- */

static void on_made(void *ctx, struct sandbox *sandbox, const struct err *why)
{
    struct building *building = ctx;
    if (why != NULL) {
        building->sandbox[0] = '\0'; /* no sandbox was created */
        building_fail(building, why);
        return;
    }
    building->is_working = true;
    sandbox_begin_work(sandbox);
    building_run_step(building);
}

static void make_sandbox(struct building *building)
{
    struct engine *engine = building->engine;
    AUTO_BUF struct buf policy = {0};
    struct sandbox *sandbox = NULL;
    struct err err = {0};
    buf_printf(&policy, "allow %s", buf_cstr(&building->hosts.allow));
    if (building->hosts.private.len > 0)
        buf_printf(&policy, "; private %s", buf_cstr(&building->hosts.private));
    struct sandbox_spec spec = {.tier = ENGINE_TIER_JAIL,
                                .name = STR("build of a snapshot"),
                                .limits = {.memory_bytes = (int64_t)BUILD_MEMORY_MIB << 20,
                                           .disk_bytes = (int64_t)BUILD_MEMORY_MIB << 20},
                                .network = buf_str(&policy),
                                .timeout_ms = -1,
                                .idle_ms = -1};
    if (sandbox_from_spec(engine, &building->caller, &spec, &sandbox, &err) < 0) {
        building_fail(building, &err);
        return;
    }
    (void)snprintf(building->sandbox, sizeof building->sandbox, "%.*s", STR_ARG(sandbox->info.id));
    sandbox->is_helper = true;
    snapshot_build_in(engine, str_of(building->snapshot), str_of(building->sandbox));
    sandbox_make(sandbox, &building->caller, (struct str){0}, on_made, building);
}

/* --- Hosts, on a worker: names are resolved --- */

static void find_hosts(struct job *job)
{
    struct building *building = (struct building *)job;
    AUTO_BUF struct buf servers = {0};
    struct group_sources sources;
    config_group_sources(building->engine->config, &servers, &sources);
    static const char *const groups[] = {"npm", "pypi"};
    bool wants[2] = {false};
    for (size_t i = 0; i < building->count; i++)
        wants[snapshot_is_python(building->list[i].package)] = true;
    for (size_t i = 0; building->result == 0 && i < countof(wants); i++)
        if (wants[i])
            building->result =
                group_expand(str_of(groups[i]), &sources, &building->hosts, &building->err);
}

static void hosts_found(struct job *job, bool canceled)
{
    struct building *building = (struct building *)job;
    if (canceled)
        building->result = err_set(&building->err, ERR_CANCELED, "the server is stopping");
    if (building->result < 0)
        building_fail(building, &building->err);
    else
        make_sandbox(building);
}

/* --- The beginning --- */

bool snapshot_build_join(struct engine *engine, struct str snapshot, struct answer *answer)
{
    for (struct building *building = engine->buildings; building != NULL; building = building->next)
        if (str_eq(str_of(building->snapshot), snapshot)) {
            *vec_push(&building->answers) = answer;
            return true;
        }
    return false;
}

void snapshot_build(struct engine *engine, const struct engine_caller *caller, struct str snapshot,
                    const struct snapshot_dependency *sorted, size_t count, struct build_how how,
                    struct answer *answer)
{
    struct building *building = mem_alloc(sizeof *building);
    struct err err = {0};
    building->engine = engine;
    building->next = engine->buildings;
    engine->buildings = building;
    (void)snprintf(building->snapshot, sizeof building->snapshot, "%.*s", STR_ARG(snapshot));
    building->caller = (struct engine_caller){.tenant = arena_dup(&building->arena, caller->tenant),
                                              .is_operator = true,
                                              .quota = caller->quota};
    building->list = arena_array(&building->arena, struct snapshot_dependency, count + 1);
    for (size_t i = 0; i < count; i++)
        building->list[i] =
            (struct snapshot_dependency){arena_dup(&building->arena, sorted[i].package),
                                         arena_dup(&building->arena, sorted[i].version)};
    building->outcomes = arena_array(&building->arena, struct outcome, count + 1);
    building->count = count;
    building->needs_bundles = how.needs_bundles;
    building->may_leave_out = how.may_leave_out;
    building->timer = timer_new(engine->loop, building_on_time, building);
    *vec_push(&building->answers) = answer;
    building->job = (struct job){.run = find_hosts, .done = hosts_found};
    if (pool_submit(engine->pool, &building->job, &err) < 0)
        building_fail(building, &err);
}
