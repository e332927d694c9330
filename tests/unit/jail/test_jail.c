/* Jails, alive. */

#include "test.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "jail/client/jail.h"
#include "waiting.h"

static struct warden_link *warden(void)
{
    static struct warden_link *one;
    struct err err = {0};
    if (one == NULL)
        CHECK_OK(warden_start(&one, &err));
    return one;
}

/* Limits that this host cannot give are switched off by name, so that the rest can be tested. */
static struct jail_plan possible(struct jail_plan plan)
{
    const struct jail_host *host = warden_host(warden());
    if (host->no_memory[0] != '\0' && plan.limits.memory_bytes == 0)
        plan.limits.memory_bytes = JAIL_UNLIMITED;
    if (host->no_cpu[0] != '\0' && plan.limits.cpu_milli == 0)
        plan.limits.cpu_milli = JAIL_UNLIMITED;
    return plan;
}

static int make(const struct jail_plan *plan, struct jail **ret_jail, struct err *err)
{
    struct jail_plan able = possible(*plan);
    return jail_make(warden(), &able, ret_jail, err);
}

/* What one command wrote, and how it ended. */
struct ran {
    struct jail_exit exit;
    char text[65536];
};

static int run_in(struct jail *jail, const struct jail_command *command, struct ran *ran,
                  struct err *err)
{
    int out[2];
    uint32_t id;
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK_INT(pipe2(out, O_CLOEXEC), 0);
    AUTO_CLOSE int reader = out[0];
    int done = jail_start(jail, command, (int[]){null, out[1], out[1]}, &id, NULL, err);
    CHECK_INT(close(out[1]), 0);
    if (done < 0)
        return -1;
    AUTO_BUF struct buf text = buf_with_limit(sizeof ran->text - 1);
    if (buf_read_all(&text, reader, err) < 0)
        return -1;
    (void)snprintf(ran->text, sizeof ran->text, "%s", buf_cstr(&text));
    return jail_wait(jail, 60000, &ran->exit, err);
}

static int shell(const struct jail_plan *plan, const char *script, struct ran *ran, struct err *err)
{
    AUTO_JAIL struct jail *jail = NULL;
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    if (make(plan, &jail, err) < 0)
        return -1;
    return run_in(jail, &(struct jail_command){.argv = argv}, ran, err);
}

/* How a command that cannot start is refused. */
static int refused(const struct jail_command *command, struct err *err)
{
    AUTO_JAIL struct jail *jail = NULL;
    static struct ran ran;
    if (make(&(struct jail_plan){0}, &jail, err) < 0)
        return 0;
    return run_in(jail, command, &ran, err);
}

TEST(a_command_runs_and_its_output_comes)
{
    struct err err = {0};
    static struct ran ran;
    CHECK_OK(shell(&(struct jail_plan){0}, "echo hello; id -u; pwd; exit 7", &ran, &err));
    CHECK_CSTR(ran.text, "hello\n1000\n/workspace\n");
    CHECK_INT(ran.exit.code, 7);
    CHECK_INT(ran.exit.signal, 0);
    CHECK(ran.exit.wall_ns > 0);
}

TEST(ways_not_to_start_are_distinguished)
{
    struct err err = {0};
    const char *missing[] = {"no-such-program", NULL}, *format[] = {"/workspace/x", NULL};
    const char *plain[] = {"/etc/passwd", NULL}, *fine[] = {"true", NULL};
    CHECK_ERR(refused(&(struct jail_command){.argv = missing}, &err), ERR_PROGRAM_NOT_FOUND);
    CHECK_MSG("no program 'no-such-program'");
    CHECK_ERR(refused(&(struct jail_command){.argv = format}, &err), ERR_PROGRAM_NOT_FOUND);
    CHECK_ERR(refused(&(struct jail_command){.argv = plain}, &err), ERR_NOT_EXECUTABLE);
    CHECK_MSG("cannot run '/etc/passwd'");
    CHECK_ERR(refused(&(struct jail_command){.argv = fine, .cwd = "/nowhere"}, &err), ERR_BAD_CWD);
    CHECK_MSG("cannot start in '/nowhere'");
    CHECK_ERR(refused(&(struct jail_command){.argv = fine, .cwd = "/proc/self/root"}, &err),
              ERR_BAD_CWD);
    CHECK_ERR(refused(&(struct jail_command){.argv = fine, .cwd = "here"}, &err), ERR_BAD_CWD);
    CHECK_MSG("not absolute");
    CHECK_OK(refused(&(struct jail_command){.argv = fine}, &err));
}

TEST(format_and_interpreter_have_their_own_words)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = NULL;
    static struct ran ran;
    const char *prepare[] = {
        "sh", "-c", "printf junk > junk; printf '#!/no/such\\n' > lost; chmod +x junk lost", NULL};
    const char *junk[] = {"./junk", NULL}, *lost[] = {"/workspace/lost", NULL};
    CHECK_OK(make(&(struct jail_plan){0}, &jail, &err));
    CHECK_OK(run_in(jail, &(struct jail_command){.argv = prepare}, &ran, &err));
    CHECK_ERR(run_in(jail, &(struct jail_command){.argv = junk}, &ran, &err), ERR_EXEC_FORMAT);
    CHECK_MSG("exec format error");
    CHECK_ERR(run_in(jail, &(struct jail_command){.argv = lost}, &ran, &err),
              ERR_PROGRAM_NOT_FOUND);
    CHECK_MSG("interpreter");
}

TEST(a_signal_is_reported_as_one)
{
    struct err err = {0};
    static struct ran ran;
    CHECK_OK(shell(&(struct jail_plan){0}, "kill -SEGV $$", &ran, &err));
    CHECK_INT(ran.exit.signal, SIGSEGV);
}

TEST(many_commands_at_once_in_one_jail)
{
    enum { COUNT = 20 };
    struct err err = {0};
    AUTO_JAIL struct jail *jail = NULL;
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const char *argv[] = {"sleep", "0.05", NULL};
    uint32_t ids[COUNT];
    CHECK_OK(make(&(struct jail_plan){0}, &jail, &err));
    for (int i = 0; i < COUNT; i++)
        CHECK_OK(jail_start(jail, &(struct jail_command){.argv = argv}, (int[]){null, null, null},
                            &ids[i], NULL, &err));
    for (int i = 0; i < COUNT; i++) {
        struct jail_exit exit;
        bool known = false;
        CHECK_OK(jail_wait(jail, 60000, &exit, &err));
        for (int j = 0; j < COUNT; j++)
            known |= ids[j] == exit.id;
        CHECK(known);
        CHECK_INT(exit.code, 0);
    }
}

TEST(a_signal_reaches_the_whole_group)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = NULL;
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const char *argv[] = {"sh", "-c", "sleep 100 & sleep 100", NULL};
    uint32_t id;
    struct jail_exit exit;
    CHECK_OK(make(&(struct jail_plan){0}, &jail, &err));
    CHECK_OK(jail_start(jail, &(struct jail_command){.argv = argv}, (int[]){null, null, null}, &id,
                        NULL, &err));
    CHECK_OK(jail_signal(jail, id, SIGTERM, &err));
    CHECK_OK(jail_wait(jail, 60000, &exit, &err));
    CHECK_INT(exit.signal, SIGTERM);
    CHECK_ERR(jail_signal(jail, id, SIGTERM, &err), ERR_NOT_FOUND);
}

TEST(output_waits_for_its_reader)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = NULL;
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const char *yes[] = {"yes", NULL}, *fine[] = {"true", NULL};
    static struct ran ran;
    int out[2];
    uint32_t id;
    CHECK_OK(make(&(struct jail_plan){0}, &jail, &err));
    CHECK_INT(pipe2(out, O_CLOEXEC), 0);
    CHECK_OK(jail_start(jail, &(struct jail_command){.argv = yes}, (int[]){null, out[1], null}, &id,
                        NULL, &err));
    CHECK_INT(close(out[1]), 0);
    /* It is stuck on a full pipe; others are not. */
    CHECK_OK(run_in(jail, &(struct jail_command){.argv = fine}, &ran, &err));
    CHECK(ran.exit.id != id);
    CHECK_INT(close(out[0]), 0);
    CHECK_OK(jail_wait(jail, 60000, &ran.exit, &err));
    CHECK_INT(ran.exit.id, id);
    CHECK_INT(ran.exit.signal, SIGPIPE);
}

TEST(a_terminal_is_one)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = NULL;
    AUTO_CLOSE int tty = -1;
    const char *argv[] = {"sh", "-c", "test -t 0 && tty && stty size", NULL};
    struct jail_command command = {.argv = argv, .tty = true, .rows = 33, .cols = 99};
    uint32_t id;
    struct jail_exit exit;
    char text[256] = {0};
    CHECK_OK(make(&(struct jail_plan){0}, &jail, &err));
    CHECK_OK(jail_start(jail, &command, NULL, &id, &tty, &err));
    CHECK_OK(jail_wait(jail, 60000, &exit, &err));
    CHECK_INT(exit.code, 0);
    /* The kernel hands lines on behind the writer's back: until it says that nobody is left. */
    size_t len = 0;
    ssize_t got;
    while ((got = read(tty, text + len, sizeof text - 1 - len)) > 0)
        len += (size_t)got;
    CHECK(strstr(text, "/dev/pts/0\r\n33 99") != NULL);
}

/* What a jail is put together with stays behind: no scaffolding, one proc, and masks of our own
 * that nobody can write to. */
TEST(the_tree_shows_nothing_of_its_making)
{
    static const char script[] =
        "ls -A / | grep '^[.]'; grep -c ' /proc ' /proc/self/mountinfo;"
        "grep ' /proc/keys ' /proc/self/mountinfo | cut -d' ' -f6; wc -c </proc/keys";
    const char *argv[] = {"sh", "-c", script, NULL};
    for (int overlay = 0; overlay < 2; overlay++) {
        struct err err = {0};
        AUTO_JAIL struct jail *jail = NULL;
        static struct ran ran;
        CHECK_OK(make(&(struct jail_plan){.overlay = overlay != 0}, &jail, &err));
        CHECK_OK(run_in(jail, &(struct jail_command){.argv = argv}, &ran, &err));
        CHECK_CSTR(ran.text, "1\nro,nosuid,nodev,relatime\n0\n");
    }
}

TEST(the_memory_limit_is_reported)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = NULL;
    struct jail_plan plan = {.limits.memory_bytes = 32 << 20};
    const char *argv[] = {"sh", "-c", "exec tail /dev/zero", NULL};
    static struct ran ran;
    struct jail_stats stats;
    if (warden_host(warden())->no_memory[0] != '\0')
        SKIP(warden_host(warden())->no_memory);
    CHECK_OK(make(&plan, &jail, &err));
    CHECK_OK(run_in(jail, &(struct jail_command){.argv = argv}, &ran, &err));
    CHECK_INT(ran.exit.signal, SIGKILL);
    CHECK_OK(jail_end(jail, &stats, &err));
    CHECK(stats.oom_kills >= 1);
    CHECK(stats.memory_peak > 16 << 20);
}

/* What fills a file in memory maps none of it: only by size the kernel would pick init. */
TEST(init_outlives_memory_that_nobody_maps)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = NULL;
    struct jail_plan plan = {.limits.memory_bytes = 32 << 20, .limits.tmp_bytes = 128 << 20};
    const char *argv[] = {"dd", "if=/dev/zero", "of=/dev/shm/x", "bs=64k", "count=2000", NULL};
    const char *score[] = {"cat", "/proc/self/oom_score_adj", NULL};
    static struct ran ran;
    if (warden_host(warden())->no_memory[0] != '\0')
        SKIP(warden_host(warden())->no_memory);
    CHECK_OK(make(&plan, &jail, &err));
    CHECK_OK(run_in(jail, &(struct jail_command){.argv = score}, &ran, &err));
    CHECK_CSTR(ran.text, "502\n"); /* its own; see marked.h */
    CHECK_OK(run_in(jail, &(struct jail_command){.argv = argv}, &ran, &err));
    CHECK_INT(ran.exit.signal, SIGKILL);
}

TEST(a_limit_the_host_cannot_give_is_refused_by_name)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = NULL;
    struct jail_plan plan = {.limits.memory_bytes = 64 << 20};
    if (warden_host(warden())->no_memory[0] == '\0')
        SKIP("this host can limit memory");
    CHECK_ERR(make(&plan, &jail, &err), ERR_UNSUPPORTED);
    CHECK_MSG("cannot limit memory");
}

TEST(freezing_stops_time_inside)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = NULL;
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const char *argv[] = {"cat", NULL};
    uint32_t id;
    struct jail_exit exit;
    int input[2];
    if (warden_host(warden())->no_freeze[0] != '\0')
        SKIP(warden_host(warden())->no_freeze);
    CHECK_OK(make(&(struct jail_plan){0}, &jail, &err));
    CHECK_INT(pipe2(input, O_CLOEXEC), 0);
    CHECK_OK(jail_start(jail, &(struct jail_command){.argv = argv}, (int[]){input[0], null, null},
                        &id, NULL, &err));
    CHECK_OK(jail_freeze(jail, true, &err));
    /* The end of its input would end it at once. */
    CHECK_INT(close(input[0]), 0);
    CHECK_INT(close(input[1]), 0);
    CHECK_ERR(jail_wait(jail, 300, &exit, &err), ERR_TIMEOUT);
    CHECK_OK(jail_freeze(jail, false, &err));
    CHECK_OK(jail_wait(jail, 60000, &exit, &err));
    CHECK_OK(jail_freeze(jail, true, &err)); /* and one that is frozen can be ended */
}

TEST(a_workspace_is_the_callers_directory)
{
    struct err err = {0};
    static struct ran ran;
    char dir[4096], path[4200];
    struct stat st, file;
    (void)snprintf(dir, sizeof dir, "%s/work", test_tmpdir());
    CHECK_INT(mkdir(dir, 0755), 0);
    test_write(dir, "before", "old\n");
    struct jail_plan plan = {.workspace = dir};
    CHECK_OK(shell(&plan, "cat before; echo new > after; echo more >> before", &ran, &err));
    CHECK_CSTR(ran.text, "old\n");
    (void)snprintf(path, sizeof path, "%s/after", dir);
    CHECK_INT(stat(path, &file), 0);
    CHECK_INT(stat(dir, &st), 0);
    CHECK_INT(file.st_uid, st.st_uid);
}

TEST(read_only_mounts_are)
{
    struct err err = {0};
    static struct ran ran;
    char dir[4096];
    (void)snprintf(dir, sizeof dir, "%s/ro", test_tmpdir());
    CHECK_INT(mkdir(dir, 0755), 0);
    test_write(dir, "a", "text\n");
    struct jail_plan plan = {.mount_count = 1};
    plan.mounts[0] = (struct jail_mount){.src = dir, .dst = "/mnt/data"};
    CHECK_OK(shell(&plan, "cat /mnt/data/a; echo x > /mnt/data/a || echo no", &ran, &err));
    CHECK(strstr(ran.text, "text\n") != NULL);
    CHECK(strstr(ran.text, "Read-only file system") != NULL);
    plan.mounts[0].dst = "/nowhere/data";
    CHECK_ERR(shell(&plan, "true", &ran, &err), ERR_INVALID);
    CHECK_MSG("root is read-only");
    plan.mounts[0].src = "/no/such/source";
    CHECK_ERR(shell(&plan, "true", &ran, &err), ERR_NOT_FOUND);
}

TEST(the_disk_is_full_at_its_limit)
{
    struct err err = {0};
    static struct ran ran;
    struct jail_plan plan = {.limits.disk_bytes = 4 << 20, .limits.disk_inodes = 100};
    CHECK_OK(shell(&plan, "head -c 8000000 /dev/zero > big; stat -c %s big", &ran, &err));
    CHECK(strstr(ran.text, "No space left on device") != NULL);
    CHECK(strstr(ran.text, "4194304") != NULL);
    CHECK_OK(shell(&plan, "i=0; while touch f$i; do i=$((i+1)); done; echo $i", &ran, &err));
    CHECK(strstr(ran.text, "No space left on device") != NULL);
}

TEST(an_overlay_root_takes_writes_and_forgets_them)
{
    struct err err = {0};
    static struct ran ran;
    struct jail_plan plan = {.overlay = true};
    CHECK_OK(shell(&plan,
                   "mkdir /made && echo x > /made/y && cat /made/y; ls /usr/bin/env; touch "
                   "/workspace/w /home/sandbox/h",
                   &ran, &err));
    CHECK_CSTR(ran.text, "x\n/usr/bin/env\n");
    CHECK_OK(shell(&plan, "ls /made 2>/dev/null || echo gone", &ran, &err));
    CHECK_CSTR(ran.text, "gone\n");
}

TEST(layers_lie_above_each_other)
{
    struct err err = {0};
    static struct ran ran;
    char low[4096], high[4096];
    (void)snprintf(low, sizeof low, "%s/low", test_tmpdir());
    (void)snprintf(high, sizeof high, "%s/high", test_tmpdir());
    CHECK_INT(mkdir(low, 0755), 0);
    CHECK_INT(mkdir(high, 0755), 0);
    test_write(low, "both", "low\n");
    test_write(low, "one", "one\n");
    test_write(high, "both", "high\n");
    struct jail_plan plan = {.layers = {low, high}, .layer_count = 2};
    CHECK_OK(shell(&plan, "cat /both /one; echo changed > /both; cat /both", &ran, &err));
    CHECK_CSTR(ran.text, "high\none\nchanged\n");
    CHECK_OK(shell(&plan, "cat /both", &ran, &err));
    CHECK_CSTR(ran.text, "high\n");
}

TEST(stacks_may_be_deep)
{
    struct err err = {0};
    static struct ran ran;
    static char paths[JAIL_LAYERS_MAX][PATH_MAX];
    struct jail_plan plan = {0};
    for (int i = 0; i < JAIL_LAYERS_MAX; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "%s/deep%d", test_tmpdir(), i);
        CHECK_INT(mkdir(paths[i], 0755), 0);
        plan.layers[plan.layer_count++] = paths[i];
    }
    test_write(paths[0], "bottom", "bottom\n");
    test_write(paths[JAIL_LAYERS_MAX - 1], "top", "top\n");
    CHECK_OK(shell(&plan, "cat /bottom /top; echo new > /bottom; cat /bottom", &ran, &err));
    CHECK_CSTR(ran.text, "bottom\ntop\nnew\n");
}

/* Where a connection to one of our sockets wanted to go. */
static void take_dialled(int listener, char *out, size_t size)
{
    struct sockaddr_in6 own = {0};
    socklen_t len = sizeof own;
    AUTO_CLOSE int peer = accept(listener, NULL, NULL);
    CHECK(peer >= 0);
    CHECK_INT(getsockname(peer, (struct sockaddr *)&own, &len), 0);
    char text[8] = {0};
    CHECK_INT(read(peer, text, sizeof text), 3);
    if (own.sin6_family == AF_INET6)
        CHECK(inet_ntop(AF_INET6, &own.sin6_addr, out, (socklen_t)size) != NULL);
    else
        CHECK(inet_ntop(AF_INET, &((struct sockaddr_in *)&own)->sin_addr, out, (socklen_t)size) !=
              NULL);
}

/* Runs it in `jail`, then the same. */
static void dialled(struct jail *jail, const char *script, int listener, char *out, size_t size)
{
    struct err err = {0};
    const char *argv[] = {"bash", "-c", script, NULL};
    static struct ran ran;
    CHECK_OK(run_in(jail, &(struct jail_command){.argv = argv}, &ran, &err));
    CHECK_CSTR(ran.text, "");
    take_dialled(listener, out, size);
}

TEST(a_gateway_listens_inside)
{
    struct err err = {0};
    char to[64];
    AUTO_JAIL struct jail *jail = NULL;
    struct jail_plan plan = {.net = JAIL_NET_GATEWAY, .gateway_port = 3128};
    CHECK_OK(make(&plan, &jail, &err));
    AUTO_CLOSE int proxy = jail_take_socket(jail, JAIL_SOCKET_PROXY);
    AUTO_CLOSE int https = jail_take_socket(jail, JAIL_SOCKET_HTTPS);
    CHECK_INT(jail_take_socket(jail, JAIL_SOCKET_HTTPS), -1);
    dialled(jail, "echo hi > /dev/tcp/127.0.0.1/3128", proxy, to, sizeof to);
    CHECK_CSTR(to, "127.0.0.1");
    dialled(jail, "echo hi > /dev/tcp/192.0.2.7/443", https, to, sizeof to);
    CHECK_CSTR(to, "::ffff:192.0.2.7");
    dialled(jail, "echo hi > /dev/tcp/2001:db8::7/443", https, to, sizeof to);
    CHECK_CSTR(to, "2001:db8::7");
}

TEST(a_gateway_gets_more_ports_and_the_rest_is_refused)
{
    struct err err = {0};
    char to[64];
    AUTO_JAIL struct jail *jail = NULL;
    struct jail_plan plan = {.net = JAIL_NET_GATEWAY, .gateway_port = 3128};
    CHECK_OK(make(&plan, &jail, &err));
    const char *argv[] = {"bash", "-c", "echo hi > /dev/tcp/192.0.2.7/5432", NULL};
    static struct ran ran;
    CHECK_OK(run_in(jail, &(struct jail_command){.argv = argv}, &ran, &err));
    CHECK(strstr(ran.text, "Connection refused") != NULL);
    AUTO_CLOSE int more = jail_listen(jail, 5432, &err);
    CHECK(more >= 0);
    dialled(jail, argv[2], more, to, sizeof to);
    CHECK_CSTR(to, "::ffff:192.0.2.7");
    CHECK_ERR(jail_listen(jail, 5432, &err), ERR_BUSY);
    CHECK_ERR(jail_listen(jail, 0, &err), ERR_INVALID);
    AUTO_JAIL struct jail *quiet = NULL;
    CHECK_OK(make(&(struct jail_plan){0}, &quiet, &err));
    CHECK_ERR(jail_listen(quiet, 5432, &err), ERR_INVALID);
    CHECK_INT(jail_take_socket(quiet, JAIL_SOCKET_PROXY), -1);
}

TEST(a_gateway_can_come_later)
{
    struct err err = {0};
    char to[64];
    int sockets[JAIL_SOCKETS];
    AUTO_JAIL struct jail *jail = NULL;
    CHECK_OK(make(&(struct jail_plan){0}, &jail, &err));
    const char *argv[] = {"bash", "-c", "echo hi > /dev/tcp/192.0.2.7/443", NULL};
    static struct ran ran;
    CHECK_OK(run_in(jail, &(struct jail_command){.argv = argv}, &ran, &err));
    CHECK(strstr(ran.text, "unreachable") != NULL);
    CHECK_ERR(jail_gateway(jail, 0, sockets, &err), ERR_INVALID);
    CHECK_OK(jail_gateway(jail, 3128, sockets, &err));
    dialled(jail, argv[2], sockets[JAIL_SOCKET_HTTPS], to, sizeof to);
    CHECK_CSTR(to, "::ffff:192.0.2.7");
    dialled(jail, "echo hi > /dev/tcp/127.0.0.1/3128", sockets[JAIL_SOCKET_PROXY], to, sizeof to);
    CHECK_CSTR(to, "127.0.0.1");
    AUTO_CLOSE int more = jail_listen(jail, 5432, &err);
    CHECK(more >= 0);
    CHECK_ERR(jail_gateway(jail, 3128, sockets, &err), ERR_BUSY);
    for (int i = 0; i < JAIL_SOCKETS; i++)
        fd_close(&sockets[i]);
    CHECK_OK(jail_gateway(jail, 3128, sockets, &err)); /* the process that had them has died */
    dialled(jail, argv[2], sockets[JAIL_SOCKET_HTTPS], to, sizeof to);
    for (int i = 0; i < JAIL_SOCKETS; i++)
        fd_close(&sockets[i]);
}

/* What knocks has no gateway yet: its connection waits, and the gateway that comes takes it over.
 */
TEST(a_program_that_asks_a_proxy_is_heard_of)
{
    struct err err = {0};
    char to[64];
    int sockets[JAIL_SOCKETS];
    struct warden_event event = {0};
    AUTO_JAIL struct jail *jail = NULL, *quiet = NULL;
    static struct ran ran;
    CHECK_OK(make(&(struct jail_plan){0}, &quiet, &err));
    CHECK_OK(make(&(struct jail_plan){0}, &jail, &err));
    const char *argv[] = {"bash", "-c", "for i in 1 2; do echo hi > /dev/tcp/127.0.0.1/3128; done",
                          NULL};
    CHECK_OK(run_in(jail, &(struct jail_command){.argv = argv}, &ran, &err));
    CHECK_CSTR(ran.text, "");
    struct pollfd wait = {.fd = warden_fd(warden()), .events = POLLIN};
    while (!warden_next(warden(), &event))
        CHECK(poll(&wait, 1, 60000) == 1);
    CHECK_INT(event.type, WARDEN_EVENT_WANTS_GATEWAY);
    CHECK_INT(event.number, jail_number(jail));
    CHECK(jail_number(quiet) != jail_number(jail));
    CHECK_OK(jail_gateway(jail, JAIL_PROXY_PORT, sockets, &err));
    take_dialled(sockets[JAIL_SOCKET_PROXY], to, sizeof to);
    take_dialled(sockets[JAIL_SOCKET_PROXY], to, sizeof to);
    CHECK_CSTR(to, "127.0.0.1");
    dialled(jail, "echo hi > /dev/tcp/127.0.0.1/3128", sockets[JAIL_SOCKET_PROXY], to, sizeof to);
    CHECK(!warden_next(warden(), &event)); /* told once */
    for (int i = 0; i < JAIL_SOCKETS; i++)
        fd_close(&sockets[i]);
}

TEST(the_pool_serves_and_refills)
{
    struct err err = {0};
    AUTO_WARDEN struct warden_link *own = NULL;
    const char *argv[] = {"sh", "-c", "ls -A /workspace /tmp; echo x > /workspace/x", NULL};
    static struct ran ran;
    CHECK_OK(warden_start(&own, &err));
    struct jail_plan plan = possible((struct jail_plan){0});
    CHECK_OK(warden_pool(own, &plan, 3, 0, &err));
    for (int i = 0; i < 12; i++) {
        AUTO_JAIL struct jail *jail = NULL;
        CHECK_OK(jail_make(own, &plan, &jail, &err));
        CHECK_OK(run_in(jail, &(struct jail_command){.argv = argv}, &ran, &err));
        CHECK_CSTR(ran.text, "/tmp:\n\n/workspace:\n"); /* each one new */
    }
    struct warden_counts counts = {0};
    CHECK_OK(warden_count(own, &counts, &err));
    CHECK_INT(counts.wanted, 3);
    CHECK(counts.ready + counts.building <= 3);
    CHECK_INT(counts.served + counts.built, 12);
    CHECK_OK(warden_pool(own, &plan, 0, 0, &err));
    struct jail_plan bad = {.limits.pids = 99999};
    CHECK_ERR(warden_pool(own, &bad, 3, 0, &err), ERR_INVALID);
}

/* Children of a process: all, or only its zombies. */
static int children_of(pid_t parent, bool dead_only)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    int count = 0;
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        char path[300], text[512] = {0}, state = 0;
        int of = -1;
        (void)snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, text, sizeof text - 1) <= 0 || strrchr(text, ')') == NULL)
            continue;
        (void)!sscanf(strrchr(text, ')') + 1, " %c %d", &state, &of);
        count += of == parent && (!dead_only || state == 'Z');
    }
    (void)closedir(dir);
    return count;
}

/* The name of the corner in which a warden makes its groups; "" when the host gives none. */
static void corner_of(pid_t pid, char out[64])
{
    out[0] = '\0';
    for (int fd = 0; fd < 64; fd++) {
        char path[64], link[1024];
        (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
        ssize_t len = readlink(path, link, sizeof link - 1);
        link[MAX(len, (ssize_t)0)] = '\0';
        const char *name = strstr(link, "/sandglass-");
        if (name != NULL)
            (void)snprintf(out, 64, "%.60s", name + 1);
    }
}

static const char *wanted_group;
static int groups_found;

static int count_group(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st, (void)where;
    groups_found += kind == FTW_D && strstr(path, wanted_group) != NULL;
    return 0;
}

static int groups_of(const char *corner)
{
    wanted_group = corner;
    groups_found = 0;
    if (corner[0] != '\0')
        (void)nftw("/sys/fs/cgroup", count_group, 16, FTW_PHYS);
    return groups_found;
}

/* Of tests, measurements and servers that run beside this one; they have names and mounts of their
 * own. Jails of this test have neither disks nor volumes. */
static bool is_of_another(struct str text)
{
    static const char *const tests[] = {"sandglass-test-",  "sandglass-it-", "sandglass-bench-",
                                        "sandglass-fresh-", "/disks/",       "/volumes/"};
    for (size_t i = 0; i < countof(tests); i++)
        if (str_find(text, str_of(tests[i])) < text.len)
            return true;
    return false;
}

static int mounts_of(pid_t pid)
{
    char path[64];
    AUTO_BUF struct buf text = {0};
    struct err err = {0};
    int lines = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/mountinfo", (int)pid);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_OK(buf_read_all(&text, fd, &err));
    struct str rest = buf_str(&text), line;
    while (str_split(&rest, '\n', &line))
        lines += !is_of_another(line);
    return lines;
}

/* The last groups go a moment after their processes. */
static void wait_for_groups(const char *corner, int count)
{
    for (int i = 0; i < 6000 && groups_of(corner) > count; i++)
        (void)usleep(10000);
    CHECK_INT(groups_of(corner), count);
}

static void one_cycle(struct warden_link *own, const struct jail_plan *plan, int null)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = NULL;
    const char *argv[] = {"/bin/true", NULL};
    uint32_t id;
    struct jail_exit exit;
    CHECK_OK(jail_make(own, plan, &jail, &err));
    CHECK_OK(jail_start(jail, &(struct jail_command){.argv = argv}, (int[]){null, null, null}, &id,
                        NULL, &err));
    CHECK_OK(jail_wait(jail, 60000, &exit, &err));
    CHECK_INT(exit.code, 0);
}

/* Names below the places where a program may leave things. */
static int leftovers(void)
{
    static const char *const places[] = {"/tmp", "/run", "/dev/shm", "/var/tmp"};
    int found = 0;
    for (size_t i = 0; i < countof(places); i++) {
        DIR *dir = opendir(places[i]);
        for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
            found +=
                strstr(entry->d_name, "sandglass") != NULL && !is_of_another(str_of(entry->d_name));
        if (dir != NULL)
            (void)closedir(dir);
    }
    return found;
}

static long resident_kib(pid_t pid)
{
    char path[64], line[128];
    long kib = -1;
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    if (file != NULL)
        (void)fclose(file);
    return kib;
}

/* What a warden has when nothing of it has changed for a second: what has ended is gone. */
struct holdings {
    int groups, mounts, helpers;
};

static struct holdings settled(pid_t pid, const char *corner)
{
    struct holdings had = {-1, -1, -1};
    for (int i = 0, same = 0; i < 6000 && same < 100; i++) {
        struct holdings now = {groups_of(corner), mounts_of(pid), children_of(pid, false)};
        bool is_same = memcmp(&now, &had, sizeof now) == 0;
        same = is_same ? same + 1 : 0;
        had = now;
        (void)usleep(10000);
    }
    return had;
}

/* A thousand; ten thousand with SG_SOAK=1 (make soak). */
TEST(many_jails_leave_nothing)
{
    struct err err = {0};
    AUTO_WARDEN struct warden_link *own = NULL;
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    char corner[64];
    int cycles = test_sized(1000, 10000);
    CHECK_OK(warden_start(&own, &err));
    struct jail_plan plan = possible((struct jail_plan){0});
    pid_t pid = warden_pid(own);
    one_cycle(own, &plan, null);
    corner_of(pid, corner);
    struct holdings first = settled(pid, corner);
    int fds = test_open_fds(), host_mounts = mounts_of(getpid()), files = leftovers();
    CHECK_OK(warden_pool(own, &plan, 4, 0, &err));
    for (int i = 0; i < cycles / 10; i++)
        one_cycle(own, &plan, null);
    long warm = resident_kib(pid);
    for (int i = cycles / 10; i < cycles; i++)
        one_cycle(own, &plan, null);
    CHECK_OK(warden_pool(own, &plan, 0, 0, &err));
    wait_for_groups(corner, first.groups);
    /* Groups serve again, so their number says nothing about who still has to die. */
    for (int i = 0; i < 6000 && children_of(pid, false) > first.helpers; i++)
        (void)usleep(10000);
    CHECK_INT(children_of(pid, false), first.helpers);
    CHECK_INT(test_open_fds(), fds);
    CHECK_INT(mounts_of(pid), first.mounts);
    CHECK_INT(mounts_of(getpid()), host_mounts);
    CHECK_INT(leftovers(), files);
    CHECK(warm > 0 && resident_kib(pid) <= warm + 256);
    own = warden_free(own);
    CHECK_INT(children_of(getpid(), true), 0);
    wait_for_groups(corner, 0);
}
