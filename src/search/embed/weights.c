#include "search/embed/weights.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/format/json.h"

enum { LENGTH_SIZE = 8 };

struct weights {
    struct json_t *header;
    struct str data; /* behind the header */
};

int weights_open(struct str bytes, struct weights **ret_weights, struct err *err)
{
    uint64_t len = 0;
    AUTO_JSON struct json_t *header = NULL;
    if (bytes.len < LENGTH_SIZE)
        return err_set(err, ERR_INVALID, "the file of weights is too short");
    memcpy(&len, bytes.ptr, LENGTH_SIZE);
    if (len > WEIGHTS_HEADER_MAX || len > bytes.len - LENGTH_SIZE)
        return err_set(err, ERR_INVALID, "the file of weights has no valid header");
    if (json_parse(str_n(bytes.ptr + LENGTH_SIZE, len), &header, err) < 0)
        return err_wrap(err, "the header of the weights");
    struct weights *self = mem_alloc(sizeof *self);
    self->data = str_slice(bytes, LENGTH_SIZE + len, bytes.len);
    self->header = header;
    header = NULL;
    *ret_weights = self;
    return 0;
}

struct weights *weights_free(struct weights *weights)
{
    if (weights == NULL)
        return NULL;
    (void)json_free(weights->header);
    free(weights);
    return NULL;
}

static bool weights_number_at(const struct json_t *list, size_t index, size_t *ret_n)
{
    int64_t n = 0;
    if (!json_to_i64(json_at(list, index), &n) || n < 0)
        return false;
    *ret_n = (size_t)n;
    return true;
}

static bool has_shape(const struct json_t *tensor, size_t rows, size_t columns)
{
    const struct json_t *shape = json_get(tensor, "shape");
    size_t n = 0;
    if (shape == NULL || json_kind(shape) != JSON_KIND_ARRAY ||
        json_len(shape) != (columns == 0 ? 1 : 2))
        return false;
    return weights_number_at(shape, 0, &n) && n == rows &&
           (columns == 0 || (weights_number_at(shape, 1, &n) && n == columns));
}

static bool find_data(const struct weights *self, const struct json_t *tensor, size_t size,
                      struct str *ret_data)
{
    const struct json_t *place = json_get(tensor, "data_offsets");
    size_t from = 0, to = 0;
    if (place == NULL || json_kind(place) != JSON_KIND_ARRAY || json_len(place) != 2 ||
        !weights_number_at(place, 0, &from) || !weights_number_at(place, 1, &to) ||
        to > self->data.len || from > to || to - from != size)
        return false;
    *ret_data = str_slice(self->data, from, to);
    return true;
}

int weights_find(const struct weights *weights, const char *name, size_t rows, size_t columns,
                 const char **ret_halves, struct err *err)
{
    struct str type = {0}, data = {0};
    if (json_kind(weights->header) != JSON_KIND_OBJECT)
        return err_set(err, ERR_INVALID, "the header of the weights is not an object");
    const struct json_t *tensor = json_get(weights->header, name);
    if (tensor == NULL || json_kind(tensor) != JSON_KIND_OBJECT)
        return err_set(err, ERR_NOT_FOUND, "the weights have no '%s'", name);
    if (!json_to_str(json_get(tensor, "dtype"), &type) || !str_eq(type, STR("F16")) ||
        !has_shape(tensor, rows, columns))
        return err_set(err, ERR_INVALID, "'%s' of the weights is not %zu x %zu half floats", name,
                       rows, columns == 0 ? 1 : columns);
    if (!find_data(weights, tensor, rows * (columns == 0 ? 1 : columns) * sizeof(uint16_t), &data))
        return err_set(err, ERR_INVALID, "'%s' of the weights has no valid place", name);
    *ret_halves = data.ptr;
    return 0;
}
