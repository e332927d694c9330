/* Fault plan 9.1: an engine at work is killed at random instants and at each named point; the next
 * one must know all that was acknowledged, hold nothing half, and run.
 *
 * Every engine lives in a child: a process that was killed is what the next one finds. What was
 * acknowledged stands in a journal that the worker appends to, one line each. */

#include "rig.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/map.h"
#include "store/store.h"

/* In a soak five times as many. */
enum { KILLS = 200, SOAK_KILLS = 1000, KILL_MS_MAX = 60, SESSIONS_MAX = 4 };

static char home[4096];

static int journal_fd(void)
{
    char path[8192];
    (void)snprintf(path, sizeof path, "%s/journal", home);
    return open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void note(int fd, char kind, const char *id)
{
    char line[160];
    int len = snprintf(line, sizeof line, "%c %s\n", kind, id);
    if (write(fd, line, (size_t)len) != len)
        _exit(4);
}

/* --- The worker --- */

static void open_here(struct rig *rig)
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

static void work_once(struct rig *rig, int fd, int round)
{
    char id[64], text[128];
    struct token_spec token = {.tenant = STR("one"), .scopes = TOKEN_READ};
    if (rig_create(rig, &(struct sandbox_spec){.timeout_ms = -1}) < 0)
        _exit(5);
    (void)snprintf(id, sizeof id, "%s", rig->id);
    note(fd, 'S', id);
    if (rig_write(rig, id, "/f", id) < 0)
        _exit(5);
    if (RIG_CALL(rig, engine_sandbox_checkpoint, str_of(id), STR("c"), rig_on_checkpoint) < 0)
        _exit(5);
    (void)snprintf(text, sizeof text, "%s %.40s", id, rig->checkpoint);
    note(fd, 'C', text);
    if (RIG_CALL(rig, engine_sandbox_pause, str_of(id), rig_on_sandbox) < 0)
        _exit(5);
    note(fd, 'P', id); /* its file holds its id from here on */
    if (RIG_CALL(rig, engine_volume_create, &(struct volume_spec){.ttl_ms = -1}, rig_on_volume) < 0)
        _exit(5);
    (void)snprintf(text, sizeof text, "%s", rig->volume);
    note(fd, 'V', text);
    if (round % 3 == 0) {
        struct session_spec session = {.warm = round % 2 == 0};
        char name[ID_SIZE];
        id_new(name);
        session.id = str_of(name);
        if (RIG_CALL(rig, engine_session_create, &session, rig_on_session) < 0)
            _exit(5);
        note(fd, 'N', name);
    }
    rig->awaited++;
    engine_token_create(rig->engine, &token, rig_on_token, rig);
    if (rig_wait(rig) < 0)
        _exit(5);
    (void)snprintf(text, sizeof text, "%.60s", rig->secret);
    note(fd, 'T', text);
    if (round % 2 == 0) {
        note(fd, 'd', id); /* from here on either is right */
        if (RIG_CALL(rig, engine_sandbox_delete, str_of(id), rig_on_plain) < 0)
            _exit(5);
        note(fd, 'D', id);
    } else {
        (void)snprintf(text, sizeof text, "%s", rig->volume);
        note(fd, 'v', text);
        if (RIG_CALL(rig, engine_volume_delete, str_of(text), rig_on_plain) < 0)
            _exit(5);
        note(fd, 'W', text);
    }
}

static pid_t start_worker(const char *crash_at)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    struct rig rig;
    if (crash_at != NULL)
        (void)setenv("SG_CRASH_AT", crash_at, 1);
    open_here(&rig);
    int fd = journal_fd();
    for (int round = 0; round < (crash_at != NULL ? 4 : 10000); round++)
        work_once(&rig, fd, round);
    rig_close(&rig); /* there are points in closing too */
    _exit(0);
}

/* --- The judge --- */

struct facts {
    struct map sandboxes, paused, volumes, sessions, tokens, checkpoints;
};

static void put(struct map *map, struct str key, const char *value)
{
    (void)map_put(map, key, (void *)(uintptr_t)value);
}

static void read_journal(struct facts *facts)
{
    struct err err = {0};
    struct buf text = {0};
    AUTO_CLOSE int fd = journal_fd();
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    CHECK_OK(buf_read_all(&text, fd, &err));
    struct str rest = buf_str(&text), line;
    while (str_split(&rest, '\n', &line)) {
        if (line.len < 3)
            continue;
        struct str key = str_slice(line, 2, line.len), id = key;
        (void)str_split(&key, ' ', &id);
        switch (line.ptr[0]) {
        case 'S':
            put(&facts->sandboxes, id, "there");
            break;
        case 'P':
            put(&facts->paused, id, "there");
            break;
        case 'C':
            put(&facts->checkpoints, id, "there");
            break;
        case 'd':
            put(&facts->sandboxes, id, "either");
            (void)map_remove(&facts->paused, id);
            (void)map_remove(&facts->checkpoints, id);
            break;
        case 'D':
            put(&facts->sandboxes, id, "gone");
            break;
        case 'V':
            put(&facts->volumes, id, "there");
            break;
        case 'v':
            put(&facts->volumes, id, "either");
            break;
        case 'W':
            put(&facts->volumes, id, "gone");
            break;
        case 'N':
            put(&facts->sessions, id, "there");
            break;
        default:
            put(&facts->tokens, id, "there");
            break;
        }
    }
    buf_done(&text);
}

static void facts_done(struct facts *facts)
{
    struct map *maps[] = {&facts->sandboxes, &facts->paused, &facts->volumes,
                          &facts->sessions,  &facts->tokens, &facts->checkpoints};
    for (size_t i = 0; i < countof(maps); i++)
        map_done(maps[i]);
}

/* 9.6.2: the store on its own. */
static void check_store(void)
{
    struct err err = {0};
    char path[8192];
    struct loop *loop = NULL;
    struct store *store = NULL;
    (void)snprintf(path, sizeof path, "%s/data", home);
    CHECK_OK(loop_open(&loop, &err));
    CHECK_OK(store_open(loop, path, &store, &err));
    CHECK_OK(store_check(store, &err));
    (void)store_free(store);
    (void)loop_free(loop);
}

static void check_sandboxes(struct rig *rig, const struct facts *facts)
{
    struct sandbox_info info;
    struct err err = {0};
    MAP_EACH (entry, &facts->sandboxes) {
        int got = engine_sandbox_get(rig->engine, &rig->caller, entry->key, &info, &err);
        const char *expected = entry->value;
        if (strcmp(expected, "there") == 0)
            CHECK_INT(got, 0);
        if (strcmp(expected, "gone") == 0)
            CHECK_INT(got, -1);
        if (got < 0)
            continue;
        /* 9.6.4: named for what it is. */
        CHECK(info.state == SANDBOX_PAUSED || info.state == SANDBOX_INTERRUPTED ||
              info.state == SANDBOX_STOPPED);
        if (map_has(&facts->paused, entry->key))
            CHECK_INT(info.state, SANDBOX_PAUSED);
        if (map_has(&facts->checkpoints, entry->key))
            CHECK_INT(info.checkpoint_count, 1);
    }
}

static void check_rest(struct rig *rig, const struct facts *facts)
{
    struct volume_info volume;
    struct session_info session;
    struct token_info token;
    struct err err = {0};
    MAP_EACH (entry, &facts->volumes) {
        int got = engine_volume_get(rig->engine, &rig->caller, entry->key, &volume, &err);
        const char *expected = entry->value;
        if (strcmp(expected, "there") == 0)
            CHECK_INT(got, 0);
        if (strcmp(expected, "gone") == 0)
            CHECK_INT(got, -1);
        if (got == 0)
            CHECK_INT(volume.sandbox.len, 0); /* no lease of a dead instance */
    }
    MAP_EACH (entry, &facts->sessions)
        CHECK_OK(engine_session_get(rig->engine, &rig->caller, entry->key, &session, &err));
    MAP_EACH (entry, &facts->tokens)
        CHECK(engine_token_find(rig->engine, entry->key, &token));
}

/* What was put aside comes back: some of it, since each is a few milliseconds. */
static void check_paused(struct rig *rig, const struct facts *facts)
{
    int tried = 0;
    MAP_EACH (entry, &facts->paused) {
        char id[64];
        if (tried++ >= 2)
            break;
        (void)snprintf(id, sizeof id, "%.*s", STR_ARG(entry->key));
        CHECK_INT(rig_read(rig, id, "/f"), 0);
        CHECK_CSTR(rig->texts[0], id);
        CHECK_INT(RIG_CALL(rig, engine_sandbox_pause, str_of(id), rig_on_sandbox), 0);
    }
}

static void judge(void)
{
    pid_t child = fork();
    int status = 0;
    if (child == 0) {
        struct facts facts = {0};
        struct rig rig;
        read_journal(&facts);
        check_store();
        open_here(&rig);
        check_sandboxes(&rig, &facts);
        check_rest(&rig, &facts);
        check_paused(&rig, &facts);
        facts_done(&facts);
        rig_done(&rig);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_INT(status, 0);
}

static void begin(const char *name)
{
    struct err err = {0};
    char path[8192];
    (void)snprintf(home, sizeof home, "%s/%s", test_tmpdir(), name);
    (void)snprintf(path, sizeof path, "%s/data", home);
    CHECK_OK(fd_make_dirs(path, 0700, &err));
    test_write(home, "config.toml",
               "[sandbox]\nprovider = \"memory\"\n[server]\nlog_level = \"error\"\n");
}

static void kill_after(pid_t child, int64_t us)
{
    struct timespec pause = {0, us * 1000};
    (void)nanosleep(&pause, NULL);
    (void)kill(child, SIGKILL);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static int64_t random_us(void)
{
    uint32_t n = 0;
    id_random(&n, sizeof n);
    return n % (KILL_MS_MAX * 1000);
}

TEST(nothing_acknowledged_is_lost_by_kills_at_random)
{
    begin("random");
    int kills = test_sized(KILLS, SOAK_KILLS);
    for (int i = 0; i < kills; i++) {
        kill_after(start_worker(NULL), random_us());
        if (i % 10 == 9)
            judge();
        /* Some are killed again while they take up what was left. */
        if (i % 20 == 0)
            kill_after(start_worker(NULL), random_us() / 10);
        /* The journal grows with the rounds; a fresh start now and then keeps a round short. */
        if (i % 40 == 39) {
            char name[32];
            (void)snprintf(name, sizeof name, "random%d", i);
            judge();
            begin(name);
        }
    }
    judge();
}

#ifdef SG_FAULTS
TEST(nothing_acknowledged_is_lost_at_any_named_point)
{
    static const char *const points[] = {
        "store.blob.temp_open",
        "store.blob.half_written",
        "store.blob.written",
        "store.blob.synced",
        "store.blob.renamed",
        "store.blob.dir_synced",
        "store.txn.begun",
        "store.batch.applied",
        "store.txn.before_commit",
        "store.txn.after_commit",
        "store.txn.before_ack",
        "store.txn.after_ack",
        "store.migrate.before_commit",
        "store.migrate.after_commit",
        "store.open.made",
        "store.close.checkpointed",
        "store.close.unmarked",
        "engine.volume.made",
        "engine.volume.recorded",
        "engine.volume.row_gone",
        "engine.volume.tree_gone",
    };
    for (size_t i = 0; i < countof(points); i++) {
        int status = 0;
        begin(points[i]);
        for (int round = 0; round < 2; round++) {
            pid_t child = start_worker(points[i]);
            CHECK(waitpid(child, &status, 0) == child);
            if (round == 0)
                CHECK(WIFSIGNALED(status)); /* the point was reached */
            judge();
        }
    }
}
#endif
