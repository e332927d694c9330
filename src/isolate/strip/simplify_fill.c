/* Overwriting: a type becomes a plain name of the same length, so that all offsets stay. */

#include "isolate/strip/simplify_internal.h"

uint32_t simplify_fill(struct simplify *s, uint32_t i, uint32_t end)
{
    uint32_t start = start_of(s, i);
    memset(s->text + start, 'T', end - start);
    s->has_changed = true;
    uint32_t next = simplify_index_at(s, i, end);
    for (uint32_t k = i; k < next; k++)
        s->entries.ptr[k].is_dead = true;
    return next;
}

void simplify_take_out(struct simplify *s, uint32_t i, uint32_t end)
{
    uint32_t start = start_of(s, i);
    (void)simplify_fill(s, i, end);
    memset(s->text + start, ' ', end - start);
    *vec_push(&s->removed) = (struct simplify_range){start, end};
}

void simplify_rename(struct simplify *s, uint32_t i)
{
    (void)simplify_fill(s, i, end_of(s, i));
}

uint32_t simplify_fill_type(struct simplify *s, uint32_t i)
{
    if (is_late(s))
        return i;
    uint32_t end = lex_type_end(s->source, end_of(s, i));
    return end == 0 ? i : simplify_fill(s, i + 1, end);
}

uint32_t simplify_fill_annotation(struct simplify *s, uint32_t i)
{
    return sign_is(s, i, ':') ? simplify_fill_type(s, i) : i;
}

uint32_t simplify_fill_generics(struct simplify *s, uint32_t i, uint32_t end)
{
    uint32_t start = start_of(s, i);
    uint32_t next = simplify_fill(s, i, end);
    s->text[start] = '<';
    s->text[end - 1] = '>';
    if (end - start > 3)
        s->text[end - 2] = ',';
    return next;
}

uint32_t simplify_fill_type_parameters(struct simplify *s, uint32_t i)
{
    if (!sign_is(s, i, '<') || is_late(s))
        return i;
    uint32_t end = lex_generics_end(s->source, start_of(s, i), true);
    return end != 0 ? simplify_fill_generics(s, i, end) : i;
}

void simplify_fill_parameters(struct simplify *s, uint32_t open)
{
    uint32_t close = s->entries.ptr[open].match;
    s->entries.ptr[open].is_known = true;
    bool in_default = false;
    for (uint32_t i = open + 1; i < close;) {
        const struct entry *entry = &s->entries.ptr[i];
        uint32_t next = i + 1;
        if (entry->match != NONE && entry->match > i)
            next = entry->match + 1;
        else if (lex_is_sign(&entry->token, ','))
            in_default = false;
        else if (lex_is_sign(&entry->token, '='))
            in_default = true;
        else if (lex_is_sign(&entry->token, ':') && !in_default)
            next = MAX(next, simplify_fill_type(s, i));
        i = next;
    }
}

uint32_t simplify_fill_signature(struct simplify *s, uint32_t i)
{
    i = simplify_fill_type_parameters(s, i);
    if (!sign_is(s, i, '(') || s->entries.ptr[i].match == NONE)
        return i;
    simplify_fill_parameters(s, i);
    return simplify_fill_annotation(s, s->entries.ptr[i].match + 1);
}

void simplify_drop_comments(struct simplify *s)
{
    uint32_t at = 0;
    for (size_t i = 0; i < s->entries.len; i++) {
        uint32_t start = s->entries.ptr[i].token.start;
        const char *slash = start > at ? memchr(s->source.ptr + at, '/', start - at) : NULL;
        for (uint32_t k = slash != NULL ? at : start; k < start; k++)
            if (s->text[k] != '\n')
                s->text[k] = ' ';
        s->has_changed |= slash != NULL;
        at = s->entries.ptr[i].token.end;
    }
}
