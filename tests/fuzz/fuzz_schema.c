/* A schema, a newline, a value: any schema that is taken can be held against any value, and what it
 * says of it is one line. */

#include "fuzz.h"

#include "base/err.h"
#include "base/format/json.h"
#include "base/format/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_n((const char *)data, size);
    size_t end = str_find_char(text, '\n');
    struct err err = {0};
    AUTO_JSON struct json_t *schema = NULL, *value = NULL;
    if (json_parse(str_slice(text, 0, end), &schema, &err) < 0 ||
        json_parse(str_slice(text, end + 1, text.len), &value, &err) < 0)
        return 0;
    if (schema_check_schema(schema, &err) < 0) {
        assert(err.code == ERR_INVALID);
        return 0;
    }
    if (schema_check(schema, value, "value", &err) < 0)
        assert(err.code == ERR_INVALID && strpbrk(err.msg, "\r\n") == NULL);
    return 0;
}
