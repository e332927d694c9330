#pragma once

/* String keys to pointers: open addressing, insertion order kept for walking.
 *
 * Keys are copied. The hash is SipHash with a random key of the process, so that an outsider who
 * chooses the keys cannot choose the collisions. An all-zero map is empty. Values belong to the
 * caller. */

#include "base/str.h"

struct map_entry {
    struct str key; /* NUL-terminated copy; ptr is NULL once removed */
    void *value;
    uint64_t hash;
};

struct map {
    struct map_entry *entries; /* in order of insertion, with holes */
    size_t entry_count, entry_cap;
    uint32_t *slots; /* index into entries plus one; 0 is free */
    size_t slot_count;
    size_t len; /* live entries */
};

void map_done(struct map *map);
#define AUTO_MAP AUTO(map_done)

/* NULL when absent. */
void *map_get(const struct map *map, struct str key);
bool map_has(const struct map *map, struct str key);
/* Sets or replaces; gives the value that was there, or NULL. */
void *map_put(struct map *map, struct str key, void *value);
/* Gives the value that was there, or NULL. */
void *map_remove(struct map *map, struct str key);

/* Walks live entries in order of insertion: start with NULL. Entries may be removed meanwhile,
 * none added. */
const struct map_entry *map_next(const struct map *map, const struct map_entry *after);
#define MAP_EACH(entry, map)                                                                       \
    for (const struct map_entry *entry = map_next((map), NULL); entry != NULL;                     \
         entry = map_next((map), entry))
