/* The compiled filter against the table: every call, every class of argument. */

#include "test.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "jail/inside/filter.h"

static struct sock_filter programs[FILTER_PARTS][FILTER_INSNS_MAX];
static size_t program_lens[FILTER_PARTS];

/* The kernel's rules for classic BPF, for the instructions a seccomp filter may hold. */
static uint32_t evaluate_part(const struct seccomp_data *data, enum filter_part part,
                              size_t *ret_steps)
{
    uint32_t a = 0, x = 0, memory[16] = {0};
    const struct sock_filter *program = programs[part];
    if (program_lens[part] == 0)
        program_lens[part] = filter_compile(programs[part], part);
    size_t program_len = program_lens[part], steps = 0;
    for (size_t pc = 0;; pc++) {
        assert_true(pc < program_len);
        const struct sock_filter *insn = &program[pc];
        steps++;
        switch (insn->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            assert_true(insn->k + 4 <= sizeof *data);
            memcpy(&a, (const char *)data + insn->k, 4);
            break;
        case BPF_LDX | BPF_W | BPF_MEM:
            x = memory[insn->k];
            break;
        case BPF_ST:
            memory[insn->k] = a;
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= insn->k;
            break;
        case BPF_ALU | BPF_LSH | BPF_K:
            a <<= insn->k;
            break;
        case BPF_ALU | BPF_OR | BPF_X:
            a |= x;
            break;
        case BPF_JMP | BPF_JA:
            pc += insn->k;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            pc += a == insn->k ? insn->jt : insn->jf;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            pc += a >= insn->k ? insn->jt : insn->jf;
            break;
        case BPF_JMP | BPF_JGT | BPF_K:
            pc += a > insn->k ? insn->jt : insn->jf;
            break;
        case BPF_JMP | BPF_JSET | BPF_K:
            pc += (a & insn->k) != 0 ? insn->jt : insn->jf;
            break;
        case BPF_RET | BPF_K:
            if (ret_steps != NULL)
                *ret_steps = steps;
            return insn->k;
        default:
            fail_msg("instruction %#x", insn->code);
        }
    }
}

/* Of two filters the kernel takes the verdict that is less as a signed number: whatever is asked
 * here, both parts together answer it as the whole does. */
static uint32_t evaluate(const struct seccomp_data *data, size_t *ret_steps)
{
    uint32_t whole = evaluate_part(data, FILTER_WHOLE, ret_steps);
    uint32_t early = evaluate_part(data, FILTER_EARLY, NULL);
    uint32_t late = evaluate_part(data, FILTER_LATE, NULL);
    CHECK_INT((int32_t)early < (int32_t)late ? early : late, whole);
    return whole;
}

#ifdef __x86_64__
enum { ARCH = (int)AUDIT_ARCH_X86_64 };
#else
enum { ARCH = (int)AUDIT_ARCH_AARCH64 };
#endif

static uint32_t verdict4(long nr, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3)
{
    struct seccomp_data data = {.nr = (int)nr, .arch = (uint32_t)ARCH, .args = {a0, a1, a2, a3}};
    return evaluate(&data, NULL);
}

static uint32_t verdict(long nr, uint64_t a0, uint64_t a1, uint64_t a2)
{
    return verdict4(nr, a0, a1, a2, 0);
}

enum { OK = SECCOMP_RET_ALLOW };
#define NO(code) (SECCOMP_RET_ERRNO | (code))
/* Garbage in the half that the kernel does not look at. */
#define UPPER 0xdead00000000ull

TEST(every_number_gets_what_its_row_says)
{
    for (int nr = 0; nr < 1200; nr++) {
        enum filter_action action = FILTER_ENOSYS;
        int rows = 0;
        for (size_t i = 0; i < filter_row_count; i++)
            if (filter_rows[i].nr == nr) {
                action = filter_rows[i].action;
                rows++;
            }
        assert_true(rows <= 1);
        uint32_t got = verdict(nr, 0, 0, 0);
        if (action == FILTER_ALLOW)
            CHECK_INT(got, OK);
        else if (action == FILTER_EPERM)
            CHECK_INT(got, NO(EPERM));
        else if (action == FILTER_ENOSYS)
            CHECK_INT(got, NO(ENOSYS));
        else if (action == FILTER_EINVAL)
            CHECK_INT(got, NO(EINVAL));
        else if (action == FILTER_NOTHING)
            CHECK_INT(got, NO(0));
    }
    CHECK_INT(verdict(-1, 0, 0, 0), SECCOMP_RET_KILL_PROCESS);
}

TEST(foreign_abis_are_killed)
{
    struct seccomp_data data = {.nr = SYS_getpid, .arch = AUDIT_ARCH_I386};
    CHECK_INT(evaluate(&data, NULL), SECCOMP_RET_KILL_PROCESS);
#ifdef __x86_64__
    CHECK_INT(verdict(SYS_getpid | 0x40000000, 0, 0, 0), SECCOMP_RET_KILL_PROCESS);
#endif
    CHECK_INT(verdict(SYS_getpid, 0, 0, 0), OK);
}

TEST(clone_makes_no_namespaces)
{
    static const uint64_t flags[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                     CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};
    for (size_t i = 0; i < countof(flags); i++) {
        CHECK_INT(verdict(SYS_clone, flags[i], 0, 0), NO(EPERM));
        CHECK_INT(verdict(SYS_clone, UPPER | flags[i] | CLONE_VM, 0, 0), NO(EPERM));
    }
    CHECK_INT(verdict(SYS_clone, CLONE_VM | CLONE_VFORK | 17, 0, 0), OK);
    CHECK_INT(verdict(SYS_clone, 0x3d0f00 /* a thread */, 0, 0), OK);
    CHECK_INT(verdict(SYS_clone3, 0, 0, 0), NO(ENOSYS));
    /* Descriptors are shared by threads only. */
    CHECK_INT(verdict(SYS_clone, CLONE_FILES | 17, 0, 0), NO(EPERM));
    CHECK_INT(verdict(SYS_clone, UPPER | CLONE_FILES | CLONE_VM | CLONE_VFORK, 0, 0), NO(EPERM));
    CHECK_INT(verdict(SYS_clone, CLONE_FILES | CLONE_VM | CLONE_SIGHAND | CLONE_THREAD, 0, 0), OK);
}

static bool socket_is_fine(uint64_t family, uint64_t type, uint64_t protocol)
{
    if (family == AF_UNIX)
        return (type == SOCK_STREAM || type == SOCK_DGRAM || type == SOCK_SEQPACKET) &&
               protocol == 0;
    if (family == AF_INET || family == AF_INET6)
        return (type == SOCK_STREAM && (protocol == 0 || protocol == 6)) ||
               (type == SOCK_DGRAM && (protocol == 0 || protocol == 17));
    return family == AF_NETLINK && (type == SOCK_RAW || type == SOCK_DGRAM) && protocol == 0;
}

TEST(sockets_of_every_family_type_and_protocol)
{
    for (uint64_t family = 0; family < 64; family++)
        for (uint64_t type = 0; type < 16; type++)
            for (uint64_t protocol = 0; protocol < 300; protocol++) {
                uint32_t want =
                    socket_is_fine(family, type, protocol) ? (uint32_t)OK : NO(EAFNOSUPPORT);
                uint64_t flagged = type | SOCK_CLOEXEC | SOCK_NONBLOCK;
                CHECK_INT(verdict(SYS_socket, family, flagged, protocol), want);
                CHECK_INT(verdict(SYS_socketpair, UPPER | family, type, UPPER | protocol), want);
            }
    CHECK_INT(verdict(SYS_socket, 0x10001, SOCK_STREAM, 0), NO(EAFNOSUPPORT));
}

TEST(calls_by_argument)
{
    static const uint64_t ioctls[] = {0x5412, 0x541c, 0x5423, 0x541d};
    for (size_t i = 0; i < countof(ioctls); i++)
        CHECK_INT(verdict(SYS_ioctl, 0, UPPER | ioctls[i], 0), NO(EPERM));
    CHECK_INT(verdict(SYS_ioctl, 0, 0x5413, 0), OK);
    CHECK_INT(verdict(SYS_ioctl, 0, UPPER | 0x5421 /* FIONBIO */, 0), OK);
    CHECK_INT(verdict(SYS_prctl, UPPER | PR_SET_MM, 0, 0), NO(EPERM));
    CHECK_INT(verdict(SYS_prctl, 0x59616d61, 0, 0), NO(EPERM));
    CHECK_INT(verdict(SYS_prctl, PR_SET_NAME, 0, 0), OK);
    CHECK_INT(verdict(SYS_personality, UPPER, 0, 0), OK);
    CHECK_INT(verdict(SYS_personality, 0xffffffff, 0, 0), OK);
    CHECK_INT(verdict(SYS_personality, 0x40000, 0, 0), NO(EPERM));
    for (uint64_t policy = 0; policy < 16; policy++) {
        bool fine = policy == 0 || policy == 3 || policy == 5;
        uint32_t want = fine ? (uint32_t)OK : NO(EPERM);
        CHECK_INT(verdict(SYS_sched_setscheduler, 0, policy, 0), want);
        CHECK_INT(verdict(SYS_sched_setscheduler, 0, policy | 0x40000000, 0), want);
    }
}

/* --- Numbers, locks and switches of the whole machine --- */

struct option {
    uint32_t level, name;
};

TEST(options_of_sockets_that_the_machine_shares_are_refused)
{
    static const struct option refused[] = {
        {1, 26},      /* SO_ATTACH_FILTER */
        {1, 50},      /* SO_ATTACH_BPF */
        {1, 51},      /* SO_ATTACH_REUSEPORT_CBPF */
        {1, 52},      /* SO_ATTACH_REUSEPORT_EBPF */
        {1, 44},      /* SO_LOCK_FILTER */
        {1, 29},      /* SO_TIMESTAMP */
        {1, 35},      /* SO_TIMESTAMPNS */
        {1, 37},      /* SO_TIMESTAMPING */
        {1, 63},      /* SO_TIMESTAMP_NEW */
        {1, 64},      /* SO_TIMESTAMPNS_NEW */
        {1, 65},      /* SO_TIMESTAMPING_NEW */
        {1, 46},      /* SO_BUSY_POLL */
        {1, 47},      /* SO_MAX_PACING_RATE */
        {1, 60},      /* SO_ZEROCOPY */
        {1, 61},      /* SO_TXTIME */
        {1, 69},      /* SO_PREFER_BUSY_POLL */
        {1, 73},      /* SO_RESERVE_MEM */
        {6, 13},      /* TCP_CONGESTION */
        {6, 14},      /* TCP_MD5SIG */
        {6, 31},      /* TCP_ULP */
        {6, 37},      /* TCP_TX_DELAY */
        {6, 38},      /* TCP_AO_ADD_KEY */
        {0, 16},      /* IP_IPSEC_POLICY */
        {0, 17},      /* IP_XFRM_POLICY */
        {0, 21},      /* IP_MINTTL */
        {0, 64},      /* IPT_SO_SET_REPLACE */
        {0, 200},     /* MRT_INIT */
        {41, 32},     /* IPV6_FLOWLABEL_MGR */
        {41, 35},     /* IPV6_XFRM_POLICY */
        {41, 64},     /* IP6T_SO_SET_REPLACE */
        {41, 73},     /* IPV6_MINHOPCOUNT */
        {17, 100},    /* UDP_ENCAP */
        {17, 104},    /* UDP_GRO */
        {263, 11},    /* SOL_PACKET, PACKET_VERSION */
        {282, 1},     /* SOL_TLS */
        {0x10001, 2}, /* no level: its low half is SOL_SOCKET */
    };
    for (size_t i = 0; i < countof(refused); i++)
        CHECK_INT(verdict(SYS_setsockopt, 0, UPPER | refused[i].level, UPPER | refused[i].name),
                  NO(ENOPROTOOPT));
    CHECK_INT(verdict(SYS_setsockopt, 0, 1, 0x10002), NO(ENOPROTOOPT));
    CHECK_INT(verdict(SYS_setsockopt, 0, 1, 8 /* SO_RCVBUF */), NO(0));
}

/* Of what node, python, curl, git, nginx, postgres, redis, Go and Rust set. */
TEST(options_of_sockets_that_programs_need_are_there)
{
    static const struct option needed[] = {
        {1, 2},   {1, 6},   {1, 7},   {1, 9},   {1, 10},   {1, 13},   {1, 15},   {1, 16},
        {1, 20},  {1, 21},  {1, 25},  {6, 1},   {6, 2},    {6, 3},    {6, 4},    {6, 5},
        {6, 6},   {6, 9},   {6, 12},  {6, 18},  {6, 23},   {6, 25},   {6, 30},   {0, 1},
        {0, 2},   {0, 8},   {0, 10},  {0, 11},  {0, 24},   {0, 32},   {0, 33},   {0, 34},
        {0, 35},  {0, 36},  {41, 16}, {41, 17}, {41, 18},  {41, 19},  {41, 20},  {41, 25},
        {41, 26}, {41, 49}, {41, 51}, {41, 67}, {17, 103}, {270, 11}, {270, 12},
    };
    for (size_t i = 0; i < countof(needed); i++)
        CHECK_INT(verdict(SYS_setsockopt, 0, UPPER | needed[i].level, needed[i].name), OK);
}

/* The list is short: what is allowed at each level is counted, so that a new row is thought about.
 */
TEST(no_more_options_than_were_listed)
{
    size_t allowed = 0;
    for (uint32_t level = 0; level < 300; level++)
        for (uint32_t name = 0; name < 300; name++)
            allowed += evaluate_part(&(struct seccomp_data){.nr = SYS_setsockopt,
                                                            .arch = (uint32_t)ARCH,
                                                            .args = {0, level, name}},
                                     FILTER_WHOLE, NULL) == OK;
    CHECK_INT(allowed, 81);
}

TEST(filters_asynchronous_input_and_sync_are_not_for_tenants)
{
    for (uint64_t op = 0; op < 4; op++)
        CHECK_INT(verdict(SYS_seccomp, op, 0, 0), NO(EINVAL));
    CHECK_INT(verdict(SYS_prctl, UPPER | 22 /* PR_SET_SECCOMP */, 2, 0), NO(EINVAL));
    CHECK_INT(verdict(SYS_prctl, 62 /* PR_SCHED_CORE */, 1, 0), NO(EINVAL));
    CHECK_INT(verdict(SYS_prctl, 67 /* PR_SET_MEMORY_MERGE */, 1, 0), NO(EINVAL));
    CHECK_INT(verdict(SYS_prctl, 0x53564d41 /* PR_SET_VMA */, 0, 0), NO(EINVAL));
    static const uint64_t kept[] = {1, 4, 8, 15, 16, 23, 29, 36, 38, 39, 41, 47, 53};
    for (size_t i = 0; i < countof(kept); i++)
        CHECK_INT(verdict(SYS_prctl, kept[i], 0, 0), OK);
    CHECK_INT(verdict(SYS_io_setup, 1, 0, 0), NO(ENOSYS));
    CHECK_INT(verdict(SYS_sync, 0, 0, 0), NO(0));
    CHECK_INT(verdict(SYS_syncfs, 3, 0, 0), OK);
    CHECK_INT(verdict(451 /* cachestat */, 3, 0, 0), NO(ENOSYS));
}

TEST(verbs_of_descriptors)
{
    static const uint64_t fine[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 1030, 1032, 1033, 1034};
    for (size_t i = 0; i < countof(fine); i++)
        CHECK_INT(verdict(SYS_fcntl, 0, UPPER | fine[i], 0), OK);
    CHECK_INT(verdict(SYS_fcntl, 0, 1024 /* F_SETLEASE */, 1), NO(EINVAL));
    CHECK_INT(verdict(SYS_fcntl, 0, 1026 /* F_NOTIFY */, 1), NO(EINVAL));
    for (uint64_t verb = 36; verb <= 38; verb++)
        CHECK_INT(verdict(SYS_fcntl, 0, UPPER | verb /* F_OFD_* */, 1), NO(EINVAL));
    CHECK_INT(verdict(SYS_fcntl, 0, UPPER | 1031 /* F_SETPIPE_SZ */, 1), NO(EPERM));
    static const uint64_t ioctls[] = {
        0x8906 /* SIOCGSTAMP */,     0x8982 /* SIOCGIFVLAN */,     0x8940 /* SIOCGIFBR */,
        0x8914 /* SIOCSIFFLAGS */,   0x5000940e /* a subvolume */, 0x401c5820 /* project */,
        0x40086602 /* attributes */, 0x800c6613 /* encryption */,  0x4c82 /* a loop device */};
    for (size_t i = 0; i < countof(ioctls); i++)
        CHECK_INT(verdict(SYS_ioctl, 0, UPPER | ioctls[i], 0), NO(ENOTTY));
}

TEST(memory_of_the_machine)
{
    CHECK_INT(verdict4(SYS_mmap, 0, 4096, 3, 0x22), OK);
    CHECK_INT(verdict4(SYS_mmap, 0, 4096, 3, UPPER | 0x40022), NO(ENOMEM));
    CHECK_INT(verdict(SYS_memfd_create, 0, 3, 0), OK);
    CHECK_INT(verdict(SYS_memfd_create, 0, 0x54000004, 0), NO(EINVAL));
    CHECK_INT(verdict(SYS_shmget, 0, 4096, 01600), OK);
    CHECK_INT(verdict(SYS_shmget, 0, 4096, UPPER | 05600 /* SHM_HUGETLB */), NO(ENOMEM));
    CHECK_INT(verdict(SYS_sched_setattr, 0, 0, 0), NO(EPERM));
    CHECK_INT(verdict(SYS_madvise, 0, 0, 4), OK);
    CHECK_INT(verdict(SYS_madvise, 0, 0, UPPER | 12), NO(EINVAL));
    CHECK_INT(verdict(SYS_membarrier, 8, 0, 0), OK);
    CHECK_INT(verdict(SYS_membarrier, 2, 0, 0), NO(EINVAL));
    CHECK_INT(verdict(SYS_membarrier, 4, 0, 0), NO(EINVAL));
}

/* RLIMIT_CORE is 1 and stays so: a core goes to no program of the host. */
TEST(the_limit_of_cores_stays)
{
    CHECK_INT(verdict(SYS_setrlimit, UPPER | 4, 1, 0), NO(0));
    CHECK_INT(verdict(SYS_setrlimit, 7, 1, 0), OK);
    CHECK_INT(verdict4(SYS_prlimit64, 0, 4, 0, 0x7f0000001000), OK);
    CHECK_INT(verdict4(SYS_prlimit64, 0, 4, 0x7f0000001000, 0), NO(0));
    CHECK_INT(verdict4(SYS_prlimit64, 0, 4, 0x7f0000000000, 0), NO(0));
    CHECK_INT(verdict4(SYS_prlimit64, 0, 4, 0x1000, 0x7f0000000000), NO(EPERM));
    CHECK_INT(verdict4(SYS_prlimit64, 0, 4, 0x7f0000000000, 0x1000), NO(EPERM));
    CHECK_INT(verdict4(SYS_prlimit64, 0, 7, 0x1000, 0x1000), OK);
}

TEST(no_device_nodes)
{
    static const struct {
        uint64_t mode;
        bool fine;
    } modes[] = {{S_IFCHR, false}, {S_IFBLK, false}, {S_IFREG, true},
                 {S_IFIFO, true},  {S_IFSOCK, true}, {0, true}};
    for (size_t i = 0; i < countof(modes); i++) {
        uint32_t want = modes[i].fine ? (uint32_t)OK : NO(EPERM);
#ifdef __x86_64__
        CHECK_INT(verdict(SYS_mknod, 0, UPPER | modes[i].mode | 0666, 0), want);
#endif
        CHECK_INT(verdict(SYS_mknodat, 0, 0, modes[i].mode | 0666), want);
    }
}

TEST(the_search_is_short)
{
    struct seccomp_data data = {.arch = (uint32_t)ARCH};
    size_t worst = 0;
    for (int nr = 0; nr < 600; nr++) {
        size_t steps;
        data.nr = nr;
        (void)evaluate(&data, &steps);
        if (nr != SYS_socket && nr != SYS_socketpair && nr != SYS_setsockopt && nr != SYS_ioctl)
            worst = MAX(worst, steps);
    }
    CHECK(worst < 32);
    CHECK(program_lens[FILTER_WHOLE] < 600);
}

TEST(what_is_loaded_for_each_jail_is_short)
{
    (void)verdict(SYS_getpid, 0, 0, 0);
    CHECK(program_lens[FILTER_LATE] * 4 < program_lens[FILTER_WHOLE]);
}
