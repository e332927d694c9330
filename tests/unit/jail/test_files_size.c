/* Much of everything against the file verbs and streams of a jail: the cases FS-06 and FS-09 to
 * FS-13, archives of many files, a flood of output. SG_SOAK=1 gives the full sizes. */

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

static long resident_kib(void)
{
    long pages = 0, ignored;
    FILE *file = fopen("/proc/self/statm", "re");
    CHECK(file != NULL && fscanf(file, "%ld %ld", &ignored, &pages) == 2);
    CHECK_INT(fclose(file), 0);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Sanitizers keep what was freed: only a plain build can be held to a figure. */
static void check_growth(long before_kib, long most_kib)
{
#if !defined(__SANITIZE_ADDRESS__)
    CHECK(resident_kib() - before_kib <= most_kib);
#else
    (void)before_kib, (void)most_kib;
#endif
}

static int memory_file(void)
{
    int fd = memfd_create("data", MFD_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

TEST(fs06_files_larger_than_anything)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    AUTO_ARENA struct arena arena = {0};
    AUTO_BUF struct buf bytes = {0};
    AUTO_CLOSE int data = memory_file();
    struct files_content content;
    struct files_stat stat;
    struct files_grep grep;
    struct jail_file_answer answer;
    long before = resident_kib();
    (void)place_shell(jail, "truncate -s 1T t; truncate -s 3G g", NULL);
    CHECK_OK(jail_file_stat(jail, STR("/workspace/t"), true, &stat, &err));
    CHECK(stat.size == 1ULL << 40 && stat.disk_bytes < 1 << 20);
    CHECK_OK(jail_file_read(jail, STR("/workspace/t"), NULL, &bytes, &content, &err));
    CHECK(content.truncated && content.is_binary);
    CHECK_INT(bytes.len, JAIL_FILE_BYTES_MAX);
    struct jail_file read = {
        .verb = JAIL_FILE_READ_TO, .path = STR("/workspace/g"), .limit = 8 << 20};
    CHECK_OK(jail_file(jail, &read, data, &answer, &err));
    CHECK(answer.truncated && answer.moved == 8 << 20);
    CHECK_OK(jail_file_grep(jail, STR("/workspace"), STR("x"), NULL, &arena, &grep, &err));
    CHECK_INT(grep.count, 0);
    CHECK_INT(grep.binary, 2);
    struct jail_file tar = {.verb = JAIL_FILE_TAR_OUT, .path = STR("/workspace")};
    CHECK_INT(ftruncate(data, 0), 0);
    CHECK_INT(lseek(data, 0, SEEK_SET), 0);
    CHECK_OK(jail_file(jail, &tar, data, &answer, &err)); /* holes stay holes */
    CHECK(lseek(data, 0, SEEK_END) < 1 << 20);
    /* The archive holds more than an import may. */
    CHECK_INT(lseek(data, 0, SEEK_SET), 0);
    struct jail_file in = {.verb = JAIL_FILE_TAR_IN, .path = STR("/workspace/again")};
    CHECK_ERR(jail_file(jail, &in, data, &answer, &err), ERR_TOO_LARGE);
    check_growth(before, 8 << 10);
}

TEST(fs09_many_files_and_deep_trees)
{
    struct err err = {0};
    struct jail_plan plan = {.limits.disk_inodes = 1200000};
    if (warden_host(place_warden())->no_memory[0] == '\0')
        plan.limits.memory_bytes =
            test_sized(512, 4096) * (1LL << 20); /* a file in memory has a price */
    AUTO_JAIL struct jail *jail = place_jail(plan);
    AUTO_ARENA struct arena arena = {0};
    struct jail_file_answer answer;
    struct files_list list;
    struct files_glob glob;
    char script[400];
    int count = test_sized(20000, 1000000), levels = test_sized(500, 5000);
    (void)snprintf(
        script, sizeof script,
        "mkdir many && cd many && seq %d | xargs touch; cd .. && mkdir deep && cd deep && "
        "python3 -c \"import os\nfor i in range(%d): os.mkdir('d'); os.chdir('d')\" && "
        "echo made",
        count, levels);
    if (strcmp(place_shell(jail, script, NULL), "made\n") != 0)
        SKIP("no python3 to make a deep tree with");
    long before = resident_kib();
    CHECK_OK(jail_file_list(jail, STR("/workspace/many"), NULL, &arena, &list, &err));
    CHECK(list.truncated);
    CHECK_INT(list.count, FILES_LIST_MAX);
    CHECK_OK(jail_file_glob(jail, STR("/workspace"), STR("**"), NULL, &arena, &glob, &err));
    CHECK(glob.truncated);
    CHECK_INT(glob.count, FILES_GLOB_MAX);
    struct files_list_options recursive = {.recursive = true};
    CHECK_OK(jail_file_list(jail, STR("/workspace/deep"), &recursive, &arena, &list, &err));
    CHECK(list.count >= 400);
    struct files_grep grep;
    CHECK_OK(jail_file_grep(jail, STR("/workspace"), STR("x"), NULL, &arena, &grep, &err));
    check_growth(before, 32 << 10);
    static const char *const trees[] = {"/workspace/many", "/workspace/deep"};
    for (size_t i = 0; i < countof(trees); i++) {
        struct jail_file delete = {
            .verb = JAIL_FILE_DELETE, .path = str_of(trees[i]), .recursive = true};
        CHECK_OK(jail_file(jail, &delete, -1, &answer, &err));
        CHECK(answer.count >= (uint64_t)(i == 0 ? count : levels));
    }
    CHECK_CSTR(place_shell(jail, "ls -A /workspace", NULL), "");
}

TEST(fs10_patterns_that_explode)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    static char nested[10001], big[JAIL_FILE_BYTES_MAX];
    memset(nested, '(', sizeof nested - 1);
    memset(big, 'a', sizeof big);
    const struct str patterns[] = {
        STR("(a+)+$"), STR("(a*)*b"),  STR("(.*){1,30000}"), STR("((a{1,100}){1,100}){1,100}"),
        STR("(\\1)"),  str_of(nested), STR("[a-"),           str_n(big, sizeof big)};
    (void)place_shell(jail, "head -c 1000000 /dev/zero | tr '\\0' a > s; echo fine > fine", NULL);
    int each = test_sized(3, 12);
    size_t asked = 0, bad = 0;
    uint32_t id;
    for (int round = 0; round < each; round++)
        for (size_t i = 0; i < countof(patterns); i++) {
            struct jail_file grep = {
                .verb = JAIL_FILE_GREP, .path = STR("/workspace"), .pattern = patterns[i]};
            CHECK_OK(jail_ask_file(jail, &grep, -1, &id, &err));
            asked++;
        }
    /* Others are served meanwhile. */
    for (int i = 0; i < 20; i++) {
        AUTO_BUF struct buf bytes = {0};
        struct files_content content;
        CHECK_OK(jail_file_read(jail, STR("/workspace/fine"), NULL, &bytes, &content, &err));
    }
    for (size_t done = 0; done < asked;) {
        struct jail_event event;
        place_next(jail, &event);
        if (event.type == JAIL_EVENT_PART)
            continue;
        done++;
        CHECK(event.type == JAIL_EVENT_FILE || event.type == JAIL_EVENT_FAILED);
        if (event.type == JAIL_EVENT_FAILED) {
            bad++;
            CHECK(event.err.code == ERR_PATTERN_TOO_COMPLEX ||
                  event.err.code == ERR_INVALID_PATTERN || event.err.code == ERR_LIMIT);
        }
    }
    CHECK(bad >= (size_t)each * 4);
    AUTO_ARENA struct arena arena = {0};
    struct files_glob glob;
    CHECK_ERR(jail_file_glob(jail, STR("/workspace"),
                             STR("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"), NULL,
                             &arena, &glob, &err),
              ERR_PATTERN_TOO_COMPLEX);
    struct files_grep fine;
    CHECK_OK(jail_file_grep(jail, STR("/workspace"), STR("f[a-z]ne"), NULL, &arena, &fine, &err));
    CHECK_INT(fine.count, 1);
}

/* One entry of an old-style archive. */
static void put_entry(struct buf *out, const char *name, char type, const char *link,
                      const char *size, struct str data)
{
    char head[512] = {0};
    unsigned sum = 0;
    (void)snprintf(head, 100, "%s", name);
    memcpy(head + 100, "0004755", 8);
    memcpy(head + 108, "0000000", 8);
    memcpy(head + 116, "0000000", 8);
    (void)snprintf(head + 124, 12, "%s", size);
    memcpy(head + 136, "14000000000", 12);
    memset(head + 148, ' ', 8);
    head[156] = type;
    (void)snprintf(head + 157, 100, "%s", link);
    memcpy(head + 257, "ustar\00000", 8);
    for (size_t i = 0; i < sizeof head; i++)
        sum += (unsigned char)head[i];
    (void)snprintf(head + 148, 8, "%06o", sum);
    buf_put(out, str_n(head, sizeof head));
    buf_put(out, data);
    for (size_t i = data.len; i % 512 != 0; i++)
        buf_put_char(out, '\0');
}

static enum err_code unpack(struct jail *jail, const struct buf *archive, const char *path,
                            enum files_tar_place place)
{
    struct err err = {0};
    struct jail_file_answer answer;
    AUTO_CLOSE int data = memory_file();
    CHECK_OK(fd_write_all(data, buf_str(archive), &err));
    CHECK_INT(lseek(data, 0, SEEK_SET), 0);
    struct jail_file in = {.verb = JAIL_FILE_TAR_IN, .path = str_of(path), .place = place};
    return jail_file(jail, &in, data, &answer, &err) == 0 ? ERR_NONE : err.code;
}

TEST(fs11_archives_that_want_out)
{
    static const struct {
        struct {
            const char *name;
            char type;
            const char *link, *size;
        } entries[3];
    } bad[] = {
        {{{"../x", '0', "", "0"}}},
        {{{"/etc/x", '0', "", "0"}}},
        {{{"a/../../x", '0', "", "0"}}},
        {{{"l", '2', "/workspace", "0"}, {"l/x", '0', "", "0"}}},
        {{{"d", '5', "", "0"}, {"d", '2', "..", "0"}, {"d/x", '0', "", "0"}}},
        {{{"h", '1', "../../keep", "0"}}},
        {{{"c", '3', "", "0"}}},
        {{{"p", '6', "", "0"}}},
        {{{"s", '0', "", "77777777777"}}}, /* more than comes */
        {{{"n", '0', "", "-0000000001"}}},
    };
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    AUTO_BUF struct buf archive = {0};
    static const char zeros[1024];
    (void)place_shell(jail, "mkdir box; echo keep > box/keep; echo keep > keep", NULL);
    for (size_t i = 0; i < countof(bad); i++) {
        buf_clear(&archive);
        put_entry(&archive, "first", '0', "", "4", STR("good"));
        for (size_t j = 0; j < countof(bad[i].entries) && bad[i].entries[j].name != NULL; j++)
            put_entry(&archive, bad[i].entries[j].name, bad[i].entries[j].type,
                      bad[i].entries[j].link, bad[i].entries[j].size, STR(""));
        buf_put(&archive, str_n(zeros, sizeof zeros));
        CHECK(unpack(jail, &archive, "/workspace/box", FILES_TAR_MERGE) != ERR_NONE);
    }
    buf_clear(&archive);
    for (int i = 0; i < 3; i++)
        put_entry(&archive, "same", '0', "", "1", STR("x"));
    CHECK_INT(unpack(jail, &archive, "/workspace/box", FILES_TAR_MERGE), ERR_CONFLICT);
    buf_clear(&archive);
    for (int i = 0; i < 100001; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "f%d", i);
        put_entry(&archive, name, '0', "", "0", STR(""));
    }
    CHECK_INT(unpack(jail, &archive, "/workspace/box", FILES_TAR_MERGE), ERR_TOO_LARGE);
    buf_clear(&archive);
    put_entry(&archive, "cut", '0', "", "400", STR("")); /* and the stream ends */
    CHECK(unpack(jail, &archive, "/workspace/box", FILES_TAR_MERGE) != ERR_NONE);
    /* After all of that the tree is as before. */
    CHECK_CSTR(place_shell(
                   jail, "ls -AR /workspace; cat box/keep keep; ls /etc/x 2>&1 | grep -c No", NULL),
               "/workspace:\nbox\nkeep\n\n/workspace/box:\nkeep\nkeep\nkeep\n1\n");
    /* A good one is taken; its set-id bit is not. */
    buf_clear(&archive);
    put_entry(&archive, "good", '0', "", "4", STR("good"));
    buf_put(&archive, str_n(zeros, sizeof zeros));
    CHECK_INT(unpack(jail, &archive, "/workspace/box", FILES_TAR_MERGE), ERR_NONE);
    CHECK_CSTR(place_shell(jail, "stat -c '%a %u' box/good", NULL), "755 1000\n");
}

TEST(fs11_a_little_archive_of_very_much)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    AUTO_CLOSE int data = memory_file();
    struct jail_file_answer answer;
    (void)place_shell(jail, "mkdir z; head -c 60000000 /dev/zero > z/z", NULL);
    struct jail_file out = {.verb = JAIL_FILE_TAR_OUT, .path = STR("/workspace/z"), .gzip = true};
    CHECK_OK(jail_file(jail, &out, data, &answer, &err));
    CHECK(lseek(data, 0, SEEK_END) < 200000);
    struct jail_file in = {.verb = JAIL_FILE_TAR_IN, .path = STR("/workspace/bomb")};
    CHECK_INT(lseek(data, 0, SEEK_SET), 0);
    CHECK_ERR(jail_file(jail, &in, data, &answer, &err), ERR_TOO_LARGE);
    CHECK_CSTR(place_shell(jail, "ls -A", NULL), "z\n");
    in.tar.ratio = 100000; /* the control: it is the ratio that stopped it */
    CHECK_INT(lseek(data, 0, SEEK_SET), 0);
    CHECK_OK(jail_file(jail, &in, data, &answer, &err));
}

/* Two jails over one layer: what one does to its files, the other and the layer do not see. */
TEST(fs12_a_shared_layer_stays_as_it_is)
{
    struct err err = {0};
    char layer[600], file[700], text[64] = {0};
    (void)snprintf(layer, sizeof layer, "%s/layer", test_tmpdir());
    (void)snprintf(file, sizeof file, "%s/shared", layer);
    CHECK_INT(mkdir(layer, 0755), 0);
    test_write(layer, "shared", "as it was\n");
    test_write(layer, "other", "as it was\n");
    struct jail_plan plan = {.layers = {layer}, .layer_count = 1};
    AUTO_JAIL struct jail *a = place_jail(plan);
    AUTO_JAIL struct jail *b = place_jail(plan);
    struct jail_file_answer answer;
    bool created;
    CHECK_OK(jail_file_write(a, STR("/shared"), STR("changed"), NULL, &created, &err));
    CHECK_OK(jail_file(
        a, &(struct jail_file){.verb = JAIL_FILE_CHMOD, .path = STR("/other"), .mode = 0600}, -1,
        &answer, &err));
    CHECK_OK(jail_file(
        a, &(struct jail_file){.verb = JAIL_FILE_APPEND, .path = STR("/other"), .bytes = STR("!")},
        -1, &answer, &err));
    (void)place_shell(a,
                      "truncate -s 0 /shared; python3 -c \"import mmap; f = open('/other', 'r+b'); "
                      "m = mmap.mmap(f.fileno(), 0); m[0:1] = b'X'\"",
                      NULL);
    CHECK_CSTR(place_shell(a, "cat /shared /other | wc -c", NULL), "11\n"); /* the control */
    CHECK_CSTR(place_shell(b, "cat /shared /other; stat -c %a /other", NULL),
               "as it was\nas it was\n644\n");
    AUTO_CLOSE int fd = open(file, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    CHECK_CSTR(text, "as it was\n");
}

/* What a tree points at survives its deletion, and its end. */
TEST(fs13_deletion_takes_only_its_own_tree)
{
    struct err err = {0};
    char foreign[600], work[600], file[700];
    struct stat st;
    (void)snprintf(foreign, sizeof foreign, "%s/foreign", test_tmpdir());
    (void)snprintf(work, sizeof work, "%s/fs13", test_tmpdir());
    CHECK_INT(mkdir(foreign, 0777), 0);
    CHECK_INT(chmod(foreign, 0777), 0);
    CHECK_INT(mkdir(work, 0755), 0);
    test_write(foreign, "keep", "keep");
    struct jail_plan plan = {.workspace = work, .mount_count = 1};
    plan.mounts[0] = (struct jail_mount){.src = foreign, .dst = "/mnt/foreign", .writable = true};
    AUTO_JAIL struct jail *jail = place_jail(plan);
    struct jail_file_answer answer;
    (void)place_shell(
        jail,
        "mkdir -p t/a/b t/shut; ln -s /mnt/foreign t/l; ln -s / t/r; echo x > t/a/f; "
        "ln t/a/f t/hard; echo y > t/shut/f; chmod 000 t/shut t/a/f; "
        "(while :; do echo z > t/a/b/w 2>/dev/null || sleep 0.01; done) >/dev/null 2>&1 & "
        "exec 9>t/open; sleep 0.1",
        NULL);
    struct jail_file delete = {
        .verb = JAIL_FILE_DELETE, .path = STR("/workspace/t"), .recursive = true};
    int tries = 0;
    while (jail_file(jail, &delete, -1, &answer, &err) < 0 && err.code != ERR_NOT_FOUND)
        CHECK(++tries < 100); /* the writer may put one more in between */
    CHECK_CSTR(place_shell(jail, "ls /mnt/foreign; ls -d /etc", NULL), "keep\n/etc\n");
    CHECK_OK(jail_end(jail, NULL, &err));
    (void)snprintf(file, sizeof file, "%s/keep", foreign);
    CHECK_INT(stat(file, &st), 0);
    CHECK_INT(st.st_size, 4);
}

TEST(ten_thousand_files_go_in_and_out)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    AUTO_CLOSE int data = memory_file();
    struct jail_file_answer answer;
    (void)place_shell(jail,
                      "mkdir t; for d in $(seq 100); do mkdir t/$d; (cd t/$d; seq 100 | while read "
                      "f; do echo $f > $f; done); done",
                      NULL);
    struct jail_file out = {.verb = JAIL_FILE_TAR_OUT, .path = STR("/workspace/t")};
    long before = resident_kib();
    CHECK_OK(jail_file(jail, &out, data, &answer, &err));
    CHECK(answer.count >= 10100);
    CHECK_INT(lseek(data, 0, SEEK_SET), 0);
    struct jail_file in = {.verb = JAIL_FILE_TAR_IN, .path = STR("/workspace/u")};
    CHECK_OK(jail_file(jail, &in, data, &answer, &err));
    check_growth(before, 4 << 10);
    CHECK_CSTR(place_shell(jail, "diff -r t u && find u -type f | wc -l", NULL), "10000\n");
}

/* Output goes straight from the command to its reader; 1 GiB with SG_SOAK=1. */
TEST(a_flood_of_output_costs_no_memory)
{
    struct err err = {0};
    AUTO_JAIL struct jail *jail = place_jail((struct jail_plan){0});
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    static char space[1 << 16];
    char bytes[32];
    int64_t size = (int64_t)test_sized(64, 1024) << 20, total = 0;
    (void)snprintf(bytes, sizeof bytes, "%lld", (long long)size);
    const char *argv[] = {"head", "-c", bytes, "/dev/zero", NULL};
    int out[2];
    uint32_t id;
    struct jail_exit exited;
    CHECK_INT(pipe2(out, O_CLOEXEC), 0);
    AUTO_CLOSE int reader = out[0];
    long before = resident_kib();
    CHECK_OK(jail_start(jail, &(struct jail_command){.argv = argv}, (int[]){null, out[1], null},
                        &id, NULL, &err));
    CHECK_INT(close(out[1]), 0);
    for (ssize_t got; (got = read(reader, space, sizeof space)) > 0;)
        total += got;
    CHECK_INT(total, size);
    CHECK_OK(jail_wait(jail, 60000, &exited, &err));
    CHECK_INT(exited.code, 0);
    check_growth(before, 1 << 10);
}
