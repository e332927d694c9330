#include "isolate/inside/result.h"

#include <math.h>

#include "base/arena.h"
#include "base/format/json.h"
#include "isolate/inside/layout.h"

enum { DEPTH_MAX = 64 };

struct writer {
    const struct inspect *how;
    const struct result_limits *limits;
    struct json_out json;
    size_t start;
    vm_value seen[DEPTH_MAX];
    int depth;
};

static void result_put_value(struct writer *w, vm_value value);

static bool is_full(struct writer *w)
{
    return w->json.buf->len - w->start > w->limits->bytes || vm_is_expired(w->how->vm);
}

/* Lone surrogates and NUL, which readers of JSON may refuse, become U+FFFD. */
static struct str printable(struct writer *w, struct str text)
{
    static const unsigned char replacement[] = {0xef, 0xbf, 0xbd};
    text = layout_well_formed(w->how->arena, text);
    size_t nuls = 0, at = 0;
    for (size_t i = 0; i < text.len; i++)
        nuls += text.ptr[i] == '\0';
    if (nuls == 0)
        return text;
    char *out = arena_alloc(w->how->arena, text.len + nuls * 2 + 1);
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] != '\0')
            out[at++] = text.ptr[i];
        else
            memcpy(out + at, replacement, sizeof replacement), at += sizeof replacement;
    return str_n(out, at);
}

/* A key that had to be changed gets its place behind it, so that two of them stay apart. */
static void put_key(struct writer *w, struct str key, uint32_t index)
{
    struct str shown = printable(w, key);
    if (!str_eq(shown, key))
        shown = arena_printf(w->how->arena, "%.*s#%u", STR_ARG(shown), index);
    json_key_str(&w->json, shown);
}

static void result_put_text(struct writer *w, struct str text)
{
    text = printable(w, text);
    size_t used = MIN(w->json.buf->len - w->start, w->limits->bytes);
    size_t room = w->limits->bytes - used;
    if (text.len <= room) {
        json_put_str(&w->json, text);
        return;
    }
    struct str cut = str_slice(text, 0, room);
    json_put_str(&w->json, arena_printf(w->how->arena, "%.*s... %zu more bytes", STR_ARG(cut),
                                        text.len - cut.len));
}

static struct str result_text_of(struct writer *w, vm_value value)
{
    struct str text = {0};
    (void)vm_text(w->how->vm, value, w->how->arena, &text);
    return text;
}

/* What was thrown by a getter, a proxy's trap or a toJSON stands where the value would. */
static void put_thrown(struct writer *w)
{
    vm_value error = vm_take_exception(w->how->vm);
    struct inspect_error parts = inspect_error(w->how, error);
    vm_drop(w->how->vm, error);
    result_put_text(w, arena_printf(w->how->arena, "[Thrown: %.*s]", STR_ARG(parts.message)));
}

static void result_put_number(struct writer *w, vm_value value)
{
    double number = vm_to_number(w->how->vm, value);
    if (!isfinite(number))
        json_put_null(&w->json);
    else if (number == floor(number) && fabs(number) < 9e15)
        json_put_i64(&w->json, (int64_t)number);
    else
        json_put_f64(&w->json, number);
}

static void put_bigint(struct writer *w, vm_value value)
{
    struct str digits = result_text_of(w, value);
    result_put_text(w, arena_printf(w->how->arena, "%.*sn", STR_ARG(digits)));
}

/* --- Collections --- */

static void put_more(struct writer *w, double more)
{
    if (more > 0)
        json_put_str(&w->json, arena_printf(w->how->arena, "... %.0f more item%s", more,
                                            more > 1 ? "s" : ""));
}

static double length_of(struct writer *w, vm_value object, const char *name)
{
    struct vm *vm = w->how->vm;
    vm_value value = vm_get(vm, object, name);
    if (vm_kind_of(value) == VM_EXCEPTION) {
        vm_drop(vm, vm_take_exception(vm));
        return 0;
    }
    double length = vm_kind_of(value) == VM_NUMBER ? vm_to_number(vm, value) : 0;
    vm_drop(vm, value);
    return length >= 0 && length <= 9007199254740991.0 ? floor(length) : 0;
}

static void put_elements(struct writer *w, vm_value object, double length, double more)
{
    json_begin_array(&w->json);
    double shown = fmin(length, w->limits->items);
    uint32_t i = 0;
    for (; i < shown && !is_full(w); i++) {
        vm_value value = vm_get_index(w->how->vm, object, i);
        result_put_value(w, value);
        vm_drop(w->how->vm, value);
    }
    put_more(w, length - i + more);
    json_end_array(&w->json);
}

static vm_value peek(struct writer *w, const char *what, vm_value value)
{
    struct vm *vm = w->how->vm;
    vm_value args[3] = {vm_from_str(vm, str_of(what)), value, vm_from_number(vm, w->limits->items)};
    vm_value answer = vm_call(vm, w->how->peek, vm_undefined(), args, 3);
    vm_drop(vm, args[0]);
    if (vm_kind_of(answer) == VM_EXCEPTION) {
        vm_drop(vm, vm_take_exception(vm));
        return vm_undefined();
    }
    return answer;
}

static void put_set(struct writer *w, vm_value set)
{
    vm_value list = peek(w, "set", set);
    if (vm_kind_of(list) == VM_OBJECT)
        put_elements(w, list, length_of(w, list, "length"), length_of(w, list, "more"));
    else
        json_put_null(&w->json);
    vm_drop(w->how->vm, list);
}

static bool has_text_keys(struct writer *w, vm_value list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i += 2) {
        vm_value key = vm_get_index(w->how->vm, list, i);
        bool text = vm_kind_of(key) == VM_STRING;
        vm_drop(w->how->vm, key);
        if (!text)
            return false;
    }
    return true;
}

static void put_map(struct writer *w, vm_value map)
{
    struct vm *vm = w->how->vm;
    vm_value list = peek(w, "map", map);
    if (vm_kind_of(list) != VM_OBJECT) {
        json_put_null(&w->json);
        return;
    }
    uint32_t count = (uint32_t)fmin(length_of(w, list, "length"), w->limits->items * 2.0);
    double more = length_of(w, list, "more");
    bool object = has_text_keys(w, list, count) && more == 0;
    object ? json_begin_object(&w->json) : json_begin_array(&w->json);
    for (uint32_t i = 0; i + 1 < count && !is_full(w); i += 2) {
        vm_value key = vm_get_index(vm, list, i), value = vm_get_index(vm, list, i + 1);
        if (object) {
            put_key(w, result_text_of(w, key), i);
        } else {
            json_begin_array(&w->json);
            result_put_value(w, key);
        }
        result_put_value(w, value);
        if (!object)
            json_end_array(&w->json);
        vm_drop(vm, key);
        vm_drop(vm, value);
    }
    if (object) {
        json_end_object(&w->json);
    } else {
        put_more(w, more);
        json_end_array(&w->json);
    }
    vm_drop(vm, list);
}

static void result_put_bytes(struct writer *w, vm_value buffer)
{
    struct str bytes = {0};
    if (!vm_bytes(w->how->vm, buffer, &bytes)) {
        json_put_null(&w->json);
        return;
    }
    json_begin_array(&w->json);
    size_t shown = MIN(bytes.len, (size_t)w->limits->items);
    for (size_t i = 0; i < shown; i++)
        json_put_i64(&w->json, (unsigned char)bytes.ptr[i]);
    put_more(w, (double)(bytes.len - shown));
    json_end_array(&w->json);
}

/* --- Objects --- */

static bool result_is_left_out(struct writer *w, vm_value value)
{
    (void)w;
    return vm_kind_of(value) == VM_UNDEFINED;
}

static void put_properties(struct writer *w, vm_value object)
{
    struct vm *vm = w->how->vm;
    struct vm_keys keys;
    if (!vm_keys_get(vm, object, VM_KEYS_ENUMERABLE, &keys)) {
        json_put_cstr(&w->json, "[Thrown: the object does not give its keys]");
        return;
    }
    json_begin_object(&w->json);
    uint32_t i = 0;
    for (; i < keys.count && i < w->limits->items && !is_full(w); i++) {
        vm_value key = vm_key_at(vm, keys, i), value = vm_value_at(vm, object, keys, i);
        if (!result_is_left_out(w, value)) {
            put_key(w, result_text_of(w, key), i);
            result_put_value(w, value);
        }
        vm_drop(vm, key);
        vm_drop(vm, value);
    }
    if (i < keys.count) {
        json_key(&w->json, "...");
        json_put_str(&w->json, arena_printf(w->how->arena, "%u more keys", keys.count - i));
    }
    json_end_object(&w->json);
    vm_keys_drop(vm, keys);
}

static void put_error(struct writer *w, vm_value error)
{
    struct inspect_error parts = inspect_error(w->how, error);
    json_begin_object(&w->json);
    json_key(&w->json, "name"), result_put_text(w, parts.name);
    json_key(&w->json, "message"), result_put_text(w, parts.message);
    json_key(&w->json, "stack"), result_put_text(w, parts.stack);
    json_end_object(&w->json);
}

static void put_inspected(struct writer *w, vm_value value)
{
    struct inspect shallow = *w->how;
    shallow.depth = 0;
    result_put_text(w, inspect_value(&shallow, value));
}

static void put_box(struct writer *w, vm_value object)
{
    struct vm *vm = w->how->vm;
    vm_value box = peek(w, "box", object);
    vm_value value = vm_kind_of(box) == VM_OBJECT ? vm_get(vm, box, "value") : vm_null();
    result_put_value(w, vm_kind_of(value) == VM_OBJECT ? vm_null() : value);
    vm_drop(vm, value);
    vm_drop(vm, box);
}

static void put_date(struct writer *w, vm_value date)
{
    vm_value text = peek(w, "date", date);
    struct str iso = vm_kind_of(text) == VM_STRING ? result_text_of(w, text) : STR("Invalid Date");
    if (str_eq(iso, STR("Invalid Date")))
        json_put_null(&w->json);
    else
        result_put_text(w, iso);
    vm_drop(w->how->vm, text);
}

static void put_by_class(struct writer *w, vm_value object, enum vm_class class)
{
    switch (class) {
    case VM_CLASS_ARRAY:
    case VM_CLASS_TYPED_ARRAY:
    case VM_CLASS_ARGUMENTS:
        put_elements(w, object, length_of(w, object, "length"), 0);
        return;
    case VM_CLASS_SET:
        put_set(w, object);
        return;
    case VM_CLASS_MAP:
        put_map(w, object);
        return;
    case VM_CLASS_ARRAY_BUFFER:
        result_put_bytes(w, object);
        return;
    case VM_CLASS_ERROR:
        put_error(w, object);
        return;
    case VM_CLASS_BOXED:
        put_box(w, object);
        return;
    case VM_CLASS_DATE:
        put_date(w, object);
        return;
    case VM_CLASS_FUNCTION:
    case VM_CLASS_REGEXP:
    case VM_CLASS_PROMISE:
    case VM_CLASS_WEAK_MAP:
    case VM_CLASS_WEAK_SET:
        put_inspected(w, object);
        return;
    default:
        put_properties(w, object);
    }
}

/* Gives the value that stands for the object; an exception when toJSON threw. */
static vm_value ask_to_json(struct writer *w, vm_value object)
{
    struct vm *vm = w->how->vm;
    vm_value method = vm_get(vm, object, "toJSON");
    if (vm_kind_of(method) == VM_EXCEPTION)
        return method;
    vm_value value = vm_kind_of(method) == VM_OBJECT && vm_class_of(vm, method) == VM_CLASS_FUNCTION
                         ? vm_call(vm, method, object, NULL, 0)
                         : vm_dup(vm, object);
    vm_drop(vm, method);
    return value;
}

static void put_object(struct writer *w, vm_value object)
{
    struct vm *vm = w->how->vm;
    for (int i = 0; i < w->depth; i++)
        if (w->seen[i] == object) {
            json_put_cstr(&w->json, "[Circular]");
            return;
        }
    enum vm_class class = vm_class_of(vm, object);
    if (w->depth >= MIN(w->limits->depth, DEPTH_MAX)) {
        json_put_cstr(&w->json, class == VM_CLASS_ARRAY ? "[Array]" : "[Object]");
        return;
    }
    w->seen[w->depth++] = object;
    vm_value value = class == VM_CLASS_DATE ? vm_dup(vm, object) : ask_to_json(w, object);
    if (vm_kind_of(value) == VM_EXCEPTION)
        put_thrown(w);
    else if (vm_kind_of(value) == VM_OBJECT)
        put_by_class(w, value, vm_class_of(vm, value));
    else
        result_put_value(w, value);
    vm_drop(vm, value);
    w->depth--;
}

static void result_put_value(struct writer *w, vm_value value)
{
    if (is_full(w)) {
        json_put_cstr(&w->json, "[Truncated]");
        return;
    }
    switch (vm_kind_of(value)) {
    case VM_BOOL:
        json_put_bool(&w->json, vm_to_bool(value));
        return;
    case VM_NUMBER:
        result_put_number(w, value);
        return;
    case VM_STRING:
        result_put_text(w, result_text_of(w, value));
        return;
    case VM_BIGINT:
        put_bigint(w, value);
        return;
    case VM_SYMBOL:
        put_inspected(w, value);
        return;
    case VM_OBJECT:
        put_object(w, value);
        return;
    case VM_EXCEPTION:
        put_thrown(w);
        return;
    default:
        json_put_null(&w->json);
    }
}

void result_put(const struct inspect *how, vm_value value, const struct result_limits *limits,
                struct buf *out)
{
    struct writer w = {.how = how, .limits = limits, .json = {.buf = out}, .start = out->len};
    result_put_value(&w, value);
}
