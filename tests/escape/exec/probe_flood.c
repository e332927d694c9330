/* RES-06, RES-10: output without end or measure: probe_flood out|both|line|bytes|pty MOST, MOST in
 * KiB (for bytes: in bytes); 0 is forever. */

#include "finding.h"

#include <sys/ioctl.h>
#include <termios.h>

static char block[65536];

static void fill(char separator)
{
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = i % 64 == 63 ? separator : 'y';
}

static void flood(int fd, size_t size, long long most)
{
    for (long long done = 0; most == 0 || done < most;) {
        size_t part = most != 0 && most - done < (long long)size ? (size_t)(most - done) : size;
        ssize_t wrote = write(fd, block, part);
        if (wrote < 0)
            _exit(4);
        done += wrote;
    }
}

static void flood_both(long long most)
{
    pid_t child = fork();
    flood(child == 0 ? 2 : 1, sizeof block, most);
    if (child == 0)
        _exit(0);
    (void)waitpid(child, NULL, 0);
}

/* A terminal whose master nobody reads, resized all the while. */
static void flood_pty(long long most)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0) {
        say("pty", "%s", errno_name(errno));
        return;
    }
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_NONBLOCK);
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    long long done = 0;
    for (int quiet = 0; quiet < 1000 && done < most;) {
        size.ws_col++;
        (void)ioctl(slave, TIOCSWINSZ, &size);
        ssize_t wrote = write(slave, block, sizeof block);
        quiet = wrote > 0 ? 0 : quiet + 1;
        done += wrote > 0 ? wrote : 0;
    }
    say("pty.held", "%s", done < most ? "bounded" : "all");
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "out";
    long long most = number(argc > 2 ? argv[2] : NULL, 0);
    fill(strcmp(way, "line") == 0 ? 'y' : '\n');
    if (strcmp(way, "bytes") == 0)
        flood(1, 1, most);
    else if (strcmp(way, "both") == 0)
        flood_both(most * 1024);
    else if (strcmp(way, "pty") == 0) {
        flood_pty(most * 1024);
        say("done", "1");
    } else
        flood(1, sizeof block, most * 1024);
    return 0;
}
