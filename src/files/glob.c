/* The pattern becomes a small automaton, which is run over the path with the set of all states it
 * can be in: each character costs at most one look at each state. Braces are multiplied out before,
 * so that "**" and its neighbours are judged in the pattern as it then reads. */

#include "files/glob.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"

enum { INVALID_BYTE = 0x110000, BRACE_DEPTH_MAX = 16 };

enum op {
    OP_CHAR,  /* the character `arg` */
    OP_NAME,  /* any character but '/' */
    OP_ANY,   /* any character */
    OP_CLASS, /* one of class `arg` */
    OP_SPLIT, /* both the next state and `arg` */
    OP_JUMP,  /* state `arg` */
    OP_MATCH,
};

struct step {
    enum op op;
    uint32_t arg;
};

struct range {
    uint32_t from, to;
};
struct class
{
    size_t first, count; /* of the ranges */
    bool negated;
};

struct set {
    uint32_t *list, *place; /* a sparse set: place[list[i]] == i */
    size_t len;
};

struct glob {
    VEC(struct step) steps;
    VEC(struct range) ranges;
    VEC(struct class) classes;
    VEC(uint32_t) starts;  /* one per alternative */
    VEC(struct str) tails; /* how each alternative ends, as far as that is plain text; owned */
    uint32_t *todo;        /* room for two states per step and one more */
    struct set now, next;
    uint64_t work;
};

/* ---- characters ---- */

static uint32_t decode(const char *ptr, size_t len)
{
    const unsigned char *s = (const unsigned char *)ptr;
    switch (len) {
    case 1:
        return s[0];
    case 2:
        return (uint32_t)(s[0] & 31) << 6 | (s[1] & 63);
    case 3:
        return (uint32_t)(s[0] & 15) << 12 | (uint32_t)(s[1] & 63) << 6 | (s[2] & 63);
    default:
        return (uint32_t)(s[0] & 7) << 18 | (uint32_t)(s[1] & 63) << 12 |
               (uint32_t)(s[2] & 63) << 6 | (s[3] & 63);
    }
}

/* Takes one character off the front. */
static uint32_t next_char(struct str *s)
{
    unsigned char first = (unsigned char)s->ptr[0];
    size_t len = first < 0x80 ? 1 : str_utf8_len(*s);
    uint32_t c = len == 0 ? (uint32_t)INVALID_BYTE + first : decode(s->ptr, len);
    *s = str_slice(*s, MAX(len, (size_t)1), s->len);
    return c;
}

/* ---- braces ---- */

/* Index behind the bracket expression that begins at `at`, or 0 when it has no end. A ']' right
 * after the '[' or its '!' stands for itself. */
static size_t class_end(struct str s, size_t at)
{
    size_t i = at + 1;
    if (i < s.len && (s.ptr[i] == '!' || s.ptr[i] == '^'))
        i++;
    for (size_t from = i; i < s.len; i++) {
        if (s.ptr[i] == '\\')
            i++;
        else if (s.ptr[i] == ']' && i > from)
            return i + 1;
    }
    return 0;
}

/* Index of the first unescaped, unbracketed `a` or `b` at brace depth 0 from `at`; len if none. */
static size_t find_brace(struct str s, size_t at, char a, char b)
{
    int depth = 0;
    for (size_t i = at; i < s.len; i++) {
        char c = s.ptr[i];
        if (depth == 0 && (c == a || c == b))
            return i;
        if (c == '\\')
            i++;
        else if (c == '[' && class_end(s, i) != 0)
            i = class_end(s, i) - 1;
        else if (c == '{')
            depth++;
        else if (c == '}')
            depth--;
    }
    return s.len;
}

struct alternatives {
    VEC(char *) done;
    size_t bytes;
};

static void alternatives_done(struct alternatives *all)
{
    VEC_EACH (text, &all->done)
        free(*text);
    vec_done(&all->done);
}

/* Adds every pattern that `head` + `tail` stands for; `head` has no braces any more. */
static int multiply(struct str head, struct str tail, int depth, struct alternatives *all,
                    struct err *err)
{
    size_t open = find_brace(tail, 0, '{', '{');
    AUTO_BUF struct buf text = {0};
    buf_put(&text, head);
    buf_put(&text, str_slice(tail, 0, open));
    if (open == tail.len) {
        all->bytes += text.len;
        if (all->done.len >= GLOB_ALTERNATIVES_MAX || all->bytes > GLOB_STEPS_MAX)
            return err_set(err, ERR_PATTERN_TOO_COMPLEX,
                           "the braces expand to too many patterns; the limit is %d",
                           GLOB_ALTERNATIVES_MAX);
        *vec_push(&all->done) = buf_take(&text);
        return 0;
    }
    size_t close = find_brace(tail, open + 1, '}', '}');
    if (close == tail.len)
        return err_set(err, ERR_INVALID_PATTERN, "'{' without '}'; write \\{ for the character");
    /* One level per brace, side by side or nested, so this bounds both; the head only grows. */
    if (depth >= BRACE_DEPTH_MAX)
        return err_set(err, ERR_PATTERN_TOO_COMPLEX, "more than %d braces", BRACE_DEPTH_MAX);
    struct str behind = str_slice(tail, close + 1, tail.len);
    for (size_t from = open + 1; from <= close;) {
        size_t comma = MIN(find_brace(tail, from, ',', '}'), close);
        AUTO_BUF struct buf rest = {0};
        buf_put(&rest, str_slice(tail, from, comma));
        buf_put(&rest, behind);
        if (multiply(buf_str(&text), buf_str(&rest), depth + 1, all, err) < 0)
            return -1;
        from = comma + 1;
    }
    return 0;
}

/* ---- compiling one alternative ---- */

static int emit(struct glob *glob, enum op op, uint32_t arg, struct err *err)
{
    if (glob->steps.len >= GLOB_STEPS_MAX)
        return err_set(err, ERR_PATTERN_TOO_COMPLEX, "the pattern is too large");
    *vec_push(&glob->steps) = (struct step){op, arg};
    return 0;
}

/* any*: L: split end; any; jump L; end: */
static int emit_loop(struct glob *glob, enum op op, struct err *err)
{
    uint32_t start = (uint32_t)glob->steps.len;
    if (emit(glob, OP_SPLIT, start + 3, err) < 0 || emit(glob, op, 0, err) < 0)
        return -1;
    return emit(glob, OP_JUMP, start, err);
}

/* (name+ '/')*: L: split end; name; name*; '/'; jump L; end: */
static int emit_dirs(struct glob *glob, struct err *err)
{
    uint32_t start = (uint32_t)glob->steps.len;
    if (emit(glob, OP_SPLIT, start + 7, err) < 0 || emit(glob, OP_NAME, 0, err) < 0 ||
        emit_loop(glob, OP_NAME, err) < 0 || emit(glob, OP_CHAR, '/', err) < 0)
        return -1;
    return emit(glob, OP_JUMP, start, err);
}

static uint32_t class_char(struct str *s)
{
    if (s->ptr[0] == '\\' && s->len > 1)
        *s = str_slice(*s, 1, s->len);
    return next_char(s);
}

/* `body` is what stands between the brackets. */
static int emit_class(struct glob *glob, struct str body, struct err *err)
{
    struct class class = {.first = glob->ranges.len};
    if (body.len > 0 && (body.ptr[0] == '!' || body.ptr[0] == '^')) {
        class.negated = true;
        body = str_slice(body, 1, body.len);
    }
    while (body.len > 0) {
        struct range range;
        range.from = range.to = class_char(&body);
        if (body.len > 1 && body.ptr[0] == '-') {
            body = str_slice(body, 1, body.len);
            range.to = class_char(&body);
        }
        if (range.to < range.from)
            return err_set(err, ERR_INVALID_PATTERN, "a range in '[...]' runs backwards");
        *vec_push(&glob->ranges) = range;
        class.count++;
    }
    *vec_push(&glob->classes) = class;
    return emit(glob, OP_CLASS, (uint32_t)(glob->classes.len - 1), err);
}

/* A run of stars at `at`: "**" as a whole component, else one star. Gives the index behind. */
static int emit_stars(struct glob *glob, struct str s, size_t *at, struct err *err)
{
    size_t from = *at, to = from;
    while (to < s.len && s.ptr[to] == '*')
        to++;
    bool is_start = from == 0 || s.ptr[from - 1] == '/';
    bool is_end = to == s.len;
    *at = to;
    if (to - from != 2 || !is_start || (!is_end && s.ptr[to] != '/'))
        return emit_loop(glob, OP_NAME, err);
    if (is_end)
        return emit(glob, OP_ANY, 0, err) < 0 ? -1 : emit_loop(glob, OP_ANY, err);
    *at = to + 1;
    return emit_dirs(glob, err);
}

static int emit_item(struct glob *glob, struct str s, size_t *at, struct err *err)
{
    char c = s.ptr[*at];
    if (c == '*')
        return emit_stars(glob, s, at, err);
    if (c == '?') {
        (*at)++;
        return emit(glob, OP_NAME, 0, err);
    }
    if (c == '[') {
        size_t from = *at, end = class_end(s, from);
        if (end == 0)
            return err_set(err, ERR_INVALID_PATTERN,
                           "'[' without ']'; write \\[ for the character");
        *at = end;
        return emit_class(glob, str_slice(s, from + 1, end - 1), err);
    }
    if (c == '\\' && ++*at == s.len)
        return err_set(err, ERR_INVALID_PATTERN, "'\\' at the end; write \\\\ for the character");
    struct str rest = str_slice(s, *at, s.len);
    uint32_t literal = next_char(&rest);
    *at = s.len - rest.len;
    return emit(glob, OP_CHAR, literal, err);
}

/* Every path that matches ends with this. */
static struct str plain_tail(struct str s)
{
    size_t from = s.len;
    while (from > 0 && strchr("*?[]{}\\", s.ptr[from - 1]) == NULL)
        from--;
    /* The first of these characters may be escaped, or the end of a character's bytes. */
    from = MIN(from + 1, s.len);
    return str_slice(s, from, s.len);
}

static int compile(struct glob *glob, struct str s, struct err *err)
{
    *vec_push(&glob->starts) = (uint32_t)glob->steps.len;
    struct str tail = plain_tail(s);
    *vec_push(&glob->tails) = str_n(mem_dup(tail.ptr, tail.len), tail.len);
    for (size_t at = 0; at < s.len;)
        if (emit_item(glob, s, &at, err) < 0)
            return -1;
    return emit(glob, OP_MATCH, 0, err);
}

static int compile_all(struct glob *glob, struct str pattern, struct err *err)
{
    struct alternatives all = {0};
    int done = multiply((struct str){0}, pattern, 0, &all, err);
    for (size_t i = 0; done == 0 && i < all.done.len; i++)
        done = compile(glob, str_of(all.done.ptr[i]), err);
    alternatives_done(&all);
    return done;
}

int glob_new(struct str pattern, struct glob **ret_glob, struct err *err)
{
    if (pattern.len == 0)
        return err_set(err, ERR_INVALID_PATTERN, "the pattern is empty; '**' matches everything");
    if (pattern.len > GLOB_PATTERN_MAX)
        return err_set(err, ERR_INVALID_PATTERN, "the pattern has %zu bytes; the limit is %d",
                       pattern.len, GLOB_PATTERN_MAX);
    if (memchr(pattern.ptr, '\0', pattern.len) != NULL)
        return err_set(err, ERR_INVALID_PATTERN, "the pattern contains a NUL byte");
    AUTO_GLOB struct glob *glob = mem_alloc(sizeof *glob);
    if (compile_all(glob, pattern, err) < 0)
        return -1;
    size_t bytes = glob->steps.len * sizeof(uint32_t);
    glob->todo = mem_alloc(2 * bytes + sizeof(uint32_t));
    glob->now = (struct set){mem_alloc(bytes), mem_alloc(bytes), 0};
    glob->next = (struct set){mem_alloc(bytes), mem_alloc(bytes), 0};
    *ret_glob = glob;
    glob = NULL;
    return 0;
}

struct glob *glob_free(struct glob *glob)
{
    if (glob == NULL)
        return NULL;
    vec_done(&glob->steps);
    vec_done(&glob->ranges);
    vec_done(&glob->classes);
    vec_done(&glob->starts);
    VEC_EACH (tail, &glob->tails)
        free((char *)tail->ptr);
    vec_done(&glob->tails);
    free(glob->todo);
    free(glob->now.list);
    free(glob->now.place);
    free(glob->next.list);
    free(glob->next.place);
    free(glob);
    return NULL;
}

/* ---- matching ---- */

static bool set_has(const struct set *set, uint32_t state)
{
    uint32_t place = set->place[state];
    return place < set->len && set->list[place] == state;
}

/* Adds a state and what follows from it without a character. */
static void set_add(struct glob *glob, struct set *set, uint32_t state)
{
    size_t todo = 0;
    glob->todo[todo++] = state;
    while (todo > 0) {
        state = glob->todo[--todo];
        glob->work++;
        if (set_has(set, state))
            continue;
        set->place[state] = (uint32_t)set->len;
        set->list[set->len++] = state;
        struct step step = glob->steps.ptr[state];
        if (step.op == OP_SPLIT || step.op == OP_JUMP)
            glob->todo[todo++] = step.arg;
        if (step.op == OP_SPLIT)
            glob->todo[todo++] = state + 1;
    }
}

static bool class_has(const struct glob *glob, size_t index, uint32_t c)
{
    const struct class *class = &glob->classes.ptr[index];
    for (size_t i = 0; i < class->count; i++) {
        const struct range *range = &glob->ranges.ptr[class->first + i];
        if (c >= range->from && c <= range->to)
            return !class->negated;
    }
    return class->negated;
}

static bool step_takes(const struct glob *glob, struct step step, uint32_t c)
{
    switch (step.op) {
    case OP_CHAR:
        return c == step.arg;
    case OP_NAME:
        return c != '/';
    case OP_ANY:
        return true;
    case OP_CLASS:
        return c != '/' && class_has(glob, step.arg, c);
    default:
        return false;
    }
}

static void advance(struct glob *glob, uint32_t c)
{
    glob->next.len = 0;
    for (size_t i = 0; i < glob->now.len; i++) {
        uint32_t state = glob->now.list[i];
        glob->work++;
        if (step_takes(glob, glob->steps.ptr[state], c))
            set_add(glob, &glob->next, state + 1);
    }
    struct set swap = glob->now;
    glob->now = glob->next;
    glob->next = swap;
}

static void glob_run(struct glob *glob, struct str text)
{
    glob->now.len = 0;
    VEC_EACH (start, &glob->starts)
        set_add(glob, &glob->now, *start);
    while (text.len > 0 && glob->now.len > 0)
        advance(glob, next_char(&text));
}

/* Most paths of a tree end otherwise than the pattern: that is seen without the automaton. */
static bool may_end_so(struct glob *glob, struct str path)
{
    VEC_EACH (tail, &glob->tails) {
        glob->work++;
        if (str_ends(path, *tail))
            return true;
    }
    return false;
}

bool glob_match(struct glob *glob, struct str path)
{
    if (!may_end_so(glob, path))
        return false;
    glob_run(glob, path);
    for (size_t i = 0; i < glob->now.len; i++)
        if (glob->steps.ptr[glob->now.list[i]].op == OP_MATCH)
            return true;
    return false;
}

bool glob_may_match_below(struct glob *glob, struct str dir)
{
    glob_run(glob, dir);
    if (dir.len > 0 && glob->now.len > 0)
        advance(glob, '/');
    /* A state that only matches wants no further character. */
    for (size_t i = 0; i < glob->now.len; i++)
        if (glob->steps.ptr[glob->now.list[i]].op != OP_MATCH)
            return true;
    return false;
}

uint64_t glob_work(const struct glob *glob)
{
    return glob->work;
}

size_t glob_size(const struct glob *glob)
{
    return glob->steps.len + glob->ranges.len;
}
