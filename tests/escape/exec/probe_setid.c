/* ISO-02: look for a set-id file that still works, make one, and try to give a file capabilities.
 * Run as `probe_setid whoami` it is the program that such a file would start. */

#include "finding.h"

#include <ftw.h>
#include <sys/stat.h>
#include <sys/xattr.h>

static int found;

static bool euid_changes(const char *path, char *const argv[])
{
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_RDWR);
        (void)dup2(null, 0), (void)dup2(null, 1), (void)dup2(null, 2);
        (void)alarm(2);
        (void)execv(path, argv);
        _exit(0);
    }
    /* Between exec and exit the ids of the child tell whether the bit had an effect. */
    bool changed = false;
    char status_path[64], text[4096];
    (void)snprintf(status_path, sizeof status_path, "/proc/%d/status", (int)child);
    for (int i = 0; i < 200 && waitpid(child, NULL, WNOHANG) == 0; i++) {
        unsigned real = 0, effective = 0;
        if (slurp(status_path, text, sizeof text) > 0) {
            char *uid = strstr(text, "\nUid:");
            if (uid != NULL && sscanf(uid, "\nUid: %u %u", &real, &effective) == 2)
                changed |= real != effective;
        }
        (void)usleep(500);
    }
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    return changed;
}

static int visit(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    if (type != FTW_F || !(st->st_mode & (S_ISUID | S_ISGID)) || !(st->st_mode & S_IXOTH))
        return 0;
    found++;
    char *const argv[] = {(char *)path, NULL};
    say("setid.file", "%s %s", path, euid_changes(path, argv) ? "changed" : "same");
    return 0;
}

static bool copy_self(const char *to)
{
    static char bytes[1 << 20];
    int in = open("/proc/self/exe", O_RDONLY), out = open(to, O_CREAT | O_TRUNC | O_WRONLY, 0755);
    ssize_t n = in < 0 || out < 0 ? -1 : read(in, bytes, sizeof bytes);
    bool whole = n > 0 && write(out, bytes, (size_t)n) == n;
    (void)close(in), (void)close(out);
    return whole;
}

static void try_own(const char *dir)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/setid-copy", dir);
    if (!copy_self(path)) {
        say("own.copy", "%s", errno_name(errno));
        return;
    }
    say_result("own.chmod", chmod(path, 06755));
    char *const argv[] = {path, (char *)"whoami", NULL};
    pid_t child = fork();
    if (child == 0) {
        (void)execv(path, argv);
        _exit(errno);
    }
    int status = 0;
    (void)waitpid(child, &status, 0);
    say("own.exit", "%d", WEXITSTATUS(status));
    /* VFS_CAP_REVISION_2 with CAP_SYS_ADMIN, permitted and effective. */
    static const unsigned char caps[20] = {1, 0, 0, 2, 0, 0, 0x20};
    say_result("own.capability", setxattr(path, "security.capability", caps, sizeof caps, 0));
    say_result("own.user_xattr_control", access(path, X_OK));
    (void)unlink(path);
}

static void whoami(void)
{
    char text[4096] = "";
    (void)slurp("/proc/self/status", text, sizeof text);
    char *eff = strstr(text, "CapEff:");
    say("whoami.same_uid", "%d", getuid() == geteuid() && getgid() == getegid());
    say("whoami.root", "%d", geteuid() == 0);
    say("whoami.capeff", "%.16s", eff != NULL ? eff + 8 : "?");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "whoami") == 0) {
        whoami();
        return 0;
    }
    static const char *const places[] = {"/usr/bin",     "/usr/sbin", "/usr/lib",
                                         "/usr/libexec", "/opt",      "/workspace"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        (void)nftw(places[i], visit, 16, FTW_PHYS);
    say("setid.found", "%d", found);
    try_own(argc > 1 ? argv[1] : "/tmp");
    whoami();
    say("done", "1");
    return 0;
}
