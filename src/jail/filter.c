#include "jail/filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/defended.h"
#include "base/err.h"
#include "base/sys.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "no filter for this architecture"
#endif

enum {
    X32_BIT = 0x40000000,
    NEW_NAMESPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                     CLONE_NEWPID | CLONE_NEWNET,
    TYPE_MASK = 0xf, /* of a socket type; the rest are flags */
    RANGES_MAX = 512,
    CODE_MAX = 64, /* of one argument check */
};

#define RET_ERRNO(code) (SECCOMP_RET_ERRNO | (code))

/* Code of one action. Jumps inside it are relative, so it can stand anywhere. */
struct code {
    struct sock_filter insns[CODE_MAX];
    size_t len;
};

static void put(struct code *code, uint16_t op, uint32_t k, uint8_t jt, uint8_t jf)
{
    assert(code->len < CODE_MAX);
    code->insns[code->len++] = (struct sock_filter)BPF_JUMP(op, k, jt, jf);
}

/* The kernel takes these arguments as 32 bits: so does the filter, whatever the upper half holds.
 * Both architectures are little-endian. */
static void load_arg(struct code *code, unsigned n)
{
    put(code, BPF_LD | BPF_W | BPF_ABS,
        (uint32_t)(offsetof(struct seccomp_data, args) + n * sizeof(uint64_t)), 0, 0);
}

static void mask(struct code *code, uint32_t bits)
{
    put(code, BPF_ALU | BPF_AND | BPF_K, bits, 0, 0);
}

static void ret(struct code *code, uint32_t value)
{
    put(code, BPF_RET | BPF_K, value, 0, 0);
}

/* if (A == value) return verdict; */
static void ret_if(struct code *code, uint32_t value, uint32_t verdict)
{
    put(code, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
    ret(code, verdict);
}

static void code_clone(struct code *code)
{
    load_arg(code, 0);
    put(code, BPF_JMP | BPF_JSET | BPF_K, NEW_NAMESPACES, 0, 1);
    ret(code, RET_ERRNO(EPERM));
    ret(code, SECCOMP_RET_ALLOW);
}

/* What may be made: family, the low bits of the type, protocol. */
static const struct {
    uint32_t family, type, protocol;
} sockets[] = {
    {AF_UNIX, SOCK_STREAM, 0},
    {AF_UNIX, SOCK_DGRAM, 0},
    {AF_UNIX, SOCK_SEQPACKET, 0},
    {AF_INET, SOCK_STREAM, 0},
    {AF_INET, SOCK_STREAM, 6}, /* TCP */
    {AF_INET, SOCK_DGRAM, 0},
    {AF_INET, SOCK_DGRAM, 17}, /* UDP */
    {AF_INET6, SOCK_STREAM, 0},
    {AF_INET6, SOCK_STREAM, 6},
    {AF_INET6, SOCK_DGRAM, 0},
    {AF_INET6, SOCK_DGRAM, 17},
    /* getifaddrs; libc asks for a raw one, which netlink treats as a datagram socket. */
    {AF_NETLINK, SOCK_DGRAM, 0},
    {AF_NETLINK, SOCK_RAW, 0},
};

/* Folds family, type and protocol into one number, kept in M[0] while the next part is read. */
static void code_socket(struct code *code)
{
    load_arg(code, 0);
    put(code, BPF_JMP | BPF_JGT | BPF_K, AF_NETLINK, 0, 1);
    ret(code, RET_ERRNO(EAFNOSUPPORT));
    put(code, BPF_ALU | BPF_LSH | BPF_K, 16, 0, 0);
    put(code, BPF_ST, 0, 0, 0);
    load_arg(code, 1);
    mask(code, TYPE_MASK);
    put(code, BPF_ALU | BPF_LSH | BPF_K, 8, 0, 0);
    put(code, BPF_LDX | BPF_W | BPF_MEM, 0, 0, 0);
    put(code, BPF_ALU | BPF_OR | BPF_X, 0, 0, 0);
    put(code, BPF_ST, 0, 0, 0);
    load_arg(code, 2);
    put(code, BPF_JMP | BPF_JGT | BPF_K, 0xff, 0, 1);
    ret(code, RET_ERRNO(EAFNOSUPPORT));
    put(code, BPF_LDX | BPF_W | BPF_MEM, 0, 0, 0);
    put(code, BPF_ALU | BPF_OR | BPF_X, 0, 0, 0);
    for (size_t i = 0; i < countof(sockets); i++) {
        uint32_t folded = sockets[i].family << 16 | sockets[i].type << 8 | sockets[i].protocol;
        put(code, BPF_JMP | BPF_JEQ | BPF_K, folded, (uint8_t)(countof(sockets) - i), 0);
    }
    ret(code, RET_ERRNO(EAFNOSUPPORT));
    ret(code, SECCOMP_RET_ALLOW);
}

static void deny_values(struct code *code, unsigned arg, const uint32_t *values, size_t count)
{
    load_arg(code, arg);
    for (size_t i = 0; i < count; i++)
        ret_if(code, values[i], RET_ERRNO(EPERM));
    ret(code, SECCOMP_RET_ALLOW);
}

static void code_ioctl(struct code *code)
{
    /* TIOCSTI types for the terminal's owner, TIOCLINUX pastes, TIOCSETD loads line disciplines,
     * TIOCCONS takes the console. */
    static const uint32_t denied[] = {0x5412, 0x541c, 0x5423, 0x541d};
    deny_values(code, 1, denied, countof(denied));
}

static void code_prctl(struct code *code)
{
    static const uint32_t denied[] = {0x59616d61 /* PR_SET_PTRACER */, PR_SET_MM};
    deny_values(code, 0, denied, countof(denied));
}

static void code_personality(struct code *code)
{
    load_arg(code, 0);
    ret_if(code, 0, SECCOMP_RET_ALLOW);
    ret_if(code, 0xffffffff, SECCOMP_RET_ALLOW); /* asks only */
    ret(code, RET_ERRNO(EPERM));
}

static void code_scheduler(struct code *code)
{
    load_arg(code, 1);
    mask(code, ~(uint32_t)X32_BIT); /* SCHED_RESET_ON_FORK */
    ret_if(code, 0 /* SCHED_OTHER */, SECCOMP_RET_ALLOW);
    ret_if(code, 3 /* SCHED_BATCH */, SECCOMP_RET_ALLOW);
    ret_if(code, 5 /* SCHED_IDLE */, SECCOMP_RET_ALLOW);
    ret(code, RET_ERRNO(EPERM));
}

static void make_node(struct code *code, unsigned mode_arg)
{
    load_arg(code, mode_arg);
    mask(code, S_IFMT);
    ret_if(code, S_IFCHR, RET_ERRNO(EPERM));
    ret_if(code, S_IFBLK, RET_ERRNO(EPERM));
    ret(code, SECCOMP_RET_ALLOW);
}

static void code_action(struct code *code, enum filter_action action)
{
    code->len = 0;
    switch (action) {
    case FILTER_ALLOW:
        return ret(code, SECCOMP_RET_ALLOW);
    case FILTER_EPERM:
        return ret(code, RET_ERRNO(EPERM));
    case FILTER_ENOSYS:
        return ret(code, RET_ERRNO(ENOSYS));
    case FILTER_CLONE:
        return code_clone(code);
    case FILTER_SOCKET:
        return code_socket(code);
    case FILTER_IOCTL:
        return code_ioctl(code);
    case FILTER_PRCTL:
        return code_prctl(code);
    case FILTER_PERSONALITY:
        return code_personality(code);
    case FILTER_SCHEDULER:
        return code_scheduler(code);
    case FILTER_MKNOD:
        return make_node(code, 1);
    case FILTER_MKNODAT:
        return make_node(code, 2);
    }
    abort(); /* a row with an unknown action */
}

/* Numbers from `first` up to the next range share an action. */
struct range {
    uint32_t first;
    enum filter_action action;
};

/* What a jail's first process still needs while it builds its fence and the table does not allow.
 */
static const int setup_calls[] = {
    SYS_chroot,      SYS_clone3,     SYS_fsconfig,  SYS_fsmount,    SYS_fsopen,
    SYS_mount,       SYS_move_mount, SYS_open_tree, SYS_pivot_root, SYS_setdomainname,
    SYS_sethostname, SYS_setns,      SYS_umount2,   SYS_unshare,    SYS_mount_setattr};

static bool is_setup_call(int nr)
{
    for (size_t i = 0; i < countof(setup_calls); i++)
        if (setup_calls[i] == nr)
            return true;
    return false;
}

/* Of two filters the stricter verdict counts, so both parts together are the whole. */
static enum filter_action action_of(int nr, enum filter_part part)
{
    if (part != FILTER_WHOLE && is_setup_call(nr) == (part == FILTER_EARLY))
        return FILTER_ALLOW;
    for (size_t i = 0; i < filter_row_count; i++)
        if (filter_rows[i].nr == nr)
            return filter_rows[i].action;
    return FILTER_ENOSYS;
}

static size_t make_ranges(struct range ranges[RANGES_MAX], enum filter_part part)
{
    int last = 0;
    for (size_t i = 0; i < filter_row_count; i++)
        last = MAX(last, filter_rows[i].nr);
    size_t count = 0;
    for (int nr = 0; nr <= last + 1; nr++) {
        enum filter_action action = action_of(nr, part);
        if (count > 0 && ranges[count - 1].action == action)
            continue;
        assert(count < RANGES_MAX);
        ranges[count++] = (struct range){(uint32_t)nr, action};
    }
    return count;
}

/* A program is written from its end to its start, since its jumps go forward only: what a test
 * leads to stands already, and plain verdicts are shared by every test that can reach them. */
struct program {
    struct sock_filter *insns; /* FILTER_INSNS_MAX; the program is the last `len` of them */
    size_t len;
    size_t shared[FILTER_ENOSYS + 1]; /* `len` just after that verdict was written; 0: not yet */
};

enum { REACH = 255 }; /* of a conditional jump */

static size_t emit(struct program *program, uint16_t op, uint32_t k, size_t jt, size_t jf)
{
    assert(program->len < FILTER_INSNS_MAX && jt <= REACH && jf <= REACH);
    program->len++;
    program->insns[FILTER_INSNS_MAX - program->len] =
        (struct sock_filter)BPF_JUMP(op, k, (uint8_t)jt, (uint8_t)jf);
    return program->len;
}

/* Gives where the code of a range stands, as the length of the program from there on. */
static size_t emit_leaf(struct program *program, enum filter_action action)
{
    bool plain = action <= FILTER_ENOSYS;
    if (plain && program->shared[action] != 0 && program->len - program->shared[action] < REACH - 8)
        return program->shared[action];
    struct code code;
    code_action(&code, action);
    for (size_t i = code.len; i-- > 0;)
        (void)emit(program, code.insns[i].code, code.insns[i].k, code.insns[i].jt,
                   code.insns[i].jf);
    if (plain)
        program->shared[action] = program->len;
    return program->len;
}

/* A place that the next test can reach: itself, or a jump to it. */
static size_t bring_near(struct program *program, size_t place)
{
    if (program->len - place < REACH - 2)
        return place;
    return emit(program, BPF_JMP | BPF_JA, (uint32_t)(program->len - place), 0, 0);
}

static size_t emit_search(struct program *program, const struct range *ranges, size_t count)
{
    assert(count > 0);
    if (count == 1)
        return emit_leaf(program, ranges[0].action);
    size_t half = count / 2;
    size_t upper = emit_search(program, ranges + half, count - half);
    size_t lower = emit_search(program, ranges, half);
    upper = bring_near(program, upper);
    lower = bring_near(program, lower);
    return emit(program, BPF_JMP | BPF_JGE | BPF_K, ranges[half].first, program->len - upper,
                program->len - lower);
}

static void emit_head(struct program *program, size_t search)
{
    (void)emit(program, BPF_JMP | BPF_JA, (uint32_t)(program->len - search), 0, 0);
#ifdef __x86_64__
    (void)emit(program, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
    (void)emit(program, BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
#endif
    (void)emit(program, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
    /* A foreign ABI has other numbers for everything: nothing of it may run. */
    (void)emit(program, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
    (void)emit(program, BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0);
    (void)emit(program, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
}

size_t filter_compile(struct sock_filter *out, enum filter_part part)
{
    struct range ranges[RANGES_MAX];
    size_t count = make_ranges(ranges, part);
    struct program program = {.insns = out};
    emit_head(&program, emit_search(&program, ranges, count));
    memmove(out, out + FILTER_INSNS_MAX - program.len, program.len * sizeof *out);
    return program.len;
}

static struct {
    struct sock_filter insns[FILTER_INSNS_MAX];
    size_t len;
} prepared[FILTER_PARTS];

void filter_prepare(enum filter_part part)
{
    if (prepared[part].len == 0)
        prepared[part].len = filter_compile(prepared[part].insns, part);
}

int filter_install(enum filter_part part, struct err *err)
{
    if (!DEFENDED(SECCOMP))
        return 0;
    filter_prepare(part);
    struct sock_fprog program = {.len = (unsigned short)prepared[part].len,
                                 .filter = prepared[part].insns};
    if (SYS(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)) !=
        0)
        return err_sys(err, errno == 0 ? EBUSY : errno,
                       "install the system call filter; the kernel must offer seccomp filters "
                       "(CONFIG_SECCOMP_FILTER, not denied by an outer sandbox)");
    return 0;
}
