/* What is kept of interpreters, within its bounds: of a group, of all, and fair to tenants. */

#include <sys/resource.h>

#include "base/map.h"
#include "config/config.h"
#include "engine/internal.h"
#include "engine/provider.h"
#include "engine/sandbox/ledger.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/sandbox/variables.h"
#include "test.h"

#define MIB ((int64_t)1 << 20)

/* A tier that keeps numbers. */
struct live_interpreters {
    int refs;
    int64_t bytes;
};

static int alive; /* how many of them there are */

static struct live_interpreters *live(int64_t mib)
{
    struct live_interpreters *made = mem_alloc(sizeof *made);
    *made = (struct live_interpreters){1, mib * MIB};
    alive++;
    return made;
}

static struct live_interpreters *ref(struct live_interpreters *one)
{
    one->refs++;
    return one;
}

static void drop(struct live_interpreters *one)
{
    if (--one->refs > 0)
        return;
    alive--;
    free(one);
}

static struct live_interpreters *keep(UNUSED struct provider *provider,
                                      const struct live_interpreters *one, int64_t most_bytes)
{
    return one->bytes > most_bytes ? NULL : live(one->bytes / MIB);
}

static struct live_size size_of(const struct live_interpreters *one)
{
    return (struct live_size){one->bytes, 1};
}

static void take(UNUSED struct place *place, UNUSED const struct live_request *request,
                 UNUSED live_done *done, UNUSED void *ctx)
{
}

static const struct provider_table table = {
    .live_take = take, .live_keep = keep, .live_size = size_of, .live_ref = ref, .live_free = drop};

struct host {
    struct config config;
    struct engine engine;
};

static void host_done(struct host *host)
{
    vec_done(&host->engine.kept);
    CHECK_INT(alive, 0);
}
#define AUTO_HOST AUTO(host_done)

static void host_init(struct host *host, int64_t one_mb, int64_t total_mb)
{
    host->config.sandbox.keep_variables_mb = one_mb;
    host->config.sandbox.keep_variables_total_mb = total_mb;
    host->engine.config = &host->config;
    host->engine.tables[ENGINE_TIER_JAIL] = &table;
    host->engine.providers[ENGINE_TIER_JAIL] = (struct provider *)(void *)host;
}

static struct kept *put(struct host *host, const char *tenant, const char *group, int64_t mib)
{
    struct sandbox sandbox = {.engine = &host->engine,
                              .info = {.tier = ENGINE_TIER_JAIL, .tenant = str_of(tenant)}};
    return variables_keep(&host->engine, &sandbox, str_of(group), live(mib));
}

static bool is_there(const struct kept *kept)
{
    struct live_interpreters *one = variables_use(kept);
    if (one != NULL)
        drop(one);
    return one != NULL;
}

static struct variables_figures count(const struct host *host)
{
    struct variables_figures figures = host->engine.figures.variables;
    variables_count(&host->engine, &figures);
    return figures;
}

TEST(a_group_has_its_newest)
{
    AUTO_HOST struct host host = {0};
    host_init(&host, 100, 1000);
    CHECK(put(&host, "t", "a", 101) == NULL);
    struct kept *first = put(&host, "t", "a", 40), *second = put(&host, "t", "a", 60);
    struct kept *other = put(&host, "t", "b", 100), *same = put(&host, "u", "a", 100);
    CHECK(is_there(first) && is_there(second) && is_there(other) && is_there(same));
    struct kept *third = put(&host, "t", "a", 10);
    CHECK(!is_there(first) && is_there(second) && is_there(third));
    CHECK(is_there(other) && is_there(same));
    CHECK_INT(count(&host).count, 4);
    CHECK_INT(count(&host).bytes, 270 * MIB);
    CHECK_INT(count(&host).dropped, 1);
    struct kept *all[] = {first, second, other, same, third};
    for (size_t i = 0; i < countof(all); i++)
        CHECK(variables_free(all[i]) == NULL);
    CHECK_INT(count(&host).count, 0);
    CHECK(variables_free(NULL) == NULL && variables_use(NULL) == NULL);
}

TEST(the_oldest_of_the_tenant_with_the_most_goes)
{
    AUTO_HOST struct host host = {0};
    host_init(&host, 100, 200);
    struct kept *quiet = put(&host, "quiet", "q", 50);
    struct kept *loud[4];
    char group[] = "0";
    for (size_t i = 0; i < countof(loud); i++, group[0]++)
        loud[i] = put(&host, "loud", group, 60);
    /* It has pushed out its own, though another tenant's is older. */
    CHECK(is_there(quiet));
    CHECK(!is_there(loud[0]) && !is_there(loud[1]) && is_there(loud[2]) && is_there(loud[3]));
    CHECK(count(&host).bytes <= 200 * MIB);
    /* Who uses one keeps it, though it is dropped meanwhile. */
    struct live_interpreters *used = variables_use(loud[2]);
    struct kept *more = put(&host, "loud", "x", 100);
    CHECK(!is_there(loud[2]) && used->refs == 1 && is_there(quiet));
    drop(used);
    (void)variables_free(more);
    (void)variables_free(quiet);
    for (size_t i = 0; i < countof(loud); i++)
        (void)variables_free(loud[i]);
}

TEST(descriptors_are_left_for_others)
{
    AUTO_HOST struct host host = {0};
    struct rlimit old, few;
    struct kept *kept[20];
    host_init(&host, 100, 1000);
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = old;
    few.rlim_cur = 40;
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (size_t i = 0; i < countof(kept); i++)
        kept[i] = put(&host, i == 0 ? "quiet" : "loud", "g", 1);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &old), 0);
    CHECK_INT(count(&host).count, 10);
    CHECK(is_there(kept[0]) && !is_there(kept[1]) && is_there(kept[19]));
    for (size_t i = 0; i < countof(kept); i++)
        (void)variables_free(kept[i]);
}

TEST(what_cannot_be_kept_is_freed)
{
    AUTO_HOST struct host host = {0};
    host_init(&host, 100, 50);
    CHECK(put(&host, "t", "a", 60) == NULL); /* more than all may have */
    struct kept *kept = put(&host, "t", "a", 40);
    CHECK(is_there(kept));
    variables_drop(&host.engine, ENGINE_TIER_ISOLATE);
    CHECK(is_there(kept));
    variables_drop(&host.engine, ENGINE_TIER_JAIL);
    CHECK(!is_there(kept));
    CHECK_INT(count(&host).dropped, 0); /* not for want of room */
    (void)variables_free(kept);
    host.engine.is_stopping = true;
    CHECK(put(&host, "t", "a", 1) == NULL);
    host.engine.is_stopping = false;
    host.config.sandbox.keep_variables_mb = 0;
    CHECK(put(&host, "t", "a", 1) == NULL);
}

TEST(an_eighth_of_the_machine_where_nothing_is_said)
{
    AUTO_HOST struct host host = {0};
    host_init(&host, 1 << 20, 0);
    struct kept *kept = put(&host, "t", "a", 1);
    CHECK(is_there(kept));
    CHECK(put(&host, "t", "b", 1 << 20) == NULL); /* a terabyte */
    (void)variables_free(kept);
}

TEST(only_interpreters_with_variables_are_asked)
{
    AUTO_HOST struct host host = {0};
    host_init(&host, 100, 1000);
    struct sandbox sandbox = {.engine = &host.engine,
                              .info = {.tier = ENGINE_TIER_JAIL, .state = SANDBOX_RUNNING},
                              .place = (struct place *)(void *)&host};
    CHECK(!variables_are_wanted(&sandbox));
    (void)ledger_begin(&sandbox.ledger, STR("python3"));
    CHECK(variables_are_wanted(&sandbox));
    sandbox.info.state = SANDBOX_PAUSED; /* it could not answer */
    CHECK(!variables_are_wanted(&sandbox));
    sandbox.info.state = SANDBOX_RUNNING;
    host.config.sandbox.keep_variables_mb = 0;
    CHECK(!variables_are_wanted(&sandbox));
    host.config.sandbox.keep_variables_mb = 1;
    sandbox.place = NULL;
    CHECK(!variables_are_wanted(&sandbox));
    ledger_done(&sandbox.ledger);
}
