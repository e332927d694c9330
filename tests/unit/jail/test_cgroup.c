/* Where the controllers are, on every kind of host. */

#include "test.h"

#include <sys/stat.h>

#include "jail/cgroup/cgroup.h"
#include "jail/cgroup/cgroup_internal.h"

TEST(pure_v2)
{
    struct cgroup_layout layout;
    cgroup_find(STR("0::/user.slice/a.scope\n"),
                STR("30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"),
                &layout);
    for (int slot = 0; slot < CG_COUNT; slot++) {
        CHECK_INT(layout.slots[slot].version, 2);
        CHECK_CSTR(layout.slots[slot].dir, "/sys/fs/cgroup/user.slice/a.scope");
    }
    CHECK_CSTR(layout.unified_top, "/sys/fs/cgroup");
}

/* Directories in place of groups: one without the file cannot pass controllers on, as a group that
 * has processes. */
static void put_groups(struct cgroup_layout *layout, int version, bool own_can, bool top_can)
{
    static char top[256], own[300];
    *layout = (struct cgroup_layout){0};
    (void)snprintf(top, sizeof top, "%s", test_tmpdir());
    (void)snprintf(own, sizeof own, "%s/own-%d-%d-%d", top, version, own_can, top_can);
    CHECK(mkdir(own, 0755) == 0);
    if (own_can)
        test_write(own, "cgroup.subtree_control", "");
    if (top_can)
        test_write(top, "cgroup.subtree_control", "");
    (void)snprintf(layout->unified_top, sizeof layout->unified_top, "%s", top);
    for (int slot = 0; slot < CG_COUNT; slot++) {
        layout->slots[slot].version = slot == CG_UNIFIED ? 2 : version;
        (void)snprintf(layout->slots[slot].dir, CGROUP_DIR_SIZE, "%s", own);
    }
}

TEST(groups_of_jails_are_below_a_group_that_can_pass_controllers_on)
{
    struct cgroup_layout layout;
    char own[CGROUP_DIR_SIZE];

    put_groups(&layout, 2, false, false); /* nowhere: it stays, and the reason is reported */
    (void)snprintf(own, sizeof own, "%s", layout.slots[CG_UNIFIED].dir);
    cgroup_choose_parent(&layout, "sandglass-x");
    CHECK_CSTR(layout.slots[CG_UNIFIED].dir, own);

    put_groups(&layout, 2, true, true);
    (void)snprintf(own, sizeof own, "%s", layout.slots[CG_UNIFIED].dir);
    cgroup_choose_parent(&layout, "sandglass-x");
    CHECK_CSTR(layout.slots[CG_UNIFIED].dir, own);

    put_groups(&layout, 2, false, true); /* the shell of a login is in the own group */
    cgroup_choose_parent(&layout, "sandglass-x");
    for (int slot = 0; slot < CG_COUNT; slot++)
        CHECK_CSTR(layout.slots[slot].dir, layout.unified_top);

    put_groups(&layout, 1, false, true); /* v1 has the controllers: nothing to choose */
    (void)snprintf(own, sizeof own, "%s", layout.slots[CG_UNIFIED].dir);
    cgroup_choose_parent(&layout, "sandglass-x");
    CHECK_CSTR(layout.slots[CG_UNIFIED].dir, own);
}

TEST(hybrid_with_each_controller_its_own)
{
    struct cgroup_layout layout;
    cgroup_find(STR("8:pids:/\n4:memory:/box/x\n2:cpuacct:/\n1:cpu:/\n0::/\n"),
                STR("32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
                    "33 31 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n"
                    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                    "39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
                    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"),
                &layout);
    CHECK_INT(layout.slots[CG_MEMORY].version, 1);
    CHECK_CSTR(layout.slots[CG_MEMORY].dir, "/sys/fs/cgroup/memory/box/x");
    CHECK_CSTR(layout.slots[CG_CPU].dir, "/sys/fs/cgroup/cpu");
    CHECK_CSTR(layout.slots[CG_PIDS].dir, "/sys/fs/cgroup/pids");
    CHECK_INT(layout.slots[CG_FREEZER].version, 2);
    CHECK_CSTR(layout.slots[CG_UNIFIED].dir, "/sys/fs/cgroup/unified");
}

TEST(v1_with_joined_controllers_and_a_bound_root)
{
    struct cgroup_layout layout;
    cgroup_find(STR("3:cpu,cpuacct:/docker/abc/in\n2:memory:/docker/abc\n"),
                STR("32 31 0:29 /docker/abc /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                    "33 31 0:30 /docker/abc /cg/memory rw - cgroup cgroup rw,memory\n"),
                &layout);
    CHECK_CSTR(layout.slots[CG_CPU].dir, "/cg/cpu/in");
    CHECK_CSTR(layout.slots[CG_MEMORY].dir, "/cg/memory");
    CHECK_INT(layout.slots[CG_PIDS].version, 0);
    CHECK_INT(layout.slots[CG_UNIFIED].version, 0);
}

TEST(a_mount_of_another_warden_is_not_ours)
{
    struct cgroup_layout layout;
    cgroup_find(STR("0::/mine\n"), STR("30 23 0:26 /other /cg rw - cgroup2 cgroup2 rw\n"), &layout);
    CHECK_INT(layout.slots[CG_UNIFIED].version, 0);
    cgroup_find(STR("0::/otherwise\n"), STR("30 23 0:26 /other /cg rw - cgroup2 c rw\n"), &layout);
    CHECK_INT(layout.slots[CG_UNIFIED].version, 0);
}

TEST(garbage_is_nothing)
{
    struct cgroup_layout layout;
    cgroup_find(STR("::::\n\nabc\n9:memory\n"), STR("1 2 3\n\n- - -\n"), &layout);
    for (int slot = 0; slot < CG_COUNT; slot++)
        CHECK_INT(layout.slots[slot].version, 0);
}
