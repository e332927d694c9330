/* A terminal does not take keystrokes from the program that runs on it. */

#include "probe.h"

#include <sys/ioctl.h>

int main(void)
{
    must_work("there is a terminal", isatty(0) == 1);
    must_fail("TIOCSTI", ioctl(0, TIOCSTI, "x"), EPERM);
    must_fail("TIOCLINUX", ioctl(0, 0x541c, "\3"), EPERM);
    must_fail("TIOCSETD", ioctl(0, TIOCSETD, (int[]){2}), EPERM);
    must_fail("TIOCCONS", ioctl(0, TIOCCONS, 0), EPERM);
    struct winsize size;
    must_work("window size", ioctl(0, TIOCGWINSZ, &size) == 0);
    return probe_end();
}
