/* ISO-05: system calls through the i386 and x32 doors, one a run since each must be fatal:
 * probe_foreign_abi native|int80|x32 getpid|mount|socket. */

#include "finding.h"

#if defined __x86_64__

static long int80(long nr, long a, long b, long c)
{
    long rc;
    __asm__ volatile("int $0x80"
                     : "=a"(rc)
                     : "a"(nr), "b"(a), "c"(b), "d"(c)
                     : "memory", "r8", "r9", "r10", "r11");
    return rc;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        say("usage", "native|int80|x32 getpid|mount|socket");
        return 2;
    }
    bool mount = strcmp(argv[2], "mount") == 0, sock = strcmp(argv[2], "socket") == 0;
    say("before", "1");
    long rc;
    if (strcmp(argv[1], "int80") == 0)
        rc = int80(mount ? 21 : sock ? 359 : 20, sock ? 2 : 0, sock ? 1 : 0, 0);
    else {
        long nr = mount ? SYS_mount : sock ? SYS_socket : SYS_getpid;
        if (strcmp(argv[1], "x32") == 0)
            nr |= 0x40000000;
        rc = syscall(nr, sock ? 2 : 0, sock ? 1 : 0, 0, 0, 0);
    }
    say("after", "%ld", rc);
    return 0;
}

#else

int main(void)
{
    say("skip", "this machine has one ABI");
    return 0;
}

#endif
