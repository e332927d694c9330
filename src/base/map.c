#include "base/map.h"

#include "base/sip.h"

enum { SLOTS_MIN = 16 };

void map_done(struct map *map)
{
    for (size_t i = 0; i < map->entry_count; i++)
        free((void *)map->entries[i].key.ptr);
    free(map->entries);
    free(map->slots);
    *map = (struct map){0};
}

/* The slot that holds `key`, or the free one where it would go. */
static size_t map_slot_of(const struct map *map, struct str key, uint64_t hash)
{
    size_t mask = map->slot_count - 1;
    for (size_t at = (size_t)hash & mask;; at = (at + 1) & mask) {
        uint32_t index = map->slots[at];
        if (index == 0)
            return at;
        const struct map_entry *entry = &map->entries[index - 1];
        if (entry->hash == hash && entry->key.ptr != NULL && str_eq(entry->key, key))
            return at;
    }
}

static struct map_entry *map_find(const struct map *map, struct str key)
{
    if (map->len == 0)
        return NULL;
    uint32_t index = map->slots[map_slot_of(map, key, sip_hash(key))];
    return index == 0 ? NULL : &map->entries[index - 1];
}

/* Rebuilds entries and slots for `want` live ones, without the holes that removals left. */
static void rebuild(struct map *map, size_t want)
{
    size_t slot_count = SLOTS_MIN;
    while (slot_count < want * 2)
        slot_count *= 2;
    assert(slot_count <= UINT32_MAX);
    assert(map->entry_count == 0 || map->entries != NULL);
    size_t kept = 0;
    for (size_t i = 0; i < map->entry_count; i++)
        if (map->entries[i].key.ptr != NULL)
            map->entries[kept++] = map->entries[i];
    map->entry_count = kept;
    map->entry_cap = slot_count / 2;
    map->entries = mem_resize(map->entries, map->entry_cap * sizeof *map->entries);
    free(map->slots);
    map->slots = mem_alloc(slot_count * sizeof *map->slots);
    map->slot_count = slot_count;
    for (size_t i = 0; i < kept; i++) {
        size_t at = map_slot_of(map, map->entries[i].key, map->entries[i].hash);
        map->slots[at] = (uint32_t)(i + 1);
    }
}

void *map_get(const struct map *map, struct str key)
{
    struct map_entry *entry = map_find(map, key);
    return entry == NULL ? NULL : entry->value;
}

bool map_has(const struct map *map, struct str key)
{
    return map_find(map, key) != NULL;
}

void *map_put(struct map *map, struct str key, void *value)
{
    struct map_entry *there = map_find(map, key);
    if (there != NULL) {
        void *old = there->value;
        there->value = value;
        return old;
    }
    if (map->entry_count == map->entry_cap)
        rebuild(map, (map->len + 1) * 2);
    assert(map->entries != NULL && map->slots != NULL);
    uint64_t hash = sip_hash(key);
    char *copy = mem_alloc(key.len + 1);
    if (key.len > 0)
        memcpy(copy, key.ptr, key.len);
    size_t at = map_slot_of(map, key, hash);
    map->entries[map->entry_count] = (struct map_entry){str_n(copy, key.len), value, hash};
    map->slots[at] = (uint32_t)++map->entry_count;
    map->len++;
    return NULL;
}

void *map_remove(struct map *map, struct str key)
{
    struct map_entry *entry = map_find(map, key);
    if (entry == NULL)
        return NULL;
    /* The slot stays taken: a hole keeps the probe sequence of others whole until a rebuild. */
    free((void *)entry->key.ptr);
    entry->key = (struct str){0};
    map->len--;
    return entry->value;
}

const struct map_entry *map_next(const struct map *map, const struct map_entry *after)
{
    size_t i = after == NULL ? 0 : (size_t)(after - map->entries) + 1;
    for (; i < map->entry_count; i++)
        if (map->entries[i].key.ptr != NULL)
            return &map->entries[i];
    return NULL;
}
