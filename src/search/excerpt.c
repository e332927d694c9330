#include "search/excerpt.h"

#include "search/words.h"

enum {
    UNITS_MAX = 256,
    TERMS_MAX = 32,
    TERM_WEIGHT = 4, /* another term counts as much as that many more of the same */
};

struct unit {
    size_t start, end;
    uint32_t terms; /* which of them it has */
    unsigned found; /* and how many words of it they are */
};

struct counting {
    const struct str *terms;
    size_t count;
    struct unit *unit;
};

static void count_term(void *ctx, struct str term, UNUSED struct str raw)
{
    const struct counting *counting = ctx;
    for (size_t i = 0; i < counting->count; i++)
        if (str_eq(counting->terms[i], term)) {
            counting->unit->terms |= 1U << i;
            counting->unit->found++;
            return;
        }
}

/* A line, or a sentence of a long one. */
static size_t unit_end(struct str text, size_t start)
{
    for (size_t i = start; i < text.len; i++) {
        bool ends = text.ptr[i] == '\n' ||
                    (text.ptr[i] == ' ' && i > start + 40 &&
                     (text.ptr[i - 1] == '.' || text.ptr[i - 1] == '?' || text.ptr[i - 1] == '!'));
        if (ends)
            return i + 1;
    }
    return text.len;
}

static size_t split_units(struct str text, const struct str *terms, size_t count,
                          struct unit *units)
{
    size_t len = 0, at = 0;
    while (at < text.len && len < UNITS_MAX) {
        struct unit *unit = &units[len++];
        *unit = (struct unit){.start = at, .end = unit_end(text, at)};
        struct counting counting = {terms, MIN(count, (size_t)TERMS_MAX), unit};
        words_each(str_slice(text, at, unit->end), count_term, &counting);
        at = unit->end;
    }
    return len;
}

struct window {
    size_t first, last; /* units; both have terms */
    unsigned value;
};

/* The window that begins with the unit `first`: all terms count more than one of them often. */
static struct window window_from(const struct unit *units, size_t len, size_t first, size_t max)
{
    struct window window = {first, first, 0};
    uint32_t terms = 0;
    unsigned found = 0;
    for (size_t i = first; i < len && units[i].end - units[first].start <= max; i++) {
        terms |= units[i].terms;
        found += units[i].found;
        if (units[i].found > 0)
            window.last = i;
    }
    window.value = TERM_WEIGHT * (unsigned)__builtin_popcount(terms) + found;
    return window;
}

/* The first unit of the paragraph that `window` begins in, if there is room for it. */
static size_t paragraph_of(struct str text, const struct unit *units, const struct window *window,
                           size_t max)
{
    size_t at = window->first;
    while (at > 0 && str_trim(str_slice(text, units[at - 1].start, units[at - 1].end)).len > 0) {
        at--;
        if (units[window->last].end - units[at].start > max)
            return window->first;
    }
    return at;
}

static struct str cut_utf8(struct str text, size_t max)
{
    text.len = MIN(text.len, max);
    while (text.len > 0 && !str_is_utf8(text))
        text.len--;
    return text;
}

struct str excerpt_around(struct str text, const struct str *terms, size_t count, size_t max)
{
    struct unit units[UNITS_MAX];
    struct window best = {0};
    if (text.len <= max)
        return text;
    size_t len = split_units(text, terms, count, units);
    for (size_t first = 0; first < len; first++) {
        struct window window = {0};
        if (units[first].found > 0)
            window = window_from(units, len, first, max);
        if (window.value > best.value)
            best = window;
    }
    if (best.value == 0)
        return cut_utf8(text, max);
    best.first = paragraph_of(text, units, &best, max);
    /* The rest of the room goes to what follows. */
    while (best.last + 1 < len && units[best.last + 1].end - units[best.first].start <= max)
        best.last++;
    struct str part = str_slice(text, units[best.first].start, units[best.last].end);
    return cut_utf8(str_trim(part), max);
}
