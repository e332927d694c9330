/* What is reported of an installer that failed: the one line that helps. */

#include "test.h"

#include "base/buf.h"
#include "engine/installer.h"

static const struct {
    const char *output, *reason;
} cases[] = {
    {"", "the installer printed nothing"},
    {"one\ntwo\n\n", "two"},
    {"npm error code E404\nnpm error 404 Not Found - GET /absent\nnpm error 404\n"
     "npm error A complete log of this run can be found in: /x.log\n",
     "npm error 404 Not Found - GET /absent"},
    /* as Debian 12's npm writes */
    {"npm ERR! code E404\nnpm ERR! 404 Not Found - GET /absent\nnpm ERR! 404 \n\n"
     "npm ERR! A complete log of this run can be found in:\nnpm ERR!     /home/x.log\n",
     "npm ERR! 404 Not Found - GET /absent"},
    {"npm ERR! code EAI_AGAIN\nnpm ERR! errno EAI_AGAIN\nnpm ERR! syscall getaddrinfo\n"
     "npm ERR! network request failed\n",
     "npm ERR! network request failed"},
    {"WARNING: retrying\nERROR: Could not find a version\nERROR: No matching "
     "distribution\nnotice\n",
     "ERROR: No matching distribution"},
    {"Download\nerror: JSR package not found\n    at file:///x.mjs\n",
     "error: JSR package not found"},
    {"ERROR: x (Forbidden: blocked pypi.test:443: not allowed)\nERROR: No matching distribution\n",
     "blocked pypi.test:443: not allowed"},
    {"WARNING: Retrying after connection broken by 'ProxyError('Cannot connect to proxy.', "
     "OSError('Tunnel connection failed: 403 Forbidden: blocked pypi.test:443: not "
     "allowed'))': /simple/x/\nERROR: No matching distribution\n",
     "blocked pypi.test:443: not allowed"},
    {"OSError(\"Tunnel connection failed: 502 Bad Gateway: no address for 'pypi.test'\"))\n",
     "no address for 'pypi.test'"},
};

TEST(the_line_that_helps_is_found)
{
    for (size_t i = 0; i < countof(cases); i++)
        CHECK_STR(installer_reason(str_of(cases[i].output)), cases[i].reason);
}

TEST(a_long_line_is_cut)
{
    char text[1000] = {0};
    memset(text, 'x', sizeof text - 1);
    CHECK_INT(installer_reason(str_of(text)).len, 180);
}

/* What installers print, and how the explanation begins. */
static const struct {
    const char *output, *begins;
} explained[] = {
    {"/usr/bin/python3: No module named pip\n", "this server has no pip."},
    {"npm: this server has none; its administrator can install it\n", "this server has no npm."},
    {"ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n",
     "the disk of the sandbox is full."},
    {"WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError'\n"
     "ERROR: Could not find a version that satisfies the requirement x (from versions: none)\n",
     "the package index could not be reached."},
    {"ERROR: Could not find a version that satisfies the requirement x (from versions: none)\n"
     "ERROR: No matching distribution found for x\n",
     "the index has no such package, or no version for this Python."},
    {"ERROR: Could not find a version that satisfies the requirement x>3 (from versions: 1.0, "
     "2.0)\n"
     "ERROR: No matching distribution found for x>3\n",
     "no version matches. The index has 1.0, 2.0."},
    {"  error: subprocess-exited-with-error\n", "it has no wheel for this Python,"},
    {"npm error code E404\nnpm error 404 Not Found\n", "the registry has no such package."},
    {"npm error code ETARGET\nnpm error notarget No matching version found for x@9.\n",
     "no version matches."},
    {"error: npm package 'x' does not exist.\n", "the registry has no such package."},
    {"ERROR: x (Forbidden: blocked pypi.test:443: not allowed)\n",
     "blocked pypi.test:443: not allowed. Allow the index with the network policy \"allow pypi\"."},
    {"npm error 403 Forbidden: blocked npm.test:80: not allowed - GET http://npm.test/x - blocked "
     "npm.test:80: not allowed\n",
     "blocked npm.test:80: not allowed. Allow the index"},
    {"after connection broken by 'ProxyError(OSError(\"Tunnel connection failed: 502 Bad Gateway: "
     "'pypi.test' cannot be resolved: no such name\"))'\n",
     "the package index could not be reached: 'pypi.test' cannot be resolved: no such name. "},
    {"npm error 502 Bad Gateway: 'npm.test' cannot be resolved: no such name - GET http://x/\n",
     "the package index could not be reached: 'npm.test' cannot be resolved: no such name. "},
    {"ERROR: HTTP error 502 Server Error: Bad Gateway: connect to 'a.test': refused for url: "
     "http://a.test/simple/\n",
     "the package index could not be reached: connect to 'a.test': refused. Check"},
    {"one\ntwo\n", "the installer said: two"},
};

TEST(a_cause_is_reported_with_the_remedy)
{
    for (size_t i = 0; i < countof(explained); i++) {
        AUTO_BUF struct buf text = {0};
        installer_explain(str_of(explained[i].output), "pypi", &text);
        CHECK_STR(str_slice(buf_str(&text), 0, strlen(explained[i].begins)), explained[i].begins);
        CHECK(text.len <= INSTALLER_EXPLAINED_MAX);
    }
}

TEST(an_unreachable_index_is_distinguished_from_a_missing_package)
{
    CHECK(installer_was_cut_off(STR("Forbidden: blocked pypi.test:443: not allowed")));
    CHECK(installer_was_cut_off(STR("502 Bad Gateway: 'x' cannot be resolved")));
    CHECK(installer_was_cut_off(STR("npm ERR! code ECONNREFUSED")));
    CHECK(!installer_was_cut_off(STR("npm error code E404")));
    CHECK(!installer_was_cut_off(STR("ERROR: No matching distribution found for x")));
}
