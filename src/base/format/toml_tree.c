/* The tree that TOML text becomes: tables with lookup, arrays, keys as text. */

#include "base/arena.h"
#include "base/buf.h"
#include "base/format/toml_internal.h"
#include "base/sip.h"

const char *toml_kind_name(enum toml_kind kind)
{
    static const char *const names[] = {
        "a string",          "an integer",   "a float",      "a boolean", "a date-time",
        "a local date-time", "a local date", "a local time", "an array",  "a table",
    };
    return names[kind];
}

static struct toml_entry **find_slot(const struct toml_table *table, struct str key, uint64_t hash)
{
    size_t i = hash & (table->slot_count - 1);
    while (table->slots[i] != NULL &&
           (table->slots[i]->hash != hash || !str_eq(table->slots[i]->key, key)))
        i = (i + 1) & (table->slot_count - 1);
    return &table->slots[i];
}

const struct toml_entry *toml_find(const struct toml_table *table, struct str key)
{
    return table->slot_count == 0 ? NULL : *find_slot(table, key, sip_hash(key));
}

const struct toml_value *toml_get(const struct toml_table *table, struct str key)
{
    const struct toml_entry *entry = toml_find(table, key);
    return entry == NULL ? NULL : entry->value;
}

static void grow_slots(struct arena *arena, struct toml_table *table)
{
    table->slot_count = table->slot_count == 0 ? 8 : table->slot_count * 2;
    table->slots = arena_array(arena, struct toml_entry *, table->slot_count);
    for (struct toml_entry *entry = table->first; entry != NULL; entry = entry->next)
        *find_slot(table, entry->key, entry->hash) = entry;
}

void toml_table_add(struct arena *arena, struct toml_table *table, struct str key,
                    struct toml_place place, struct toml_value *value)
{
    if (table->len + 1 > table->slot_count / 2)
        grow_slots(arena, table);
    struct toml_entry *entry = arena_new(arena, struct toml_entry);
    *entry = (struct toml_entry){key, place, value, NULL, sip_hash(key)};
    *(table->last == NULL ? &table->first : &table->last->next) = entry;
    table->last = entry;
    table->len++;
    *find_slot(table, key, entry->hash) = entry;
}

int toml_table_new(struct toml_parser *p, enum toml_origin origin, int depth,
                   struct toml_place place, struct toml_value **ret_value)
{
    if (depth > TOML_DEPTH_MAX)
        return toml_fail_at(p, place, "nested deeper than %d levels", TOML_DEPTH_MAX);
    struct toml_value *value = arena_new(p->arena, struct toml_value);
    *value = (struct toml_value){.kind = TOML_TABLE, .place = place};
    value->table = arena_new(p->arena, struct toml_table);
    value->table->depth = depth;
    value->table->origin = origin;
    *ret_value = value;
    return 0;
}

void toml_array_push(struct arena *arena, struct toml_array *array, struct toml_value *item)
{
    if (array->len == array->cap) {
        array->cap = array->cap == 0 ? 4 : array->cap * 2;
        struct toml_value **items = arena_array(arena, struct toml_value *, array->cap);
        if (array->len > 0)
            memcpy(items, array->items, array->len * sizeof *items);
        array->items = items;
    }
    array->items[array->len++] = item;
}

void toml_put_key(struct buf *buf, struct str key)
{
    bool bare = key.len > 0;
    for (size_t i = 0; i < key.len; i++)
        bare = bare && toml_is_bare((unsigned char)key.ptr[i]);
    if (bare) {
        buf_put(buf, key);
        return;
    }
    buf_put_char(buf, '"');
    for (size_t i = 0; i < key.len; i++) {
        unsigned char c = (unsigned char)key.ptr[i];
        if (c < 0x20 || c == 0x7f)
            buf_printf(buf, "\\u%04X", c);
        else if (c == '"' || c == '\\')
            buf_printf(buf, "\\%c", c);
        else
            buf_put_char(buf, (char)c);
    }
    buf_put_char(buf, '"');
}
