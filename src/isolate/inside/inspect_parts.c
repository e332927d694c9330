#include "isolate/inside/inspect_parts.h"

#include "base/arena.h"
#include "base/buf.h"

enum { CHAIN_MAX = 100, NAME_MAX_LEN = 200 };

/* Frames of our own bootstrap carry this as their file. */
#define OWN_FILE "<sandglass>"

bool walk_is_full(struct walk *walk)
{
    return walk->how->arena->total - walk->start > walk->how->bytes_max ||
           vm_is_expired(walk->how->vm);
}

static vm_value or_undefined(struct vm *vm, vm_value value)
{
    if (vm_kind_of(value) != VM_EXCEPTION)
        return value;
    vm_drop(vm, vm_take_exception(vm));
    return vm_undefined();
}

vm_value walk_peek(struct walk *walk, const char *what, vm_value value, double max)
{
    struct vm *vm = walk->how->vm;
    vm_value args[3] = {vm_from_str(vm, str_of(what)), value, vm_from_number(vm, max)};
    vm_value answer = or_undefined(vm, vm_call(vm, walk->how->peek, vm_undefined(), args, 3));
    vm_drop(vm, args[0]);
    vm_drop(vm, args[2]);
    return answer;
}

static struct str peek_text(struct walk *walk, const char *what, vm_value value)
{
    struct str text = {0};
    vm_value answer = walk_peek(walk, what, value, 0);
    if (vm_kind_of(answer) == VM_STRING)
        (void)vm_text(walk->how->vm, answer, walk->how->arena, &text);
    vm_drop(walk->how->vm, answer);
    return text;
}

static struct str inspect_parts_text_of(struct walk *walk, vm_value object, const char *name)
{
    struct vm *vm = walk->how->vm;
    vm_value value = or_undefined(vm, vm_get(vm, object, name));
    struct str text = {0};
    if (vm_kind_of(value) == VM_STRING)
        (void)vm_text(vm, value, walk->how->arena, &text);
    vm_drop(vm, value);
    return text;
}

double walk_number(struct walk *walk, vm_value object, const char *name)
{
    struct vm *vm = walk->how->vm;
    vm_value value = or_undefined(vm, vm_get(vm, object, name));
    double number = vm_kind_of(value) == VM_NUMBER ? vm_to_number(vm, value) : 0;
    vm_drop(vm, value);
    return number >= 0 && number <= 4294967295.0 ? number : 0;
}

bool walk_custom(struct walk *walk, vm_value object, struct str *ret_text)
{
    struct vm *vm = walk->how->vm;
    if (walk->seen_count >= WALK_DEPTH_MAX / 2)
        return false;
    vm_value answer = walk_peek(walk, "custom", object, 0);
    bool custom = vm_kind_of(answer) != VM_UNDEFINED && answer != walk->how->stop &&
                  answer != object && vm_kind_of(answer) != VM_OBJECT;
    if (custom && vm_kind_of(answer) == VM_STRING) {
        struct str text = {0};
        (void)vm_text(vm, answer, walk->how->arena, &text);
        *ret_text = layout_indent(walk->how->arena, text, walk->indent);
    } else if (custom) {
        *ret_text = walk_primitive(walk, answer);
    }
    vm_drop(vm, answer);
    return custom;
}

/* A toString of its own or of its class, before that of Object, Error and other built-ins. */
bool walk_has_own_to_string(struct walk *walk, vm_value object)
{
    struct vm *vm = walk->how->vm;
    vm_value at = vm_dup(vm, object);
    bool found = false;
    for (int i = 0; i < CHAIN_MAX && vm_kind_of(at) == VM_OBJECT && !found; i++) {
        vm_value method = vm_undefined(), up;
        if (vm_slot_of(vm, at, "toString", &method) == VM_SLOT_DATA) {
            struct str source = peek_text(walk, "source", method);
            vm_drop(vm, method);
            found = source.len > 0 && str_find(source, STR("[native")) == source.len &&
                    !str_eq(source, STR("function toStrin"));
            if (!found)
                break;
        }
        up = vm_prototype(vm, at);
        vm_drop(vm, at);
        at = up;
    }
    vm_drop(vm, at);
    return found;
}

/* --- Names --- */

/* The name of the constructor that `holder` names as its own, when `object` is one of its. */
static bool own_constructor(struct walk *walk, vm_value object, vm_value holder,
                            struct str *ret_name)
{
    struct vm *vm = walk->how->vm;
    vm_value constructor = vm_undefined(), name = vm_undefined();
    if (vm_slot_of(vm, holder, "constructor", &constructor) != VM_SLOT_DATA)
        return false;
    bool found = false;
    if (vm_kind_of(constructor) == VM_OBJECT && vm_class_of(vm, constructor) == VM_CLASS_FUNCTION &&
        vm_slot_of(vm, constructor, "name", &name) == VM_SLOT_DATA) {
        found = vm_kind_of(name) == VM_STRING && vm_text(vm, name, walk->how->arena, ret_name) &&
                ret_name->len > 0 && vm_is_instance(vm, object, constructor);
        vm_drop(vm, name);
    }
    vm_drop(vm, constructor);
    return found;
}

/* Empty for an object without a prototype. */
static struct str constructor_name(struct walk *walk, vm_value object)
{
    struct vm *vm = walk->how->vm;
    struct str name = {0};
    vm_value at = vm_dup(vm, object);
    bool found = false, rooted = false;
    for (int i = 0; i < CHAIN_MAX && vm_kind_of(at) == VM_OBJECT && !found; i++) {
        found = own_constructor(walk, object, at, &name);
        vm_value up = vm_prototype(vm, at);
        rooted = rooted || vm_kind_of(up) == VM_OBJECT;
        vm_drop(vm, at);
        at = up;
    }
    vm_drop(vm, at);
    if (!found)
        name = rooted ? STR("Object <Complex prototype>") : STR("");
    return str_slice(name, 0, NAME_MAX_LEN);
}

/* "Foo(2) [tag] ", or "[Map(2): null prototype] ". */
static struct str prefix(struct walk *walk, struct str name, struct str tag, const char *fallback,
                         struct str size)
{
    struct arena *arena = walk->how->arena;
    bool tagged = tag.len > 0 && !str_eq(tag, name.len > 0 ? name : str_of(fallback));
    struct str mark = tagged ? arena_printf(arena, "[%.*s] ", STR_ARG(tag)) : STR("");
    if (name.len == 0)
        return arena_printf(arena, "[%s%.*s: null prototype] %.*s", fallback, STR_ARG(size),
                            STR_ARG(mark));
    return arena_printf(arena, "%.*s%.*s %.*s", STR_ARG(name), STR_ARG(size), STR_ARG(mark));
}

/* --- Kinds --- */

static struct str function_base(struct walk *walk, vm_value function, struct str constructor)
{
    struct arena *arena = walk->how->arena;
    struct vm *vm = walk->how->vm;
    struct str name = str_slice(inspect_parts_text_of(walk, function, "name"), 0, NAME_MAX_LEN);
    if (str_starts(peek_text(walk, "source", function), STR("class"))) {
        vm_value parent = vm_prototype(vm, function);
        struct str super =
            vm_kind_of(parent) == VM_OBJECT ? inspect_parts_text_of(walk, parent, "name") : STR("");
        vm_drop(vm, parent);
        return arena_printf(arena, "[class %.*s%s%.*s]",
                            STR_ARG(name.len > 0 ? name : STR("(anonymous)")),
                            super.len > 0 ? " extends " : "", STR_ARG(super));
    }
    struct str type = str_ends(constructor, STR("Function")) ? constructor : STR("Function");
    if (name.len == 0)
        return arena_printf(arena, "[%.*s (anonymous)]", STR_ARG(type));
    return arena_printf(arena, "[%.*s: %.*s]", STR_ARG(type), STR_ARG(name));
}

static struct str box_base(struct walk *walk, vm_value object, struct str constructor)
{
    struct arena *arena = walk->how->arena;
    struct vm *vm = walk->how->vm;
    vm_value box = walk_peek(walk, "box", object, 0);
    if (vm_kind_of(box) != VM_OBJECT || box == walk->how->stop)
        return STR("[Object]");
    struct str type = inspect_parts_text_of(walk, box, "type");
    vm_value value = or_undefined(vm, vm_get(vm, box, "value"));
    struct str text = walk_primitive(walk, value);
    vm_drop(vm, value);
    vm_drop(vm, box);
    struct str owner = str_eq(type, constructor) || constructor.len == 0
                           ? STR("")
                           : arena_printf(arena, " (%.*s)", STR_ARG(constructor));
    return arena_printf(arena, "[%.*s%.*s: %.*s]", STR_ARG(type), STR_ARG(owner), STR_ARG(text));
}

/* --- Errors --- */

/* Takes out our own frames and gives top-level ones their plain form. */
static struct str clean_stack(struct arena *arena, struct str stack)
{
    AUTO_BUF struct buf out = {0};
    struct str rest = stack, line;
    while (str_split(&rest, '\n', &line)) {
        if (line.len == 0 || str_find(line, STR(OWN_FILE)) < line.len ||
            str_find(line, STR("<input>")) < line.len)
            continue;
        buf_put_char(&out, '\n');
        bool nameless = str_starts(line, STR("    at <eval> (")) ||
                        str_starts(line, STR("    at <anonymous> ("));
        if (nameless && str_ends(line, STR(")"))) {
            buf_put_cstr(&out, "    at ");
            line = str_slice(line, str_find_char(line, '(') + 1, line.len - 1);
        }
        buf_put(&out, line);
    }
    return arena_dup(arena, buf_str(&out));
}

static struct str error_head(struct walk *walk, struct str name, struct str message,
                             struct str class)
{
    struct arena *arena = walk->how->arena;
    if (class.len > 0 && !str_eq(class, name) && str_ends(name, STR("Error")))
        name = str_find(class, name) < class.len
                   ? class
                   : arena_printf(arena, "%.*s [%.*s]", STR_ARG(class), STR_ARG(name));
    if (message.len == 0)
        return name;
    if (name.len == 0)
        return message;
    return arena_printf(arena, "%.*s: %.*s", STR_ARG(name), STR_ARG(message));
}

static struct inspect_error error_parts(struct walk *walk, vm_value error, struct str class)
{
    struct arena *arena = walk->how->arena;
    struct str name = inspect_parts_text_of(walk, error, "name"),
               message = inspect_parts_text_of(walk, error, "message");
    struct str stack = inspect_parts_text_of(walk, error, "stack");
    if (name.len == 0)
        name = STR("Error");
    struct inspect_error parts = {.name = name, .message = message};
    struct str head = error_head(walk, name, message, class);
    parts.stack = str_trim(stack); /* as it is, when the script wrote its own */
    if (stack.len == 0 || str_starts(parts.stack, STR("at "))) {
        stack = clean_stack(arena, stack);
        parts.stack = arena_printf(arena, "%.*s%.*s", STR_ARG(head), STR_ARG(stack));
    }
    return parts;
}

static struct str error_base(struct walk *walk, vm_value error, struct str class)
{
    struct arena *arena = walk->how->arena;
    struct str stack = error_parts(walk, error, class).stack;
    if (str_find(stack, STR("\n    at ")) == stack.len)
        return arena_printf(arena, "[%.*s]", STR_ARG(stack));
    return layout_indent(arena, stack, walk->indent);
}

void walk_error_extras(struct walk *walk, vm_value error, struct layout_list *out, int depth,
                       struct str (*text)(struct walk *, enum vm_slot, vm_value, int))
{
    static const char *const names[] = {"cause", "errors"};
    struct vm *vm = walk->how->vm;
    for (size_t i = 0; i < countof(names); i++) {
        vm_value value = vm_undefined();
        enum vm_slot slot = vm_slot_of(vm, error, names[i], &value);
        if (slot == VM_SLOT_NONE)
            continue;
        struct str shown = text(walk, slot, value, depth);
        layout_push(out, walk->how->arena,
                    arena_printf(walk->how->arena, "[%s]: %.*s", names[i], STR_ARG(shown)));
    }
}

struct inspect_error inspect_error(const struct inspect *how, vm_value thrown)
{
    struct walk walk = {.how = how, .start = how->arena->total};
    if (vm_kind_of(thrown) == VM_OBJECT && vm_class_of(how->vm, thrown) != VM_CLASS_PROXY &&
        (vm_class_of(how->vm, thrown) == VM_CLASS_ERROR ||
         inspect_parts_text_of(&walk, thrown, "stack").len > 0))
        return error_parts(&walk, thrown, (struct str){0});
    struct str shown = inspect_value(how, thrown), text = shown;
    if (vm_kind_of(thrown) == VM_STRING)
        (void)vm_text(how->vm, thrown, how->arena, &text);
    return (struct inspect_error){.name = STR("Error"),
                                  .message = text,
                                  .stack =
                                      arena_printf(how->arena, "Uncaught %.*s", STR_ARG(shown))};
}

/* --- Shapes --- */

static void shape_list(struct walk *walk, struct shape *shape, vm_value object, struct str tag,
                       const char *fallback)
{
    struct str size = {0};
    bool ordinary =
        shape->class == VM_CLASS_ARRAY && str_eq(shape->name, STR("Array")) && tag.len == 0;
    if (shape->class == VM_CLASS_MAP || shape->class == VM_CLASS_SET) {
        vm_value count = walk_peek(walk, "size", object, shape->class == VM_CLASS_MAP);
        shape->size =
            vm_kind_of(count) == VM_NUMBER ? (uint32_t)vm_to_number(walk->how->vm, count) : 0;
    } else {
        shape->size = (uint32_t)walk_number(walk, object, "length");
    }
    bool braces = shape->class == VM_CLASS_MAP || shape->class == VM_CLASS_SET;
    size = arena_printf(walk->how->arena, "(%u)", shape->size);
    struct str before = ordinary ? STR("") : prefix(walk, shape->name, tag, fallback, size);
    shape->open = arena_printf(walk->how->arena, "%.*s%s", STR_ARG(before), braces ? "{" : "[");
    shape->close = braces ? STR("}") : STR("]");
}

static const char *fallback_name(enum vm_class class)
{
    static const char *const names[] = {
        [VM_CLASS_ARRAY] = "Array",
        [VM_CLASS_MAP] = "Map",
        [VM_CLASS_SET] = "Set",
        [VM_CLASS_WEAK_MAP] = "WeakMap",
        [VM_CLASS_WEAK_SET] = "WeakSet",
        [VM_CLASS_PROMISE] = "Promise",
        [VM_CLASS_ARRAY_BUFFER] = "ArrayBuffer",
        [VM_CLASS_TYPED_ARRAY] = "TypedArray",
        [VM_CLASS_DATA_VIEW] = "DataView",
        [VM_CLASS_FUNCTION] = "Function",
    };
    return (size_t) class < countof(names) && names[class] != NULL ? names[class] : "Object";
}

static struct str shape_base(struct walk *walk, const struct shape *shape, vm_value object)
{
    switch (shape->class) {
    case VM_CLASS_FUNCTION:
        return function_base(walk, object, shape->name);
    case VM_CLASS_ERROR:
        return error_base(walk, object, shape->name);
    case VM_CLASS_DATE:
        return peek_text(walk, "date", object);
    case VM_CLASS_REGEXP:
        return peek_text(walk, "regexp", object);
    case VM_CLASS_BOXED:
        return box_base(walk, object, shape->name);
    default:
        return (struct str){0};
    }
}

struct shape shape_of(struct walk *walk, vm_value object)
{
    struct shape shape = {
        .class = vm_class_of(walk->how->vm, object), .open = STR("{"), .close = STR("}")};
    shape.name = constructor_name(walk, object);
    struct str tag = peek_text(walk, "tag", object);
    const char *fallback = fallback_name(shape.class);
    switch (shape.class) {
    case VM_CLASS_ARRAY:
    case VM_CLASS_TYPED_ARRAY:
    case VM_CLASS_MAP:
    case VM_CLASS_SET:
        shape_list(walk, &shape, object, tag, fallback);
        return shape;
    case VM_CLASS_ARGUMENTS:
        shape.open = STR("[Arguments] {");
        return shape;
    default:
        break;
    }
    shape.base = shape_base(walk, &shape, object);
    shape.is_plain = str_eq(shape.name, STR("Object")) && tag.len == 0;
    if (shape.base.len == 0 && !shape.is_plain) {
        struct str before = prefix(walk, shape.name, tag, fallback, STR(""));
        shape.open = arena_printf(walk->how->arena, "%.*s{", STR_ARG(before));
    }
    return shape;
}

struct str shape_brief(struct walk *walk, const struct shape *shape)
{
    if (shape->name.len == 0)
        return arena_printf(walk->how->arena, "[%s: null prototype]", fallback_name(shape->class));
    return arena_printf(walk->how->arena, "[%.*s]", STR_ARG(shape->name));
}
