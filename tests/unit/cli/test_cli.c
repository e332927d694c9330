/* The dispatcher, driven as main() would: what a mistyped command line answers. */

#include "test.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/format/json.h"
#include "cli/internal.h"
#include "cli/remote.h"

/* Runs one command line with standard output and error caught in files of the test directory. */
static int run(struct buf *out, struct buf *complaint, const char *line)
{
    char words[512], path[2][512];
    (void)snprintf(words, sizeof words, "%s", line);
    char *argv[16] = {(char[]){"sandglass"}};
    int argc = 1;
    for (char *at = words; *at != '\0'; argc++) {
        argv[argc] = at;
        at += strcspn(at, " ");
        if (*at == ' ')
            *at++ = '\0';
    }
    int saved[2], code;
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path[i], sizeof path[i], "%s/%d", test_tmpdir(), i);
        AUTO_CLOSE int fd = open(path[i], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        saved[i] = fcntl(i + 1, F_DUPFD_CLOEXEC, 3);
        (void)fflush(NULL);
        CHECK(dup2(fd, i + 1) == i + 1);
    }
    code = cli_main(argc, argv);
    (void)fflush(NULL);
    for (int i = 0; i < 2; i++) {
        CHECK(dup2(saved[i], i + 1) == i + 1);
        (void)close(saved[i]);
        struct err err = {0};
        AUTO_CLOSE int fd = open(path[i], O_RDONLY | O_CLOEXEC);
        CHECK_OK(buf_read_all(i == 0 ? out : complaint, fd, &err));
    }
    return code;
}

static void check(const char *line, int code, const char *in_out, const char *in_complaint)
{
    AUTO_BUF struct buf out = {0};
    AUTO_BUF struct buf complaint = {0};
    int got = run(&out, &complaint, line);
    bool good = got == code && strstr(buf_cstr(&out), in_out) != NULL &&
                strstr(buf_cstr(&complaint), in_complaint) != NULL;
    if (!good)
        print_error("'%s' gave %d\n%s%s", line, got, buf_cstr(&out), buf_cstr(&complaint));
    CHECK(good);
}

static void check_plain(const char *text, const char *shown)
{
    AUTO_BUF struct buf out = {0};
    cli_put_plain(&out, str_of(text));
    CHECK_CSTR(buf_cstr(&out), shown);
}

TEST(what_others_wrote_does_not_steer_the_terminal)
{
    check_plain("a\033]0;x\007\n\177b", "a?]0;x???b");
    check_plain("\xc2\x9b"
                "31m\xc2\x85\xc2\xa0\xc3\xa4",
                "?31m?\xc2\xa0\xc3\xa4");
    check_plain("\xe2\x80\xaetxt.exe\xe2\x81\xa6\xe2\x80\xa8\xe2\x82\xac",
                "?txt.exe??\xe2\x82\xac");
    check_plain("\x9b"
                "1m\xe2\x80",
                "?1m??");
    AUTO_JSON struct json_t *list = NULL;
    AUTO_BUF struct buf out = {0};
    struct err err = {0};
    CHECK_OK(json_parse(STR("[\"a\\u001b[31m\\nb\", \"\\u009bJ\"]"), &list, &err));
    remote_put_lines(list, &out);
    CHECK_CSTR(buf_cstr(&out), "a?[31m?b\n?J\n");
    /* A cell is cut between characters; the last one of a row is whole. */
    static const struct remote_column columns[] = {{"name", "NAME"}, {"name", "AGAIN"}, {0}};
    AUTO_JSON struct json_t *row = NULL;
    AUTO_BUF struct buf table = {0};
    CHECK_OK(json_parse(STR("{\"name\": \"\\u009bJ345678901234567890123456789012345678901234567"
                            "\\u20ac\\u20ac\"}"),
                        &row, &err));
    remote_put_table(row, columns, &table);
    CHECK(str_ends(buf_str(&table),
                   STR("\n?J345678901234567890123456789012345678901234567  "
                       "?J345678901234567890123456789012345678901234567\u20ac\u20ac\n")));
}

TEST(cli_help_and_version)
{
    check("", EXIT_OK, "Commands:", "");
    check("--help", EXIT_OK, "Commands:", "");
    check("help", EXIT_OK, "Exit codes:", "");
    check("--version", EXIT_OK, "sandglass " SG_VERSION, "");
    check("man --help", EXIT_OK, "Usage: sandglass man", "");
    check("help man", EXIT_OK, "Usage: sandglass man", "");
    check("help completion bash", EXIT_OK, "Usage: sandglass completion bash", "");
    check("completion --help", EXIT_OK, "Usage: sandglass completion bash", "");
}

TEST(cli_says_what_is_wrong_and_the_way_out)
{
    check("mna", EXIT_USAGE, "", "did you mean 'man'?");
    check("zzzzzz", EXIT_USAGE, "", "'sandglass --help' lists the commands");
    check("completion", EXIT_USAGE, "", "needs a subcommand");
    check("completion bsh", EXIT_USAGE, "", "did you mean 'completion bash'?");
    check("man --confg x", EXIT_USAGE, "", "did you mean '--config'?");
    check("man --zzzzzz", EXIT_USAGE, "", "see 'sandglass man --help'");
    check("man -x", EXIT_USAGE, "", "unknown option '-x'");
    check("man --config", EXIT_USAGE, "", "--config needs a value: FILE");
    check("man --help=1", EXIT_USAGE, "", "--help takes no value");
    check("man -c a --config=b", EXIT_USAGE, "", "--config is given twice");
    check("--hepl", EXIT_USAGE, "", "did you mean '--help'?");
    check("--config x man", EXIT_USAGE, "", "put options after it");
    check("a\033[31mb", EXIT_USAGE, "", "unknown command 'a?[31mb'");
    check("man extra", EXIT_USAGE, "", "unexpected argument 'extra'");
}

/* A full disk must not look like success. */
TEST(cli_fails_when_its_output_is_lost)
{
    AUTO_CLOSE int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    AUTO_CLOSE int saved = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    AUTO_CLOSE int saved_err = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    AUTO_CLOSE int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    (void)fflush(NULL);
    CHECK(full >= 0 && dup2(full, STDOUT_FILENO) >= 0 && dup2(null, STDERR_FILENO) >= 0);
    char name[] = "sandglass", word[] = "man", version[] = "--version";
    int verb = cli_main(2, (char *[]){name, word, NULL});
    int plain = cli_main(2, (char *[]){name, version, NULL});
    CHECK(dup2(saved, STDOUT_FILENO) >= 0 && dup2(saved_err, STDERR_FILENO) >= 0);
    CHECK_INT(verb, EXIT_FAILED);
    CHECK_INT(plain, EXIT_FAILED);
}

TEST(cli_output_made_from_the_table_names_every_verb)
{
    AUTO_BUF struct buf man = {0};
    AUTO_BUF struct buf completion = {0};
    AUTO_BUF struct buf complaint = {0};
    CHECK_INT(run(&man, &complaint, "man"), EXIT_OK);
    CHECK_INT(run(&completion, &complaint, "completion bash"), EXIT_OK);
    CHECK_CSTR(buf_cstr(&complaint), "");
    CLI_EACH_VERB (verb) {
        CHECK(verb->summary[strlen(verb->summary) - 1] != '.');
        if (verb->hidden)
            continue;
        char in_man[128], in_completion[128];
        (void)snprintf(in_man, sizeof in_man, ".SS \"sandglass %s ", verb->name);
        (void)snprintf(in_completion, sizeof in_completion, "\"%s\") words=", verb->name);
        CHECK(strstr(buf_cstr(&man), in_man) != NULL);
        CHECK(strstr(buf_cstr(&completion), in_completion) != NULL);
    }
}
