/* Paths, links, races and special files against the file verbs of a jail: the cases FS-01 to FS-05,
 * FS-07 and FS-08. Beside each attack stands what would have happened without the wall: the same
 * path, opened on the host, gives the secret. */

#include "place.h"
#include "test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fd.h"
#include "jail/client/files.h"
#include "waiting.h"

#define SECRET "host-secret-4711"

/* The workspace is a host directory; beside it lies what no jail may see. */
struct stage {
    char top[512], work[600], secret[600];
    struct jail *jail;
    struct stat before;
};

static void stage_done(struct stage *stage)
{
    stage->jail = jail_free(stage->jail);
    (void)chmod(stage->work, 0755); /* its owner inside may have shut it */
}

static void stage_init(struct stage *stage, const char *name)
{
    (void)snprintf(stage->top, sizeof stage->top, "%s/%s", test_tmpdir(), name);
    (void)snprintf(stage->work, sizeof stage->work, "%s/work", stage->top);
    (void)snprintf(stage->secret, sizeof stage->secret, "%s/secret", stage->top);
    CHECK_INT(mkdir(stage->top, 0755), 0);
    CHECK_INT(mkdir(stage->work, 0755), 0);
    test_write(stage->top, "secret", SECRET);
    CHECK_INT(chmod(stage->secret, 0666), 0);
    CHECK_INT(stat(stage->secret, &stage->before), 0);
    stage->jail = place_jail((struct jail_plan){.workspace = stage->work});
}

static void check_untouched(const struct stage *stage)
{
    struct stat now;
    char text[64] = {0};
    AUTO_CLOSE int fd = open(stage->secret, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    CHECK_CSTR(text, SECRET);
    CHECK_INT(stat(stage->secret, &now), 0);
    CHECK_INT(now.st_mtim.tv_sec, stage->before.st_mtim.tv_sec);
    CHECK_INT(now.st_mtim.tv_nsec, stage->before.st_mtim.tv_nsec);
    CHECK_INT(now.st_mode, stage->before.st_mode);
    CHECK_INT(now.st_nlink, 1);
}

/* The control: followed on the host, this path gives the secret. */
static void check_leads_out(const struct stage *stage, const char *path)
{
    char text[64] = {0}, whole[1300];
    (void)snprintf(whole, sizeof whole, "%s/%s", stage->work, path);
    AUTO_CLOSE int fd = open(whole, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    CHECK_CSTR(text, SECRET);
}

static bool has_secret(struct str bytes)
{
    return str_find(bytes, STR(SECRET)) != bytes.len;
}

static bool data_has_secret(int data)
{
    static char text[1 << 20];
    ssize_t len = pread(data, text, sizeof text, 0);
    return len > 0 && has_secret(str_n(text, (size_t)len));
}

/* Runs one question to its end; whatever comes back must not hold the secret. */
static enum err_code attack(struct jail *jail, struct jail_file question)
{
    struct err err = {0};
    struct jail_event event;
    uint32_t id;
    AUTO_CLOSE int data = memfd_create("data", MFD_CLOEXEC);
    CHECK(data >= 0);
    if (jail_ask_file(jail, &question, data, &id, &err) < 0)
        return err.code;
    for (;;) {
        place_next(jail, &event);
        CHECK_INT(event.id, id);
        if (event.type != JAIL_EVENT_PART)
            break;
        CHECK(!has_secret(event.part));
        if (question.verb == JAIL_FILE_WATCH && event.part.len == 0) {
            if (jail_cancel(jail, id, &err) < 0)
                return err.code;
        }
    }
    CHECK(!data_has_secret(data));
    CHECK(event.type == JAIL_EVENT_FAILED || event.type == JAIL_EVENT_FILE);
    if (event.type == JAIL_EVENT_FAILED)
        return event.err.code;
    CHECK(!has_secret(event.file->bytes));
    return ERR_NONE;
}

/* The same question with every verb. */
static void attack_with_all(struct jail *jail, struct str path)
{
    for (int verb = JAIL_FILE_STAT; verb < JAIL_FILE_VERBS_END; verb++) {
        struct jail_file question = {.verb = (enum jail_file_verb)verb,
                                     .path = path,
                                     .to = STR("/workspace/elsewhere"),
                                     .bytes = STR("secret"),
                                     .with = STR("other"),
                                     .follow = true,
                                     .recursive = true,
                                     .replace = true,
                                     .limit = 4096,
                                     .mode = 0600};
        if (verb == JAIL_FILE_GREP || verb == JAIL_FILE_GLOB || verb == JAIL_FILE_LIST)
            question.with = (struct str){0};
        (void)attack(jail, question);
    }
}

TEST(fs01_paths_that_want_out)
{
    AUTO(stage_done) struct stage stage = {0};
    static char long_path[5001], long_name[300];
    memset(long_path, 'a', sizeof long_path - 1);
    for (size_t i = 0; i < sizeof long_path - 1; i += 100)
        long_path[i] = '/';
    memset(long_name, 'n', 256);
    stage_init(&stage, "fs01");
    check_leads_out(&stage, "../secret");
    const struct str paths[] = {STR("/workspace/../secret"),
                                STR("/workspace/../../../../../../../../secret"),
                                str_of(stage.secret),
                                STR("/workspace/a/../../secret"),
                                STR("/workspace/./..//../secret"),
                                STR("/workspace/%2e%2e%2fsecret"),
                                STR("/workspace/..%c0%afsecret"),
                                STR("/workspace/..\\..\\secret"),
                                STR("/workspace/a\0/../secret"),
                                STR(""),
                                STR("."),
                                STR("/"),
                                STR("/workspace/"),
                                STR("../secret"),
                                str_of(long_path),
                                STR("//"),
                                STR("/workspace//secret"),
                                STR("/workspace/\xff\xfe\xc3\x28")};
    for (size_t i = 0; i < countof(paths); i++)
        attack_with_all(stage.jail, paths[i]);
    char named[600];
    (void)snprintf(named, sizeof named, "/workspace/%s", long_name);
    attack_with_all(stage.jail, str_of(named));
    check_untouched(&stage);
    /* What has no way to be meant is said so. */
    CHECK_INT(attack(stage.jail, (struct jail_file){.verb = JAIL_FILE_READ}), ERR_INVALID);
    CHECK_INT(attack(stage.jail, (struct jail_file){.verb = JAIL_FILE_READ, .path = str_of(named)}),
              ERR_INVALID);
    CHECK_INT(attack(stage.jail,
                     (struct jail_file){.verb = JAIL_FILE_READ, .path = STR("/workspace/a\0b")}),
              ERR_INVALID);
}

TEST(fs02_links_that_want_out)
{
    AUTO(stage_done) struct stage stage = {0};
    struct err err = {0};
    stage_init(&stage, "fs02");
    char link[700];
    (void)snprintf(link, sizeof link, "%s/up", stage.work);
    CHECK_INT(symlink("../secret", link), 0);
    (void)snprintf(link, sizeof link, "%s/abs", stage.work);
    CHECK_INT(symlink(stage.secret, link), 0);
    (void)snprintf(link, sizeof link, "%s/dir", stage.work);
    CHECK_INT(symlink("..", link), 0);
    (void)snprintf(link, sizeof link, "%s/root", stage.work);
    CHECK_INT(symlink("/", link), 0);
    check_leads_out(&stage, "up");
    check_leads_out(&stage, "abs");
    check_leads_out(&stage, "dir/secret");
    (void)place_shell(
        stage.jail,
        "ln -s loop loop; ln -s /workspace/up c0; i=0; while [ $i -lt 60 ]; do "
        "ln -s c$i c$((i+1)); i=$((i+1)); done; echo inside > inside; ln -s inside fine",
        NULL);
    static const char *const names[] = {
        "/workspace/up",          "/workspace/abs", "/workspace/dir/secret",
        "/workspace/root/secret", "/workspace/dir", "/workspace/root",
        "/workspace/loop",        "/workspace/c60", "/workspace/loop/x"};
    for (size_t i = 0; i < countof(names); i++) {
        struct jail_file read = {.verb = JAIL_FILE_READ, .path = str_of(names[i])};
        CHECK(attack(stage.jail, read) != ERR_NONE);
        read.verb = JAIL_FILE_READ_TO;
        CHECK(attack(stage.jail, read) != ERR_NONE);
        (void)attack(stage.jail, (struct jail_file){.verb = JAIL_FILE_GREP,
                                                    .path = str_of(names[i]),
                                                    .pattern = STR("secret")});
        (void)attack(stage.jail, (struct jail_file){.verb = JAIL_FILE_EDIT,
                                                    .path = str_of(names[i]),
                                                    .bytes = STR("host"),
                                                    .with = STR("x")});
        (void)attack(stage.jail, (struct jail_file){.verb = JAIL_FILE_LIST,
                                                    .path = str_of(names[i]),
                                                    .recursive = true,
                                                    .limit = 100});
        (void)attack(stage.jail, (struct jail_file){.verb = JAIL_FILE_APPEND,
                                                    .path = str_of(names[i]),
                                                    .bytes = STR("x")});
    }
    check_untouched(&stage);
    /* Trees are not left through links either, and a link is what gets deleted. */
    AUTO_ARENA struct arena arena = {0};
    struct files_grep grep;
    struct jail_file_answer answer;
    CHECK_OK(jail_file_grep(stage.jail, STR("/workspace"), STR("host|inside"), NULL, &arena, &grep,
                            &err));
    CHECK_INT(grep.count, 1);
    CHECK_STR(grep.matches[0].path, "inside");
    struct jail_file_answer link_only;
    for (size_t i = 0; i < 2; i++)
        CHECK_OK(jail_file(stage.jail,
                           &(struct jail_file){.verb = JAIL_FILE_DELETE,
                                               .path = str_of(names[i]),
                                               .recursive = true},
                           -1, &link_only, &err));
    /* A write takes the place of a link. */
    struct jail_file write = {
        .verb = JAIL_FILE_WRITE, .path = STR("/workspace/fine"), .bytes = STR("new")};
    CHECK_OK(jail_file(stage.jail, &write, -1, &answer, &err));
    CHECK_CSTR(place_shell(stage.jail, "cat inside fine; test -h fine || echo file", NULL),
               "inside\nnewfile\n");
    /* In an archive a link is a link. */
    CHECK_INT(attack(stage.jail,
                     (struct jail_file){.verb = JAIL_FILE_TAR_OUT, .path = STR("/workspace")}),
              ERR_NONE);
    check_untouched(&stage);
}

/* Starts a script of python in the jail that runs until it is ended; false when python is missing.
 */
static bool start_python(struct jail *jail, const char *script)
{
    struct err err = {0};
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const char *argv[] = {"python3", "-c", script, NULL};
    uint32_t id;
    return jail_start(jail, &(struct jail_command){.argv = argv}, (int[]){null, null, null}, &id,
                      NULL, &err) == 0;
}

TEST(fs03_a_directory_that_is_a_link_at_times)
{
    AUTO(stage_done) struct stage stage = {0};
    struct err err = {0};
    stage_init(&stage, "fs03");
    char script[4096], link[700];
    test_write(stage.top, "f", SECRET);
    (void)snprintf(link, sizeof link, "%s/l", stage.work);
    CHECK_INT(symlink(stage.top, link), 0);
    check_leads_out(&stage, "l/f");
    (void)place_shell(stage.jail, "mkdir d; echo inside > d/f", NULL);
    (void)snprintf(script, sizeof script,
                   "import ctypes\nc = ctypes.CDLL(None)\n"
                   "while True: c.renameat2(-100, b'd', -100, b'l', 2)\n");
    if (!start_python(stage.jail, script))
        SKIP("no python3 to race with");
    int inside = 0, missing = 0;
    for (int i = 0; i < test_sized(2000, 100000); i++) {
        AUTO_BUF struct buf bytes = {0};
        struct files_content content;
        struct jail_file_answer answer;
        if (jail_file_read(stage.jail, STR("/workspace/d/f"), NULL, &bytes, &content, &err) == 0)
            CHECK(!has_secret(buf_str(&bytes)));
        inside += bytes.len > 0;
        missing += bytes.len == 0;
        struct jail_file write = {
            .verb = JAIL_FILE_WRITE, .path = STR("/workspace/d/f"), .bytes = STR("inside\n")};
        (void)!jail_file(stage.jail, &write, -1, &answer, &err);
    }
    CHECK(inside > 0 && missing > 0); /* both sides of the coin were seen */
    check_untouched(&stage);
    char text[64] = {0};
    (void)snprintf(link, sizeof link, "%s/f", stage.top);
    AUTO_CLOSE int fd = open(link, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    CHECK_CSTR(text, SECRET);
}

/* Links of /proc would lead to whatever the reader itself has open. */
TEST(fs04_links_of_proc)
{
    AUTO(stage_done) struct stage stage = {0};
    stage_init(&stage, "fs04");
    CHECK_CSTR(place_shell(stage.jail, "echo control > c; exec 5<c; cat /proc/self/fd/5", NULL),
               "control\n");
    (void)place_shell(stage.jail,
                      "ln -s /proc/self/root r; ln -s /proc/self/cwd w; ln -s /proc/self/fd f; "
                      "ln -s /dev/stdin s; ln -s /proc/1/root one",
                      NULL);
    static const char *const paths[] = {"/proc/self/root/etc/passwd",
                                        "/proc/self/cwd",
                                        "/proc/self/fd/0",
                                        "/proc/self/fd/3",
                                        "/proc/self/fd/4",
                                        "/dev/fd/0",
                                        "/dev/stdin",
                                        "/proc/1/fd/3",
                                        "/proc/1/root/etc/passwd",
                                        "/workspace/r/etc/passwd",
                                        "/workspace/w/c",
                                        "/workspace/f/3",
                                        "/workspace/s",
                                        "/workspace/one/etc/passwd",
                                        "/proc/self/exe",
                                        "/proc/1/exe",
                                        "/proc/1/mem",
                                        "/proc/self/mem",
                                        "/proc/1/environ",
                                        "/proc/1/maps",
                                        "/proc/self/maps"};
    for (size_t i = 0; i < countof(paths); i++) {
        CHECK(attack(stage.jail, (struct jail_file){.verb = JAIL_FILE_READ,
                                                    .path = str_of(paths[i])}) != ERR_NONE);
        CHECK(attack(stage.jail, (struct jail_file){.verb = JAIL_FILE_READ_TO,
                                                    .path = str_of(paths[i]),
                                                    .limit = 4096}) != ERR_NONE);
        CHECK(attack(stage.jail, (struct jail_file){.verb = JAIL_FILE_APPEND,
                                                    .path = str_of(paths[i]),
                                                    .bytes = STR("x")}) != ERR_NONE);
        CHECK(attack(stage.jail, (struct jail_file){.verb = JAIL_FILE_EDIT,
                                                    .path = str_of(paths[i]),
                                                    .bytes = STR("x"),
                                                    .with = STR("y")}) != ERR_NONE);
    }
    CHECK_INT(attack(stage.jail,
                     (struct jail_file){.verb = JAIL_FILE_READ, .path = STR("/proc/version")}),
              ERR_NONE);
}

TEST(fs05_what_is_no_file_is_refused_at_once)
{
    enum { EACH = 25 };
    AUTO(stage_done) struct stage stage = {0};
    struct err err = {0};
    stage_init(&stage, "fs05");
    (void)place_shell(stage.jail,
                      "mkfifo fifo; mkdir dir; echo fine > fine; "
                      "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\"",
                      NULL);
    static const char *const paths[] = {"/workspace/fifo", "/workspace/sock", "/dev/zero",
                                        "/workspace/dir"};
    static const enum jail_file_verb verbs[] = {
        JAIL_FILE_READ, JAIL_FILE_APPEND, JAIL_FILE_EDIT,   JAIL_FILE_READ_TO,
        JAIL_FILE_GREP, JAIL_FILE_WRITE,  JAIL_FILE_TAR_OUT};
    bool has_socket = strstr(place_shell(stage.jail, "ls", NULL), "sock") != NULL;
    for (size_t v = 0; v < countof(verbs); v++) {
        uint32_t ids[countof(paths) * EACH];
        size_t asked = 0;
        struct jail_event event;
        AUTO_CLOSE int data = memfd_create("data", MFD_CLOEXEC);
        for (size_t i = 0; i < countof(paths) * EACH; i++) {
            struct jail_file question = {.verb = verbs[v],
                                         .path = str_of(paths[i % countof(paths)]),
                                         .bytes = STR("x"),
                                         .limit = 10};
            if (verbs[v] == JAIL_FILE_EDIT)
                question.with = STR("y");
            CHECK_OK(jail_ask_file(stage.jail, &question, data, &ids[asked++], &err));
        }
        AUTO_BUF struct buf bytes = {0};
        struct files_content content;
        CHECK_OK(jail_file_read(stage.jail, STR("/workspace/fine"), NULL, &bytes, &content, &err));
        for (size_t done = 0; done < asked;) {
            place_next(stage.jail, &event);
            CHECK(event.type == JAIL_EVENT_FAILED || event.type == JAIL_EVENT_FILE);
            done++;
            size_t which = (event.id - ids[0]) % countof(paths);
            bool is_tree = verbs[v] == JAIL_FILE_GREP || verbs[v] == JAIL_FILE_TAR_OUT;
            if (is_tree || (which == 1 && !has_socket))
                continue; /* a directory is fine there, a special file is passed over */
            CHECK_INT(event.type, JAIL_EVENT_FAILED);
            CHECK_INT(event.err.code, ERR_NOT_A_FILE);
        }
    }
}

TEST(fs07_a_file_that_changes_its_size)
{
    AUTO(stage_done) struct stage stage = {0};
    struct err err = {0};
    stage_init(&stage, "fs07");
    (void)place_shell(stage.jail, "echo x > f", NULL);
    if (!start_python(stage.jail, "import os\nf = os.open('f', os.O_RDWR)\nwhile True:\n"
                                  "  os.ftruncate(f, 0); os.pwrite(f, b'y' * 100000, 0)\n"))
        SKIP("no python3 to race with");
    AUTO_CLOSE int data = memfd_create("data", MFD_CLOEXEC);
    for (int i = 0; i < test_sized(300, 10000); i++) {
        AUTO_BUF struct buf bytes = {0};
        struct files_content content;
        struct jail_file_answer answer;
        CHECK_OK(jail_file_read(stage.jail, STR("/workspace/f"), NULL, &bytes, &content, &err));
        CHECK(bytes.len <= JAIL_FILE_BYTES_MAX);
        if (i % 10 != 0)
            continue;
        struct jail_file tar = {.verb = JAIL_FILE_TAR_OUT, .path = STR("/workspace")};
        CHECK_OK(jail_file(stage.jail, &tar, data, &answer, &err));
        struct jail_file read = {.verb = JAIL_FILE_READ_TO, .path = STR("/workspace/f")};
        CHECK_OK(jail_file(stage.jail, &read, data, &answer, &err));
        CHECK(answer.moved <= 1000000);
    }
}

TEST(fs08_names_come_back_as_they_are)
{
    AUTO(stage_done) struct stage stage = {0};
    struct err err = {0};
    static char long_name[256];
    memset(long_name, 'n', 255);
    stage_init(&stage, "fs08");
    const char *const names[] = {"new\nline",   "\033[31mred\033[0m",
                                 "quo\"te",     "back\\slash",
                                 "-rf",         "--help",
                                 "\xff\xfe",    long_name,
                                 "$(touch X)",  "; touch X",
                                 " ",           "*",
                                 "sch\xc3\xb6n"};
    for (size_t i = 0; i < countof(names); i++) {
        char path[300];
        bool created;
        (void)snprintf(path, sizeof path, "/workspace/%s", names[i]);
        CHECK_OK(jail_file_write(stage.jail, str_of(path), STR("text of it\n"),
                                 &(struct files_write_options){.no_sync = true}, &created, &err));
    }
    AUTO_ARENA struct arena arena = {0};
    struct files_list list;
    struct files_glob glob;
    struct files_grep grep;
    CHECK_OK(jail_file_list(stage.jail, STR("/workspace"), NULL, &arena, &list, &err));
    CHECK_OK(jail_file_glob(stage.jail, STR("/workspace"), STR("*"), NULL, &arena, &glob, &err));
    CHECK_OK(
        jail_file_grep(stage.jail, STR("/workspace"), STR("^text"), NULL, &arena, &grep, &err));
    CHECK_INT(list.count, countof(names));
    CHECK_INT(glob.count, countof(names));
    CHECK_INT(grep.count, countof(names));
    for (size_t i = 0; i < list.count; i++) {
        struct jail_file_answer answer;
        AUTO_BUF struct buf path = {0}, bytes = {0};
        struct files_content content;
        CHECK(str_eq(list.entries[i].path, glob.paths[i]));
        CHECK(str_eq(list.entries[i].path, grep.matches[i].path));
        buf_put_cstr(&path, "/workspace/");
        buf_put(&path, list.entries[i].path);
        CHECK_OK(jail_file_read(stage.jail, buf_str(&path), NULL, &bytes, &content, &err));
        CHECK_CSTR(buf_cstr(&bytes), "text of it\n");
        CHECK_OK(jail_file(stage.jail,
                           &(struct jail_file){.verb = JAIL_FILE_DELETE, .path = buf_str(&path)},
                           -1, &answer, &err));
    }
    CHECK_CSTR(place_shell(stage.jail, "ls -A", NULL), "");
}
