#include "io/listen.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "test.h"

TEST(addresses_are_read_and_written_back)
{
    static const char *const good[] = {"127.0.0.1:7070", "0.0.0.0:0", "[::1]:80", "[::]:65535",
                                       "unix:/run/sandglass.sock"};
    struct err err = {0};
    for (size_t i = 0; i < countof(good); i++) {
        struct addr addr;
        char text[ADDR_TEXT_SIZE];
        CHECK_OK(addr_parse(str_of(good[i]), &addr, &err));
        addr_format(&addr, text);
        CHECK_CSTR(text, good[i]);
    }
    struct addr local;
    CHECK_OK(addr_parse(STR("localhost:7"), &local, &err));
    CHECK(addr_is_loopback(&local));
    CHECK_INT(addr_port(&local), 7);
}

TEST(bad_addresses_get_a_reason)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "has no port"},
        {"127.0.0.1", "has no port"},
        {"127.0.0.1:", "the port must be"},
        {"127.0.0.1:65536", "the port must be"},
        {"127.0.0.1:-1", "the port must be"},
        {"127.0.0.1:8o", "the port must be"},
        {":80", "is not an IP address"},
        {"::1:80", "is not an IP address"},
        {"[127.0.0.1]:80", "is not an IP address"},
        {"[::1:80", "is not an IP address"},
        {"example.com:80", "is not an IP address"},
        {"127.1:80", "is not an IP address"},
        {"unix:", "must begin with '/'"},
        {"unix:run/x", "must begin with '/'"},
    };
    for (size_t i = 0; i < countof(bad); i++) {
        struct err err = {0};
        struct addr addr;
        CHECK_ERR(addr_parse(str_of(bad[i].text), &addr, &err), ERR_INVALID);
        CHECK_MSG(bad[i].says);
    }
    struct err err = {0};
    struct addr addr;
    char path[300] = "unix:/";
    memset(path + 6, 'a', 200);
    CHECK_ERR(addr_parse(str_of(path), &addr, &err), ERR_INVALID);
    CHECK_MSG("at most 107 bytes");
}

TEST(loopback_is_distinguished_from_the_rest)
{
    static const struct {
        const char *text;
        bool loopback;
    } cases[] = {{"127.0.0.1:1", true}, {"127.9.9.9:1", true}, {"[::1]:1", true},
                 {"unix:/x", true},     {"0.0.0.0:1", false},  {"[::]:1", false},
                 {"10.0.0.1:1", false}, {"128.0.0.1:1", false}};
    struct err err = {0};
    for (size_t i = 0; i < countof(cases); i++) {
        struct addr addr;
        CHECK_OK(addr_parse(str_of(cases[i].text), &addr, &err));
        CHECK_INT(addr_is_loopback(&addr), cases[i].loopback);
    }
}

TEST(tcp_listens_and_a_taken_port_is_named)
{
    struct err err = {0};
    struct addr addr;
    CHECK_OK(addr_parse(STR("127.0.0.1:0"), &addr, &err));
    int fd = listen_open(&addr, 16, &err);
    CHECK_OK(fd);
    CHECK(addr_port(&addr) > 0);
    CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(connect(client, &addr.sa.any, addr.len), 0);
    char port[16];
    (void)snprintf(port, sizeof port, "port %d", addr_port(&addr));
    CHECK_ERR(listen_open(&addr, 16, &err), ERR_BUSY);
    CHECK_MSG(port);
    CHECK_MSG("choose another port");
    (void)close(client);
    (void)close(fd);
}

TEST(foreign_address_is_named)
{
    struct err err = {0};
    struct addr addr;
    CHECK_OK(addr_parse(STR("192.0.2.1:0"), &addr, &err));
    CHECK_ERR(listen_open(&addr, 16, &err), ERR_INVALID);
    CHECK_MSG("192.0.2.1");
}

TEST(unix_socket_is_private_and_a_stale_one_is_replaced)
{
    struct err err = {0};
    struct addr addr;
    char path[PATH_MAX], text[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/s", test_tmpdir());
    (void)snprintf(text, sizeof text, "unix:%s", path);
    CHECK_OK(addr_parse(str_of(text), &addr, &err));
    int fd = listen_open(&addr, 16, &err);
    CHECK_OK(fd);
    struct stat st;
    CHECK_INT(stat(path, &st), 0);
    CHECK_INT(st.st_mode & 0777, 0600);
    CHECK_ERR(listen_open(&addr, 16, &err), ERR_BUSY);
    CHECK_MSG("in use by a running program");
    (void)close(fd); /* the file stays, nobody answers */
    fd = listen_open(&addr, 16, &err);
    CHECK_OK(fd);
    (void)close(fd);
    (void)unlink(path);
    test_write(test_tmpdir(), "s", "precious");
    CHECK_ERR(listen_open(&addr, 16, &err), ERR_CONFLICT);
    CHECK_MSG("is not a socket");
}

#ifdef SG_FAULTS
TEST(each_failing_call_is_reported)
{
    int before = test_open_fds();
    for (int n = 1;; n++) {
        struct err err = {0};
        struct addr addr;
        CHECK_OK(addr_parse(STR("127.0.0.1:0"), &addr, &err));
        (void)sys_fail_at(n);
        int fd = listen_open(&addr, 16, &err);
        int64_t calls = sys_fail_at(0);
        if (fd >= 0)
            (void)close(fd);
        CHECK_INT(test_open_fds(), before);
        if (calls < n) {
            CHECK(fd >= 0 && n > 4);
            return;
        }
        CHECK(fd < 0 && err.msg[0] != '\0');
    }
}
#endif
