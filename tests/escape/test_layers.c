/* The same probes in a jail whose root is made of layers, and whose root has been exchanged under
 * it: by then every fence must stand as it did. */

#include "../unit/jail/layers_kit.h"

/* Makes it, takes a checkpoint, and hands it over as it is then. */
static struct jail *exchanged_jail(struct layers *layers, struct arena *arena,
                                   struct jail_plan *plan)
{
    struct err err = {0};
    struct jail *jail = NULL;
    uint32_t number;
    const char *probes = getenv("SG_PROBES");
    assert_non_null(probes);
    plan->mounts[plan->mount_count++] = (struct jail_mount){.src = probes, .dst = "/mnt/probes"};
    CHECK_OK(layers_create(layers, "sandbox-1", NULL, NULL, &err));
    CHECK_OK(kit_jail(layers, "sandbox-1", arena, plan, &jail, &err));
    for (int i = 0; i < 2; i++)
        CHECK_OK(layers_checkpoint_live(layers, "sandbox-1", jail, plan, &number, &err));
    return jail;
}

TEST(every_probe_fails_after_an_exchange_too)
{
    static const char *const probes[] = {
        "iso02_setid",    "iso03_namespaces",   "iso04_newer_calls",   "iso05_foreign_abi native",
        "iso07_sockets",  "iso06_kernel_doors", "iso08_overwrite_exe", "iso10_cgroups",
        "iso11_proc",     "iso12_devices",      "res03_memory_places", "res09_descriptors",
        "res10_terminals"};
    AUTO_ARENA struct arena arena = {0};
    AUTO_LAYERS struct layers *layers = kit_layers("probes");
    struct jail_plan plan = {0};
    AUTO_JAIL struct jail *jail = exchanged_jail(layers, &arena, &plan);
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
    AUTO_ARENA struct arena arena = {0};
    const char *dir = getenv("SG_GOLDEN");
    assert_non_null(dir);
    AUTO_LAYERS struct layers *layers = kit_layers("posture");
    struct jail_plan plan = {0};
    AUTO_JAIL struct jail *jail = exchanged_jail(layers, &arena, &plan);
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

/* Neither the tree that the root stands in nor what was put together in it can be reached, by
 * climbing or through what was open before. */
TEST(nobody_gets_above_a_root_of_layers)
{
    struct err err = {0};
    uint32_t number, id;
    AUTO_ARENA struct arena arena = {0};
    AUTO_LAYERS struct layers *layers = kit_layers("above");
    struct jail_plan plan = {0};
    AUTO_JAIL struct jail *jail = exchanged_jail(layers, &arena, &plan);
    CHECK_CSTR(kit_run(jail, "cd /; cd ../../..; for i in . .. /proc/self/root /proc/self/root/..\n"
                             "do [ $i -ef / ] || echo $i; done; ls -d /r /s 2>/dev/null;"
                             "cut -d ' ' -f 5 /proc/self/mountinfo | grep -x '/[rs]\\(/.*\\)*'"),
               "");
    if (warden_host(kit_warden())->no_freeze[0] != '\0')
        return;
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const char *argv[] = {"sh", "-c",
                          "exec 5< / 6< /workspace 7< /tmp; > /tmp/up; read x < /tmp/go;"
                          "for i in 5 6 7; do ls -a /proc/self/fd/$i/../../..; done > /tmp/seen;"
                          "> /tmp/went",
                          NULL};
    (void)kit_run(jail, "> /workspace/mark; mkfifo /tmp/go");
    CHECK_OK(jail_start(jail, &(struct jail_command){.argv = argv, .cwd = "/"},
                        (int[]){null, null, null}, &id, NULL, &err));
    (void)kit_run(jail, "while ! test -e /tmp/up; do :; done");
    CHECK_OK(layers_checkpoint_live(layers, "sandbox-1", jail, &plan, &number, &err));
    CHECK_CSTR(
        kit_run(jail,
                "echo > /tmp/go; while ! test -e /tmp/went; do :; done;"
                "grep -q usr /tmp/seen && echo seen; grep -x '[rs]\\|new\\|rw\\|base' /tmp/seen"),
        "seen\n"); /* from /tmp, which moved along; the old root is read or denied */
}
