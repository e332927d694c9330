/* sandglass policy test and sandglass bridges, driven as main() would. */

#include "test.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/format/json.h"
#include "cli/cli.h"

/* Runs one command line, words separated by '|', with standard output in `out`. */
static int run(const char *line, struct buf *out)
{
    char words[1024], path[512];
    char *argv[16] = {(char[]){"sandglass"}};
    int argc = 1;
    struct err err = {0};
    (void)snprintf(words, sizeof words, "%s", line);
    (void)snprintf(path, sizeof path, "%s/out", test_tmpdir());
    for (char *at = words; at != NULL;)
        argv[argc++] = strsep(&at, "|");
    AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    AUTO_CLOSE int saved = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    (void)fflush(stdout);
    CHECK(dup2(fd, STDOUT_FILENO) == STDOUT_FILENO);
    int code = cli_main(argc, argv);
    CHECK(dup2(saved, STDOUT_FILENO) == STDOUT_FILENO);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    CHECK_OK(buf_read_all(out, fd, &err));
    return code;
}

static void check(const char *line, int code, const char *part)
{
    AUTO_BUF struct buf out = {0};
    int got = run(line, &out);
    if (got != code || strstr(buf_cstr(&out), part) == NULL)
        print_error("%s: %d: %s\n", line, got, buf_cstr(&out));
    CHECK_INT(got, code);
    CHECK(strstr(buf_cstr(&out), part) != NULL);
}

#define EXAMPLE "policy|test|allow api.example.com, *.github.com:443; deny x.github.com|"

TEST(policy_test_prints_verdict_and_reason)
{
    check(EXAMPLE "https://api.example.com/v1", EXIT_OK, "allowed api.example.com:443 (allowed)\n");
    check(EXAMPLE "https://a.github.com", EXIT_OK, "(allowed)\n");
    check(EXAMPLE "https://x.github.com", EXIT_FAILED, "(host_denied)\n");
    check(EXAMPLE "http://a.github.com", EXIT_FAILED, "(port_not_allowed)\n");
    check(EXAMPLE "https://evil.test", EXIT_FAILED,
          "blocked evil.test:443: the policy does not name this host (host_not_allowed)\n");
    check(EXAMPLE "https://user@api.example.com", EXIT_FAILED, "(url_invalid)\n");
    check(EXAMPLE "ftp://api.example.com", EXIT_FAILED, "(scheme_not_allowed)\n");
    check("policy|test|public|http://169.254.169.254", EXIT_FAILED, "(address_not_public)\n");
    check("policy|test|none|https://a.test", EXIT_FAILED, "(policy_none)\n");
    check("policy|test|allow a.test POST|https://a.test|--method|POST", EXIT_OK, "(allowed)");
    check("policy|test|public|http://127.0.0.1|--resolve", EXIT_FAILED, "(address_not_public)\n");
    check("policy|test|alow a.test|https://a.test", EXIT_USAGE, "");
    check("policy|test|public", EXIT_USAGE, "");
}

TEST(policy_test_speaks_json)
{
    struct err err = {0};
    AUTO_BUF struct buf out = {0};
    AUTO_JSON struct json_t *json = NULL;
    bool allowed = true;
    struct str reason = {0};
    CHECK_INT(run(EXAMPLE "https://X.github.com.|--json", &out), EXIT_FAILED);
    CHECK_OK(json_parse(buf_str(&out), &json, &err));
    CHECK(json_to_bool(json_get(json, "allowed"), &allowed) && !allowed);
    CHECK(json_to_str(json_get(json, "reason"), &reason));
    CHECK_STR(reason, "host_denied");
    CHECK(json_to_str(json_get(json, "host"), &reason));
    CHECK_STR(reason, "x.github.com");
}

TEST(policies_come_from_files_too)
{
    char line[700];
    test_write(test_tmpdir(), "p.json", "{\"allow\":[{\"host\":\"a.test\",\"paths\":[\"/v1/\"]}]}");
    (void)snprintf(line, sizeof line, "policy|test|%s/p.json|https://a.test/v1/x", test_tmpdir());
    check(line, EXIT_OK, "(allowed)");
    (void)snprintf(line, sizeof line, "policy|test|%s/p.json|https://a.test/v2", test_tmpdir());
    check(line, EXIT_FAILED, "(path_not_allowed)");
    (void)snprintf(line, sizeof line, "policy|test|%s/none.json|https://a.test/", test_tmpdir());
    check(line, EXIT_FAILED, "");
}

TEST(bridges_are_listed_in_each_form)
{
    struct err err = {0};
    AUTO_BUF struct buf out = {0};
    AUTO_JSON struct json_t *json = NULL;
    check("bridges", EXIT_OK, "api.getWeather(place?: { latitude: number; longitude: number })");
    check("bridges|--dts", EXIT_OK, "declare const api: {\n");
    check("bridges|docs", EXIT_OK, "# Bridges\n");
    check("bridges|--dts|--json", EXIT_USAGE, "");
    CHECK_INT(run("bridges|--json", &out), EXIT_OK);
    CHECK_OK(json_parse(buf_str(&out), &json, &err));
    CHECK_INT(json_len(json_get(json, "bridges")), 2);
    check("bridges|call|getWeather|[{\"latitude\":100,\"longitude\":0}]", EXIT_USAGE, "");
    check("bridges|call|fetch|[\"https://a.test/\"]", EXIT_FAILED, "");
    check("bridges|call|fetch|[\"https://a.test/\"]|--hint|x=1", EXIT_USAGE, "");
    check("bridges|call|fetch|[\"https://a.test/\"]|--timeout|0", EXIT_USAGE, "");
    check("bridges|call|nope", EXIT_FAILED, "");
}
