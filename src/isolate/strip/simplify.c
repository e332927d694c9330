#include "isolate/strip/simplify.h"

#include "isolate/strip/simplify_internal.h"

struct simplify *simplify_new(void)
{
    return mem_alloc(sizeof(struct simplify));
}

struct simplify *simplify_free(struct simplify *s)
{
    if (s == NULL)
        return NULL;
    vec_done(&s->entries);
    vec_done(&s->open);
    vec_done(&s->removed);
    free(s);
    return NULL;
}

bool simplify_types(struct simplify *s, struct str source, char *text, int64_t deadline_ns)
{
    s->source = source;
    s->text = text;
    s->has_changed = false;
    s->deadline_ns = deadline_ns;
    s->removed.len = 0;
    if (!simplify_read(s))
        return false;
    simplify_drop_comments(s);
    for (uint32_t i = 0; i + 1 < s->entries.len; i++) {
        if (is_late(s))
            return false;
        if (s->entries.ptr[i].is_dead)
            continue;
        if (s->entries.ptr[i].token.kind == TOKEN_WORD)
            simplify_word(s, i);
        else
            simplify_sign(s, i);
    }
    return s->has_changed;
}

const struct simplify_range *simplify_removed(const struct simplify *s, size_t *ret_count)
{
    *ret_count = s->removed.len;
    return s->removed.ptr;
}

/* ---- for the parser ---- */

struct pack {
    char *packed;
    uint32_t *from, *to;
    size_t len;
    bool is_soft; /* the last byte may stand for more */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void pack_byte(struct pack *pack, char c, uint32_t at, bool is_soft)
{
    char *last = pack->len > 0 ? &pack->packed[pack->len - 1] : NULL;
    bool same = is_soft && pack->is_soft && last != NULL &&
                ((is_blank(c) && is_blank(*last)) || (c == 'T' && *last == 'T'));
    if (same) {
        if (c == '\n')
            *last = c; /* a line's end may end a statement */
        pack->to[pack->len - 1] = at + 1;
        return;
    }
    pack->packed[pack->len] = c;
    pack->from[pack->len] = at;
    pack->to[pack->len++] = at + 1;
    pack->is_soft = is_soft && (is_blank(c) || c == 'T');
}

size_t simplify_pack(const struct simplify *s, const char *text, char *packed, uint32_t *from,
                     uint32_t *to)
{
    struct pack pack = {.packed = packed, .from = from, .to = to};
    uint32_t at = 0;
    VEC_EACH (entry, &s->entries) {
        for (; at < entry->token.start; at++)
            pack_byte(&pack, text[at], at, true);
        for (; at < entry->token.end; at++)
            pack_byte(&pack, text[at], at, entry->is_dead);
    }
    for (; at < s->source.len; at++)
        pack_byte(&pack, text[at], at, false);
    from[pack.len] = (uint32_t)s->source.len;
    return pack.len;
}
