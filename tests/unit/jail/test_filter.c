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

#include "jail/filter.h"

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

static uint32_t verdict(long nr, uint64_t a0, uint64_t a1, uint64_t a2)
{
    struct seccomp_data data = {.nr = (int)nr, .arch = (uint32_t)ARCH, .args = {a0, a1, a2}};
    return evaluate(&data, NULL);
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
        if (nr != SYS_socket && nr != SYS_socketpair)
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
