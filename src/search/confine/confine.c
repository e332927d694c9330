#include "search/confine/confine.h"

#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/defended.h"
#include "base/err.h"

#if defined(__x86_64__)
#define CONFINE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define CONFINE_ARCH AUDIT_ARCH_AARCH64
#else
#error "add the audit name of this architecture"
#endif

enum { NOBODY = 65534, NICE = 10 };

/* ---- privileges ---- */

static void drop_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0};
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    (void)syscall(SYS_capset, &head, none);
}

static void drop_bounding_set(void)
{
    for (int cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
        (void)prctl(PR_CAPBSET_DROP, cap); /* takes a capability itself, so it comes first */
}

static void become_nobody(void)
{
    (void)!setgroups(0, NULL);
    /* In a user namespace that knows no such user root stays, without a capability. */
    if (setresgid(NOBODY, NOBODY, NOBODY) == 0)
        (void)!setresuid(NOBODY, NOBODY, NOBODY);
}

/* Processes that serve requests run first; a longer time slice suits long computations. */
static void step_back(void)
{
    struct sched_param none = {0};
    (void)setpriority(PRIO_PROCESS, 0, NICE);
    (void)sched_setscheduler(0, SCHED_BATCH, &none);
}

void confine_privileges(bool is_background)
{
    if (is_background)
        step_back();
    if (DEFENDED(CONFINED_NO_NEW_PRIVS))
        (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (DEFENDED(CONFINED_CAPABILITIES))
        drop_bounding_set();
    if (DEFENDED(CONFINED_USER) && geteuid() == 0)
        become_nobody();
    if (DEFENDED(CONFINED_CAPABILITIES))
        drop_capabilities();
    if (DEFENDED(CONFINED_UNDUMPABLE))
        (void)prctl(PR_SET_DUMPABLE, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of user would clear it */
}

/* ---- system calls ---- */

enum { PER_RULE = 5, AROUND = 5 };
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)(field))
#define GIVE(value) BPF_STMT(BPF_RET | BPF_K, (value))
#define IS(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(value), (yes), (no))
#define HAS(bits, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (unsigned)(bits), (yes), (no))

struct program {
    struct sock_filter at[CONFINE_RULES_MAX * PER_RULE + AROUND];
    size_t len;
};

static void confine_put(struct program *program, const struct sock_filter *lines, size_t count)
{
    assert(program->len + count <= countof(program->at));
    memcpy(program->at + program->len, lines, count * sizeof *lines);
    program->len += count;
}

#define PUT(program, ...)                                                                          \
    confine_put((program), (const struct sock_filter[]){__VA_ARGS__},                              \
                sizeof((const struct sock_filter[]){__VA_ARGS__}) / sizeof(struct sock_filter))

static void put_rule(struct program *program, const struct confine_rule *rule)
{
    if (rule->how == CONFINE_NO_EXEC && DEFENDED(CONFINED_NO_EXEC))
        PUT(program, IS(rule->call, 0, 4), LOAD(offsetof(struct seccomp_data, args[2])),
            HAS(PROT_EXEC, 1, 0), GIVE(SECCOMP_RET_ALLOW), GIVE(SECCOMP_RET_KILL_PROCESS));
    else
        PUT(program, IS(rule->call, 0, 1),
            GIVE(rule->how == CONFINE_REFUSED ? SECCOMP_RET_ERRNO | ENOENT : SECCOMP_RET_ALLOW));
}

static int load_filter(const struct confine_list *list, struct err *err)
{
    static struct program program;
    program.len = 0;
    PUT(&program, LOAD(offsetof(struct seccomp_data, arch)), IS(CONFINE_ARCH, 1, 0),
        GIVE(SECCOMP_RET_KILL_PROCESS), LOAD(offsetof(struct seccomp_data, nr)));
    for (size_t i = 0; i < list->rule_count; i++)
        put_rule(&program, &list->rules[i]);
    PUT(&program, GIVE(SECCOMP_RET_KILL_PROCESS));
    struct sock_fprog filter = {.len = (unsigned short)program.len, .filter = program.at};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0)
        return err_sys(err, errno, "load the filter of system calls");
    return 0;
}

int confine_calls(const struct confine_list *list, struct err *err)
{
    for (size_t i = 0; DEFENDED(CONFINED_LIMITS) && i < list->limit_count; i++) {
        struct rlimit limit = {list->limits[i].value, list->limits[i].value};
        if (setrlimit((__rlimit_resource_t)list->limits[i].what, &limit) < 0)
            return err_sys(err, errno, "set the limits of the process");
    }
    return DEFENDED(CONFINED_SECCOMP) ? load_filter(list, err) : 0;
}
