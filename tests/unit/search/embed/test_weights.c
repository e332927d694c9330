#include "search/embed/weights.h"

#include "base/buf.h"
#include "test.h"

static void put_file(struct buf *out, const char *header, size_t data)
{
    uint64_t len = strlen(header);
    buf_put(out, str_n((const char *)&len, sizeof len));
    buf_put_cstr(out, header);
    for (size_t i = 0; i < data; i++)
        buf_put_char(out, (char)i);
}

/* What looking for the tensor `a` of 2 x 3 gives. */
static enum err_code find_in(const char *header, size_t data)
{
    struct err err = {0};
    AUTO_BUF struct buf file = {0};
    AUTO_WEIGHTS struct weights *weights = NULL;
    const char *halves = NULL;
    put_file(&file, header, data);
    if (weights_open(buf_str(&file), &weights, &err) < 0 ||
        weights_find(weights, "a", 2, 3, &halves, &err) < 0)
        return err.code;
    CHECK(halves >= file.ptr && halves + 12 <= file.ptr + file.len);
    return ERR_NONE;
}

TEST(a_tensor_is_found)
{
    struct err err = {0};
    AUTO_BUF struct buf file = {0};
    AUTO_WEIGHTS struct weights *weights = NULL;
    const char *halves = NULL;
    put_file(&file,
             "{\"a\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[1,13]},"
             "\"b\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[13,15]}}",
             15);
    CHECK_OK(weights_open(buf_str(&file), &weights, &err));
    CHECK_OK(weights_find(weights, "a", 2, 3, &halves, &err));
    CHECK_INT(halves[0], 1);
    CHECK_OK(weights_find(weights, "b", 1, 0, &halves, &err));
    CHECK_INT(halves[1], 14);
    CHECK_ERR(weights_find(weights, "b", 2, 0, &halves, &err), ERR_INVALID);
    CHECK_ERR(weights_find(weights, "c", 1, 0, &halves, &err), ERR_NOT_FOUND);
    CHECK_MSG("'c'");
}

TEST(a_wrong_tensor_is_refused)
{
    static const char *const headers[] = {
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,12]}}",
        "{\"a\":{\"dtype\":\"F16\",\"shape\":[3,2],\"data_offsets\":[0,12]}}",
        "{\"a\":{\"dtype\":\"F16\",\"shape\":[6],\"data_offsets\":[0,12]}}",
        "{\"a\":{\"dtype\":\"F16\",\"shape\":[2,3,1],\"data_offsets\":[0,12]}}",
        "{\"a\":{\"dtype\":\"F16\",\"shape\":{},\"data_offsets\":[0,12]}}",
        "{\"a\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[0,11]}}",
        "{\"a\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[4,16]}}",
        "{\"a\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[12,0]}}",
        "{\"a\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[-12,0]}}",
        ("{\"a\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":"
         "[9223372036854775800,9223372036854775807]}}"),
        "{\"a\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[0]}}",
        "{\"a\":{\"dtype\":7,\"shape\":[2,3],\"data_offsets\":[0,12]}}",
        "{\"a\":{\"dtype\":\"F16\",\"data_offsets\":[0,12]}}",
        "{\"a\":{\"dtype\":\"F16\",\"shape\":[2,3]}}",
        "[]",
        "{",
    };
    CHECK_INT(find_in("{\"a\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[3,15]}}", 15),
              ERR_NONE);
    for (size_t i = 0; i < countof(headers); i++)
        CHECK_INT(find_in(headers[i], 15), ERR_INVALID);
    CHECK_INT(find_in("{\"a\":[]}", 15), ERR_NOT_FOUND);
}

TEST(a_wrong_header_is_refused)
{
    struct err err = {0};
    struct weights *weights = NULL;
    const unsigned char far[] = {255, 255, 255, 255, 255, 255, 255, 255, '{', '}'};
    const unsigned char beyond[] = {3, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    CHECK_ERR(weights_open(STR(""), &weights, &err), ERR_INVALID);
    CHECK_ERR(weights_open(STR("1234567"), &weights, &err), ERR_INVALID);
    CHECK_ERR(weights_open(str_n((const char *)far, sizeof far), &weights, &err), ERR_INVALID);
    CHECK_ERR(weights_open(str_n((const char *)beyond, sizeof beyond), &weights, &err),
              ERR_INVALID);
    CHECK(weights == NULL && weights_free(NULL) == NULL);
}
