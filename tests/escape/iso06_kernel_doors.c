/* Calls into parts of the kernel that tenant code has no business with. */

#include "probe.h"

#include <sys/time.h>

int main(void)
{
    char buffer[256] = {0};
    must_fail("bpf", syscall(SYS_bpf, 0, buffer, sizeof buffer), EPERM);
    must_fail("perf_event_open", syscall(SYS_perf_event_open, buffer, 0, -1, -1, 0), EPERM);
    must_fail("userfaultfd", syscall(SYS_userfaultfd, 1), EPERM);
    must_fail("keyctl", syscall(SYS_keyctl, 0, -3, 1), EPERM);
    must_fail("add_key", syscall(SYS_add_key, "user", "x", "y", 1, -3), EPERM);
    must_fail("request_key", syscall(SYS_request_key, "user", "x", NULL, -3), EPERM);
    must_fail("kexec_load", syscall(SYS_kexec_load, 0, 0, NULL, 0), EPERM);
    must_fail("init_module", syscall(SYS_init_module, buffer, 1, ""), EPERM);
    must_fail("finit_module", syscall(SYS_finit_module, 0, "", 0), EPERM);
    must_fail("delete_module", syscall(SYS_delete_module, "x", 0), EPERM);
    must_fail("open_by_handle_at", syscall(SYS_open_by_handle_at, 0, buffer, 0), EPERM);
    must_fail("name_to_handle_at", syscall(SYS_name_to_handle_at, -100, "/", buffer, buffer, 0),
              EPERM);
    must_fail("ptrace init", syscall(SYS_ptrace, 16, 1, 0, 0), EPERM);
    must_fail("process_vm_readv", syscall(SYS_process_vm_readv, 1, NULL, 0, NULL, 0, 0), EPERM);
    must_fail("process_vm_writev", syscall(SYS_process_vm_writev, 1, NULL, 0, NULL, 0, 0), EPERM);
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    must_work("pidfd of oneself", pidfd >= 0);
    for (int fd = 0; fd < 64; fd++)
        must_fail("pidfd_getfd", syscall(SYS_pidfd_getfd, pidfd, fd, 0), EPERM);
    must_fail("kcmp", syscall(SYS_kcmp, 1, getpid(), 0, 0, 0), EPERM);
    must_fail("syslog", syscall(SYS_syslog, 3, buffer, 10), EPERM);
    must_fail("reboot", syscall(SYS_reboot, 0xfee1dead, 672274793, 0, NULL), EPERM);
    must_fail("swapon", syscall(SYS_swapon, "/tmp/x", 0), EPERM);
    must_fail("swapoff", syscall(SYS_swapoff, "/tmp/x"), EPERM);
    struct timeval now = {1, 0};
    must_fail("settimeofday", syscall(SYS_settimeofday, &now, NULL), EPERM);
    must_fail("clock_settime", syscall(SYS_clock_settime, 0, buffer), EPERM);
    must_fail("adjtimex", syscall(SYS_adjtimex, buffer), EPERM);
    must_fail("sethostname", syscall(SYS_sethostname, "evil", 4), EPERM);
    must_fail("acct", syscall(SYS_acct, NULL), EPERM);
    must_fail("quotactl", syscall(SYS_quotactl, 0, NULL, 0, NULL), EPERM);
    must_fail("fanotify_init", syscall(SYS_fanotify_init, 0, 0), EPERM);
    must_fail("msgget", syscall(SYS_msgget, 0, 0600), EPERM);
    must_fail("mq_open", syscall(SYS_mq_open, "x", 0, 0, NULL), EPERM);
    must_fail("mbind", syscall(SYS_mbind, 0, 0, 0, NULL, 0, 0), EPERM);
    must_fail("personality", syscall(SYS_personality, 0x40000), EPERM);
    must_fail("PR_SET_PTRACER", syscall(SYS_prctl, 0x59616d61, -1), EPERM);
    must_fail("PR_SET_MM", syscall(SYS_prctl, 35, 0, 0, 0, 0), EPERM);
    must_fail("real-time", syscall(SYS_sched_setscheduler, 0, 1, (int[]){1}), EPERM);
#ifdef __x86_64__
    must_fail("iopl", syscall(SYS_iopl, 3), EPERM);
    must_fail("ioperm", syscall(SYS_ioperm, 0, 1, 1), EPERM);
    must_fail("modify_ldt", syscall(SYS_modify_ldt, 0, buffer, 16), EPERM);
#endif
    must_work("getpid", getpid() > 1);
    return probe_end();
}
