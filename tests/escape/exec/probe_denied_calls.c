/* ISO-06: every call that the policy answers with EPERM, made raw and with arguments that would do
 * something if it were let through. The controls beside them differ only in the argument. */

#include "finding.h"

#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>

/* Not in every libc's list. */
enum { NR_process_madvise = 440, NR_quotactl_fd = 443, NR_lookup_dcookie = 212 };

static void interpreter(void)
{
    static char attr[128];
    attr[0] = 1; /* a type that is neither 0 nor absurd */
    ATTEMPT("bpf", SYS_bpf, 0, P(attr), sizeof attr);
    ATTEMPT("perf_event_open", SYS_perf_event_open, P(attr), 0, -1, -1, 0);
    ATTEMPT("userfaultfd", SYS_userfaultfd, 0);
    ATTEMPT("userfaultfd.user", SYS_userfaultfd, 1);
    ATTEMPT("kexec_load", SYS_kexec_load, 0, 0, 0, 0);
    ATTEMPT("kexec_file_load", SYS_kexec_file_load, -1, -1, 0, 0, 0);
    ATTEMPT("init_module", SYS_init_module, P(attr), sizeof attr, P(""));
    ATTEMPT("finit_module", SYS_finit_module, 0, P(""), 0);
    ATTEMPT("delete_module", SYS_delete_module, P("none"), 0);
    ATTEMPT("syslog", SYS_syslog, 10, 0, 0);
    ATTEMPT("reboot", SYS_reboot, 0xfee1dead, 672274793, 0x89abcdef /* CAD_ON */, 0);
    ATTEMPT("acct", SYS_acct, 0);
    ATTEMPT("swapon", SYS_swapon, P("/tmp/none"), 0);
    ATTEMPT("swapoff", SYS_swapoff, P("/tmp/none"));
    ATTEMPT("quotactl", SYS_quotactl, 0, 0, 0, 0);
    ATTEMPT("quotactl_fd", NR_quotactl_fd, 0, 0, 0, 0);
    ATTEMPT("vhangup", SYS_vhangup);
    ATTEMPT("sethostname", SYS_sethostname, P("taken"), 5);
    ATTEMPT("setdomainname", SYS_setdomainname, P("taken"), 5);
#if defined __x86_64__
    ATTEMPT("iopl", SYS_iopl, 3);
    ATTEMPT("ioperm", SYS_ioperm, 0, 1, 1);
    ATTEMPT("modify_ldt", SYS_modify_ldt, 0, P(attr), sizeof attr);
    ATTEMPT("lookup_dcookie", NR_lookup_dcookie, 0, 0, 0);
    ATTEMPT("nfsservctl", 180, 0, 0, 0);
#endif
}

static void clocks(void)
{
    /* Wrong enough to be seen outside, near enough to do no harm. */
    struct timespec then = {.tv_sec = time(NULL) + 5};
    static char timex[256]; /* modes = 0 only reads; the filter must not care */
    ATTEMPT("settimeofday", SYS_settimeofday, P(&then), 0);
    ATTEMPT("clock_settime", SYS_clock_settime, 0, P(&then));
    ATTEMPT("clock_adjtime", SYS_clock_adjtime, 0, P(timex));
    ATTEMPT("adjtimex", SYS_adjtimex, P(timex));
    ATTEMPT("control.clock_gettime", SYS_clock_gettime, 0, P(&then));
}

static void keys(void)
{
    ATTEMPT("keyctl", SYS_keyctl, 0, -3, 1, 0, 0);
    ATTEMPT("add_key", SYS_add_key, P("user"), P("sandglass"), P("x"), 1, -4);
    ATTEMPT("request_key", SYS_request_key, P("user"), P("sandglass"), 0, 0);
}

static void processes(void)
{
    char byte = 0;
    struct iovec here = {&byte, 1}, there = {&byte, 1};
    char name[32];
    ATTEMPT("ptrace.attach_init", SYS_ptrace, 16, 1, 0, 0);
    ATTEMPT("ptrace.seize_init", SYS_ptrace, 0x4206, 1, 0, 0);
    ATTEMPT("ptrace.traceme", SYS_ptrace, 0, 0, 0, 0);
    ATTEMPT("process_vm_readv.init", SYS_process_vm_readv, 1, P(&here), 1, P(&there), 1, 0);
    ATTEMPT("process_vm_writev.init", SYS_process_vm_writev, 1, P(&here), 1, P(&there), 1, 0);
    ATTEMPT("process_vm_readv.self", SYS_process_vm_readv, getpid(), P(&here), 1, P(&there), 1, 0);
    long init = syscall(SYS_pidfd_open, 1, 0), self = syscall(SYS_pidfd_open, getpid(), 0);
    say("control.pidfd_open", "%s", self >= 0 ? "ok" : errno_name(errno));
    for (int fd = 0; fd < 64; fd++) {
        (void)snprintf(name, sizeof name, "pidfd_getfd.%d", fd);
        ATTEMPT(name, SYS_pidfd_getfd, init, fd, 0);
    }
    ATTEMPT("pidfd_getfd.self", SYS_pidfd_getfd, self, 0, 0);
    ATTEMPT("kcmp", SYS_kcmp, getpid(), 1, 0, 0, 0);
    ATTEMPT("process_madvise", NR_process_madvise, self, P(&here), 1, 4, 0);
    ATTEMPT("prctl.set_ptracer", SYS_prctl, 0x59616d61, -1, 0, 0, 0);
    ATTEMPT("prctl.set_ptracer_high", SYS_prctl, 0x59616d61L | 1L << 40, -1, 0, 0, 0);
    ATTEMPT("prctl.set_mm", SYS_prctl, 35, 8, 4096, 0, 0);
    ATTEMPT("control.prctl_get_name", SYS_prctl, PR_GET_NAME, P(name));
}

static void files(void)
{
    static char handle[144];
    int mount_id = 0;
    *(unsigned *)handle = 128;
    ATTEMPT("name_to_handle_at", SYS_name_to_handle_at, -100, P("/"), P(handle), P(&mount_id), 0);
    ATTEMPT("open_by_handle_at", SYS_open_by_handle_at, -100, P(handle), 0);
    ATTEMPT("fanotify_init", SYS_fanotify_init, 0, 0);
    ATTEMPT("fanotify_init.user", SYS_fanotify_init, 0x200 /* FAN_REPORT_FID */, 0);
    ATTEMPT("fanotify_mark", SYS_fanotify_mark, 0, 1, 2, -100, P("/"));
    ATTEMPT("mknodat.block", SYS_mknodat, -100, P("/tmp/p_block"), S_IFBLK | 0600, 0x800);
    ATTEMPT("mknodat.char", SYS_mknodat, -100, P("/tmp/p_char"), S_IFCHR | 0600, 0x101);
    ATTEMPT("mknodat.fuse", SYS_mknodat, -100, P("/tmp/p_fuse"), S_IFCHR | 0600, 10 << 8 | 229);
    ATTEMPT("mknodat.high", SYS_mknodat, -100, P("/tmp/p_high"), (S_IFCHR | 0600) | 1L << 40,
            0x103);
#if defined SYS_mknod
    ATTEMPT("mknod.char", SYS_mknod, P("/tmp/p_char2"), S_IFCHR | 0600, 0x101);
#endif
    ATTEMPT("control.mkfifo", SYS_mknodat, -100, P("/tmp/p_fifo"), S_IFIFO | 0600, 0);
}

static void machine(void)
{
    unsigned long nodes = 1;
    static char page[8192];
    ATTEMPT("personality.no_random", SYS_personality, 0x0040000);
    ATTEMPT("personality.read_implies_exec", SYS_personality, 0x0400000);
    ATTEMPT("control.personality_query", SYS_personality, 0xffffffff);
    ATTEMPT("mbind", SYS_mbind, P(page), 4096, 0, 0, 0, 0);
    ATTEMPT("set_mempolicy", SYS_set_mempolicy, 0, 0, 0);
    ATTEMPT("migrate_pages", SYS_migrate_pages, 0, 1, P(&nodes), P(&nodes));
    ATTEMPT("move_pages", SYS_move_pages, 0, 0, 0, 0, 0, 0);
    ATTEMPT("msgget", SYS_msgget, 0, 0600 | 01000);
    ATTEMPT("mq_open", SYS_mq_open, P("sandglass"), 0102, 0600, 0);
}

static void terminal_ioctls(void)
{
    int pair[2] = {posix_openpt(O_RDWR | O_NOCTTY), -1};
    if (pair[0] >= 0 && grantpt(pair[0]) == 0 && unlockpt(pair[0]) == 0)
        pair[1] = open(ptsname(pair[0]), O_RDWR | O_NOCTTY);
    say("control.pty", "%s", pair[1] >= 0 ? "ok" : errno_name(errno));
    char byte = 'x';
    int discipline = 0;
    static char size[8];
    ATTEMPT("ioctl.tiocsti", SYS_ioctl, pair[1], 0x5412, P(&byte));
    ATTEMPT("ioctl.tiocsti_high", SYS_ioctl, pair[1], 0x5412L | 1L << 40, P(&byte));
    ATTEMPT("ioctl.tioclinux", SYS_ioctl, pair[1], 0x541c, P(&byte));
    ATTEMPT("ioctl.tiocsetd", SYS_ioctl, pair[1], 0x5423, P(&discipline));
    ATTEMPT("ioctl.tioccons", SYS_ioctl, pair[1], 0x541d, 0);
    ATTEMPT("control.tiocgwinsz", SYS_ioctl, pair[1], 0x5413, P(size));
}

int main(void)
{
    interpreter();
    clocks();
    keys();
    processes();
    files();
    machine();
    terminal_ioctls();
    say("done", "1");
    return 0;
}
