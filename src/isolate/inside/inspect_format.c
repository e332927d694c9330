/* console.log's format: directives in the first argument, the rest behind them. */

#include "base/arena.h"
#include "isolate/inside/inspect_parts.h"

static struct str directive(const struct inspect *how, char kind, vm_value value)
{
    struct walk walk = {.how = how, .start = how->arena->total};
    struct inspect deep = *how;
    const char *what = NULL;
    switch (kind) {
    case 's':
        if (vm_kind_of(value) == VM_STRING || vm_kind_of(value) == VM_SYMBOL ||
            (vm_kind_of(value) == VM_OBJECT && (vm_class_of(how->vm, value) == VM_CLASS_FUNCTION ||
                                                walk_has_own_to_string(&walk, value))))
            what = "string";
        deep.depth = 0;
        break;
    case 'd':
        what = "number";
        break;
    case 'i':
        what = "integer";
        break;
    case 'f':
        what = "float";
        break;
    case 'j':
        what = "json";
        break;
    case 'c':
        return STR("");
    case 'o':
        deep.depth = 4;
        break;
    default:
        break;
    }
    if (what == NULL)
        return inspect_value(&deep, value);
    vm_value answer = walk_peek(&walk, what, value, 0);
    struct str text = {0};
    if (vm_kind_of(answer) == VM_STRING)
        (void)vm_text(how->vm, answer, how->arena, &text);
    else
        text = vm_kind_of(answer) == VM_OBJECT ? STR("NaN") : walk_primitive(&walk, answer);
    vm_drop(how->vm, answer);
    return text;
}

static struct str concat(struct arena *arena, const struct layout_list *pieces, size_t max)
{
    size_t total = 0;
    for (size_t i = 0; i < pieces->len; i++)
        total += pieces->items[i].len;
    char *text = arena_alloc(arena, total + 1);
    size_t at = 0;
    for (size_t i = 0; i < pieces->len; i++) {
        if (pieces->items[i].len > 0)
            memcpy(text + at, pieces->items[i].ptr, pieces->items[i].len);
        at += pieces->items[i].len;
    }
    return str_slice(str_n(text, total), 0, max);
}

static bool is_directive(char kind)
{
    static const char kinds[] = {'s', 'd', 'i', 'f', 'j', 'o', 'O', 'c'};
    return memchr(kinds, kind, sizeof kinds) != NULL;
}

/* Gives how many arguments the text took. */
static uint32_t put_directives(const struct inspect *how, struct str text, vm_value args,
                               uint32_t count, struct layout_list *out)
{
    uint32_t used = 1;
    size_t from = 0;
    for (size_t i = 0; i + 1 < text.len; i++) {
        if (text.ptr[i] != '%')
            continue;
        char kind = text.ptr[i + 1];
        bool known = is_directive(kind) && used < count;
        if (kind != '%' && !known)
            continue;
        layout_push(out, how->arena, str_slice(text, from, i + (kind == '%' ? 1 : 0)));
        from = i + 2;
        i++;
        if (kind == '%')
            continue;
        vm_value value = vm_get_index(how->vm, args, used++);
        layout_push(out, how->arena, directive(how, kind, value));
        vm_drop(how->vm, value);
    }
    layout_push(out, how->arena, str_slice(text, from, text.len));
    return used;
}

struct str inspect_format(const struct inspect *how, vm_value args)
{
    struct walk walk = {.how = how, .start = how->arena->total};
    struct vm *vm = how->vm;
    uint32_t count = (uint32_t)walk_number(&walk, args, "length"), next = 0;
    struct layout_list out = {0};
    while (next < count && !walk_is_full(&walk)) {
        vm_value value = vm_get_index(vm, args, next);
        struct str text = {0};
        if (next > 0)
            layout_push(&out, how->arena, STR(" "));
        if (vm_kind_of(value) != VM_STRING)
            text = inspect_value(how, value);
        else
            (void)vm_text(vm, value, how->arena, &text);
        bool format = vm_kind_of(value) == VM_STRING && next == 0 && count > 1;
        vm_drop(vm, value);
        if (format) {
            next = put_directives(how, text, args, count, &out);
            continue;
        }
        layout_push(&out, how->arena, text);
        next++;
    }
    return concat(how->arena, &out, how->bytes_max);
}
