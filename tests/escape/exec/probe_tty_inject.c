/* ISO-14: push bytes back into the terminal's input, for the shell outside to read after us. */

#include "finding.h"

#include <sys/ioctl.h>
#include <termios.h>

static void inject(const char *name, int fd, unsigned long request, const char *text)
{
    long rc = 0;
    for (const char *c = text; *c && rc == 0; c++)
        rc = syscall(SYS_ioctl, fd, request, c);
    say_result(name, rc);
}

int main(int argc, char **argv)
{
    char text[512];
    (void)snprintf(text, sizeof text, "touch %s\n", argc > 1 ? argv[1] : "/tmp/injected");
    int tty = open("/dev/tty", O_RDWR);
    say_result("tty.open", tty);
    const int fds[] = {0, 1, 2, tty};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "tiocsti.%zu", i);
        inject(name, fds[i], 0x5412, text);
        (void)snprintf(name, sizeof name, "tiocsti_high.%zu", i);
        inject(name, fds[i], 0x5412UL | 1UL << 40, text);
        /* TIOCLINUX 3 is "paste the selection", which types for us on a console. */
        (void)snprintf(name, sizeof name, "tioclinux.%zu", i);
        inject(name, fds[i], 0x541c, "\x03");
    }
    say("isatty", "%d%d%d", isatty(0), isatty(1), isatty(2));
    struct winsize size = {0};
    say_result("control.winsize", ioctl(0, TIOCGWINSZ, &size));
    say("winsize", "%dx%d", size.ws_col, size.ws_row);
    say("done", "1");
    return 0;
}
