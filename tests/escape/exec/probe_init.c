/* ISO-16: what can be learnt from pid 1. */

#include "finding.h"

#include <dirent.h>

int main(int argc, char **argv)
{
    const char *needle = argc > 1 ? argv[1] : "no-needle";
    static const char *const files[] = {"environ", "cmdline", "maps",    "mem",   "auxv", "stack",
                                        "io",      "syscall", "pagemap", "wchan", "smaps"};
    static char text[65536];
    char path[64], name[64];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        (void)snprintf(path, sizeof path, "/proc/1/%s", files[i]);
        (void)snprintf(name, sizeof name, "init.%s", files[i]);
        ssize_t n = slurp(path, text, sizeof text);
        say(name, "%s", n < 0 ? errno_name(errno) : n == 0 ? "empty" : "read");
        for (ssize_t at = 0; at < n; at++)
            if (strncmp(text + at, needle, strlen(needle)) == 0)
                say("seen", "%s", path);
    }
    static const char *const links[] = {"root", "cwd", "exe"};
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        (void)snprintf(path, sizeof path, "/proc/1/%s", links[i]);
        (void)snprintf(name, sizeof name, "init.%s", links[i]);
        ssize_t n = readlink(path, text, sizeof text - 1);
        say(name, "%s", n < 0 ? errno_name(errno) : "read");
    }
    DIR *dir = opendir("/proc/1/fd");
    say("init.fd", "%s", dir == NULL ? errno_name(errno) : "read");
    if (dir != NULL)
        (void)closedir(dir);
    dir = opendir("/proc");
    int others = 0;
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
        others += atoi(entry->d_name) > 0;
    say("processes", "%d", others);
    say("control.own_environ", "%s",
        slurp("/proc/self/environ", text, sizeof text) >= 0 ? "ok" : errno_name(errno));
    say("done", "1");
    return 0;
}
