#include "test.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/format/json.h"
#include "base/log.h"

static int log_pipe(void)
{
    int ends[2];
    CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
    log_setup(LOG_INFO, LOG_TEXT, ends[1]);
    return ends[0];
}

static void finish(int *read_end, int write_end, struct buf *out)
{
    struct err err = {0};
    log_setup(LOG_INFO, LOG_TEXT, STDERR_FILENO);
    (void)close(write_end);
    CHECK_OK(buf_read_all(out, *read_end, &err));
    fd_close(read_end);
}

TEST(log_writes_key_value_lines)
{
    int read_end = log_pipe();
    int write_end = read_end + 1;
    log_warn("exec.timeout", LOG_STR("sandbox", "a1b2"), LOG_INT("after_ms", 30),
             LOG_STR("why", "two words\nand \"quotes\""), LOG_STR("empty", ""),
             LOG_FLOAT("ratio", 0.5));
    log_debug("not.shown");
    log_set_ids(STR("req1"), STR(""));
    log_info("with.request");
    log_set_ids(STR("req1"), STR("c3d4"));
    log_info("with.both", LOG_ID("volume", STR("")), LOG_INT("n", 1));
    log_info("with.another", LOG_ID("sandbox", STR("e5f6")), LOG_ID("request", STR("")));
    log_set_ids(STR(""), STR(""));
    log_info("with.none");
    AUTO_BUF struct buf out = {0};
    finish(&read_end, write_end, &out);
    CHECK(strstr(buf_cstr(&out), " level=warn event=exec.timeout sandbox=a1b2 after_ms=30 "
                                 "why=\"two words\\nand \\\"quotes\\\"\" empty=\"\" ratio=0.5\n"));
    CHECK(strstr(buf_cstr(&out), "not.shown") == NULL);
    CHECK(strstr(buf_cstr(&out), "event=with.request request=req1\n"));
    CHECK(strstr(buf_cstr(&out), "event=with.both request=req1 sandbox=c3d4 n=1\n"));
    CHECK(strstr(buf_cstr(&out), "event=with.another request=req1 sandbox=e5f6\n"));
    CHECK(strstr(buf_cstr(&out), "event=with.none\n"));
}

TEST(log_writes_one_json_object_a_line)
{
    int read_end = log_pipe();
    int write_end = read_end + 1;
    log_setup(LOG_DEBUG, LOG_JSON, write_end);
    static char huge[100000];
    memset(huge, 'x', sizeof huge - 1);
    log_error("bad", LOG_STR("text", "\x1b[31m\r\n\xff"), LOG_STR("huge", huge));
    AUTO_BUF struct buf out = {0};
    finish(&read_end, write_end, &out);
    struct err err = {0};
    AUTO_JSON struct json_t *line = NULL;
    CHECK_OK(json_parse(buf_str(&out), &line, &err));
    struct str value;
    CHECK(json_to_str(json_get(line, "level"), &value) && str_eq(value, STR("error")));
    CHECK(json_to_str(json_get(line, "huge"), &value) && value.len == LOG_VALUE_MAX);
    CHECK_INT(str_find_char(buf_str(&out), '\n'), out.len - 1);
}

TEST(log_leaves_out_what_comes_too_often)
{
    int read_end = log_pipe();
    int write_end = read_end + 1;
    (void)fcntl(write_end, F_SETPIPE_SZ, 1 << 20);
    for (int i = 0; i < 10 * LOG_RATE; i++)
        log_info("flood", LOG_INT("n", i));
    log_info("other");
    AUTO_BUF struct buf out = {0};
    finish(&read_end, write_end, &out);
    size_t lines = 0;
    for (size_t i = 0; i < out.len; i++)
        lines += out.ptr[i] == '\n';
    /* The loop may see one turn of a second, hardly two. */
    CHECK(lines >= LOG_RATE && lines <= 3 * LOG_RATE + 3);
    CHECK(strstr(buf_cstr(&out), "event=other\n"));
}
