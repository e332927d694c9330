/* Interpreters that are forked from a zygote: they are confined like any command,
 * nothing of another tenant is in them, and whatever dies, the next one works. */

#include "stage.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "waiting.h"

enum { PREFORKED = 8 }; /* of zygote.c */

/* Those that wait to be interpreters, the oldest first. */
static void preforks_of(pid_t zygote, pid_t ret_pids[PREFORKED])
{
    size_t count = 0;
    for (int tries = 0; tries < 6000 && count < PREFORKED; tries++) {
        (void)usleep(10000);
        count = stage_children(zygote, "(prefork", ret_pids, PREFORKED);
    }
    CHECK_INT(count, PREFORKED);
}

static void stage_ready(struct stage *stage)
{
    stage_zygote(stage, "json");
    stage_jail(stage);
    stage_fork(stage);
}

/* --- the fence --- */

/* What iso01_posture.c prints of a command, asked of the interpreter itself. */
static const char posture[] =
    "import os, re, resource\n"
    "for fd in sorted(map(int, os.listdir('/proc/self/fd'))):\n"
    "    try: print('fd', fd, re.sub(r'\\d+', 'N', os.readlink(f'/proc/self/fd/{fd}')))\n"
    "    except OSError: pass\n"
    "for line in open('/proc/self/status'):\n"
    "    if re.match('Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp:|Threads', line): print(line.strip())\n"
    "for name in 'NOFILE CORE MEMLOCK MSGQUEUE SIGPENDING STACK RTPRIO NICE NPROC'.split():\n"
    "    print('limit', name, *resource.getrlimit(getattr(resource, 'RLIMIT_' + name)))\n"
    "print('env', *sorted(os.environ), os.environ.get('A'))\n"
    "print('cwd', os.getcwd(), 'ppid', os.getppid(), 'leader', os.getsid(0) == os.getpid())\n"
    "print('exe', os.readlink('/proc/self/exe'), 'umask', oct(os.umask(0o22)))\n";

TEST(iso01_the_posture_of_a_forked_kernel_equals_the_golden_file)
{
    struct err err = {0};
    AUTO_STAGE struct stage stage = {0};
    AUTO_BUF struct buf golden = {0};
    stage_ready(&stage);
    run(&stage, posture);
    const char *copy = getenv("SG_GOLDEN_COPY"), *dir = copy != NULL ? copy : SG_GOLDEN;
    char path[4096];
    if (getenv("SG_GOLDEN_WRITE") != NULL)
        test_write(dir, "posture-kernel.txt", buf_cstr(&stage.out));
    (void)snprintf(path, sizeof path, "%s/posture-kernel.txt", dir);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK_OK(buf_read_all(&golden, fd, &err));
    CHECK_CSTR(buf_cstr(&stage.out), buf_cstr(&golden));
}

TEST(iso_a_forked_kernel_is_fenced_in_like_a_command)
{
    AUTO_STAGE struct stage stage = {0};
    stage_ready(&stage);
    run(&stage, "import ctypes, errno, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
                "def call(name, *args):\n"
                "    result = getattr(libc, name)(*args)\n"
                "    return errno.errorcode[ctypes.get_errno()] if result < 0 else 'done'\n"
                "print(call('unshare', 0x10000000), call('setns', 0, 0), call('chroot', b'/tmp'),\n"
                "      call('mount', b'none', b'/tmp', b'tmpfs', 0, 0), call('setuid', 0),\n"
                "      call('prctl', 24, 21, 0, 0, 0))");
    CHECK_CSTR(buf_cstr(&stage.error), "");
    CHECK(strstr(buf_cstr(&stage.out), "done") == NULL);
    run(&stage,
        "print(hex(libc.prctl(27, 0, 0, 0, 0)))"); /* securebits: all but keep_caps, locked */
    CHECK_CSTR(buf_cstr(&stage.out), "0xef\n");
    /* Only what a command may write to, and nothing of the zygote's tree. */
    run(&stage, "for path in ('/etc/new', '/usr/new', '/new', '/dev/new', '/proc/new'):\n"
                "    try: open(path, 'w'); print('wrote', path)\n"
                "    except OSError: pass\n"
                "for path in ('/workspace/new', '/home/sandbox/new', '/tmp/new'): open(path, 'w')\n"
                "print(os.path.exists('/tree'), sorted(os.listdir('/tmp')))");
    CHECK_CSTR(buf_cstr(&stage.error), "");
    CHECK_CSTR(buf_cstr(&stage.out), "False ['new']\n");
    /* Init tells it nothing and takes nothing from it. */
    run(&stage, "for name in ('environ', 'mem', 'maps'):\n"
                "    try: open('/proc/1/' + name).read(1); print('read', name)\n"
                "    except OSError: pass\n"
                "try: os.kill(1, 9); print('killed')\nexcept OSError: pass");
    CHECK_CSTR(buf_cstr(&stage.error), "");
    CHECK(strstr(buf_cstr(&stage.out), "read") == NULL);
    run(&stage, "1 + 1");
    CHECK(stage.ok);
}

/* The interpreter of the machine shows the domains nowhere, but it stacks sixteen at most: what is
 * missing to sixteen was there before. */
TEST(iso_a_landlock_domain_is_around_a_forked_kernel)
{
    AUTO_STAGE struct stage stage = {0};
    stage_zygote(&stage, "json");
    if (!warden_host(stage.warden)->landlock) {
        stage.warden = warden_free(stage.warden); /* a skip leaves nothing to be freed */
        SKIP("this host has no Landlock");
    }
    stage_jail(&stage);
    stage_fork(&stage);
    run(&stage, "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
                "rules = libc.syscall(444, ctypes.byref(ctypes.c_uint64(1 << 6)), 8, 0)\n"
                "added = 0\n"
                "while added <= 16 and libc.syscall(446, rules, 0) == 0: added += 1\n"
                "print(rules >= 0, 16 - added)");
    CHECK_CSTR(buf_cstr(&stage.error), "");
    CHECK_CSTR(buf_cstr(&stage.out), "True 1\n");
}

static const char *proc_text(pid_t pid, const char *name)
{
    static char text[65536];
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = 0, got = 0;
    while (fd >= 0 && (got = read(fd, text + len, sizeof text - 1 - (size_t)len)) > 0)
        len += got;
    text[len] = '\0';
    for (ssize_t i = 0; i < len; i++)
        if (text[i] == '\0')
            text[i] = '\n';
    return text;
}

/* What it holds, every copy begins with. */
TEST(the_zygote_has_what_it_needs_and_no_more)
{
    AUTO_STAGE struct stage stage = {0};
    CHECK_INT(setenv("SG_TEST_SECRET", "of-the-daemon", 1), 0);
    UNUSED AUTO_CLOSE int leak =
        open("/dev/zero", O_RDONLY); /* NOLINT(android-cloexec-open): on purpose */
    stage_ready(&stage);
    pid_t zygote = stage_zygote_pid(&stage);
    const char *status = proc_text(zygote, "status");
    /* CAP_SYS_ADMIN, CAP_SYS_CHROOT and CAP_SYS_PTRACE: to go where an init is. */
    CHECK(strstr(status, "CapPrm:\t00000000002c0000") != NULL);
    CHECK(strstr(status, "CapEff:\t00000000002c0000") != NULL);
    CHECK(strstr(status, "CapBnd:\t00000000002c0000") != NULL);
    /* This list and nothing of the warden's. */
    CHECK_CSTR(proc_text(zygote, "environ"),
               "PATH=/usr/local/bin:/usr/bin:/bin\nHOME=/tmp\nLANG=C.UTF-8\n"
               "MPLCONFIGDIR=/tmp/matplotlib\nPYTHONDONTWRITEBYTECODE=1\nOPENBLAS_NUM_THREADS=1\n"
               "OMP_NUM_THREADS=1\nMKL_NUM_THREADS=1\nNUMEXPR_NUM_THREADS=1\n");
    /* The root of its namespace is its own: nothing is mounted above or beside the jails' tree. */
    const char *mounts = proc_text(zygote, "mountinfo");
    CHECK(strstr(mounts, " / / ") != NULL);
    CHECK(strstr(mounts, " - proc ") == NULL);
    CHECK_INT(unsetenv("SG_TEST_SECRET"), 0);
}

static int open_namespace(pid_t pid, const char *name)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Who enters a mount namespace stands in its root, wherever those who live there have theirs. */
static void NORETURN compare_roots(pid_t zygote)
{
    char path[64];
    struct stat own, whole;
    (void)snprintf(path, sizeof path, "/proc/%d/root/.", (int)zygote);
    if (stat(path, &own) < 0)
        _exit(2);
    AUTO_CLOSE int users = open_namespace(zygote, "user");
    AUTO_CLOSE int mounts = open_namespace(zygote, "mnt");
    /* Root is in the same user namespace, which cannot be entered twice. */
    (void)setns(users, CLONE_NEWUSER);
    if (setns(mounts, CLONE_NEWNS) < 0 || stat("/", &whole) < 0)
        _exit(2);
    _exit(own.st_dev != whole.st_dev || own.st_ino != whole.st_ino);
}

TEST(nothing_is_above_the_tree_of_the_zygote)
{
    AUTO_STAGE struct stage stage = {0};
    int status;
    stage_ready(&stage);
    pid_t zygote = stage_zygote_pid(&stage);
    pid_t looker = fork();
    CHECK(looker >= 0);
    if (looker == 0)
        compare_roots(zygote);
    CHECK_INT(waitpid(looker, &status, 0), looker);
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), 0);
}

#if defined(__x86_64__)
/* The interpreter of the machine shows this of no process but to itself: so the zygote, which
 * waits in a call, is made to ask. */
static void NORETURN ask_dumpable(pid_t zygote)
{
    struct user_regs_struct before, asking;
    int status;
    if (ptrace(PTRACE_SEIZE, zygote, NULL, NULL) < 0)
        _exit(2);
    if (ptrace(PTRACE_INTERRUPT, zygote, NULL, NULL) < 0 ||
        waitpid(zygote, &status, __WALL) != zygote ||
        ptrace(PTRACE_GETREGS, zygote, NULL, &before) < 0)
        _exit(3);
    asking = before;
    asking.rip -= 2; /* the instruction that made the call */
    asking.rax = SYS_prctl;
    asking.orig_rax = ~0ull; /* no call to be restarted */
    asking.rdi = PR_GET_DUMPABLE;
    asking.rsi = asking.rdx = asking.r10 = asking.r8 = 0;
    if (ptrace(PTRACE_SETREGS, zygote, NULL, &asking) < 0 ||
        ptrace(PTRACE_SINGLESTEP, zygote, NULL, NULL) < 0 ||
        waitpid(zygote, &status, __WALL) != zygote ||
        ptrace(PTRACE_GETREGS, zygote, NULL, &asking) < 0 ||
        ptrace(PTRACE_SETREGS, zygote, NULL, &before) < 0 ||
        ptrace(PTRACE_DETACH, zygote, NULL, NULL) < 0) /* without the trap; it waits on */
        _exit(3);
    _exit(asking.rax == 0 ? 0 : 1);
}

/* What the exit status of ask_dumpable says. */
static int is_dumpable(pid_t pid)
{
    int status;
    pid_t tracer = fork();
    CHECK(tracer >= 0);
    if (tracer == 0)
        ask_dumpable(pid);
    CHECK_INT(waitpid(tracer, &status, 0), tracer);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(iso_the_memory_of_the_zygote_is_not_dumpable)
{
    AUTO_STAGE struct stage stage = {0};
    pid_t preforks[PREFORKED];
    stage_ready(&stage);
    pid_t zygote = stage_zygote_pid(&stage);
    preforks_of(zygote, preforks);
    int answer = is_dumpable(zygote);
    if (answer == 2) {
        stage_close(&stage); /* a skip leaves nothing to be freed */
        SKIP("the zygote cannot be traced here");
    }
    CHECK_INT(answer, 0);
    CHECK_INT(is_dumpable(preforks[0]), 0);
    for (int i = 0; i <= PREFORKED; i++) { /* they did not notice */
        stage.interpreter = interpreter_free(stage.interpreter);
        stage_fork(&stage);
        run(&stage, "1");
        CHECK(stage.ok);
    }
}
#endif

/* The process that made an interpreter has its memory, and more rights: held back where it has not
 * left that yet, it has the interpreter wait before it does anything for a tenant. */
static void NORETURN hold_back(const pid_t preforks[PREFORKED], int ready, int go)
{
    char byte = 0;
    int status;
    for (int i = 0; i < PREFORKED; i++)
        if (ptrace(PTRACE_SEIZE, preforks[i], NULL, PTRACE_O_TRACEEXIT) < 0)
            _exit(2);
    if (write(ready, &byte, 1) != 1 || waitpid(-1, &status, __WALL) < 0 ||
        status >> 8 != (SIGTRAP | PTRACE_EVENT_EXIT << 8) || write(ready, &byte, 1) != 1)
        _exit(3);
    _exit(read(go, &byte, 1) != 1); /* and all are let go */
}

TEST(iso_no_process_shares_an_interpreters_memory)
{
    AUTO_STAGE struct stage stage = {0};
    struct err err = {0};
    pid_t preforks[PREFORKED];
    int ready[2], go[2], inner[3], fds[3];
    char byte = 0;
    stage_ready(&stage);
    preforks_of(stage_zygote_pid(&stage), preforks);
    CHECK_INT(pipe2(ready, O_CLOEXEC), 0);
    CHECK_INT(pipe2(go, O_CLOEXEC), 0);
    pid_t tracer = fork();
    CHECK(tracer >= 0);
    if (tracer == 0)
        hold_back(preforks, ready[1], go[0]);
    (void)close(ready[1]);
    if (read(ready[0], &byte, 1) != 1) {
        CHECK_INT(waitpid(tracer, NULL, 0), tracer);
        stage_close(&stage); /* a skip leaves nothing to be freed */
        SKIP("what waits to be a kernel cannot be traced here");
    }
    stage.interpreter = interpreter_free(stage.interpreter);
    CHECK_OK(interpreter_open(&stage.interpreter, inner, &err));
    CHECK_OK(jail_ask_fork(stage.jail, &(struct jail_command){0}, inner, &stage.id, &err));
    CHECK_INT(read(ready[0], &byte, 1), 1);
    interpreter_fds(stage.interpreter, fds);
    struct pollfd line = {.fd = fds[0], .events = POLLIN};
    CHECK_INT(poll(&line, 1, 500), 0);
    CHECK_INT(write(go[1], &byte, 1), 1);
    until(&stage, INTERPRETER_READY);
    CHECK(!stage.gone);
    for (int i = 0; i < 3; i++)
        fd_close(&inner[i]);
    CHECK_INT(waitpid(tracer, NULL, 0), tracer);
    (void)close(ready[0]);
    (void)close(go[0]);
    (void)close(go[1]);
}

TEST(iso_nothing_of_the_daemon_or_of_another_tenant_is_in_its_memory)
{
    AUTO_STAGE struct stage one = {0};
    struct stage two = {.borrows_warden = true};
    struct err err = {0};
    static char secret[64];
    (void)snprintf(secret, sizeof secret, "SECRET=sentinel-%d-of-the-daemon", (int)getpid());
    CHECK_INT(setenv("SG_TEST_SECRET", secret, 1), 0);
    stage_zygote(&one, "json");
    /* The name of a place of the first jail is sent to the zygote... */
    struct jail_plan plan = stage_plan(one.warden);
    plan.mounts[plan.mount_count].src = test_tmpdir();
    plan.mounts[plan.mount_count].dst = "/mnt/sentinel-1-of-the-place";
    plan.mounts[plan.mount_count++].writable = true;
    CHECK_OK(jail_make(one.warden, &plan, &one.jail, &err));
    /* ... one tenant's environment goes past it... */
    const char *env[] = {"TENANT=needle-"
                         "of-the-first",
                         NULL};
    int inner[3];
    CHECK_OK(interpreter_open(&one.interpreter, inner, &err));
    CHECK_OK(jail_fork(one.jail, &(struct jail_command){.env = env}, inner, &one.id, &err));
    for (int i = 0; i < 3; i++)
        fd_close(&inner[i]);
    until(&one, INTERPRETER_READY);
    run(&one, "import os\nprint(os.environ['TENANT'][:6])");
    CHECK_CSTR(buf_cstr(&one.out), "needle\n");
    /* ... and is not in the next interpreter's memory, nor is anything of ours. */
    two.warden = one.warden;
    stage_jail(&two);
    stage_fork(&two);
    run(&two,
        "import re\n" /* the patterns are not what they find */
        "words = re.compile(rb'needle[-]of-the-first|sentinel[-]\\d+-of-the')\n"
        "found, size = [], 0\n"
        "mem = open('/proc/self/mem', 'rb', 0)\n"
        "for line in open('/proc/self/maps'):\n"
        "    a, b = (int(x, 16) for x in line.split()[0].split('-'))\n"
        "    if 'r' not in line.split()[1] or 'vvar' in line or 'vsyscall' in line: continue\n"
        "    if ' /' in line and 'w' not in line.split()[1]: continue\n"
        "    mem.seek(a)\n"
        "    try: data = mem.read(b - a)\n"
        "    except OSError: continue\n"
        "    size += len(data)\n"
        "    found += words.findall(data)\n"
        "print(found, size > 1 << 20)");
    CHECK_CSTR(buf_cstr(&two.error), "");
    CHECK_CSTR(buf_cstr(&two.out), "[] True\n");
    stage_close(&two);
    CHECK_INT(unsetenv("SG_TEST_SECRET"), 0);
}

TEST(iso_two_kernels_of_one_zygote_share_no_randomness_and_no_namespace)
{
    AUTO_STAGE struct stage one = {0};
    struct stage two = {.borrows_warden = true};
    const char *code = "import os, random, uuid\nprint(random.random(), uuid.uuid4(),"
                       " os.urandom(8).hex(), *(os.readlink('/proc/self/ns/' + n) for n in"
                       " 'user mnt pid net ipc uts cgroup'.split()))";
    stage_zygote(&one, "json,random,uuid");
    two.warden = one.warden;
    stage_jail(&one);
    stage_jail(&two);
    stage_fork(&one);
    stage_fork(&two);
    run(&one, code);
    run(&two, code);
    struct str a = buf_str(&one.out), b = buf_str(&two.out), left, right;
    size_t words = 0;
    while (str_split(&a, ' ', &left) && str_split(&b, ' ', &right)) {
        CHECK(!str_eq(left, right));
        words++;
    }
    CHECK_INT(words, 10);
    stage_close(&two);
}

/* What a neighbour who was forked from the same zygote knows of itself says nothing of this one:
 * the guard of the stack, the machine's random bytes, OpenSSL's state and the key of
 * multiprocessing. */
TEST(iso_two_kernels_of_one_zygote_have_secrets_of_their_own)
{
    AUTO_STAGE struct stage one = {0};
    struct stage two = {.borrows_warden = true};
    const char *code = "import ctypes, multiprocessing, ssl, os\n"
                       "c = ctypes.CDLL(None)\n"
                       "c.pthread_self.restype = c.getauxval.restype = ctypes.c_ulong\n"
                       "bytes_at = lambda at, n: ctypes.string_at(at, n).hex()\n"
                       "x86 = os.uname().machine == 'x86_64'\n"
                       "print(bytes_at(c.pthread_self() + 0x28, 8) if x86 else os.urandom(8).hex(),"
                       " bytes_at(c.getauxval(25), 16), ssl.RAND_bytes(16).hex(),"
                       " bytes(multiprocessing.current_process().authkey).hex())";
    stage_zygote(&one, "json,ssl,multiprocessing");
    two.warden = one.warden;
    stage_jail(&one);
    stage_jail(&two);
    stage_fork(&one);
    stage_fork(&two);
    run(&one, code);
    CHECK(one.ok);
    run(&two, code);
    CHECK(two.ok);
    struct str a = str_trim(buf_str(&one.out)), b = str_trim(buf_str(&two.out)), left, right;
    size_t words = 0;
    while (str_split(&a, ' ', &left) && str_split(&b, ' ', &right)) {
        CHECK(left.len >= 16 && !str_eq(left, right));
        words++;
    }
    CHECK_INT(words, 4);
    /* Frames that were entered with the new guard return, in threads and children too. */
    run(&one, "import os, subprocess, threading\n"
              "t = threading.Thread(target=lambda: sorted(range(1000)))\nt.start(), t.join()\n"
              "pid = os.fork()\nif pid == 0: os._exit(7)\n"
              "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]),"
              " subprocess.run(['true']).returncode)");
    CHECK_CSTR(buf_cstr(&one.out), "7 0\n");
    stage_close(&two);
}

/* numpy draws its state once, at its import, which is the zygote's. */
TEST(iso_two_kernels_of_one_zygote_draw_other_numbers_from_numpy)
{
    AUTO_STAGE struct stage one = {0};
    struct stage two = {.borrows_warden = true};
    const char *code = "import sys\nprint('numpy' in sys.modules)\nimport numpy\n"
                       "print(numpy.random.get_state()[1].tobytes()[:32].hex())\n"
                       "print(numpy.random.random(), numpy.random.default_rng().random())";
    stage_zygote(&one, "json,numpy");
    two.warden = one.warden;
    stage_jail(&one);
    stage_jail(&two);
    stage_fork(&one);
    stage_fork(&two);
    run(&one, "import importlib.util\nprint(importlib.util.find_spec('numpy') is not None)");
    bool has_numpy = str_eq(buf_str(&one.out), STR("True\n"));
    if (has_numpy) {
        run(&one, code);
        CHECK(one.ok);
        run(&two, code);
        CHECK(two.ok);
        struct str a = buf_str(&one.out), b = buf_str(&two.out), left, right;
        CHECK(str_split(&a, '\n', &left) && str_split(&b, '\n', &right));
        CHECK(str_eq(left, STR("True")) && str_eq(right, left));
        for (int i = 0; i < 2; i++) {
            CHECK(str_split(&a, '\n', &left) && str_split(&b, '\n', &right));
            CHECK(left.len > 20 && !str_eq(left, right));
        }
    }
    stage_close(&two);
    if (!has_numpy)
        SKIP("numpy is not installed");
}

TEST(the_heap_is_shared_by_a_sealed_file_and_written_by_each_privately)
{
    AUTO_STAGE struct stage one = {0};
    struct stage two = {.borrows_warden = true};
    const char *look = "import json, re\n"
                       "heap = [l for l in open('/proc/self/maps') if '/memfd:zygote' in l]\n"
                       "print(len(heap) > 0, any('s ' in l.split()[1] + ' ' for l in heap),\n"
                       "      any('x' in l.split()[1] for l in heap), getattr(json, 'mine', None))";
    stage_zygote(&one, "json");
    two.warden = one.warden;
    stage_jail(&one);
    stage_jail(&two);
    stage_fork(&one);
    run(&one, "import json\njson.mine = 1\njson.dumps.__dict__['mine'] = 2");
    CHECK(one.ok);
    run(&one, look);
    CHECK_CSTR(buf_cstr(&one.out), "True False False 1\n");
    stage_fork(&two); /* made after the other has written */
    run(&two, look);
    CHECK_CSTR(buf_cstr(&two.out), "True False False None\n");
    stage_close(&two);
}

/* The memory is older than the process: what the C library and the Linux kernel tell each other
 * about its thread is set again. */
TEST(its_thread_is_known_by_its_new_number)
{
    AUTO_STAGE struct stage stage = {0};
    stage_zygote(&stage, "json,threading");
    stage_jail(&stage);
    stage_fork(&stage);
    run(&stage, "import ctypes, os, signal, threading\n"
                "signal.signal(signal.SIGUSR1, lambda *a: print('heard'))\n"
                "signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)\n"
                "print(threading.main_thread().native_id == os.getpid())\n"
                "seen = []\n"
                "for cpu in os.sched_getaffinity(0):\n"
                "    os.sched_setaffinity(0, {cpu})\n"
                "    seen.append(ctypes.CDLL(None).sched_getcpu() == cpu)\n"
                "print(all(seen))");
    CHECK_CSTR(buf_cstr(&stage.error), "");
    CHECK_CSTR(buf_cstr(&stage.out), "heard\nTrue\nTrue\n");
}

TEST(a_root_of_layers_is_entered_and_fenced)
{
    struct err err = {0};
    AUTO_STAGE struct stage stage = {0};
    stage_zygote(&stage, "json");
    struct jail_plan plan = stage_plan(stage.warden);
    plan.overlay = true;
    CHECK_OK(jail_make(stage.warden, &plan, &stage.jail, &err));
    stage_fork(&stage);
    run(&stage, "import os\nopen('/home/sandbox/mine', 'w').write('x')\nopen('mine', 'w')\n"
                "print(os.getcwd(), sorted(os.listdir('/'))[:3], os.path.exists('/r'),\n"
                "      os.path.exists('/../r'), os.access('/usr/bin', os.W_OK))");
    CHECK_CSTR(buf_cstr(&stage.error), "");
    CHECK_CSTR(buf_cstr(&stage.out), "/workspace ['bin', 'cache', 'dev'] False False False\n");
}

/* --- ends --- */

TEST(its_end_is_reported_and_it_is_killed_with_its_children)
{
    struct err err = {0};
    struct jail_exit ended;
    AUTO_STAGE struct stage stage = {0};
    stage_ready(&stage);
    run(&stage, "import os\nos._exit(3)");
    CHECK(stage.gone);
    CHECK_OK(jail_wait(stage.jail, 60000, &ended, &err));
    CHECK_INT(ended.id, stage.id);
    CHECK_INT(ended.code, 3);
    stage.interpreter = interpreter_free(stage.interpreter);
    stage_fork(&stage); /* another one in the same jail */
    run(&stage,
        "import subprocess\np = subprocess.Popen(['sleep', '1000'], start_new_session=True)");
    CHECK(stage.ok);
    CHECK_OK(jail_kill(stage.jail, stage.id, &err));
    CHECK_OK(jail_wait(stage.jail, 60000, &ended, &err));
    CHECK_INT(ended.signal, SIGKILL);
    stage.interpreter = interpreter_free(stage.interpreter);
    stage_fork(&stage);
    run(&stage, "import os\nprint([p for p in os.listdir('/proc') if p.isdigit() and p != '1'"
                " and p != str(os.getpid())])");
    CHECK_CSTR(buf_cstr(&stage.out), "[]\n");
}

TEST(res_out_of_memory_ends_only_the_interpreter)
{
    struct err err = {0};
    struct jail_exit ended;
    struct jail_stats stats;
    AUTO_STAGE struct stage stage = {0};
    stage_zygote(&stage, "json");
    if (warden_host(stage.warden)->no_memory[0] != '\0') {
        stage.warden = warden_free(stage.warden); /* a skip leaves nothing to be freed */
        SKIP("this host has no memory limit to give");
    }
    struct jail_plan plan = stage_plan(stage.warden);
    plan.limits.memory_bytes = 64 << 20;
    CHECK_OK(jail_make(stage.warden, &plan, &stage.jail, &err));
    stage_fork(&stage);
    run(&stage, "x = bytearray(200 << 20)");
    CHECK(stage.gone);
    CHECK_OK(jail_wait(stage.jail, 60000, &ended, &err));
    CHECK_INT(ended.signal, SIGKILL);
    CHECK_OK(jail_stat(stage.jail, &stats, &err));
    CHECK(stats.oom_kills > 0);
    stage.interpreter = interpreter_free(stage.interpreter);
    stage_fork(&stage); /* the zygote lives, and so does the jail */
    run(&stage, "2 + 2");
    CHECK(stage.ok);
}

TEST(res_a_full_jail_refuses_and_the_zygote_lives)
{
    struct err err = {0};
    AUTO_STAGE struct stage stage = {0};
    int inner[3];
    uint32_t id;
    stage_zygote(&stage, "json");
    struct jail_plan plan = stage_plan(stage.warden);
    plan.limits.pids = 16;
    CHECK_OK(jail_make(stage.warden, &plan, &stage.jail, &err));
    stage_fork(&stage);
    run(&stage, "import subprocess\nps = []\ntry:\n"
                "    for _ in range(30): ps.append(subprocess.Popen(['sleep', '1000']))\n"
                "except OSError: print('full')");
    CHECK_CSTR(buf_cstr(&stage.out), "full\n");
    struct interpreter *interpreter = NULL;
    CHECK_OK(interpreter_open(&interpreter, inner, &err));
    /* Without the controller the limit counts what the tenant forks. */
    int done = jail_fork(stage.jail, &(struct jail_command){0}, inner, &id, &err);
    CHECK(done < 0 || warden_host(stage.warden)->no_pids[0] != '\0');
    for (int i = 0; i < 3; i++)
        fd_close(&inner[i]);
    interpreter = interpreter_free(interpreter);
    run(&stage, "for p in ps: p.kill(); p.wait()");
    CHECK(stage.ok);
    stage.interpreter = interpreter_free(stage.interpreter);
    stage_fork(&stage);
    run(&stage, "3");
    CHECK(stage.ok);
}

/* --- the zygote's own life --- */

TEST(a_zygote_that_is_killed_comes_back)
{
    AUTO_STAGE struct stage stage = {0};
    stage_ready(&stage);
    pid_t victim = stage_zygote_pid(&stage);
    CHECK_INT(kill(victim, SIGKILL), 0);
    run(&stage, "1"); /* interpreters forked before still run */
    CHECK(stage.ok);
    stage_fork_again(&stage);
    run(&stage, "1");
    CHECK(stage.ok);
    CHECK(stage_zygote_pid(&stage) != victim);
}

TEST(a_zygote_that_dies_in_the_middle_of_forks_hurts_nobody_for_long)
{
    AUTO_STAGE struct stage stage = {0};
    stage_ready(&stage);
    for (int round = 0; round < 5; round++) {
        struct err err = {0};
        uint32_t ids[8];
        struct interpreter *interpreters[8] = {0};
        pid_t victim = stage_zygote_pid(&stage);
        for (int i = 0; i < 8; i++) {
            int inner[3];
            CHECK_OK(interpreter_open(&interpreters[i], inner, &err));
            CHECK_OK(jail_ask_fork(stage.jail, &(struct jail_command){0}, inner, &ids[i], &err));
            for (int j = 0; j < 3; j++)
                fd_close(&inner[j]);
            if (i == round)
                (void)kill(victim, SIGKILL);
        }
        /* Each gets an answer, success or failure. */
        for (int told = 0; told < 8;) {
            struct jail_event event;
            if (!jail_next(stage.jail, &event)) {
                (void)usleep(1000);
                continue;
            }
            CHECK(event.type == JAIL_EVENT_STARTED || event.type == JAIL_EVENT_REFUSED ||
                  event.type == JAIL_EVENT_EXITED);
            told += event.type != JAIL_EVENT_EXITED;
        }
        for (int i = 0; i < 8; i++)
            interpreters[i] = interpreter_free(interpreters[i]);
        stage_fork_again(&stage);
    }
}

/* What is between the zygote and an interpreter dies with the jail, at whatever moment. */
TEST(jails_that_end_too_early_leave_the_zygote_as_it_was)
{
    static const char seed[] = "print(hash('of the zygote'))";
    AUTO_STAGE struct stage stage = {0};
    AUTO_BUF struct buf first = {0};
    stage_ready(&stage);
    run(&stage, seed);
    buf_put(&first, buf_str(&stage.out));
    for (int i = 0; i < 60; i++) {
        struct err err = {0};
        struct stage other = {.warden = stage.warden, .borrows_warden = true};
        int inner[3];
        uint32_t id;
        stage_jail(&other);
        CHECK_OK(interpreter_open(&other.interpreter, inner, &err));
        CHECK_OK(jail_ask_fork(other.jail, &(struct jail_command){0}, inner, &id, &err));
        (void)usleep((useconds_t)(i % 20 * 100));
        for (int j = 0; j < 3; j++)
            fd_close(&inner[j]);
        stage_close(&other);
    }
    AUTO_STAGE struct stage last = {.warden = stage.warden, .borrows_warden = true};
    stage_jail(&last);
    stage_fork(&last);
    run(&last, seed);
    CHECK_CSTR(buf_cstr(&last.out), buf_cstr(&first));
}

TEST(those_that_wait_leave_with_their_zygote)
{
    AUTO_STAGE struct stage stage = {0};
    pid_t preforks[PREFORKED];
    stage_ready(&stage);
    pid_t zygote = stage_zygote_pid(&stage);
    preforks_of(zygote, preforks);
    CHECK_INT(kill(zygote, SIGKILL), 0);
    for (int i = 0; i < PREFORKED; i++)
        for (int tries = 0; tries < 6000 && kill(preforks[i], 0) == 0; tries++)
            (void)usleep(10000);
    for (int i = 0; i < PREFORKED; i++)
        CHECK(kill(preforks[i], 0) < 0);
}

TEST(one_that_was_killed_while_it_waited_is_passed_over)
{
    AUTO_STAGE struct stage stage = {0};
    pid_t preforks[PREFORKED];
    stage_ready(&stage);
    pid_t zygote = stage_zygote_pid(&stage);
    preforks_of(zygote, preforks);
    for (int i = 0; i < PREFORKED; i++)
        CHECK_INT(kill(preforks[i], SIGKILL), 0);
    for (int tries = 0; tries < 6000 && stage_children(zygote, "(prefork", preforks, 1) > 0;
         tries++)
        (void)usleep(10000);
    stage.interpreter = interpreter_free(stage.interpreter);
    stage_fork(&stage);
    run(&stage, "1");
    CHECK(stage.ok);
}

TEST(a_zygote_names_what_it_could_not_import)
{
    struct err err = {0};
    char missing[96];
    AUTO_STAGE struct stage stage = {0};
    AUTO_CLOSE int program = stage_program();
    CHECK_OK(warden_start(&stage.warden, &err));
    CHECK_OK(warden_zygote(stage.warden, program, "json,no_such_one,math,nor_this", missing, &err));
    CHECK_CSTR(missing, "no_such_one,nor_this");
    stage_jail(&stage);
    stage_fork(&stage);
    run(&stage, "1");
    CHECK(stage.ok);
}

TEST(without_a_zygote_a_fork_is_refused_and_the_jail_is_as_it_was)
{
    struct err err = {0};
    int inner[3];
    uint32_t id;
    AUTO_STAGE struct stage stage = {0};
    CHECK_OK(warden_start(&stage.warden, &err));
    stage_jail(&stage);
    CHECK_OK(interpreter_open(&stage.interpreter, inner, &err));
    CHECK_ERR(jail_fork(stage.jail, &(struct jail_command){0}, inner, &id, &err), ERR_UNAVAILABLE);
    const char *argv[] = {"/opt/kernel/kernel-python", "json", NULL};
    CHECK_OK(jail_start(stage.jail, &(struct jail_command){.argv = argv}, inner, &id, NULL, &err));
    for (int i = 0; i < 3; i++)
        fd_close(&inner[i]);
    until(&stage, INTERPRETER_READY);
    CHECK(!stage.gone);
}

TEST(a_sandbox_with_packages_of_its_own_is_refused)
{
    struct err err = {0};
    int inner[3];
    uint32_t id;
    static const char *const env[] = {"PYTHONUSERBASE=/workspace/.packages", NULL};
    AUTO_STAGE struct stage stage = {.env = env};
    stage_zygote(&stage, "json,colorsys");
    stage_jail(&stage);
    stage_fork(&stage);
    run(&stage,
        "import os, site\nos.makedirs(site.USER_SITE)\nopen(site.USER_SITE + '/fine.py', 'w')");
    CHECK_CSTR(buf_cstr(&stage.error), "");
    stage.interpreter = interpreter_free(stage.interpreter);
    stage_fork(&stage); /* other names are not used */
    run(&stage, "import fine, site\nopen(site.USER_SITE + '/colorsys.py', 'w')");
    CHECK_CSTR(buf_cstr(&stage.error), "");
    stage.interpreter = interpreter_free(stage.interpreter);
    CHECK_OK(interpreter_open(&stage.interpreter, inner, &err));
    CHECK_ERR(jail_fork(stage.jail, &(struct jail_command){.env = env}, inner, &id, &err),
              ERR_UNSUPPORTED);
    for (int i = 0; i < 3; i++)
        fd_close(&inner[i]);
}

static size_t open_descriptors(pid_t pid)
{
    char path[64];
    size_t count = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    while (dir != NULL && readdir(dir) != NULL)
        count++;
    if (dir != NULL)
        (void)closedir(dir);
    return count;
}

/* How many it has when nothing is being sent to it any more: the same for half a second. */
static size_t settled_descriptors(pid_t pid)
{
    size_t count = open_descriptors(pid);
    for (int tries = 0, same = 0; tries < 6000 && same < 50; tries++) {
        (void)usleep(10000);
        size_t now = open_descriptors(pid);
        same = now == count ? same + 1 : 0;
        count = now;
    }
    return count;
}

/* Waits until it has no more than this many: what was sent to it is closed behind the answer. */
static void holds_at_most(pid_t pid, size_t most)
{
    size_t count = open_descriptors(pid);
    for (int tries = 0; tries < 6000 && count > most; tries++) {
        (void)usleep(10000);
        count = open_descriptors(pid);
    }
    CHECK(count <= most);
}

/* Are all but its first ones sockets? */
static bool holds_sockets(pid_t pid)
{
    char path[64], to[256];
    for (int fd = 5; fd < 1024; fd++) {
        (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
        ssize_t len = readlink(path, to, sizeof to - 1);
        to[MAX(len, (ssize_t)0)] = '\0';
        if (len >= 0 && strncmp(to, "socket:", 7) != 0)
            return false;
    }
    return true;
}

/* Its streams, its line and its own directory of /proc; then the lines to those that wait. What it
 * was sent for a child that it is making may still be open. */
static void holds_little(pid_t zygote)
{
    bool little = holds_sockets(zygote);
    for (int tries = 0; tries < 6000 && !little; tries++) {
        (void)usleep(10000);
        little = holds_sockets(zygote);
    }
    CHECK(little);
    holds_at_most(zygote, 5 + PREFORKED + 2); /* the directory has two entries of its own */
}

TEST(many_forks_leave_nothing)
{
    AUTO_STAGE struct stage stage = {0};
    stage_ready(&stage);
    int rounds = getenv("SG_SOAK") != NULL ? 1000 : 100;
    pid_t victim = stage_zygote_pid(&stage);
    size_t own = settled_descriptors(getpid());
    size_t wardens = settled_descriptors(warden_pid(stage.warden));
    for (int i = 0; i < rounds; i++) {
        struct err err = {0};
        struct jail_exit ended;
        run(&stage, "import os\nos._exit(0)");
        stage.interpreter = interpreter_free(stage.interpreter);
        CHECK_OK(jail_wait(stage.jail, 60000, &ended, &err));
        stage_fork(&stage);
    }
    run(&stage, "import os\nprint(len([p for p in os.listdir('/proc') if p.isdigit()]))");
    CHECK_CSTR(buf_cstr(&stage.out), "1\n"); /* itself; init is hidden */
    CHECK_INT(settled_descriptors(getpid()), own);
    holds_at_most(warden_pid(stage.warden), wardens);
    holds_little(victim);
}
