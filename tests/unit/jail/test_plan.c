/* Plans are refused by the name of what is wrong. */

#include "test.h"

#include "jail/wire/plan.h"

static struct jail_plan filled(void)
{
    struct jail_plan plan = {0};
    jail_plan_fill(&plan);
    return plan;
}

TEST(an_empty_plan_gets_the_defaults)
{
    struct err err = {0};
    struct jail_plan plan = filled();
    CHECK_OK(jail_plan_check(&plan, &err));
    CHECK_INT(plan.limits.memory_bytes, 512 << 20);
    CHECK_INT(plan.limits.pids, 256);
    CHECK_INT(plan.limits.cpu_milli, 1000);
    CHECK_INT(plan.limits.nofile, 1024);
    CHECK_CSTR(plan.hostname, "sandbox");
}

TEST(limits_are_named_when_wrong)
{
    struct err err = {0};
    struct jail_plan plan = filled();
    plan.limits.pids = 5000;
    CHECK_ERR(jail_plan_check(&plan, &err), ERR_INVALID);
    CHECK_MSG("'pids' is 5000; it may be 2 to 1024");
    plan = filled();
    plan.limits.memory_bytes = 1;
    CHECK_ERR(jail_plan_check(&plan, &err), ERR_INVALID);
    CHECK_MSG("'memory'");
    plan = filled();
    plan.limits.memory_bytes = JAIL_UNLIMITED;
    CHECK_OK(jail_plan_check(&plan, &err));
    plan.limits.tmp_bytes = JAIL_UNLIMITED;
    CHECK_ERR(jail_plan_check(&plan, &err), ERR_INVALID);
    CHECK_MSG("cannot be switched off");
}

TEST(mounts_stay_out_of_the_jails_own_places)
{
    static const char *const taken[] = {"/",    "/proc", "/proc/sys",   "/dev",          "/dev/shm",
                                        "/etc", "/sys",  "/etc/passwd", "/etc/ssl/certs"};
    struct err err = {0};
    for (size_t i = 0; i < countof(taken); i++) {
        struct jail_plan plan = filled();
        plan.mounts[0] = (struct jail_mount){.src = "/srv", .dst = taken[i]};
        plan.mount_count = 1;
        CHECK_ERR(jail_plan_check(&plan, &err), ERR_INVALID);
    }
    struct jail_plan plan = filled();
    plan.mounts[0] = (struct jail_mount){.src = "/srv", .dst = "/procedures"};
    plan.mounts[1] = (struct jail_mount){.src = "/srv", .dst = "/mnt/data"};
    plan.mount_count = 2;
    CHECK_OK(jail_plan_check(&plan, &err));
    /* The roots that programs trust are the one exception, to be read and as they are spelt. */
    plan.mounts[1].dst = "/etc/ssl/certs/ca-certificates.crt";
    CHECK_OK(jail_plan_check(&plan, &err));
    plan.mounts[1].writable = true;
    CHECK_ERR(jail_plan_check(&plan, &err), ERR_INVALID);
    CHECK_MSG("read-only");
    plan.mounts[1].writable = false;
    static const char *const near[] = {"/etc/ssl/certs/ca-certificates.crt/x",
                                       "/etc/ssl/certs/ca-certificates.crt2",
                                       "/etc/ssl/certs/../../passwd", "/etc/ssl"};
    for (size_t i = 0; i < countof(near); i++) {
        plan.mounts[1].dst = near[i];
        CHECK_ERR(jail_plan_check(&plan, &err), ERR_INVALID);
    }
    plan.mounts[1].dst = "/procedures";
    CHECK_ERR(jail_plan_check(&plan, &err), ERR_INVALID);
    CHECK_MSG("two mounts");
}

TEST(kernel_interfaces_are_no_sources)
{
    static const char *const sources[] = {"/proc", "/sys/fs/cgroup", "/dev/kvm", "/dev"};
    struct err err = {0};
    for (size_t i = 0; i < countof(sources); i++) {
        struct jail_plan plan = filled();
        plan.mounts[0] = (struct jail_mount){.src = sources[i], .dst = "/mnt/x"};
        plan.mount_count = 1;
        CHECK_ERR(jail_plan_check(&plan, &err), ERR_FORBIDDEN);
        plan = filled();
        plan.workspace = sources[i];
        CHECK_ERR(jail_plan_check(&plan, &err), ERR_FORBIDDEN);
    }
}

TEST(paths_are_absolute_and_plain)
{
    static const char *const bad[] = {"", "a", "/a/../b", "/a/./b", "/a//b", "/..", "/."};
    struct err err = {0};
    for (size_t i = 0; i < countof(bad); i++)
        CHECK_ERR(jail_path_check(bad[i], "path", &err), ERR_INVALID);
    CHECK_OK(jail_path_check("/", "path", &err));
    CHECK_OK(jail_path_check("/a/..b/c..", "path", &err));
    char longer[JAIL_PATH_MAX + 2];
    memset(longer, 'x', sizeof longer);
    longer[0] = '/';
    longer[sizeof longer - 1] = '\0';
    CHECK_ERR(jail_path_check(longer, "path", &err), ERR_INVALID);
    longer[300] = '\0';
    CHECK_ERR(jail_path_check(longer, "path", &err), ERR_INVALID);
    CHECK_MSG("255");
}

TEST(commands_need_a_program_and_sane_words)
{
    struct err err = {0};
    const char *none[] = {NULL}, *empty[] = {"", NULL}, *good[] = {"true", NULL};
    const char *env[] = {"A=b", "novalue", NULL};
    CHECK_ERR(jail_command_check(&(struct jail_command){.argv = none}, &err), ERR_INVALID);
    CHECK_ERR(jail_command_check(&(struct jail_command){.argv = empty}, &err), ERR_INVALID);
    CHECK_OK(jail_command_check(&(struct jail_command){.argv = good}, &err));
    CHECK_ERR(jail_command_check(&(struct jail_command){.argv = good, .env = env}, &err),
              ERR_INVALID);
    CHECK_MSG("novalue");
    CHECK_ERR(jail_command_check(&(struct jail_command){.argv = good, .cwd = "x"}, &err),
              ERR_BAD_CWD);
    static char big[JAIL_ARGS_BYTES + 1];
    memset(big, 'x', sizeof big - 1);
    const char *huge[] = {"true", big, NULL};
    CHECK_ERR(jail_command_check(&(struct jail_command){.argv = huge}, &err), ERR_TOO_LARGE);
}

TEST(host_names_are_host_names)
{
    struct err err = {0};
    struct jail_plan plan = filled();
    plan.hostname = "a b";
    CHECK_ERR(jail_plan_check(&plan, &err), ERR_INVALID);
    plan.hostname = "box-1";
    CHECK_OK(jail_plan_check(&plan, &err));
}
