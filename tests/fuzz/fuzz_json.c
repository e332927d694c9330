/* What is read and written again must read as the same: the second writing equals the first. */

#include "fuzz.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/format/json.h"

static void write_json(const struct json_t *value, bool pretty, struct buf *text)
{
    struct json_out out = {.buf = text, .pretty = pretty};
    json_put_value(&out, value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    AUTO_JSON struct json_t *value = NULL, *again = NULL;
    if (json_parse(str_n((const char *)data, size), &value, &err) < 0) {
        assert(err.code == ERR_INVALID || err.code == ERR_TOO_LARGE);
        assert(strpbrk(err.msg, "\r\n") == NULL);
        return 0;
    }
    AUTO_BUF struct buf first = {0}, pretty = {0}, second = {0};
    write_json(value, false, &first);
    write_json(value, true, &pretty);
    int result = json_parse(buf_str(&pretty), &again, &err);
    assert(result == 0);
    write_json(again, false, &second);
    assert(str_eq(buf_str(&first), buf_str(&second)));
    return 0;
}
