/* Makes a program out of the kernel's in which whoever forks a kernel is killed before libc's fork
 * has returned to it: what happens now and then when a jail ends too early. */

#include "base/sys.h"

__attribute__((constructor)) static void tear(void)
{
    sys_crash_at("zygote.bear");
}
