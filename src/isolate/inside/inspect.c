#include "isolate/inside/inspect.h"

#include <math.h>

#include "base/arena.h"
#include "base/buf.h"
#include "isolate/inside/inspect_parts.h"
#include "isolate/inside/layout.h"

enum { ITEMS_MAX = 100, STRING_MAX = 10000, SPLIT_FROM = 16, KEYS_SCAN_MAX = 100000 };

static struct str format_value(struct walk *walk, vm_value value, int depth);

/* --- Primitives --- */

static struct str format_string(struct walk *walk, struct str text)
{
    struct arena *arena = walk->how->arena;
    struct str tail = {0};
    size_t length = layout_length(text);
    if (length > STRING_MAX) {
        size_t end = MIN(text.len, (size_t)STRING_MAX);
        while (end > 0 && ((unsigned char)text.ptr[end] & 0xc0) == 0x80)
            end--;
        tail = arena_printf(arena, "... %zu more character%s", length - STRING_MAX,
                            length - STRING_MAX > 1 ? "s" : "");
        text = str_slice(text, 0, end);
    }
    if (length <= SPLIT_FROM || length <= LAYOUT_WIDTH - walk->indent - 4 ||
        str_find_char(text, '\n') >= text.len - 1) {
        struct str quoted = layout_quote(arena, text);
        return tail.len == 0 ? quoted
                             : arena_printf(arena, "%.*s%.*s", STR_ARG(quoted), STR_ARG(tail));
    }
    /* A long text of several lines is written line by line. */
    AUTO_BUF struct buf out = {0};
    for (struct str rest = text; rest.len > 0;) {
        size_t end = MIN(str_find_char(rest, '\n') + 1, rest.len);
        if (out.len > 0)
            buf_printf(&out, " +\n%*s", (int)walk->indent + 2, "");
        buf_put(&out, layout_quote(arena, str_slice(rest, 0, end)));
        rest = str_slice(rest, end, rest.len);
    }
    buf_put(&out, tail);
    return arena_dup(arena, buf_str(&out));
}

struct str walk_primitive(struct walk *walk, vm_value value)
{
    struct vm *vm = walk->how->vm;
    struct arena *arena = walk->how->arena;
    struct str text = STR("?");
    switch (vm_kind_of(value)) {
    case VM_UNDEFINED:
        return STR("undefined");
    case VM_NULL:
        return STR("null");
    case VM_BOOL:
        return vm_to_bool(value) ? STR("true") : STR("false");
    case VM_SYMBOL:
        (void)vm_symbol_text(vm, value, arena, &text);
        return text;
    case VM_STRING:
        return vm_text(vm, value, arena, &text) ? format_string(walk, text) : STR("''");
    case VM_BIGINT:
        if (!vm_text(vm, value, arena, &text))
            return STR("0n");
        return arena_printf(arena, "%.*sn", STR_ARG(text));
    default:
        if (vm_to_number(vm, value) == 0 && signbit(vm_to_number(vm, value)))
            return STR("-0");
        (void)vm_text(vm, value, arena, &text);
        return text;
    }
}

/* --- Properties --- */

static struct str slot_text(struct walk *walk, enum vm_slot slot, vm_value value, int depth)
{
    switch (slot) {
    case VM_SLOT_GETTER:
        return STR("[Getter]");
    case VM_SLOT_SETTER:
        return STR("[Setter]");
    case VM_SLOT_BOTH:
        return STR("[Getter/Setter]");
    case VM_SLOT_NONE:
        return STR("undefined");
    default:
        break;
    }
    walk->indent += 2;
    struct str text = format_value(walk, value, depth);
    walk->indent -= 2;
    vm_drop(walk->how->vm, value);
    return text;
}

static struct str key_text(struct walk *walk, vm_value key)
{
    struct arena *arena = walk->how->arena;
    struct str text = {0};
    if (vm_kind_of(key) == VM_SYMBOL) {
        (void)vm_symbol_text(walk->how->vm, key, arena, &text);
        return text; /* without brackets, as Node writes it since 24 */
    }
    (void)vm_text(walk->how->vm, key, arena, &text);
    if (str_eq(text, STR("__proto__")))
        return STR("['__proto__']");
    return layout_is_name(text) ? text : layout_quote(arena, text);
}

static bool is_index(struct walk *walk, vm_value key)
{
    struct str text = {0};
    int64_t n;
    return vm_kind_of(key) != VM_SYMBOL && vm_text(walk->how->vm, key, walk->how->arena, &text) &&
           str_to_i64(text, 0, 4294967294, &n);
}

/* Own enumerable properties; of arrays those that are no elements. */
static void put_properties(struct walk *walk, vm_value object, struct layout_list *out, int depth,
                           bool skip_indexes, struct str skip)
{
    struct vm *vm = walk->how->vm;
    struct vm_keys keys;
    if (!vm_keys_get(vm, object, VM_KEYS_WITH_SYMBOLS, &keys))
        return;
    for (uint32_t i = 0; i < keys.count && !walk_is_full(walk); i++) {
        vm_value key = vm_key_at(vm, keys, i), value = vm_undefined();
        struct str text = {0};
        if (!(skip_indexes && is_index(walk, key))) {
            text = key_text(walk, key);
            bool skipped =
                skip.len > 0 && (str_eq(text, STR("stack")) || str_eq(text, STR("message")) ||
                                 str_eq(text, STR("name")));
            if (!skipped) {
                enum vm_slot slot = vm_slot_at(vm, object, keys, i, &value);
                struct str shown = slot_text(walk, slot, value, depth);
                layout_push(
                    out, walk->how->arena,
                    arena_printf(walk->how->arena, "%.*s: %.*s", STR_ARG(text), STR_ARG(shown)));
            }
        }
        vm_drop(vm, key);
    }
    vm_keys_drop(vm, keys);
}

/* --- Collections --- */

static void put_more(struct walk *walk, struct layout_list *out, double more,
                     struct layout_box *box)
{
    if (more <= 0)
        return;
    layout_push(out, walk->how->arena,
                arena_printf(walk->how->arena, "... %.0f more item%s", more, more > 1 ? "s" : ""));
    box->has_more = true;
}

static void put_empty(struct walk *walk, struct layout_list *out, uint32_t count)
{
    if (count > 0)
        layout_push(
            out, walk->how->arena,
            arena_printf(walk->how->arena, "<%u empty item%s>", count, count > 1 ? "s" : ""));
}

static void put_array(struct walk *walk, vm_value array, uint32_t length, struct layout_list *out,
                      struct layout_box *box, int depth)
{
    struct vm *vm = walk->how->vm;
    uint32_t i = 0, empty = 0;
    for (; i < length && out->len < ITEMS_MAX && i < KEYS_SCAN_MAX && !walk_is_full(walk); i++) {
        vm_value value = vm_undefined();
        enum vm_slot slot = vm_slot_index(vm, array, i, &value);
        if (slot == VM_SLOT_NONE) {
            empty++;
            continue;
        }
        put_empty(walk, out, empty);
        empty = 0;
        if (out->len == ITEMS_MAX) {
            vm_drop(vm, value);
            break;
        }
        if (slot != VM_SLOT_DATA ||
            (vm_kind_of(value) != VM_NUMBER && vm_kind_of(value) != VM_BIGINT))
            box->is_numeric = false;
        layout_push(out, walk->how->arena, slot_text(walk, slot, value, depth));
    }
    if (empty > 0) {
        /* The scan is bounded; a huge hole is taken for empty to its end. */
        put_empty(walk, out, i == KEYS_SCAN_MAX ? empty + (length - i) : empty);
        box->is_numeric = false;
        return;
    }
    put_more(walk, out, length - i, box);
}

static void put_typed_array(struct walk *walk, vm_value array, uint32_t length,
                            struct layout_list *out, struct layout_box *box)
{
    struct vm *vm = walk->how->vm;
    uint32_t shown = MIN(length, (uint32_t)ITEMS_MAX);
    for (uint32_t i = 0; i < shown; i++) {
        vm_value value = vm_get_index(vm, array, i);
        layout_push(out, walk->how->arena, walk_primitive(walk, value));
        vm_drop(vm, value);
    }
    put_more(walk, out, length - shown, box);
    box->is_numeric = true;
}

static void put_entries(struct walk *walk, vm_value object, bool is_map, struct layout_list *out,
                        struct layout_box *box, int depth)
{
    struct vm *vm = walk->how->vm;
    struct arena *arena = walk->how->arena;
    vm_value list = walk_peek(walk, is_map ? "map" : "set", object, ITEMS_MAX);
    if (vm_kind_of(list) != VM_OBJECT)
        return;
    double count = walk_number(walk, list, "length"), more = walk_number(walk, list, "more");
    walk->indent += 2;
    for (uint32_t i = 0; i < count && !walk_is_full(walk); i++) {
        vm_value item = vm_get_index(vm, list, i);
        struct str text = format_value(walk, item, depth);
        vm_drop(vm, item);
        if (is_map) {
            vm_value value = vm_get_index(vm, list, ++i);
            struct str shown = format_value(walk, value, depth);
            text = arena_printf(arena, "%.*s => %.*s", STR_ARG(text), STR_ARG(shown));
            vm_drop(vm, value);
        }
        layout_push(out, arena, text);
    }
    walk->indent -= 2;
    vm_drop(vm, list);
    put_more(walk, out, more, box);
}

static void put_promise(struct walk *walk, vm_value promise, struct layout_list *out, int depth)
{
    struct vm *vm = walk->how->vm;
    enum vm_promise state = vm_promise_state(vm, promise);
    if (state == VM_PROMISE_PENDING) {
        layout_push(out, walk->how->arena, STR("<pending>"));
        return;
    }
    vm_value value = vm_promise_result(vm, promise);
    walk->indent += 2;
    struct str text = format_value(walk, value, depth);
    walk->indent -= 2;
    vm_drop(vm, value);
    layout_push(out, walk->how->arena,
                state == VM_PROMISE_REJECTED
                    ? arena_printf(walk->how->arena, "<rejected> %.*s", STR_ARG(text))
                    : text);
}

static void put_buffer(struct walk *walk, vm_value buffer, struct layout_list *out)
{
    struct arena *arena = walk->how->arena;
    struct str bytes = {0};
    if (!vm_bytes(walk->how->vm, buffer, &bytes)) {
        layout_push(out, arena, STR("(detached)"));
        return;
    }
    AUTO_BUF struct buf text = {0};
    buf_put_cstr(&text, "[Uint8Contents]: <");
    size_t shown = MIN(bytes.len, (size_t)50);
    for (size_t i = 0; i < shown; i++)
        buf_printf(&text, "%s%02x", i > 0 ? " " : "", (unsigned char)bytes.ptr[i]);
    if (bytes.len > shown)
        buf_printf(&text, " ... %zu more byte%s", bytes.len - shown,
                   bytes.len - shown > 1 ? "s" : "");
    buf_put_char(&text, '>');
    layout_push(out, arena, arena_dup(arena, buf_str(&text)));
    layout_push(out, arena, arena_printf(arena, "byteLength: %zu", bytes.len));
}

/* --- Objects --- */

static void put_contents(struct walk *walk, vm_value object, struct shape *shape,
                         struct layout_list *out, struct layout_box *box, int depth)
{
    switch (shape->class) {
    case VM_CLASS_ARRAY:
        box->is_array = box->is_numeric = true;
        put_array(walk, object, shape->size, out, box, depth);
        if (shape->size <= KEYS_SCAN_MAX)
            put_properties(walk, object, out, depth, true, STR(""));
        return;
    case VM_CLASS_TYPED_ARRAY:
        box->is_array = true;
        put_typed_array(walk, object, shape->size, out, box);
        return;
    case VM_CLASS_MAP:
    case VM_CLASS_SET:
        put_entries(walk, object, shape->class == VM_CLASS_MAP, out, box, depth);
        break;
    case VM_CLASS_PROMISE:
        put_promise(walk, object, out, depth);
        break;
    case VM_CLASS_ARRAY_BUFFER:
        put_buffer(walk, object, out);
        break;
    case VM_CLASS_WEAK_MAP:
    case VM_CLASS_WEAK_SET:
        layout_push(out, walk->how->arena, STR("<items unknown>"));
        break;
    default:
        break;
    }
    bool is_error = shape->class == VM_CLASS_ERROR;
    put_properties(walk, object, out, depth, shape->class == VM_CLASS_BOXED,
                   is_error ? STR("error") : STR(""));
    if (is_error)
        walk_error_extras(walk, object, out, depth, slot_text);
}

static struct str circular_mark(struct walk *walk, vm_value object)
{
    size_t index = 0;
    while (index < walk->circular_count && walk->circular[index] != object)
        index++;
    if (index == walk->circular_count && index < WALK_DEPTH_MAX)
        walk->circular[walk->circular_count++] = object;
    return arena_printf(walk->how->arena, "[Circular *%zu]", index + 1);
}

static struct str with_reference(struct walk *walk, vm_value object, struct str base)
{
    for (size_t i = 0; i < walk->circular_count; i++)
        if (walk->circular[i] == object)
            return arena_printf(walk->how->arena, "<ref *%zu>%s%.*s", i + 1,
                                base.len > 0 ? " " : "", STR_ARG(base));
    return base;
}

static struct str format_object(struct walk *walk, vm_value object, int depth)
{
    struct arena *arena = walk->how->arena;
    for (size_t i = 0; i < walk->seen_count; i++)
        if (walk->seen[i] == object)
            return circular_mark(walk, object);
    struct shape shape = shape_of(walk, object);
    bool deep = depth > walk->how->depth || walk->seen_count == WALK_DEPTH_MAX;
    if (deep && shape.base.len == 0) {
        struct vm_keys keys = {0};
        bool empty =
            shape.size == 0 && vm_keys_get(walk->how->vm, object, VM_KEYS_WITH_SYMBOLS, &keys);
        if (empty)
            vm_keys_drop(walk->how->vm, keys);
        if (!(empty && keys.count == 0 && shape.is_plain))
            return shape_brief(walk, &shape);
    }
    walk->seen[walk->seen_count++] = object;
    int depth_before = walk->current_depth;
    walk->current_depth = depth + 1;
    struct layout_list out = {0};
    struct layout_box box = {.open = shape.open, .close = shape.close, .indent = walk->indent};
    if (!(deep && shape.base.len > 0))
        put_contents(walk, object, &shape, &out, &box, depth + 1);
    walk->seen_count--;
    if (out.len == 0) {
        walk->current_depth = depth_before; /* what is empty adds no level */
        return shape.base.len > 0
                   ? with_reference(walk, object, shape.base)
                   : arena_printf(arena, "%.*s%.*s", STR_ARG(shape.open), STR_ARG(shape.close));
    }
    box.base = with_reference(walk, object, shape.base);
    box.may_be_flat = walk->current_depth - (depth + 1) < 3;
    return layout_join(arena, out, &box);
}

static struct str format_value(struct walk *walk, vm_value value, int depth)
{
    struct vm *vm = walk->how->vm;
    if (walk_is_full(walk))
        return STR("...");
    if (vm_kind_of(value) != VM_OBJECT)
        return walk_primitive(walk, value);
    vm_value object = vm_dup(vm, value);
    for (int i = 0; i < 100 && vm_class_of(vm, object) == VM_CLASS_PROXY; i++) {
        vm_value target = vm_proxy_target(vm, object);
        vm_drop(vm, object);
        if (vm_kind_of(target) != VM_OBJECT)
            return STR("<Revoked Proxy>");
        object = target;
    }
    struct str text;
    if (!walk_custom(walk, object, &text))
        text = format_object(walk, object, depth);
    vm_drop(vm, object);
    return text;
}

struct str inspect_value(const struct inspect *how, vm_value value)
{
    struct walk walk = {.how = how, .start = how->arena->total};
    return format_value(&walk, value, 0);
}
