/* The same probes in a jail whose root is made of layers, and whose root has been exchanged under
 * it: by then every fence must stand as it did. */

#include "../unit/jail/layers_kit.h"

/* Made, sealed twice, and handed over as it is then. */
static struct jail *exchanged_jail(void)
{
    struct err err = {0};
    struct jail *jail = NULL;
    struct jail_plan plan = {.overlay = true};
    const char *probes = getenv("SG_PROBES");
    assert_non_null(probes);
    plan.mounts[plan.mount_count++] = (struct jail_mount){.src = probes, .dst = "/mnt/probes"};
    CHECK_OK(kit_jail(&plan, &jail, &err));
    for (size_t i = 0; i < 2; i++) {
        AUTO_CLOSE int sealed = jail_seal(jail, &plan, i, 64 << 20, &err);
        CHECK_OK(sealed);
    }
    return jail;
}

TEST(every_probe_fails_after_an_exchange_too)
{
    static const char *const probes[] = {
        "iso02_setid",    "iso03_namespaces",   "iso04_newer_calls",   "iso05_foreign_abi native",
        "iso07_sockets",  "iso06_kernel_doors", "iso08_overwrite_exe", "iso10_cgroups",
        "iso11_proc",     "iso12_devices",      "res03_memory_places", "res09_descriptors",
        "res10_terminals"};
    AUTO_JAIL struct jail *jail = exchanged_jail();
    for (size_t i = 0; i < countof(probes); i++) {
        char script[256];
        (void)snprintf(script, sizeof script, "cd /workspace; /mnt/probes/%s; echo \"code $?\"",
                       probes[i]);
        const char *text = kit_run(jail, script);
        bool held = text != NULL && strstr(text, "code 0\n") != NULL;
        if (!held)
            print_error("%s: %s\n", probes[i], text == NULL ? "no answer" : text);
        CHECK(held);
    }
}

TEST(the_posture_after_an_exchange_is_as_recorded)
{
    AUTO_BUF struct buf golden = {0};
    struct err err = {0};
    char path[512];
    const char *dir = getenv("SG_GOLDEN");
    assert_non_null(dir);
    AUTO_JAIL struct jail *jail = exchanged_jail();
    const char *text = kit_run(jail, "exec env -i PATH=/usr/bin /mnt/probes/iso01_posture");
    const char *name = warden_host(kit_warden())->privileged ? "posture-layers.txt"
                                                             : "posture-layers-rootless.txt";
    if (getenv("SG_GOLDEN_WRITE") != NULL)
        test_write(dir, name, text);
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK_OK(buf_read_all(&golden, fd, &err));
    CHECK_CSTR(text, buf_cstr(&golden));
}

/* Neither the tree that the root stands in nor what was put together in it can be reached by
 * climbing. */
TEST(nobody_gets_above_a_root_of_layers)
{
    AUTO_JAIL struct jail *jail = exchanged_jail();
    CHECK_CSTR(kit_run(jail, "cd /; cd ../../..; for i in . .. /proc/self/root /proc/self/root/..\n"
                             "do [ $i -ef / ] || echo $i; done; ls -d /r /s 2>/dev/null;"
                             "cut -d ' ' -f 5 /proc/self/mountinfo | grep -x '/[rs]\\(/.*\\)*'"),
               "");
}

/* A process whose root was exchanged under it is as fenced as one that began on the new root. */
TEST(a_process_that_was_moved_gets_nowhere_else)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = NULL;
    struct jail_plan plan = {.overlay = true};
    const char *probes = getenv("SG_PROBES");
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const char *argv[] = {
        "bash", "-c",
        "echo >/tmp/up; until test -e /tmp/go; do read -t 0.02 <>/tmp/fifo; done; exec >/tmp/out\n"
        "cd ../../..; for i in . .. /proc/self/root /proc/self/root/.. /proc/1/root\n"
        "do [ $i -ef / ] || ! [ -e $i ] || echo $i; done; ls -d /r /s 2>/dev/null\n"
        "cd /workspace; for p in iso02_setid iso03_namespaces iso04_newer_calls iso11_proc\n"
        "do /mnt/probes/$p >/dev/null || echo $p; done; echo end",
        NULL};
    uint32_t id;
    assert_non_null(probes);
    if (warden_host(kit_warden())->no_freeze[0] != '\0')
        SKIP(warden_host(kit_warden())->no_freeze);
    plan.mounts[plan.mount_count++] = (struct jail_mount){.src = probes, .dst = "/mnt/probes"};
    CHECK_OK(kit_jail(&plan, &jail, &err));
    (void)kit_run(jail, "mkfifo /tmp/fifo; echo one >/workspace/f");
    CHECK_OK(jail_start(jail, &(struct jail_command){.argv = argv, .cwd = "/"},
                        (int[]){null, null, null}, &id, NULL, &err));
    (void)kit_run(jail, "while ! test -e /tmp/up; do sleep 0.02; done");
    struct jail_seal seal = {.most_bytes = 64 << 20, .processes = 1};
    AUTO_CLOSE int sealed = jail_seal_with(jail, &plan, &seal, &err);
    CHECK_OK(sealed);
    (void)kit_run(jail, "touch /tmp/go");
    kit_await_end(jail, id);
    CHECK_CSTR(kit_run(jail, "cat /tmp/out"), "end\n");
}
