/* Where the controllers are, on every kind of host. */

#include "test.h"

#include "jail/cgroup.h"

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

TEST(a_mount_of_somebody_elses_corner_is_not_ours)
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
