#include "jail/inside/filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/defended.h"
#include "base/err.h"
#include "base/sys.h"
#include "jail/inside/filter_internal.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "no seccomp filter for this architecture"
#endif

enum { RANGES_MAX = 512 };

/* Numbers from `first` up to the next range share an action. */
struct range {
    uint32_t first;
    enum filter_action action;
};

/* What a jail's first process needs while it confines itself, and the table does not allow.
 */
static const int setup_calls[] = {
    SYS_chroot,     SYS_clone3,    SYS_fsconfig,      SYS_fsmount,       SYS_fsopen,      SYS_mount,
    SYS_move_mount, SYS_open_tree, SYS_pivot_root,    SYS_setdomainname, SYS_sethostname, SYS_setns,
    SYS_umount2,    SYS_unshare,   SYS_mount_setattr, SYS_seccomp, /* for the late part itself */
};

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
    size_t
        shared[FILTER_LAST_PLAIN + 1]; /* `len` just after that verdict was written; 0: not yet */
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
    bool plain = action <= FILTER_LAST_PLAIN;
    if (plain && program->shared[action] != 0 && program->len - program->shared[action] < REACH - 8)
        return program->shared[action];
    struct filter_code code;
    filter_code(&code, action);
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
    (void)emit(program, BPF_JMP | BPF_JGE | BPF_K, FILTER_X32_BIT, 0, 1);
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
