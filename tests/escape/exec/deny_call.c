/* ISO-17, outside the jail: a host that lacks something. Runs a command with a system call refused:
 * deny_call NAME CMD ARG..., NAME being seccomp, userns, mount, landlock or none. */

#include "finding.h"

#include <stddef.h>
#include <sys/prctl.h>

struct insn {
    uint16_t code;
    uint8_t jt, jf;
    uint32_t k;
};

struct program {
    unsigned short len;
    const struct insn *filter;
};

enum { LOAD = 0x20, JEQ = 0x15, JSET = 0x45, RET = 0x06, ALLOW = 0x7fff0000, ERRNO = 0x00050000 };

static struct insn code[64];
static unsigned short used;

static void emit(uint16_t op, uint8_t jt, uint8_t jf, uint32_t k)
{
    code[used++] = (struct insn){op, jt, jf, k};
}

static void refuse(long nr, int e)
{
    emit(LOAD, 0, 0, 0);
    emit(JEQ, 0, 1, (uint32_t)nr);
    emit(RET, 0, 0, ERRNO | (uint32_t)e);
}

/* Refuses the call if its first argument has one of `bits`, or is `equal` when bits is 0. */
static void refuse_arg(long nr, uint32_t bits, uint32_t equal, int e)
{
    emit(LOAD, 0, 0, 0);
    emit(JEQ, 0, 3, (uint32_t)nr);
    emit(LOAD, 0, 0, 16);
    emit(bits != 0 ? JSET : JEQ, 0, 1, bits != 0 ? bits : equal);
    emit(RET, 0, 0, ERRNO | (uint32_t)e);
}

static void build(const char *name)
{
    if (strcmp(name, "seccomp") == 0) {
        refuse(SYS_seccomp, ENOSYS);
        refuse_arg(SYS_prctl, 0, PR_SET_SECCOMP, EINVAL);
    } else if (strcmp(name, "userns") == 0) {
        refuse(SYS_clone3, EPERM);
        refuse_arg(SYS_clone, 0x10000000, 0, EPERM);
        refuse_arg(SYS_unshare, 0x10000000, 0, EPERM);
    } else if (strcmp(name, "mount") == 0) {
        refuse(SYS_mount, EPERM);
        refuse(SYS_fsopen, EPERM);
        refuse(SYS_fsmount, EPERM);
    } else if (strcmp(name, "pivot") == 0) {
        refuse(SYS_pivot_root, EPERM);
    } else if (strcmp(name, "landlock") == 0)
        refuse(444, ENOSYS);
    emit(RET, 0, 0, ALLOW);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 125;
    build(argv[1]);
    struct program program = {used, code};
    /* Root may filter without it; other users give up set-id programs, which is no loss here. */
    if (geteuid() != 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return 125;
    if (prctl(PR_SET_SECCOMP, 2, &program) < 0)
        return 125;
    (void)execvp(argv[2], argv + 2);
    return 127;
}
