/* What is told of an installer that failed: the one line that helps. */

#include "test.h"

#include "engine/installer.h"

static const struct {
    const char *output, *reason;
} cases[] = {
    {"", "it said nothing"},
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
