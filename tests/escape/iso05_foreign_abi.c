/* The same machine speaks older and other system call languages. Argument: which to try. The
 * process must die before the call happens; only an escape prints something. */

#include "probe.h"

int main(int argc, char **argv)
{
    const char *which = argc > 1 ? argv[1] : "";
    if (strcmp(which, "native") == 0)
        return getpid() > 0 ? 0 : 1;
#ifdef __x86_64__
    long result = 0;
    if (strcmp(which, "i386") == 0)
        __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory");
    else if (strcmp(which, "i386-mount") == 0)
        __asm__ volatile("int $0x80" : "=a"(result) : "a"(21L), "b"(0L), "c"(0L) : "memory");
    else if (strcmp(which, "x32") == 0)
        result = syscall(SYS_getpid | 0x40000000);
    else if (strcmp(which, "x32-socket") == 0)
        result = syscall(SYS_socket | 0x40000000, 2, 1, 0);
    printf("alive with %ld\n", result);
#endif
    return 1;
}
