/* Checkpoint, rollback, fork, pause and snapshots of jails, and what is left on disk. */

#include "rig.h"

#include <dirent.h>
#include <ftw.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/sys.h"

#define CONFIG "[sandbox]\nprovider = \"jail\"\n[jail]\npool = 1\n[server]\nlog_level = \"error\"\n"

enum { SOON_MS = 60000 };

/* The exit code of a shell line. */
static int sh(struct rig *rig, const char *sandbox, const char *shell)
{
    CHECK_INT(rig_begin(rig, sandbox, shell), 0);
    CHECK_INT(rig_await(rig, rig->command_id, -1), 0);
    return rig->command.code;
}

static void make(struct rig *rig, char id[64])
{
    CHECK_INT(rig_create(rig, &(struct sandbox_spec){.timeout_ms = -1}), 0);
    (void)snprintf(id, 64, "%s", rig->id);
}

static int checkpoint(struct rig *rig, const char *id, const char *name)
{
    return RIG_CALL(rig, engine_sandbox_checkpoint, str_of(id), str_of(name), rig_on_checkpoint);
}

static int rollback(struct rig *rig, const char *id, const char *name)
{
    return RIG_CALL(rig, engine_sandbox_rollback, str_of(id), str_of(name), rig_on_sandbox);
}

/* Entries of a directory below the data directory, dots left out. */
static int entries(const struct rig *rig, const char *name)
{
    char path[8192];
    int count = 0;
    (void)snprintf(path, sizeof path, "%s/%s", rig->dir, name);
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
                 strcmp(entry->d_name, ".trash") != 0;
    if (dir != NULL)
        (void)closedir(dir);
    return count;
}

/* Whether the files of sandboxes lie on disks here; there must be a sandbox. */
static bool has_disks(const struct rig *rig)
{
    return entries(rig, "disks") > 0;
}

/* What nobody names goes behind the answer. */
static void check_layers(struct rig *rig, int expected)
{
    int64_t until = clock_now_ms() + SOON_MS;
    while ((entries(rig, "layers") != expected || entries(rig, "layers/.trash") != 0) &&
           clock_now_ms() < until)
        rig_run_ms(rig, 20);
    CHECK_INT(entries(rig, "layers"), expected);
    CHECK_INT(entries(rig, "layers/.trash"), 0);
}

TEST(a_rollback_brings_back_what_was_there)
{
    struct rig rig;
    char id[64];
    rig_open_jails(&rig, CONFIG);
    make(&rig, id);
    CHECK_INT(sh(&rig, id,
                 "mkdir -p d/e && echo one >d/a && ln d/a d/b && ln -s a d/l && mkfifo d/p &&"
                 " chmod 640 d/a && truncate -s 1M d/hole && echo x >~/home && rmdir /mnt"),
              0);
    CHECK_INT(checkpoint(&rig, id, "first"), 0);
    CHECK_INT(sh(&rig, id, "rm -r d && echo two >new && mkdir /mnt"), 0);
    CHECK_INT(checkpoint(&rig, id, "second"), 0);
    CHECK_INT(rollback(&rig, id, "first"), 0);
    CHECK_INT(rig.sandbox.checkpoint_count, 1);
    CHECK_INT(sh(&rig, id,
                 "test ! -e new && test ! -e /mnt && test $(cat d/b) = one && test d/a -ef d/b &&"
                 " test $(readlink d/l) = a && test -p d/p && test $(stat -c %a d/a) = 640 &&"
                 " test $(stat -c %s d/hole) = 1048576 && test $(stat -c %b d/hole) -lt 64 &&"
                 " test $(cat ~/home) = x && touch d/a && test $(stat -c %U d/a) = sandbox"),
              0);
    /* A second time, over a sandbox that uses the first. */
    CHECK_INT(sh(&rig, id, "rm -r d && mkdir d && echo other >d/o"), 0);
    CHECK_INT(checkpoint(&rig, id, "third"), 0);
    CHECK_INT(sh(&rig, id, "rm -r d"), 0);
    CHECK_INT(rollback(&rig, id, "third"), 0);
    CHECK_INT(sh(&rig, id, "test $(ls d) = o"), 0);
    CHECK_INT(rollback(&rig, id, "first"), 0);
    CHECK_INT(sh(&rig, id, "test -e d/a && test ! -e d/o"), 0);
    CHECK_INT(rollback(&rig, id, "third"), -1);
    CHECK_INT(rig.why.code, ERR_NOT_FOUND);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_delete, str_of(id), rig_on_plain), 0);
    check_layers(&rig, 0);
    rig_done(&rig);
}

TEST(a_checkpoint_holds_up_nobody_and_a_rollback_ends_commands)
{
    struct rig rig;
    char id[64], command[64];
    struct command_info info;
    rig_open_jails(&rig, CONFIG);
    make(&rig, id);
    /* With a file open for writing and a working directory inside. */
    CHECK_INT(
        rig_begin(
            &rig, id,
            "mkdir w && cd w && exec 3>open && echo kept >&3 && touch ../go && exec sleep 600"),
        0);
    (void)snprintf(command, sizeof command, "%s", rig.command_id);
    CHECK_INT(sh(&rig, id, "until test -e go; do sleep 0.01; done"), 0);
    CHECK_INT(checkpoint(&rig, id, "busy"), 0);
    CHECK(engine_command_peek(rig.engine, &rig.caller, str_of(command), &info));
    CHECK_INT(info.state, COMMAND_RUNNING);
    CHECK_INT(sh(&rig, id, "echo late >late"), 0);
    CHECK_INT(rollback(&rig, id, "busy"), 0);
    CHECK(engine_command_peek(rig.engine, &rig.caller, str_of(command), &info));
    CHECK_INT(info.state, COMMAND_ENDED);
    CHECK_INT(sh(&rig, id, "test $(cat w/open) = kept && test ! -e late"), 0);
    rig_done(&rig);
}

TEST(forks_see_what_was_and_not_each_other)
{
    struct rig rig;
    char id[64];
    rig_open_jails(&rig, CONFIG);
    make(&rig, id);
    CHECK_INT(sh(&rig, id, "echo parent >f"), 0);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_fork, str_of(id), STR(""), 3, rig_on_many), 0);
    CHECK_INT(rig.many_count, 3);
    CHECK_INT(sh(&rig, rig.many[0], "test $(cat f) = parent && echo zero >f"), 0);
    CHECK_INT(sh(&rig, rig.many[1], "test $(cat f) = parent && rm f"), 0);
    CHECK_INT(sh(&rig, id, "test $(cat f) = parent"), 0);
    /* The parent goes first; what the forks stand on stays. */
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_delete, str_of(id), rig_on_plain), 0);
    CHECK_INT(sh(&rig, rig.many[2], "test $(cat f) = parent"), 0);
    check_layers(&rig, has_disks(&rig) ? 0 : 1);
    /* A fork of a fork, by its checkpoint. */
    CHECK_INT(checkpoint(&rig, rig.many[0], "here"), 0);
    CHECK_INT(sh(&rig, rig.many[0], "echo later >f"), 0);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_fork, str_of(rig.many[0]), STR("here"), 1, rig_on_many),
              0);
    CHECK_INT(sh(&rig, rig.many[0], "test $(cat f) = zero"), 0);
    rig_done(&rig);
}

TEST(a_paused_jail_comes_back_after_a_restart_with_its_files)
{
    struct rig rig;
    char paused[64], ran[64], marked[64];
    rig_open_jails(&rig, CONFIG);
    make(&rig, paused);
    make(&rig, ran);
    make(&rig, marked);
    CHECK_INT(sh(&rig, paused, "echo paused >f"), 0);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_pause, str_of(paused), rig_on_sandbox), 0);
    CHECK_INT(sh(&rig, ran, "echo ran >f"), 0);
    CHECK_INT(sh(&rig, marked, "echo marked >f"), 0);
    CHECK_INT(checkpoint(&rig, marked, "m"), 0);
    CHECK_INT(sh(&rig, marked, "echo later >f"), 0);
    rig_free(&rig); /* at once */
    rig_reopen(&rig);
    CHECK_INT(rig_state(&rig, paused), SANDBOX_PAUSED);
    CHECK_INT(sh(&rig, paused, "test $(cat f) = paused && echo again >f"), 0);
    CHECK_INT(rig_state(&rig, ran), SANDBOX_INTERRUPTED);
    CHECK_INT(sh(&rig, ran, has_disks(&rig) ? "test $(cat f) = ran" : "test ! -e f && echo ran >f"),
              0);
    /* What was written since, or the newest that was kept. */
    CHECK_INT(
        sh(&rig, marked, has_disks(&rig) ? "test $(cat f) = later" : "test $(cat f) = marked"), 0);
    rig_close(&rig); /* in good order: all are put aside */
    rig_reopen(&rig);
    CHECK_INT(rig_state(&rig, ran), SANDBOX_PAUSED);
    CHECK_INT(sh(&rig, ran, "test $(cat f) = ran"), 0);
    CHECK_INT(sh(&rig, paused, "test $(cat f) = again"), 0);
    rig_done(&rig);
}

/* Every restart puts a layer on the last: they are merged before there are too many. */
static int files_found;

static int count_file(UNUSED const char *path, const struct stat *st, UNUSED int type,
                      UNUSED struct FTW *at)
{
    files_found += S_ISREG(st->st_mode);
    return 0;
}

/* Regular files in all layers. */
static int count_files(const struct rig *rig)
{
    char path[8192];
    (void)snprintf(path, sizeof path, "%s/layers", rig->dir);
    files_found = 0;
    CHECK_INT(nftw(path, count_file, 32, FTW_PHYS), 0);
    return files_found;
}

TEST(a_checkpoint_holds_what_came_since_the_last)
{
    struct rig rig;
    char id[64];
    rig_open_jails(&rig, CONFIG);
    make(&rig, id);
    CHECK_INT(sh(&rig, id, "mkdir d; for i in $(seq 50); do echo $i >d/$i; done; echo a >f"), 0);
    CHECK_INT(checkpoint(&rig, id, "first"), 0);
    /* What was sealed on a disk stays there. */
    bool copies = !has_disks(&rig);
    CHECK_INT(count_files(&rig), copies ? 51 : 0);
    CHECK_INT(sh(&rig, id, "test $(cat d/50) = 50 && echo b >f && rm d/1"), 0);
    CHECK_INT(checkpoint(&rig, id, "second"), 0);
    CHECK_INT(count_files(&rig), copies ? 52 : 0);
    CHECK_INT(checkpoint(&rig, id, "third"), 0); /* of nothing */
    CHECK_INT(count_files(&rig), copies ? 52 : 0);
    /* What runs keeps its root, and is copied: what came since the last, again. */
    CHECK_INT(rig_begin(&rig, id,
                        "echo c >f; exec 9>>held; touch /tmp/up; while ! test -e /tmp/go; do"
                        " sleep 0.05; done; echo held >&9; echo x >mine; touch /tmp/went"),
              0);
    CHECK_INT(sh(&rig, id, "while ! test -e /tmp/up; do sleep 0.05; done"), 0);
    CHECK_INT(checkpoint(&rig, id, "fourth"), 0);
    CHECK_INT(count_files(&rig), copies ? 54 : 2);
    CHECK_INT(sh(&rig, id,
                 "touch /tmp/go; while ! test -e /tmp/went; do sleep 0.05; done;"
                 " test $(cat held) = held && test $(cat mine) = x && rm d/2"),
              0);
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_pause, str_of(id), rig_on_sandbox), 0);
    CHECK_INT(
        sh(&rig, id, "test ! -e d/1 && test ! -e d/2 && test $(cat f d/3 | tr -d '\\n') = c3"), 0);
    CHECK_INT(rollback(&rig, id, "fourth"), 0);
    CHECK_INT(sh(&rig, id, "test $(cat f) = c && test ! -e mine && test ! -s held && test -e d/2"),
              0);
    CHECK_INT(rollback(&rig, id, "second"), 0);
    CHECK_INT(sh(&rig, id, "test $(cat f) = b && test ! -e d/1 && test -e d/2 && echo d >f"), 0);
    CHECK_INT(rollback(&rig, id, "first"), 0);
    CHECK_INT(sh(&rig, id, "test $(cat f) = a && test $(ls d | wc -l) = 50"), 0);
    rig_done(&rig);
}

/* Layers become one behind the answers, and every state is still what it was. */
TEST(many_checkpoints_of_one_life_stay_what_they_were)
{
    struct rig rig;
    char id[64], line[160], name[16];
    rig_open_jails(&rig, CONFIG);
    make(&rig, id);
    CHECK_INT(sh(&rig, id, "mkdir d o && echo 0 >d/0 && echo old >o/old"), 0);
    for (int round = 1; round <= 20; round++) {
        (void)snprintf(name, sizeof name, "c%d", round);
        (void)snprintf(line, sizeof line,
                       "rm d/%d && echo %d >d/%d && rm -r o && mkdir o && echo %d >o/f", round - 1,
                       round, round, round);
        CHECK_INT(sh(&rig, id, line), 0);
        CHECK_INT(checkpoint(&rig, id, name), 0);
    }
    static const int back[] = {20, 17, 9, 8, 1};
    for (size_t i = 0; i < countof(back); i++) {
        (void)snprintf(name, sizeof name, "c%d", back[i]);
        (void)snprintf(line, sizeof line,
                       "test $(ls d) = %d && test $(cat d/%d) = %d && test $(cat o/*) = %d",
                       back[i], back[i], back[i], back[i]);
        if (i > 0)
            CHECK_INT(rollback(&rig, id, name), 0);
        CHECK_INT(sh(&rig, id, line), 0);
    }
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_delete, str_of(id), rig_on_plain), 0);
    check_layers(&rig, 0);
    rig_done(&rig);
}

/* Another sandbox takes its place. */
static void move_on(struct rig *rig, char id[64])
{
    CHECK_INT(RIG_CALL(rig, engine_sandbox_pause, str_of(id), rig_on_sandbox), 0);
    CHECK_INT(RIG_CALL(rig, engine_sandbox_fork, str_of(id), STR(""), 1, rig_on_many), 0);
    CHECK_INT(RIG_CALL(rig, engine_sandbox_delete, str_of(id), rig_on_plain), 0);
    (void)snprintf(id, 64, "%s", rig->many[0]);
}

TEST(many_rounds_make_no_tower)
{
    struct rig rig;
    char id[64], line[128];
    rig_open_jails(&rig, CONFIG);
    make(&rig, id);
    CHECK_INT(sh(&rig, id, "mkdir d o && echo 0 >d/0 && echo old >o/old"), 0);
    for (int round = 1; round <= 20; round++) {
        CHECK_INT(checkpoint(&rig, id, "c"), 0);
        CHECK_INT(rollback(&rig, id, "c"), 0); /* now its layers are one more */
        (void)snprintf(line, sizeof line,
                       "test $(cat d/%d) = %d && rm d/%d && echo %d >d/%d && rm -r o && mkdir o &&"
                       " echo %d >o/f",
                       round - 1, round - 1, round - 1, round, round, round);
        CHECK_INT(sh(&rig, id, line), 0);
        move_on(&rig, id);
    }
    CHECK_INT(sh(&rig, id, "test $(ls d) = 20 && test \"$(ls o)\" = f"), 0);
    /* They become one when there is time, and the next state uses it. */
    for (int64_t ms = 300; entries(&rig, "layers") > 9 && ms < 2 * SOON_MS; ms *= 2) {
        rig_run_ms(&rig, ms); /* a busy machine gets more of it each time */
        move_on(&rig, id);
    }
    CHECK(entries(&rig, "layers") <= 9);
    CHECK_INT(sh(&rig, id, "test $(ls d) = 20 && test \"$(ls o)\" = f"), 0);
    rig_done(&rig);
}

TEST(sandboxes_boot_from_a_stack_of_snapshots)
{
    struct rig rig;
    char id[64], first[64], second[64];
    rig_open_jails(&rig, CONFIG);
    make(&rig, id);
    CHECK_INT(sh(&rig, id, "echo one >f && echo a >/only-a && mkdir dir && echo x >dir/x"), 0);
    struct snapshot_spec spec = {.slug = STR("the-first"), .sandbox = str_of(id)};
    CHECK_INT(RIG_CALL(&rig, engine_snapshot_create, &spec, rig_on_snapshot), 0);
    (void)snprintf(first, sizeof first, "%s", rig.snapshot);
    struct str one[] = {STR("the-first")};
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){.snapshots = one, .snapshot_count = 1}), 0);
    (void)snprintf(id, sizeof id, "%s", rig.id);
    CHECK_INT(sh(&rig, id, "test $(cat f) = one && echo two >f && rm -r dir"), 0);
    struct snapshot_spec again = {.sandbox = str_of(id)};
    CHECK_INT(RIG_CALL(&rig, engine_snapshot_create, &again, rig_on_snapshot), 0);
    (void)snprintf(second, sizeof second, "%s", rig.snapshot);
    /* The second stands for itself, and on top of the first. */
    for (size_t from = 0; from < 2; from++) {
        struct str stack[] = {str_of(first), str_of(second)};
        struct sandbox_spec both = {.snapshots = stack + from, .snapshot_count = 2 - from};
        CHECK_INT(rig_create(&rig, &both), 0);
        CHECK_INT(sh(&rig, rig.id, "test $(cat f) = two && test -e /only-a && test ! -e dir"), 0);
        CHECK_INT(checkpoint(&rig, rig.id, "c"), 0);
        CHECK_INT(sh(&rig, rig.id, "rm f"), 0);
        CHECK_INT(rollback(&rig, rig.id, "c"), 0);
        CHECK_INT(sh(&rig, rig.id, "test $(cat f) = two"), 0);
    }
    CHECK_INT(RIG_CALL(&rig, engine_snapshot_delete, str_of(first), rig_on_plain), -1);
    CHECK_INT(rig.why.code, ERR_CONFLICT);
    rig_free(&rig);
    rig_reopen(&rig);
    struct str stack[] = {str_of(second)};
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){.snapshots = stack, .snapshot_count = 1}), 0);
    CHECK_INT(sh(&rig, rig.id, "test $(cat f) = two"), 0);
    rig_done(&rig);
}

TEST(what_cannot_be_copied_is_left_out_and_told)
{
    struct rig rig;
    struct sandbox_info info;
    struct err err = {0};
    char id[64];
    rig_open_jails(&rig, CONFIG);
    make(&rig, id);
    CHECK_INT(sh(&rig, id,
                 "echo kept >f; i=0; while test $i -lt 220; do mkdir d; cd d; i=$((i+1)); done"),
              0);
    /* What runs is copied, wherever its files lie. */
    CHECK_INT(rig_begin(&rig, id, "sleep 1000"), 0);
    CHECK_INT(checkpoint(&rig, id, "deep"), 0);
    CHECK_OK(engine_sandbox_get(rig.engine, &rig.caller, str_of(id), &info, &err));
    CHECK(str_starts(info.skipped,
                     STR("1 could not be copied and is missing from the copy: /workspace/d/d/d")));
    CHECK_INT(RIG_CALL(&rig, engine_sandbox_pause, str_of(id), rig_on_sandbox), 0);
    CHECK_INT(rig_state(&rig, id), SANDBOX_PAUSED);
    CHECK_INT(sh(&rig, id, "rm -r d f"), 0);
    CHECK_INT(checkpoint(&rig, id, "flat"), 0);
    CHECK_OK(engine_sandbox_get(rig.engine, &rig.caller, str_of(id), &info, &err));
    CHECK_STR(info.skipped, "");
    CHECK_INT(rollback(&rig, id, "deep"), 0);
    CHECK_INT(sh(&rig, id, "test $(cat f) = kept && test -d d/d/d/d"), 0);
    rig_done(&rig);
}

/* A copy of files that are hard to copy has the others, and lists what it lacks. */
TEST(files_without_rights_and_of_huge_sizes_are_copied_or_told)
{
    struct rig rig;
    struct sandbox_info info;
    struct err err = {0};
    char id[64];
    rig_open_jails(&rig, CONFIG);
    make(&rig, id);
    /* 2^62 bytes where the file system can, else as many as it can. */
    CHECK_INT(sh(&rig, id,
                 "echo kept >f; echo text >locked; chmod 000 locked; mkdir closed;"
                 " echo text >closed/in; chmod 000 closed;"
                 " truncate -s 4611686018427387904 huge || truncate -s 8T huge"),
              0);
    /* What runs is copied, wherever its files lie. */
    CHECK_INT(rig_begin(&rig, id, "sleep 1000"), 0);
    CHECK_INT(checkpoint(&rig, id, "hard"), 0);
    CHECK_OK(engine_sandbox_get(rig.engine, &rig.caller, str_of(id), &info, &err));
    bool has_locked = memmem(info.skipped.ptr, info.skipped.len, "locked", 6) == NULL;
    bool has_closed = memmem(info.skipped.ptr, info.skipped.len, "closed", 6) == NULL;
    bool has_huge = memmem(info.skipped.ptr, info.skipped.len, "huge", 4) == NULL;
    CHECK_INT(sh(&rig, id, "chmod 700 closed; rm -r closed locked huge f"), 0);
    CHECK_INT(rollback(&rig, id, "hard"), 0);
    CHECK_INT(sh(&rig, id, "test $(cat f) = kept"), 0);
    CHECK_INT(sh(&rig, id, "chmod 600 locked && test $(cat locked) = text") == 0, has_locked);
    CHECK_INT(sh(&rig, id, "chmod 700 closed && test $(cat closed/in) = text") == 0, has_closed);
    CHECK_INT(sh(&rig, id, "test $(stat -c %s huge) -gt 8000000000000") == 0, has_huge);
    rig_done(&rig);
}

/* --- On disks --- */

/* Layers of all disks together; each of the spares has one. */
static int count_disk_layers(const struct rig *rig)
{
    char path[8192], command[8400];
    int count = 0;
    (void)snprintf(path, sizeof path, "%s/disks", rig->dir);
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(command, sizeof command, "%s/%s/data", path, entry->d_name);
        DIR *data = opendir(command);
        for (const struct dirent *layer; data != NULL && (layer = readdir(data)) != NULL;)
            count += layer->d_name[0] >= '0' && layer->d_name[0] <= '9';
        if (data != NULL)
            (void)closedir(data);
    }
    if (dir != NULL)
        (void)closedir(dir);
    return count;
}

static void check_at_most(struct rig *rig, int (*count)(const struct rig *rig), int most)
{
    int64_t until = clock_now_ms() + SOON_MS;
    while (count(rig) > most && clock_now_ms() < until)
        rig_run_ms(rig, 20);
    int found = count(rig);
    if (found > most)
        CHECK_INT(found, most);
}

static int count_disks(const struct rig *rig)
{
    return entries(rig, "disks");
}

static int delete (struct rig *rig, const char *id)
{
    return RIG_CALL(rig, engine_sandbox_delete, str_of(id), rig_on_plain);
}

static void fork_one(struct rig *rig, const char *id, const char *checkpoint, char ret_id[64])
{
    CHECK_INT(RIG_CALL(rig, engine_sandbox_fork, str_of(id), str_of(checkpoint), 1, rig_on_many),
              0);
    (void)snprintf(ret_id, 64, "%s", rig->many[0]);
}

enum { SPARES = 2 }; /* disks that may wait for sandboxes to come */

TEST(what_others_stand_on_outlives_the_sandbox_that_wrote_it)
{
    struct rig rig;
    char id[64], fork[64], second[64];
    rig_open_jails(&rig, CONFIG);
    make(&rig, id);
    if (!has_disks(&rig)) {
        rig_done(&rig);
        SKIP("the files of sandboxes lie in memory here");
    }
    CHECK_INT(sh(&rig, id, "head -c 20M /dev/urandom >big; sha1sum big >sum; echo one >f"), 0);
    CHECK_INT(checkpoint(&rig, id, "one"), 0);
    CHECK_INT(sh(&rig, id, "echo two >f; rm big; echo t >/tmp/t"), 0);
    fork_one(&rig, id, "", fork);
    fork_one(&rig, id, "one", second);
    CHECK_INT(rollback(&rig, id, "one"), 0);
    CHECK_INT(sh(&rig, id, "test $(cat f) = one && sha1sum -c sum && test ! -e /tmp/t"), 0);
    CHECK_INT(entries(&rig, "layers"), 0);
    CHECK_INT(delete (&rig, id), 0);
    rig_run_ms(&rig, 300); /* a sweep has been there */
    CHECK_INT(sh(&rig, fork, "test $(cat f) = two && test ! -e big && echo mine >mine"), 0);
    CHECK_INT(sh(&rig, second, "test $(cat f) = one && sha1sum -c sum"), 0);
    /* The same after a restart, also of what was never synced. */
    CHECK_INT(checkpoint(&rig, second, "of the fork"), 0);
    rig_free(&rig);
    rig_reopen(&rig);
    CHECK_INT(sh(&rig, fork, "test $(cat f) = two && test $(cat mine) = mine"), 0);
    CHECK_INT(sh(&rig, second, "sha1sum -c sum && rm big"), 0);
    CHECK_INT(rollback(&rig, second, "of the fork"), 0);
    CHECK_INT(sh(&rig, second, "sha1sum -c sum"), 0);
    CHECK_INT(delete (&rig, second), 0);
    CHECK_INT(delete (&rig, fork), 0);
    check_at_most(&rig, count_disks, SPARES);
    check_layers(&rig, 0);
    rig_done(&rig);
}

TEST(many_rounds_on_a_disk_leave_nothing)
{
    struct rig rig;
    char id[64], name[16];
    rig_open_jails(&rig, CONFIG);
    make(&rig, id);
    if (!has_disks(&rig)) {
        rig_done(&rig);
        SKIP("the files of sandboxes lie in memory here");
    }
    CHECK_INT(sh(&rig, id, "echo base >f"), 0);
    CHECK_INT(checkpoint(&rig, id, "base"), 0);
    for (int round = 0; round < 40; round++) {
        (void)snprintf(name, sizeof name, "c%d", round);
        CHECK_INT(sh(&rig, id, "head -c 1M /dev/zero >more; test $(cat f) = base && echo x >f"), 0);
        CHECK_INT(checkpoint(&rig, id, name), 0);
        CHECK_INT(sh(&rig, id, "rm f"), 0);
        CHECK_INT(rollback(&rig, id, name), 0);
        CHECK_INT(sh(&rig, id, "test $(cat f) = x"), 0);
        CHECK_INT(rollback(&rig, id, "base"), 0);
    }
    CHECK_INT(sh(&rig, id, "test $(cat f) = base && test ! -e more"), 0);
    check_layers(&rig, 0);
    check_at_most(&rig, count_disk_layers, 2 + SPARES);
    check_at_most(&rig, count_disks, 1 + SPARES);
    rig_done(&rig);
}

TEST(no_more_than_a_part_of_the_disk_is_held)
{
    struct rig rig;
    char id[64], name[16];
    rig_open_jails(&rig, CONFIG);
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){.timeout_ms = -1,
                                                      .limits = {.disk_bytes = 64 << 20}}),
              0);
    (void)snprintf(id, sizeof id, "%s", rig.id);
    if (!has_disks(&rig)) {
        rig_done(&rig);
        SKIP("the files of sandboxes lie in memory here");
    }
    /* Each replaces the file of the one before: with all of them on it the disk would be full. */
    for (int round = 0; round < 12; round++) {
        char line[200];
        (void)snprintf(name, sizeof name, "c%d", round);
        (void)snprintf(line, sizeof line, "head -c 10M /dev/urandom >big && echo %d >f", round);
        CHECK_INT(sh(&rig, id, line), 0);
        CHECK_INT(checkpoint(&rig, id, name), 0);
        rig_run_ms(&rig, 150);
    }
    CHECK(entries(&rig, "layers") > 0);
    for (int round = 11; round >= 0; round--) {
        char line[200];
        (void)snprintf(name, sizeof name, "c%d", round);
        (void)snprintf(line, sizeof line,
                       "test $(cat f) = %d && test $(stat -c %%s big) = 10485760", round);
        CHECK_INT(rollback(&rig, id, name), 0);
        CHECK_INT(sh(&rig, id, line), 0);
    }
    CHECK_INT(delete (&rig, id), 0);
    check_layers(&rig, 0);
    check_at_most(&rig, count_disks, SPARES);
    rig_done(&rig);
}

/* A snapshot is no reason to keep the disk of the sandbox that it was made of. */
TEST(a_snapshot_uses_no_disk)
{
    struct rig rig;
    char id[64];
    rig_open_jails(&rig, CONFIG);
    make(&rig, id);
    CHECK_INT(sh(&rig, id, "echo one >f"), 0);
    CHECK_INT(checkpoint(&rig, id, "one"), 0);
    CHECK_INT(sh(&rig, id, "echo two >g"), 0);
    CHECK_INT(RIG_CALL(&rig, engine_snapshot_create, &(struct snapshot_spec){.sandbox = str_of(id)},
                       rig_on_snapshot),
              0);
    CHECK_INT(sh(&rig, id, "test $(cat f g | tr -d '\\n') = onetwo && echo three >g"), 0);
    CHECK_INT(checkpoint(&rig, id, "two"), 0);
    CHECK_INT(rollback(&rig, id, "one"), 0);
    CHECK_INT(sh(&rig, id, "test $(cat f) = one && test ! -e g"), 0);
    CHECK_INT(delete (&rig, id), 0);
    check_at_most(&rig, count_disks, SPARES);
    struct str stack[] = {str_of(rig.snapshot)};
    CHECK_INT(rig_create(&rig, &(struct sandbox_spec){.snapshots = stack, .snapshot_count = 1}), 0);
    CHECK_INT(sh(&rig, rig.id, "test $(cat f g | tr -d '\\n') = onetwo"), 0);
    rig_done(&rig);
}

/* --- Kills --- */

#ifdef SG_FAULTS

static void open_again(struct rig *rig, const char *home)
{
    struct err err = {0};
    char path[8192];
    *rig = (struct rig){.caller = {.tenant = STR("one")}};
    (void)snprintf(rig->dir, sizeof rig->dir, "%s/data", home);
    (void)snprintf(path, sizeof path, "%s/config.toml", home);
    CHECK_OK(config_load(path, &rig->config, &err));
    rig->config->jail.zygote_at_start = false; /* nobody waits for it here */
    CHECK_OK(loop_open(&rig->loop, &err));
    rig_reopen(rig);
}

/* Keeps, rolls back and pauses until it is killed. */
static void NORETURN work(const char *home, const char *point)
{
    struct rig rig;
    char id[64];
    sys_crash_at(point);
    open_again(&rig, home);
    make(&rig, id);
    CHECK_INT(sh(&rig, id, "echo first >f"), 0);
    if (checkpoint(&rig, id, "first") < 0)
        _exit(5);
    for (int round = 0; strcmp(point, "squash.placed") == 0 && round < 30; round++) {
        char name[16];
        (void)snprintf(name, sizeof name, "c%d", round);
        if (checkpoint(&rig, id, name) < 0)
            _exit(5);
    }
    for (int round = 0; round < 3; round++) {
        if (checkpoint(&rig, id, "again") < 0 ||
            RIG_CALL(&rig, engine_sandbox_fork, str_of(id), STR(""), 2, rig_on_many) < 0 ||
            delete (&rig, rig.many[0]) < 0 ||
            RIG_CALL(&rig, engine_sandbox_pause, str_of(id), rig_on_sandbox) < 0 ||
            rollback(&rig, id, "first") < 0)
            _exit(6);
        CHECK_INT(sh(&rig, id, "echo later >g; test $(cat f) = first"), 0);
        rig_run_ms(&rig, 700); /* a sync and a sweep */
        /* What runs is copied, and its rollback makes a new jail. */
        if (checkpoint(&rig, id, "again") < 0 || rig_begin(&rig, id, "sleep 1000") < 0 ||
            checkpoint(&rig, id, "while it runs") < 0 || rollback(&rig, id, "first") < 0)
            _exit(8);
        rig_run_ms(&rig, 150);
    }
    rig_run_ms(&rig, SOON_MS); /* what is done in the background comes to its point */
    _exit(7);
}

static void judge(const char *home)
{
    struct rig rig;
    struct err err = {0};
    struct arena arena = {0};
    struct sandbox_list list;
    open_again(&rig, home);
    CHECK_OK(engine_sandbox_list(rig.engine, &rig.caller, &(struct sandbox_filter){0}, &arena,
                                 &list, &err));
    for (size_t i = 0; i < list.count; i++) {
        char id[64];
        bool is_kept = list.items[i].checkpoint_count > 0 || list.items[i].state == SANDBOX_PAUSED;
        is_kept |= has_disks(&rig) && list.items[i].started_ms > 0;
        is_kept |= list.items[i].forked_from.len > 0;
        (void)snprintf(id, sizeof id, "%.*s", STR_ARG(list.items[i].id));
        CHECK_INT(sh(&rig, id, "test -e f && test $(cat f) = first"), is_kept ? 0 : 1);
        if (list.items[i].checkpoint_count > 0) {
            CHECK_INT(sh(&rig, id, "rm f"), 0);
            CHECK_INT(rollback(&rig, id, "first"), 0);
            CHECK_INT(sh(&rig, id, "test $(cat f) = first && test ! -e g"), 0);
        }
        CHECK_INT(RIG_CALL(&rig, engine_sandbox_delete, str_of(id), rig_on_plain), 0);
    }
    arena_done(&arena);
    check_layers(&rig, 0);
    if (has_disks(&rig))
        check_at_most(&rig, count_disks, SPARES);
    rig_done(&rig);
    _exit(0);
}

static int end_of(pid_t child)
{
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

TEST(a_kill_between_any_two_steps_leaves_a_whole_state)
{
    static const char *const points[] = {"keep.copied",   "keep.placed",    "sweep.one",
                                         "squash.placed", "disk.made",      "disk.layer",
                                         "disk.detached", "disk.discarded", "seal.taken",
                                         "seal.synced",   "rollback.root",  "fork.root"};
    if (geteuid() != 0)
        SKIP("jails with every limit need root here");
    for (size_t i = 0; i < countof(points); i++) {
        char home[4096], data[8192];
        struct err err = {0};
        (void)snprintf(home, sizeof home, "%.2000s/%zu", test_tmpdir(), i);
        (void)snprintf(data, sizeof data, "%s/data", home);
        CHECK_OK(fd_make_dirs(data, 0700, &err));
        test_write(home, "config.toml", CONFIG);
        pid_t child = fork();
        if (child == 0)
            work(home, points[i]);
        int status = end_of(child);
        if (!WIFSIGNALED(status))
            print_message("# '%s' was not reached: exit %d\n", points[i], WEXITSTATUS(status));
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        child = fork();
        if (child == 0)
            judge(home);
        CHECK_INT(end_of(child), 0);
    }
}
#endif
