/* Live forks: an interpreter whose memory is written to a file, and others that go on from it. */

#include "stage.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "waiting.h"

enum { LIMIT_MIB = 512 };

/* What the engine does with an interpreter's memory. */
static int copy_of(struct stage *stage)
{
    struct err err = {0};
    int fd = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0);
    CHECK_OK(interpreter_copy(stage->interpreter, fd, LIMIT_MIB, &err));
    until(stage, INTERPRETER_COPIED);
    CHECK(stage->ok);
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
    return fd;
}

/* An interpreter in a jail of its own that begins to go on from the file. */
static void begin_with(struct stage *stage, const struct stage *from,
                       const struct jail_command *command)
{
    struct err err = {0};
    int inner[3];
    stage->warden = from->warden;
    stage->borrows_warden = true;
    stage_jail(stage);
    CHECK_OK(interpreter_open(&stage->interpreter, inner, &err));
    CHECK_OK(jail_fork(stage->jail, command, inner, &stage->id, &err));
    for (int i = 0; i < 3; i++)
        fd_close(&inner[i]);
}

static void begin(struct stage *stage, const struct stage *from, int memory_fd)
{
    struct err err = {0};
    struct jail_stats stats;
    CHECK_OK(jail_stat(from->jail, &stats, &err));
    begin_with(stage, from, &(struct jail_command){.memory_fd = memory_fd, .zygote = stats.zygote});
}

static void check_ready(struct stage *stage)
{
    until(stage, INTERPRETER_READY);
    CHECK_CSTR(buf_cstr(&stage->err_out), "");
    CHECK(!stage->gone);
}

static void go_on(struct stage *stage, const struct stage *from, int memory_fd)
{
    begin(stage, from, memory_fd);
    check_ready(stage);
}

static void go_on_with(struct stage *stage, const struct stage *from,
                       const struct jail_command *command)
{
    begin_with(stage, from, command);
    check_ready(stage);
}

TEST(variables_are_there)
{
    AUTO_STAGE struct stage stage = {0}, other = {0};
    stage_zygote(&stage, "json");
    stage_jail(&stage);
    stage_fork(&stage);
    run(&stage, "a = {'b': [1, 2]}\ndef f(n): return n + a['b'][1]\n"
                "def count():\n    n = 0\n    while True:\n        yield n\n        n += 1\n"
                "g = count(); next(g); next(g)");
    CHECK_CSTR(buf_cstr(&stage.error), "");
    AUTO_CLOSE int memory = copy_of(&stage);
    go_on(&other, &stage, memory);
    run(&other, "print(a, f(40), next(g))");
    CHECK_CSTR(buf_cstr(&other.error), "");
    CHECK_CSTR(buf_cstr(&other.out), "{'b': [1, 2]} 42 2\n");
    run(&stage, "print(a, f(40), next(g))");
    CHECK_CSTR(buf_cstr(&stage.out), "{'b': [1, 2]} 42 2\n");
}

static void stage_ready(struct stage *stage, const char *names)
{
    stage_zygote(stage, names);
    stage_jail(stage);
    stage_fork(stage);
}

/* Runs it there, and nothing may go wrong. */
static const char *said(struct stage *stage, const char *code)
{
    run(stage, code);
    CHECK_CSTR(buf_cstr(&stage->error), "");
    return buf_cstr(&stage->out);
}

TEST(arrays_frames_and_open_figures_are_there)
{
    AUTO_STAGE struct stage stage = {0}, other = {0}, third = {0};
    stage_ready(&stage, "json,numpy,pandas,matplotlib");
    (void)said(&stage,
               "import numpy as np, pandas as pd, matplotlib.pyplot as plt\n"
               "big = np.arange(13_000_000, dtype='f8')\n"
               "frame = pd.DataFrame({'a': range(1000), 'b': [str(n) for n in range(1000)]})\n"
               "figure, axes = plt.subplots()\nline, = axes.plot([1, 2, 3])\n"
               "plt.close = lambda *a: None\n");
    AUTO_CLOSE int memory = copy_of(&stage);
    go_on(&other, &stage, memory);
    CHECK_CSTR(said(&other, "print(big.sum(), frame.a.sum(), frame.b[999], len(line.get_xdata()))"),
               "84499993500000.0 499500 999 3\n");
    (void)said(&other, "axes.plot([3, 2, 1]); big[:] = 1; display(figure)");
    CHECK(strstr(buf_cstr(&other.shown), "image/png") != NULL);
    CHECK_CSTR(said(&other, "print(len(axes.lines), big.sum(), np.dot(big[:100], big[:100]))"),
               "2 13000000.0 100.0\n");
    CHECK_CSTR(said(&stage, "print(len(axes.lines), big.sum())"), "1 84499993500000.0\n");
    go_on(&third, &stage, memory);
    CHECK_CSTR(said(&third, "print(len(axes.lines), big.sum())"), "1 84499993500000.0\n");
}

TEST(what_was_imported_since_is_there)
{
    AUTO_STAGE struct stage stage = {0}, other = {0};
    stage_ready(&stage, "json");
    (void)said(
        &stage,
        "import sqlite3, decimal, ctypes, ssl, threading, os, multiprocessing, lzma\n"
        "from decimal import Decimal\nd = Decimal('1.10')\n"
        "db = sqlite3.connect(':memory:')\n"
        "_ = db.execute('create table t (n)'); _ = db.execute('insert into t values (7)')\n"
        "class P:\n    def __init__(self, n): self.n = n\n    def twice(self): return 2 * self.n\n"
        "p = P(21)\nf = open('/workspace/log', 'w+'); _ = f.write('abc'); f.flush()\n"
        "import time, socket\ns = socket.socket(socket.AF_UNIX)\n"
        "t = threading.Thread(target=time.sleep, args=(1000,), daemon=True); t.start()\n"
        "try: 1 / 0\nexcept ZeroDivisionError as e: error = e\n"
        "async def g(): return 5\nx = await g()\n"
        "lock = threading.RLock(); _ = lock.acquire()\n"
        "big = 'x' * 50_000_000\nos.chdir('/tmp')\n"
        "import signal\nsignal.signal(signal.SIGUSR1, lambda *a: print('heard'))");
    AUTO_CLOSE int memory = copy_of(&stage);
    go_on(&other, &stage, memory);
    CHECK_CSTR(
        said(&other,
             "print(d * 2, db.execute('select n from t').fetchone(), p.twice(), t.is_alive())"),
        "2.20 (7,) 42 False\n");
    CHECK_CSTR(
        said(&other,
             "print(repr(error), await g(), len(big), os.getcwd(), threading.active_count())"),
        "ZeroDivisionError('division by zero') 5 50000000 /tmp 1\n");
    CHECK_CSTR(said(&other, "lock.release(); os.kill(os.getpid(), signal.SIGUSR1)"), "heard\n");
    CHECK_CSTR(said(&other, "print(threading.get_native_id() == os.getpid())\n"
                            "try: s.send(b'x')\nexcept OSError as e: print(e)"),
               "True\n[Errno 9] Bad file descriptor\n");
    CHECK_CSTR(
        said(&other,
             "r = []\nt = threading.Thread(target=lambda: r.append(sum(range(1000)))); t.start(); "
             "t.join()\n"
             "print(r, __import__('subprocess').run(['echo', 'hi'], capture_output=True).stdout)"),
        "[499500] b'hi\\n'\n");
    CHECK_CSTR(said(&other, "del big\nbig = [bytes(1000) for n in range(100000)]\nprint(len(big))"),
               "100000\n");
}

/* Descriptors, credentials, limits and the like; what differs by nature is left out. */
static const char posture[] =
    "import os, re, resource\n"
    "for fd in sorted(map(int, os.listdir('/proc/self/fd'))):\n"
    "    try: print('fd', fd, re.sub(r'\\d+', 'N', os.readlink(f'/proc/self/fd/{fd}')))\n"
    "    except OSError: pass\n"
    "for line in open('/proc/self/status'):\n"
    "    if re.match('Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp:|Threads|Sig|Shd', line): "
    "print(line.strip())\n"
    "for name in 'NOFILE CORE MEMLOCK MSGQUEUE SIGPENDING STACK RTPRIO NICE NPROC'.split():\n"
    "    print('limit', name, *resource.getrlimit(getattr(resource, 'RLIMIT_' + name)))\n"
    "print('env', *sorted(os.environ), 'cwd', os.getcwd(), 'ppid', os.getppid())\n"
    "print('leader', os.getsid(0) == os.getpid(), 'umask', oct(os.umask(0o22)))\n";

TEST(iso_its_posture_is_that_of_any_forked_kernel)
{
    AUTO_STAGE struct stage stage = {0}, other = {0}, third = {0};
    AUTO_BUF struct buf before = {0};
    stage_ready(&stage, "json");
    buf_put(&before, str_of(said(&stage, posture)));
    AUTO_CLOSE int memory = copy_of(&stage);
    go_on(&other, &stage, memory);
    CHECK_CSTR(said(&other, posture), buf_cstr(&before));
    /* And that of a fork of a fork, whose memory is neither the zygote's nor its own file's. */
    (void)said(&other, "big = bytearray(b'x') * 9_000_000");
    AUTO_CLOSE int again = copy_of(&other);
    go_on(&third, &stage, again);
    CHECK_CSTR(said(&third, posture), buf_cstr(&before));
    CHECK_CSTR(said(&third, "print(len(big), big.count(b'x'))"), "9000000 9000000\n");
}

TEST(a_long_history_is_there)
{
    AUTO_STAGE struct stage stage = {0}, other = {0};
    stage_ready(&stage, "json");
    for (int i = 0; i < 1000; i++)
        run(&stage, "seen = globals().get('seen', []); seen.append([len(seen)])");
    AUTO_CLOSE int memory = copy_of(&stage);
    go_on(&other, &stage, memory);
    CHECK_CSTR(said(&other, "print(len(seen), sum(n for n, in seen))"), "1000 499500\n");
    run(&other, "def f(): return seen[5000]\nf()");
    CHECK(strstr(buf_cstr(&other.error), "IndexError|list index out of range") != NULL);
}

/* --- Zygotes that are replaced --- */

enum { OLD_MAX = 8, FORKS_MAX = 1000 }; /* of warden_zygote.c */

/* An interpreter in a jail of its own, of the zygote that serves now. */
static void join(struct stage *stage, const struct stage *host)
{
    stage->warden = host->warden;
    stage->borrows_warden = true;
    stage_jail(stage);
    stage_fork(stage);
}

static void replace_zygote(struct stage *stage)
{
    struct err err = {0};
    char missing[96];
    AUTO_CLOSE int program = stage_program();
    CHECK_OK(warden_zygote(stage->warden, program, "json", missing, &err));
}

static int count_zygotes(const struct stage *stage)
{
    pid_t found[2 * OLD_MAX];
    return (int)stage_children(warden_pid(stage->warden), "(zygote", found, countof(found));
}

/* A jail's end is heard behind the answers to others. */
static void await_zygotes(const struct stage *stage, int wanted)
{
    for (int tries = 0; tries < 3000 && count_zygotes(stage) != wanted; tries++)
        (void)usleep(20000);
    CHECK_INT(count_zygotes(stage), wanted);
}

static const char hash_seed[] = "print(hash('of the zygote'))";

static void remember_seed(struct stage *stage, struct buf *out)
{
    buf_clear(out);
    buf_put(out, str_of(said(stage, hash_seed)));
}

TEST(a_kernel_goes_on_after_its_zygote_was_replaced)
{
    AUTO_STAGE struct stage stage = {0};
    AUTO_BUF struct buf first = {0};
    stage_ready(&stage, "json");
    remember_seed(&stage, &first);
    (void)said(&stage, "x = [7]");
    replace_zygote(&stage);
    await_zygotes(&stage, 2);
    {
        AUTO_STAGE struct stage newer = {0}, other = {0}, third = {0};
        join(&newer, &stage);
        CHECK(strcmp(said(&newer, hash_seed), buf_cstr(&first)) != 0);
        AUTO_CLOSE int memory = copy_of(&stage);
        go_on(&other, &stage, memory);
        CHECK_CSTR(said(&other, "x.append(8); print(x)"), "[7, 8]\n");
        AUTO_CLOSE int again = copy_of(&other);
        go_on(&third, &other, again);
        CHECK_CSTR(said(&third, "print(x)"), "[7, 8]\n");
        /* Another interpreter of that jail is of the same zygote, and may be copied as well. */
        stage.interpreter = interpreter_free(stage.interpreter);
        stage_fork(&stage);
        CHECK_CSTR(said(&stage, hash_seed), buf_cstr(&first));
    }
    /* It stays for the jails that have interpreters of it, and for no others. */
    await_zygotes(&stage, 2);
    stage.interpreter = interpreter_free(stage.interpreter);
    stage.jail = jail_free(stage.jail);
    stage_jail(&stage);
    stage_fork(&stage);
    CHECK(strcmp(said(&stage, hash_seed), buf_cstr(&first)) != 0);
    await_zygotes(&stage, 1);
}

/* As the engine keeps what a sleeping session held: all jails with interpreters of it are gone. */
TEST(a_lease_keeps_a_zygote_that_was_replaced)
{
    AUTO_STAGE struct stage stage = {0}, newer = {0}, other = {0};
    struct err err = {0};
    struct jail_stats stats;
    stage_ready(&stage, "json");
    (void)said(&stage, "x = [7]");
    AUTO_CLOSE int memory = copy_of(&stage);
    CHECK_OK(jail_stat(stage.jail, &stats, &err));
    CHECK_OK(warden_lease_zygote(stage.warden, stats.zygote, true, &err));
    CHECK_OK(warden_lease_zygote(stage.warden, stats.zygote, true, &err));
    replace_zygote(&stage);
    stage.interpreter = interpreter_free(stage.interpreter);
    stage.jail = jail_free(stage.jail);
    join(&newer, &stage);
    CHECK_CSTR(said(&newer, "print('x' in globals())"), "False\n");
    CHECK_OK(warden_lease_zygote(stage.warden, stats.zygote, false, &err));
    CHECK_CSTR(said(&newer, "print(1)"), "1\n");
    CHECK_INT(count_zygotes(&stage), 2);
    go_on_with(&other, &stage, &(struct jail_command){.memory_fd = memory, .zygote = stats.zygote});
    CHECK_CSTR(said(&other, "print(x)"), "[7]\n");
    stage_close(&other);
    other = (struct stage){0};
    await_zygotes(&stage, 2);
    CHECK_OK(warden_lease_zygote(stage.warden, stats.zygote, false, &err));
    await_zygotes(&stage, 1);
    /* Of a zygote that is not there, and one too many: nothing happens. */
    CHECK_OK(warden_lease_zygote(stage.warden, stats.zygote, false, &err));
    CHECK_OK(warden_lease_zygote(stage.warden, 77, true, &err));
    CHECK_CSTR(said(&newer, "print(2)"), "2\n");
    CHECK_INT(count_zygotes(&stage), 1);
}

TEST(memory_that_is_copied_is_charged_to_the_new_jail)
{
    AUTO_STAGE struct stage stage = {0}, mapped = {0}, copied = {0};
    struct err err = {0};
    struct jail_stats stats, with_map, with_copy;
    stage_ready(&stage, "json");
    (void)said(&stage, "big = bytearray(b'x') * 100_000_000");
    AUTO_CLOSE int memory = copy_of(&stage);
    CHECK_OK(jail_stat(stage.jail, &stats, &err));
    if (stats.memory_now < 0)
        SKIP("the host does not count memory");
    go_on(&mapped, &stage, memory);
    go_on_with(
        &copied, &stage,
        &(struct jail_command){.memory_fd = memory, .zygote = stats.zygote, .copies_memory = true});
    CHECK_OK(jail_stat(mapped.jail, &with_map, &err));
    CHECK_OK(jail_stat(copied.jail, &with_copy, &err));
    CHECK(with_map.memory_now < 50 << 20);
    CHECK(with_copy.memory_now > 90 << 20);
    CHECK_CSTR(said(&copied, "big[5] = 1; print(len(big), big.count(b'x'))"),
               "100000000 99999999\n");
    CHECK_CSTR(said(&mapped, "print(big.count(b'x'))"), "100000000\n");
}

TEST(the_oldest_zygote_leaves_when_there_are_too_many)
{
    struct stage each[OLD_MAX + 1] = {0};
    AUTO_STAGE struct stage stage = {0}, newer = {0}, other = {0};
    stage_ready(&stage, "json");
    (void)said(&stage, "x = 1");
    for (int i = 0; i <= OLD_MAX; i++) {
        replace_zygote(&stage);
        join(&each[i], &stage);
        (void)said(&each[i], "x = 1");
    }
    await_zygotes(&stage, OLD_MAX + 1);
    AUTO_CLOSE int kept = copy_of(&each[0]);
    go_on(&newer, &each[0], kept);
    CHECK_CSTR(said(&newer, "print(x)"), "1\n");
    AUTO_CLOSE int lost = copy_of(&stage);
    begin(&other, &stage, lost);
    until(&other, INTERPRETER_READY);
    CHECK(strstr(buf_cstr(&other.err_out), "no longer exists") != NULL);
    CHECK_CSTR(said(&other, "print('x' in globals())"), "False\n");
    for (int i = 0; i <= OLD_MAX; i++)
        stage_close(&each[i]);
}

TEST(a_zygote_is_replaced_after_many_forks)
{
    AUTO_STAGE struct stage stage = {0}, many = {0};
    AUTO_BUF struct buf first = {0};
    stage_ready(&stage, "json");
    remember_seed(&stage, &first);
    (void)said(&stage, "x = [7]");
    join(&many, &stage);
    for (int i = 0; i < FORKS_MAX; i++) {
        many.interpreter = interpreter_free(many.interpreter);
        stage_fork(&many);
    }
    /* The next one takes a moment to import. */
    for (bool is_same = true; is_same;) {
        AUTO_STAGE struct stage newer = {0};
        join(&newer, &stage);
        is_same = strcmp(said(&newer, hash_seed), buf_cstr(&first)) == 0;
    }
    AUTO_STAGE struct stage other = {0};
    AUTO_CLOSE int memory = copy_of(&stage);
    go_on(&other, &stage, memory);
    CHECK_CSTR(said(&other, "print(x)"), "[7]\n");
}

/* Until it says anything or ends; it may as well do neither. */
static void await_word(struct stage *stage)
{
    int fds[3];
    interpreter_fds(stage->interpreter, fds);
    struct pollfd line = {.fd = fds[0], .events = POLLIN};
    (void)poll(&line, 1, 2000);
}

/* What a tenant writes into the file affects only its fork. */
TEST(iso_a_damaged_file_ends_its_own_fork_or_starts_fresh)
{
    AUTO_STAGE struct stage stage = {0};
    struct stat st;
    stage_ready(&stage, "json");
    run(&stage, "x = 1");
    AUTO_CLOSE int memory = copy_of(&stage);
    CHECK_INT(fstat(memory, &st), 0);
    for (unsigned seed = 0; seed < 12; seed++) {
        AUTO_STAGE struct stage other = {0};
        AUTO_CLOSE int spoiled = memfd_create("memory", MFD_CLOEXEC);
        char page[4096];
        for (off_t at = 0; at < st.st_size; at += (off_t)sizeof page) {
            ssize_t got = pread(memory, page, sizeof page, at);
            CHECK(got > 0);
            /* Once in the pages, once in the tables behind them. */
            if ((seed % 2 == 0 && at / (off_t)sizeof page % 7 == seed % 7 && at > 16384) ||
                (seed % 2 == 1 && st.st_size - at < 40000))
                for (size_t i = seed; i < (size_t)got; i += 64 + seed)
                    page[i] = (char)(page[i] ^ (0x55 + (int)seed));
            CHECK_INT(pwrite(spoiled, page, (size_t)got, at), got);
        }
        begin(&other, &stage, spoiled);
        await_word(&other);
    }
    CHECK_CSTR(said(&stage, "print(x)"), "1\n");
    AUTO_STAGE struct stage last = {0};
    go_on(&last, &stage, memory);
    CHECK_CSTR(said(&last, "print(x)"), "1\n");
}
