/* Adding a runtime that is a system of its own, with a stand-in for mmdebstrap that packs a small
 * tree: the real one takes minutes (make soak). */

#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "runtime/obtain.h"

static const char fine[] = "echo 'I: running apt-get update...' >&2\n"
                           "echo 'I: downloading packages with apt...' >&2\n"
                           "mkdir -p $T/usr/bin $T/etc $T/tmp $T/dev $T/proc $T/home $T/opt\n"
                           "cp " STATIC_WORD " $T/usr/bin/python3\n"
                           "ln -sf /etc/alternatives/py $T/usr/bin/py\n"
                           "exec tar -c -C $T .\n";

struct scene {
    struct runtime runtime;
    struct buf steps;
    char home[512], bin[512];
};

static void write_program(const struct scene *scene, const char *name, const char *rest)
{
    AUTO_BUF struct buf text = {0};
    struct err err;
    buf_printf(&text,
               "#!/bin/sh\n[ \"$1\" != --version ] || exit 0\nprintf '%%s\\n' \"$@\" > %s/asked\n"
               "T=%s/tree\nmkdir -p $T\n%s",
               scene->home, scene->home, rest);
    AUTO_CLOSE int dir = open(scene->bin, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_OK(fd_replace_file(dir, name, buf_str(&text), 0755, &err));
}

static void scene_open(struct scene *scene, const char *name, const char *script)
{
    char path[1024];
    struct err err;
    (void)snprintf(scene->home, sizeof scene->home, "%s/%s", test_tmpdir(), name);
    (void)snprintf(scene->bin, sizeof scene->bin, "%.400s/bin", scene->home);
    CHECK_OK(fd_make_dirs(scene->bin, 0755, &err));
    write_program(scene, "mmdebstrap", script);
    (void)snprintf(path, sizeof path, "%s:/usr/sbin:/usr/bin:/sbin:/bin", scene->bin);
    (void)setenv("PATH", path, 1);
    (void)setenv("SANDGLASS_DEBIAN_MIRROR", "http://127.0.0.1:9/debian", 1);
    scene->runtime = (struct runtime){.name = "system",
                                      .source = RUNTIME_DEBIAN,
                                      .version = "3.99",
                                      .release = "forky",
                                      .package = "python3,libpython3",
                                      .program = "/usr/bin/python3",
                                      .proof = "print(1)"};
}

static void scene_close(struct scene *scene)
{
    buf_done(&scene->steps);
}
#define AUTO_SCENE AUTO(scene_close)

static void on_progress(void *ctx, const char *step, UNUSED uint64_t have, UNUSED uint64_t total)
{
    struct scene *scene = ctx;
    buf_printf(&scene->steps, "%s;", step);
}

static int add(struct scene *scene, struct err *err)
{
    bool added;
    struct obtain how = {.data_dir = scene->home, .progress = on_progress, .ctx = scene};
    return runtime_add(&scene->runtime, &how, &added, err);
}

static bool is_there(const struct scene *scene, const char *path, mode_t *ret_mode)
{
    char full[1024];
    struct stat st = {0};
    (void)snprintf(full, sizeof full, "%s/%s", scene->home, path);
    bool there = lstat(full, &st) == 0;
    *ret_mode = st.st_mode & 07777;
    return there;
}

static bool was_asked_for(const struct scene *scene, const char *word)
{
    AUTO_BUF struct buf text = {0};
    struct err err;
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/asked", scene->home);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && buf_read_all(&text, fd, &err) == 0 &&
           str_find(buf_str(&text), str_of(word)) < text.len;
}

TEST(a_system_is_made_tried_as_a_root_and_sealed)
{
    AUTO_SCENE struct scene scene = {0};
    struct err err = {0};
    mode_t mode;
    scene_open(&scene, "made", fine);
    CHECK_OK(add(&scene, &err));
    CHECK_STR(buf_str(&scene.steps), "starting mmdebstrap;reading lists;downloading;unpacking the "
                                     "archive;trying;");
    CHECK(was_asked_for(&scene, "--include=python3,libpython3\n"));
    CHECK(was_asked_for(&scene, "\nforky\n-\nhttp://127.0.0.1:9/debian\n"));
    CHECK(is_there(&scene, "runtimes/roots/system/usr/bin/python3", &mode) && mode == 0555);
    CHECK(is_there(&scene, "runtimes/roots/system", &mode) && mode == 0555);
    CHECK(is_there(&scene, "runtimes/roots/system/usr/bin/py", &mode));
    CHECK(!is_there(&scene, "runtimes/incoming/system.debs", &mode));
    CHECK(!is_there(&scene, "runtimes/incoming/system-3.99.tar", &mode));
    CHECK_OK(runtime_remove(&scene.runtime, scene.home, &err));
    CHECK(!is_there(&scene, "runtimes/roots/system", &mode));
}

TEST(an_archive_that_is_complete_is_not_made_again)
{
    AUTO_SCENE struct scene scene = {0};
    struct err err = {0};
    mode_t mode;
    scene_open(&scene, "again", fine);
    scene.runtime.version = "4.0"; /* not what it says: it is made and not added */
    CHECK_ERR(add(&scene, &err), ERR_INVALID);
    CHECK_MSG("it reports the version '3.99.1 (a stand-in)");
    CHECK(is_there(&scene, "runtimes/incoming/system-4.0.tar", &mode));
    CHECK(!is_there(&scene, "runtimes/roots/system", &mode));
    write_program(&scene, "mmdebstrap", "exit 7\n");
    CHECK_ERR(add(&scene, &err), ERR_INVALID);
}

/* Does a process run a program of the scene? */
static bool works_on(const struct scene *scene)
{
    bool found = false;
    DIR *dir = opendir("/proc");
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char path[300], text[4096];
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        (void)snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text);
        found |= got > 0 && memmem(text, (size_t)got, scene->bin, strlen(scene->bin)) != NULL;
    }
    if (dir != NULL)
        (void)closedir(dir);
    return found;
}

/* An addition that is ended from outside, whatever it was doing. */
TEST(nothing_of_one_that_was_killed_works_on)
{
    AUTO_SCENE struct scene scene = {0};
    struct err err = {0};
    mode_t mode;
    scene_open(
        &scene, "killed",
        "touch $TMPDIR/scratch; (while sleep 0.05; do echo more; done) & : > $T/begun; wait\n");
    pid_t pid = fork();
    if (pid == 0)
        _exit(add(&scene, &err) == 0);
    while (!is_there(&scene, "tree/begun", &mode))
        (void)usleep(10000);
    CHECK(works_on(&scene));
    CHECK(kill(pid, SIGTERM) == 0 && waitpid(pid, NULL, 0) == pid);
    /* Who was killed is there until it has run once more. */
    for (int i = 0; i < 6000 && works_on(&scene); i++)
        (void)usleep(10000);
    CHECK(!works_on(&scene));
    CHECK(is_there(&scene, "runtimes/incoming/system.debs", &mode));
    CHECK(geteuid() != 0 || is_there(&scene, "runtimes/incoming/system.tree/scratch", &mode));
    /* What is left goes with the runtime, though it never came to be. */
    CHECK_OK(runtime_remove(&scene.runtime, scene.home, &err));
    CHECK(!is_there(&scene, "runtimes/incoming/system.debs", &mode));
    CHECK(!is_there(&scene, "runtimes/incoming/system-3.99.tar.part", &mode));
    CHECK(!is_there(&scene, "runtimes/incoming/system.tree", &mode));
    CHECK_ERR(runtime_remove(&scene.runtime, scene.home, &err), ERR_NOT_FOUND);
}

TEST(the_last_message_of_mmdebstrap_is_reported)
{
    AUTO_SCENE struct scene scene = {0};
    struct err err = {0};
    mode_t mode;
    scene_open(&scene, "failing", "echo 'E: the mirror has no forky' >&2; echo half; exit 3\n");
    CHECK_ERR(add(&scene, &err), ERR_UNAVAILABLE);
    CHECK_MSG("mmdebstrap: the mirror has no forky");
    CHECK(!is_there(&scene, "runtimes/incoming/system-3.99.tar", &mode));
    CHECK(!is_there(&scene, "runtimes/incoming/system-3.99.tar.part", &mode));
}

TEST(without_mmdebstrap_the_error_names_the_package)
{
    AUTO_SCENE struct scene scene = {0};
    struct err err = {0};
    scene_open(&scene, "without", fine);
    (void)setenv("PATH", "/nowhere", 1);
    CHECK_ERR(add(&scene, &err), ERR_UNAVAILABLE);
    CHECK_MSG("install the package mmdebstrap");
    (void)setenv("SANDGLASS_DEBIAN_MIRROR", "somewhere", 1);
    scene_open(&scene, "without", fine);
    (void)setenv("SANDGLASS_DEBIAN_MIRROR", "somewhere", 1);
    CHECK_ERR(add(&scene, &err), ERR_INVALID);
    CHECK_MSG("SANDGLASS_DEBIAN_MIRROR is not a URL: 'somewhere'");
}
