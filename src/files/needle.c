#include "files/needle.h"

struct scan {
    struct str rest;
    char *out; /* the best run so far */
    size_t out_len;
    char run[4096]; /* the run being read */
    size_t run_len;
    int depth;
    bool is_plain; /* nothing but plain characters so far */
    bool is_lost;  /* something whose meaning is not judged here */
};

static void end_run(struct scan *scan)
{
    if (scan->run_len > scan->out_len) {
        memcpy(scan->out, scan->run, scan->run_len);
        scan->out_len = scan->run_len;
    }
    scan->run_len = 0;
}

static void needle_add(struct scan *scan, char c)
{
    if (scan->depth == 0 && scan->run_len < sizeof scan->run)
        scan->run[scan->run_len++] = c;
}

/* The last character may be absent: a quantifier follows it. */
static void drop_last(struct scan *scan)
{
    while (scan->run_len > 0 && ((unsigned char)scan->run[--scan->run_len] & 0xc0) == 0x80)
        ;
    end_run(scan);
}

static char peek(const struct scan *scan, size_t at)
{
    return at < scan->rest.len ? scan->rest.ptr[at] : '\0';
}

static void needle_skip(struct scan *scan, size_t count)
{
    scan->rest = str_slice(scan->rest, count, scan->rest.len);
}

static void read_escape(struct scan *scan)
{
    char c = peek(scan, 1);
    needle_skip(scan, 2);
    if (c == '\0' || (char_is_alnum(c) && strchr("dDwWsSbBntr", c) == NULL)) {
        scan->is_lost = true;
    } else if (char_is_alnum(c)) {
        scan->is_plain = false;
        end_run(scan);
    } else {
        needle_add(scan, c);
    }
}

/* Past "[...]": a ']' right at the start stands for itself. */
static void skip_class(struct scan *scan)
{
    size_t i = peek(scan, 1) == '^' ? 2 : 1;
    for (size_t from = i; i < scan->rest.len; i++) {
        char c = scan->rest.ptr[i];
        if (c == '\\')
            i++;
        else if (c == '[')
            scan->is_lost = true; /* [:alpha:], or a plain '['; not worth telling apart */
        else if (c == ']' && i > from)
            break;
    }
    needle_skip(scan, i + 1);
    end_run(scan);
}

static void open_group(struct scan *scan)
{
    /* Flags, verbs and names change the meaning of what follows. */
    if (peek(scan, 1) == '*' || (peek(scan, 1) == '?' && peek(scan, 2) != ':'))
        scan->is_lost = true;
    end_run(scan);
    scan->depth++;
    needle_skip(scan, 1);
}

static void read_brace(struct scan *scan)
{
    size_t close = str_find_char(scan->rest, '}');
    char c = peek(scan, 1);
    if (close == scan->rest.len || c < '0' || c > '9') {
        scan->is_lost = true; /* PCRE2 takes it literally, or newer ones as {,n} */
        return;
    }
    drop_last(scan);
    needle_skip(scan, close + 1);
}

static void read_special(struct scan *scan, char c)
{
    scan->is_plain = false;
    switch (c) {
    case '[':
        skip_class(scan);
        return;
    case '(':
        open_group(scan);
        return;
    case '{':
        read_brace(scan);
        return;
    case '*':
    case '?':
        drop_last(scan);
        break;
    case ')':
        scan->depth--;
        end_run(scan);
        break;
    case '|':
        scan->is_lost |= scan->depth == 0;
        break;
    default: /* . ^ $ + */
        end_run(scan);
        break;
    }
    needle_skip(scan, 1);
}

bool needle_of_pattern(struct str pattern, char *out, size_t *ret_len)
{
    struct scan scan = {.rest = pattern, .out = out, .is_plain = true};
    while (scan.rest.len > 0 && !scan.is_lost && scan.depth >= 0) {
        char c = scan.rest.ptr[0];
        if (c == '\\') {
            read_escape(&scan);
        } else if (strchr("[(){}*?+|.^$", c) != NULL && c != '\0' && c != '}') {
            read_special(&scan, c);
        } else {
            needle_add(&scan, c);
            needle_skip(&scan, 1);
        }
    }
    end_run(&scan);
    bool is_lost = scan.is_lost || scan.depth != 0;
    *ret_len = is_lost ? 0 : scan.out_len;
    return !is_lost && scan.is_plain;
}
