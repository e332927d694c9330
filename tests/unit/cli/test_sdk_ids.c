/* The client for C programs: invalid ids are refused before a request is sent. */

#include "test.h"

#include "sandglass.h"

static char longest[200];
static const char *const bad[] = {"",        ".",  "..",    "../volumes/x", "x/../../volumes/y",
                                  "a/stop?", "a#", "a%2fb", "a b",          longest};

TEST(ids_lead_to_no_other_route)
{
    sg_client *client = sg_open("http://127.0.0.1:1", "token");
    CHECK(client != NULL);
    memset(longest, 'a', sizeof longest - 1);
    for (size_t i = 0; i < countof(bad); i++) {
        char *text = NULL;
        size_t len = 0;
        CHECK_INT(sg_delete(client, bad[i]), -1);
        CHECK_CSTR(sg_error_code(client), "invalid");
        CHECK_INT(sg_run(client, bad[i], "js", "1", &text), -1);
        CHECK_CSTR(sg_error_code(client), "invalid");
        CHECK_INT(sg_exec(client, bad[i], "true", &text), -1);
        CHECK_CSTR(sg_error_code(client), "invalid");
        CHECK_INT(sg_undo(client, bad[i], NULL, &text), -1);
        CHECK_CSTR(sg_error_code(client), "invalid");
        CHECK_INT(sg_diff(client, bad[i], NULL, NULL, &text), -1);
        CHECK_CSTR(sg_error_code(client), "invalid");
        CHECK_INT(sg_file_read(client, bad[i], "/a", &text, &len), -1);
        CHECK_CSTR(sg_error_code(client), "invalid");
        CHECK_INT(sg_file_write(client, bad[i], "/a", "", 0), -1);
        CHECK_CSTR(sg_error_code(client), "invalid");
    }
    CHECK_INT(sg_delete(client, "abc"), -1);
    CHECK(strcmp(sg_error_code(client), "invalid") != 0);
    sg_close(client);
}
