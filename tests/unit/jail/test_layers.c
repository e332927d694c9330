/* Stacks of layers, seen from the jails that run on them. */

#include "layers_kit.h"

#include "jail/layers_internal.h"

TEST(names_have_one_form)
{
    static const char *const good[] = {"1-0", "12-11", "7-3", "1-abcd1234.9"};
    static const char *const bad[] = {
        "",     "1",      "0-0",   "1-1",          "2-3",          "01-0",
        "1-00", "-1-0",   "1-0x",  "1-.3",         "1-abc.1",      "1-a/../../b.1",
        ".new", ".trash", "1-0-0", "1-abcd1234.0", "99999999999-1"};
    for (size_t i = 0; i < countof(good); i++) {
        struct layer layer;
        char name[LAYER_NAME_SIZE];
        CHECK(layer_parse(str_of(good[i]), &layer));
        layer_format(&layer, name);
        CHECK_CSTR(name, good[i]);
    }
    for (size_t i = 0; i < countof(bad); i++)
        CHECK(!layer_parse(str_of(bad[i]), &(struct layer){0}));
}

TEST(writes_stay_from_jail_to_jail)
{
    struct err err = {0};
    AUTO_LAYERS struct layers *layers = kit_layers("stay");
    CHECK_OK(layers_create(layers, "sandbox-1", NULL, NULL, &err));
    CHECK_CSTR(kit_shell(layers, "sandbox-1", "echo one > /workspace/a; cat /workspace/a"),
               "one\n");
    CHECK_CSTR(kit_shell(layers, "sandbox-1", "cat /workspace/a; rm /workspace/a"), "one\n");
    CHECK_CSTR(kit_shell(layers, "sandbox-1", "ls /workspace"), "");
    CHECK_ERR(layers_create(layers, "sandbox-1", NULL, NULL, &err), ERR_CONFLICT);
    CHECK_ERR(layers_create(layers, "../../etc", NULL, NULL, &err), ERR_INVALID);
    CHECK_OK(layers_destroy(layers, "sandbox-1", &err));
    CHECK_ERR(layers_destroy(layers, "sandbox-1", &err), ERR_NOT_FOUND);
    CHECK_OK(layers_reclaim(layers, NULL, &err));
    CHECK_INT(rmdir(kit_path("stay/trash")), 0);
    CHECK_INT(rmdir(kit_path("stay/sandboxes")), 0);
}

TEST(a_checkpoint_can_be_returned_to)
{
    struct err err = {0};
    uint32_t first, second, list[LAYERS_DEPTH_MAX];
    AUTO_LAYERS struct layers *layers = kit_layers("back");
    CHECK_OK(layers_create(layers, "sandbox-1", NULL, NULL, &err));
    (void)kit_shell(layers, "sandbox-1",
                    "cd /workspace; echo 1 > f; echo keep > g; mkdir d; > d/x");
    CHECK_OK(layers_checkpoint(layers, "sandbox-1", &first, &err));
    (void)kit_shell(layers, "sandbox-1",
                    "cd /workspace; echo 2 > f; rm g; rm -r d; mkdir d; > d/y");
    CHECK_OK(layers_checkpoint(layers, "sandbox-1", &second, &err));
    CHECK_INT(layers_list(layers, "sandbox-1", list, &err), 2);
    CHECK(list[0] == first && list[1] == second);
    CHECK_CSTR(kit_shell(layers, "sandbox-1", "cd /workspace; cat f; ls . d; echo 3 > f"),
               "2\n.:\nd\nf\n\nd:\ny\n");
    CHECK_OK(layers_rollback(layers, "sandbox-1", second, &err));
    CHECK_CSTR(kit_shell(layers, "sandbox-1", "cat /workspace/f"), "2\n");
    CHECK_OK(layers_rollback(layers, "sandbox-1", first, &err));
    CHECK_CSTR(kit_shell(layers, "sandbox-1", "cd /workspace; cat f g; ls d"), "1\nkeep\nx\n");
    CHECK_ERR(layers_rollback(layers, "sandbox-1", second, &err), ERR_NOT_FOUND);
    CHECK_OK(layers_rollback(layers, "sandbox-1", 0, &err));
    CHECK_CSTR(kit_shell(layers, "sandbox-1", "ls /workspace"), "");
    CHECK_INT(layers_list(layers, "sandbox-1", list, &err), 0);
    CHECK_OK(layers_reclaim(layers, NULL, &err));
}

TEST(the_newest_checkpoint_can_be_taken_back)
{
    struct err err = {0};
    uint32_t number, list[LAYERS_DEPTH_MAX];
    AUTO_LAYERS struct layers *layers = kit_layers("withdraw");
    CHECK_OK(layers_create(layers, "sandbox-1", NULL, NULL, &err));
    CHECK_ERR(layers_withdraw(layers, "sandbox-1", &err), ERR_CONFLICT);
    CHECK_OK(layers_checkpoint(layers, "sandbox-1", &number, &err));
    CHECK_OK(layers_withdraw(layers, "sandbox-1", &err));
    CHECK_INT(layers_list(layers, "sandbox-1", list, &err), 0);
    CHECK_CSTR(kit_shell(layers, "sandbox-1", "echo on > /workspace/f; cat /workspace/f"), "on\n");
}

/* FS-12: everything that changes a file, on every file. */
static const char spoil[] =
    "cd /workspace; echo x >> a; : > b; chmod 0 c; rm d; ln -s / d; mv e e2;"
    "dd if=/dev/zero of=f bs=1 count=1 conv=notrunc 2>/dev/null; mkdir g/h;"
    "ln a a3; touch -d 1999-01-01 g; find . | sort | tr '\\n' ' '";
static const char look[] =
    "cd /workspace; for i in a b c d e f; do cat $i; done; stat -c '%a %s %h' *;"
    "find . | sort; stat -c %Y g";

TEST(forks_go_their_own_ways)
{
    struct err err = {0};
    uint32_t number;
    char before[65536];
    AUTO_LAYERS struct layers *layers = kit_layers("fork");
    CHECK_OK(layers_create(layers, "sandbox-1", NULL, NULL, &err));
    (void)kit_shell(layers, "sandbox-1",
                    "cd /workspace; for i in a b c d e f; do echo $i > $i; done; mkdir g");
    CHECK_OK(layers_checkpoint(layers, "sandbox-1", &number, &err));
    CHECK_OK(layers_fork(layers, "sandbox-1", number, "sandbox-2", NULL, &err));
    CHECK_OK(layers_fork(layers, "sandbox-1", number, "sandbox-3", NULL, &err));
    (void)snprintf(before, sizeof before, "%s", kit_shell(layers, "sandbox-3", look));
    CHECK(strstr(before, "a\nb\nc\nd\ne\nf\n") == before);
    CHECK(strstr(kit_shell(layers, "sandbox-2", spoil), "./e2") != NULL);
    CHECK_CSTR(kit_shell(layers, "sandbox-1", look), before);
    CHECK_CSTR(kit_shell(layers, "sandbox-3", look), before);
    (void)kit_shell(layers, "sandbox-1", spoil);
    CHECK_CSTR(kit_shell(layers, "sandbox-3", look), before);
    CHECK_ERR(layers_fork(layers, "sandbox-1", number, "sandbox-2", NULL, &err), ERR_CONFLICT);
    CHECK_ERR(layers_fork(layers, "sandbox-1", 77, "sandbox-9", NULL, &err), ERR_NOT_FOUND);
    CHECK_ERR(layers_fork(layers, "sandbox-1", number + 1, "sandbox-9", NULL, &err), ERR_NOT_FOUND);
    /* The origin goes first; the forks do not notice, and the last one takes it along. */
    CHECK_OK(layers_destroy(layers, "sandbox-1", &err));
    CHECK_ERR(layers_checkpoint(layers, "sandbox-1", &number, &err), ERR_NOT_FOUND);
    CHECK_CSTR(kit_shell(layers, "sandbox-3", look), before);
    CHECK_OK(layers_rollback(layers, "sandbox-2", 0, &err));
    CHECK_CSTR(kit_shell(layers, "sandbox-2", look), before);
    CHECK_OK(layers_destroy(layers, "sandbox-2", &err));
    CHECK_CSTR(kit_shell(layers, "sandbox-3", look), before);
    CHECK_OK(layers_destroy(layers, "sandbox-3", &err));
    CHECK_OK(layers_reclaim(layers, NULL, &err));
    CHECK_INT(rmdir(kit_path("fork/sandboxes")), 0);
    CHECK_INT(rmdir(kit_path("fork/trash")), 0);
}

TEST(forks_of_forks)
{
    struct err err = {0};
    uint32_t number;
    AUTO_LAYERS struct layers *layers = kit_layers("tree");
    CHECK_OK(layers_create(layers, "sandbox-0", NULL, NULL, &err));
    for (int i = 0; i < 5; i++) {
        char id[16], next[16], script[64];
        (void)snprintf(id, sizeof id, "sandbox-%d", i);
        (void)snprintf(next, sizeof next, "sandbox-%d", i + 1);
        (void)snprintf(script, sizeof script, "echo %d > /workspace/f%d", i, i);
        (void)kit_shell(layers, id, script);
        CHECK_OK(layers_checkpoint(layers, id, &number, &err));
        CHECK_OK(layers_fork(layers, id, number, next, NULL, &err));
        (void)kit_shell(layers, id, "rm -r /workspace/*");
        CHECK_OK(layers_destroy(layers, id, &err));
    }
    CHECK_OK(layers_recover(layers, &err));
    CHECK_CSTR(kit_shell(layers, "sandbox-5", "cat /workspace/*"), "0\n1\n2\n3\n4\n");
    CHECK_OK(layers_destroy(layers, "sandbox-5", &err));
    CHECK_INT(rmdir(kit_path("tree/sandboxes")), 0);
}

TEST(snapshots_lie_below)
{
    struct err err = {0};
    AUTO_LAYERS struct layers *layers = kit_layers("snap");
    CHECK_INT(mkdir(kit_path("snap/snapshots/packages"), 0755), 0);
    CHECK_INT(mkdir(kit_path("snap/snapshots/packages/opt"), 0755), 0);
    CHECK_INT(mkdir(kit_path("snap/snapshots/repository"), 0755), 0);
    test_write(test_tmpdir(), "snap/snapshots/packages/opt/tool", "old\n");
    test_write(test_tmpdir(), "snap/snapshots/packages/both", "lower\n");
    test_write(test_tmpdir(), "snap/snapshots/repository/both", "upper\n");
    const char *names[] = {"packages", "repository", NULL};
    const char *missing[] = {"packages", "elsewhere", NULL};
    const char *wrong[] = {"../../../etc", NULL};
    CHECK_ERR(layers_create(layers, "sandbox-1", missing, NULL, &err), ERR_NOT_FOUND);
    CHECK_ERR(layers_create(layers, "sandbox-1", wrong, NULL, &err), ERR_INVALID);
    CHECK_OK(layers_create(layers, "sandbox-1", names, NULL, &err));
    CHECK_CSTR(kit_shell(layers, "sandbox-1",
                         "cat /opt/tool /both; echo new > /opt/tool; rm /both;"
                         "cat /opt/tool; ls /both 2>/dev/null"),
               "old\nupper\nnew\n");
    uint32_t number;
    CHECK_OK(layers_checkpoint(layers, "sandbox-1", &number, &err));
    CHECK_OK(layers_fork(layers, "sandbox-1", number, "sandbox-2", NULL, &err));
    CHECK_CSTR(kit_shell(layers, "sandbox-2", "cat /opt/tool; ls /both 2>/dev/null"), "new\n");
    CHECK_OK(layers_rollback(layers, "sandbox-1", 0, &err));
    CHECK_CSTR(kit_shell(layers, "sandbox-1", "cat /opt/tool /both"), "old\nupper\n");
}

TEST(stacks_may_be_deep)
{
    struct err err = {0};
    uint32_t number;
    AUTO_LAYERS struct layers *layers = kit_layers("deep");
    CHECK_OK(layers_create(layers, "sandbox-1", NULL, NULL, &err));
    (void)kit_shell(layers, "sandbox-1", "echo bottom > /workspace/f");
    for (int i = 1; i < LAYERS_DEPTH_MAX; i++)
        CHECK_OK(layers_checkpoint(layers, "sandbox-1", &number, &err));
    CHECK_ERR(layers_checkpoint(layers, "sandbox-1", &number, &err), ERR_LIMIT);
    CHECK_MSG("roll back");
    CHECK_CSTR(kit_shell(layers, "sandbox-1",
                         "cat /workspace/f; echo top > /workspace/g;"
                         "cat /workspace/g"),
               "bottom\ntop\n");
}

/* What tenants write belongs to nobody of the host. */
TEST(files_on_disk_are_not_roots)
{
    struct err err = {0};
    struct stat st;
    AUTO_LAYERS struct layers *layers = kit_layers("owner");
    CHECK_OK(layers_create(layers, "sandbox-1", NULL, NULL, &err));
    (void)kit_shell(layers, "sandbox-1", "> /workspace/f; chmod 4755 /workspace/f");
    CHECK_INT(stat(kit_path("owner/sandboxes/sandbox-1/layers/1-0/upper/workspace/f"), &st), 0);
    CHECK(geteuid() != 0 ? st.st_uid == geteuid() : st.st_uid != 0);
}

/* A tenant cannot make a file of one layer stand for another's. */
TEST(attributes_of_overlays_mean_nothing_in_layers)
{
    struct err err = {0};
    AUTO_LAYERS struct layers *layers = kit_layers("attr");
    uint32_t number;
    CHECK_OK(layers_create(layers, "sandbox-1", NULL, NULL, &err));
    (void)kit_shell(layers, "sandbox-1",
                    "mkdir /workspace/d; python3 -c \"import os; os.setxattr('/workspace/d',"
                    "'user.overlay.redirect', b'/etc')\" 2>/dev/null");
    CHECK_OK(layers_checkpoint(layers, "sandbox-1", &number, &err));
    CHECK_CSTR(kit_shell(layers, "sandbox-1", "ls /workspace/d"), "");
}

TEST(a_sandbox_that_deleted_its_places_starts_again)
{
    struct err err = {0};
    uint32_t number;
    AUTO_LAYERS struct layers *layers = kit_layers("places");
    CHECK_OK(layers_create(layers, "sandbox-1", NULL, NULL, &err));
    (void)kit_shell(layers, "sandbox-1", "> /workspace/old");
    CHECK_OK(layers_checkpoint(layers, "sandbox-1", &number, &err));
    CHECK_CSTR(
        kit_shell(layers, "sandbox-1", "rm -r /workspace /home; ls -d /workspace 2>/dev/null"), "");
    CHECK_CSTR(kit_shell(layers, "sandbox-1", "ls /workspace; cd /home/sandbox; > f; ls"), "f\n");
    (void)kit_shell(layers, "sandbox-1", "rmdir /workspace; ln -s /etc /workspace");
    AUTO_ARENA struct arena arena = {0};
    AUTO_JAIL struct jail *jail = NULL;
    CHECK_ERR(kit_jail(layers, "sandbox-1", &arena, &(struct jail_plan){0}, &jail, &err),
              ERR_INVALID);
    CHECK_MSG("bad_rootfs");
    CHECK_OK(layers_rollback(layers, "sandbox-1", number, &err));
    CHECK_CSTR(kit_shell(layers, "sandbox-1", "ls /workspace"), "old\n");
}

TEST(stock_is_used_and_kept)
{
    struct err err = {0};
    uint32_t number;
    AUTO_LAYERS struct layers *layers = kit_layers("stocked");
    CHECK_OK(layers_stock(layers, 3, &err));
    CHECK_OK(layers_create(layers, "sandbox-1", NULL, NULL, &err));
    CHECK_OK(layers_checkpoint(layers, "sandbox-1", &number, &err));
    CHECK_OK(layers_fork(layers, "sandbox-1", number, "sandbox-2", NULL, &err));
    CHECK_INT(layers->stock.len, 1);
    AUTO_LAYERS struct layers *again = kit_layers("stocked");
    CHECK_INT(again->stock.len, 1);
    CHECK_OK(layers_recover(again, &err));
    CHECK_OK(layers_create(again, "sandbox-3", NULL, NULL, &err));
    /* The other one's list is old by now: it makes a sandbox all the same. */
    CHECK_OK(layers_create(layers, "sandbox-4", NULL, NULL, &err));
    CHECK_CSTR(kit_shell(layers, "sandbox-2", "echo fine"), "fine\n");
    CHECK_CSTR(kit_shell(layers, "sandbox-4", "echo fine"), "fine\n");
}

TEST(a_damaged_sandbox_keeps_no_other_from_coming_back)
{
    struct err err = {0};
    static const char *const ids[] = {"sandbox-1", "sandbox-2", "sandbox-3"};
    char path[PATH_MAX];
    AUTO_LAYERS struct layers *layers = kit_layers("damaged");
    for (size_t i = 0; i < countof(ids); i++) {
        CHECK_OK(layers_create(layers, ids[i], NULL, NULL, &err));
        (void)snprintf(path, sizeof path, "damaged/sandboxes/%s/layers/.new", ids[i]);
        CHECK_INT(mkdir(kit_path(path), 0700), 0);
    }
    test_write(test_tmpdir(), "damaged/sandboxes/sandbox-2/quota", "nonsense");
    CHECK(layers_recover(layers, &err) < 0);
    CHECK_MSG("sandbox-2");
    CHECK_MSG("damaged");
    for (size_t i = 0; i < countof(ids); i += 2) {
        (void)snprintf(path, sizeof path, "damaged/sandboxes/%s/layers/.new", ids[i]);
        CHECK(access(kit_path(path), F_OK) < 0);
        CHECK_CSTR(kit_shell(layers, ids[i], "echo fine"), "fine\n");
    }
    CHECK_INT(unlink(kit_path("damaged/sandboxes/sandbox-2/quota")), 0);
    CHECK_OK(layers_recover(layers, &err));
}

#ifdef SG_FAULTS
/* Two states that the disk may be in; anything between is a bug. */
static int count_after(struct layers *layers, const char *id)
{
    struct err err = {0};
    uint32_t list[LAYERS_DEPTH_MAX];
    int count = layers_list(layers, id, list, &err);
    return count < 0 && err.code == ERR_NOT_FOUND ? -1 : count;
}

static int act(struct layers *layers, int which, struct err *err)
{
    uint32_t number;
    switch (which) {
    case 0:
        return layers_checkpoint(layers, "sandbox-1", &number, err);
    case 1:
        return layers_rollback(layers, "sandbox-1", 1, err);
    case 2:
        return layers_fork(layers, "sandbox-1", 1, "sandbox-2", NULL, err);
    case 3:
        return layers_destroy(layers, "sandbox-2", err);
    case 4:
        return layers_destroy(layers, "sandbox-1", err);
    case 5:
        return layers_create(layers, "sandbox-1", NULL, NULL, err);
    default:
        return layers_recover(layers, err);
    }
}

/* sandbox-1 with two checkpoints; sandbox-2 a fork of it for those who end one. */
static struct layers *prepare(const char *name, int which)
{
    struct err err = {0};
    uint32_t number;
    struct layers *layers = kit_layers(name);
    if (which != 5) {
        CHECK_OK(layers_create(layers, "sandbox-1", NULL, NULL, &err));
        CHECK_OK(layers_checkpoint(layers, "sandbox-1", &number, &err));
        CHECK_OK(layers_checkpoint(layers, "sandbox-1", &number, &err));
    }
    if (which == 3 || which == 4)
        CHECK_OK(layers_fork(layers, "sandbox-1", 1, "sandbox-2", NULL, &err));
    return layers;
}

static const struct {
    int one[2], two[2]; /* checkpoints of sandbox-1 and sandbox-2, before and after; -1: none */
} outcomes[] = {
    {{2, 3}, {-1, -1}}, {{2, 1}, {-1, -1}}, {{2, 2}, {-1, 0}},
    {{2, 2}, {0, -1}},  {{2, -1}, {0, 0}},  {{-1, 0}, {-1, -1}},
};

/* After recovery: old or new, usable, nothing of the way there left, and the same again. */
static void check_state(const char *name, int which, int done)
{
    struct err err = {0};
    char path[PATH_MAX];
    AUTO_LAYERS struct layers *layers = kit_layers(name);
    for (int round = 0; round < 2; round++) {
        CHECK_OK(layers_recover(layers, &err));
        CHECK_OK(layers_reclaim(layers, NULL, &err));
        int one = count_after(layers, "sandbox-1"), two = count_after(layers, "sandbox-2");
        bool is_old = one == outcomes[which].one[0] && two == outcomes[which].two[0];
        bool is_new = one == outcomes[which].one[1] && two == outcomes[which].two[1];
        CHECK(is_old || is_new);
        if (done == 0)
            CHECK(is_new);
    }
    (void)snprintf(path, sizeof path, "%s/trash", name);
    CHECK_INT(rmdir(kit_path(path)), 0);
    if (count_after(layers, "sandbox-1") >= 0)
        CHECK_CSTR(kit_shell(layers, "sandbox-1", "echo fine"), "fine\n");
    if (count_after(layers, "sandbox-2") >= 0)
        CHECK_CSTR(kit_shell(layers, "sandbox-2", "echo fine"), "fine\n");
}

TEST(every_failure_leaves_the_old_stack_or_the_new)
{
    char name[64];
    for (int which = 0; which < (int)countof(outcomes); which++)
        for (int64_t nth = 1; nth < 200; nth += nth < 16 ? 1 : 3) {
            struct err err = {0};
            (void)snprintf(name, sizeof name, "fault-%d-%d", which, (int)nth);
            struct layers *layers = prepare(name, which);
            int fds = test_open_fds();
            (void)sys_fail_at(nth);
            int done = act(layers, which, &err);
            int64_t made = sys_fail_at(0);
            CHECK_INT(test_open_fds(), fds);
            (void)layers_free(layers);
            check_state(name, which, done);
            if (made < nth)
                break;
        }
}

TEST(every_crash_leaves_the_old_stack_or_the_new)
{
    static const char *const points[] = {
        "layer.made", "layer.placed",     "sandbox.made",     "sandbox.placed", "fork.marked",
        "prune.one",  "destroy.detached", "destroy.released", "destroy.marked", "destroy.discarded",
    };
    char name[64];
    int hits = 0;
    for (int which = 0; which < (int)countof(outcomes); which++)
        for (size_t i = 0; i < countof(points); i++) {
            struct err err = {0};
            (void)snprintf(name, sizeof name, "crash-%d-%zu", which, i);
            struct layers *layers = prepare(name, which);
            pid_t pid = fork();
            if (pid == 0) {
                sys_crash_at(points[i]);
                _exit(act(layers, which, &err) < 0 ? 1 : 0);
            }
            int status = 0;
            CHECK_INT(waitpid(pid, &status, 0), pid);
            hits += WIFSIGNALED(status);
            (void)layers_free(layers);
            check_state(name, which, -1);
        }
    CHECK(hits >= (int)countof(points));
}
#endif
