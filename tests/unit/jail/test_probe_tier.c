#include "test.h"

#include "jail/probe/probe.h"

/* A small table with every kind of row, so that the rules show without the real one's length. */
static const struct probe table[] = {
    {.id = "filter", .title = "filter", .need = PROBE_NEED_ISOLATE},
    {.id = "ns", .title = "namespaces", .need = PROBE_NEED_JAIL},
    {.id = "overlay.root", .title = "overlay as root", .need = PROBE_NEED_JAIL, .either = "o"},
    {.id = "overlay.user", .title = "overlay", .need = PROBE_NEED_JAIL, .either = "o"},
    {.id = "quota", .title = "quota", .need = PROBE_NEED_FULL, .either = "d", .without = "quota"},
    {.id = "loop", .title = "loop", .need = PROBE_NEED_FULL, .either = "d", .without = "quota"},
    {.id = "memory", .title = "memory", .need = PROBE_NEED_FULL, .without = "memory limit"},
    {.id = "cpu", .title = "cpu", .need = PROBE_NEED_FULL, .without = "CPU limit"},
    {.id = "deno", .title = "deno", .need = PROBE_NEED_NONE},
};

/* One letter a row: + ok, ~ partial, x missing, - info. */
static struct probe_tier tier_of(const char *letters)
{
    struct probe_result results[countof(table)] = {0};
    assert_int_equal(strlen(letters), countof(table));
    for (size_t i = 0; i < countof(table); i++) {
        results[i].status = letters[i] == '+'   ? PROBE_OK
                            : letters[i] == '~' ? PROBE_PARTIAL
                            : letters[i] == 'x' ? PROBE_MISSING
                                                : PROBE_INFO;
        (void)snprintf(results[i].detail, sizeof results[i].detail, "said %zu", i);
    }
    struct probe_tier tier;
    probe_tier_of(table, countof(table), results, &tier);
    return tier;
}

TEST(tier_follows_the_needs)
{
    static const struct {
        const char *letters;
        enum probe_tier_kind kind;
        const char *name, *reason;
    } cases[] = {
        {"+++++++++", PROBE_TIER_JAIL, "jail: full", ""},
        {"+++++++-x", PROBE_TIER_JAIL, "jail: without CPU limit", "cpu: said 7"},
        {"++++++++x", PROBE_TIER_JAIL, "jail: full", ""},
        {"~~~~~~~~x", PROBE_TIER_JAIL, "jail: full", ""},
        {"++-+x+++x", PROBE_TIER_JAIL, "jail: full", ""},
        {"++-++x++x", PROBE_TIER_JAIL, "jail: full", ""},
        {"++++xx++x", PROBE_TIER_JAIL, "jail: without quota", "quota: said 4"},
        {"++++xxx+x", PROBE_TIER_JAIL, "jail: without quota and memory limit", "quota: said 4"},
        {"++++xxxx+", PROBE_TIER_JAIL, "jail: without quota, memory limit and CPU limit",
         "quota: said 4"},
        {"++xx+++++", PROBE_TIER_ISOLATE, "isolate only", "overlay as root: said 2"},
        {"+x+++++++", PROBE_TIER_ISOLATE, "isolate only", "namespaces: said 1"},
        {"+-+++++++", PROBE_TIER_ISOLATE, "isolate only", "namespaces: said 1"},
        {"x++++++++", PROBE_TIER_NONE, "none", "filter: said 0"},
        {"xxxxxxxxx", PROBE_TIER_NONE, "none", "filter: said 0"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct probe_tier tier = tier_of(cases[i].letters);
        CHECK_CSTR(tier.name, cases[i].name);
        CHECK_CSTR(tier.reason, cases[i].reason);
        CHECK_INT(tier.kind, cases[i].kind);
    }
}

TEST(tier_of_the_real_table_falls_with_each_need)
{
    static struct probe_result results[PROBE_COUNT_MAX];
    struct probe_tier tier;
    for (size_t i = 0; i < probe_count; i++) {
        memset(results, 0, sizeof results);
        results[i].status = PROBE_MISSING;
        probe_tier_of(probes, probe_count, results, &tier);
        bool replaced = probes[i].either != NULL;
        if (probes[i].need == PROBE_NEED_NONE || replaced) {
            CHECK_CSTR(tier.name, "jail: full");
        } else if (probes[i].need == PROBE_NEED_FULL) {
            CHECK_INT(tier.kind, PROBE_TIER_JAIL);
            CHECK(strstr(tier.name, probes[i].without) != NULL);
        } else {
            CHECK_INT(tier.kind,
                      probes[i].need == PROBE_NEED_JAIL ? PROBE_TIER_ISOLATE : PROBE_TIER_NONE);
            CHECK(strstr(tier.reason, probes[i].title) != NULL);
        }
    }
}

TEST(all_names_fit_when_everything_short_of_the_jail_is_missing)
{
    static struct probe_result results[PROBE_COUNT_MAX];
    struct probe_tier tier;
    for (size_t i = 0; i < probe_count; i++)
        if (probes[i].need == PROBE_NEED_FULL)
            results[i].status = PROBE_MISSING;
    probe_tier_of(probes, probe_count, results, &tier);
    CHECK_CSTR(tier.name, "jail: without disk quota, memory limit, process limit, CPU limit and "
                          "Landlock");
}

static const char hybrid_cgroup[] = "4:memory:/a/b\n3:cpu,cpuacct:/\n2:pids:/p\n0::/u\n";
static const char hybrid_mounts[] =
    "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:1 - cgroup cgroup rw,memory\n"
    "36 31 0:33 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    "37 31 0:34 /p /odd\\040place rw,relatime - cgroup cgroup rw,pids\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
    "nonsense\n";

TEST(hybrid_layout_is_read_per_controller)
{
    struct probe_cgroups groups;
    probe_cgroups_parse(str_of(hybrid_cgroup), str_of(hybrid_mounts), &groups);
    CHECK_CSTR(probe_cgroups_mode(&groups), "hybrid");
    CHECK_CSTR(groups.controllers[PROBE_CTRL_MEMORY].own, "/sys/fs/cgroup/memory/a/b");
    CHECK_CSTR(groups.controllers[PROBE_CTRL_MEMORY].top, "/sys/fs/cgroup/memory");
    CHECK_CSTR(groups.controllers[PROBE_CTRL_CPU].own, "/sys/fs/cgroup/cpu");
    CHECK_CSTR(groups.controllers[PROBE_CTRL_PIDS].own, "/odd place");
    CHECK_CSTR(groups.unified.own, "/sys/fs/cgroup/unified/u");
    CHECK_INT(groups.controllers[PROBE_CTRL_FREEZER].version, 0);
}

TEST(pure_v2_v1_and_none_are_distinguished)
{
    struct probe_cgroups groups;
    probe_cgroups_parse(STR("0::/user.slice/x.scope\n"),
                        STR("30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"),
                        &groups);
    CHECK_CSTR(probe_cgroups_mode(&groups), "v2");
    CHECK_CSTR(groups.unified.own, "/sys/fs/cgroup/user.slice/x.scope");
    probe_cgroups_parse(STR("0::/../outside\n"), STR("1 1 0:1 / /c rw - cgroup2 c rw\n"), &groups);
    CHECK_CSTR(groups.unified.own, "/c");
    probe_cgroups_parse(STR("4:memory:/\n"), STR("1 1 0:1 / /m rw - cgroup c rw,memory\n"),
                        &groups);
    CHECK_CSTR(probe_cgroups_mode(&groups), "v1");
    probe_cgroups_parse(STR(""), STR(""), &groups);
    CHECK_CSTR(probe_cgroups_mode(&groups), "none");
}
