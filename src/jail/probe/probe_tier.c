/* From probe results to the strongest tier: no attempts here, only the table's rules. */

#include "jail/probe/probe.h"

static bool works(const struct probe_result *result)
{
    return result->status == PROBE_OK || result->status == PROBE_PARTIAL;
}

/* A row counts as working when it or one that stands in for it does. */
static bool probe_tier_holds(const struct probe *table, size_t count,
                             const struct probe_result *results, size_t index)
{
    if (works(&results[index]))
        return true;
    if (table[index].either == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        if (table[i].either != NULL && strcmp(table[i].either, table[index].either) == 0 &&
            works(&results[i]))
            return true;
    return false;
}

/* The first row of this need that does not hold, or `count`. */
static size_t first_gap(const struct probe *table, size_t count, const struct probe_result *results,
                        enum probe_need need)
{
    for (size_t i = 0; i < count; i++)
        if (table[i].need == need && !probe_tier_holds(table, count, results, i))
            return i;
    return count;
}

static void probe_tier_add(char *text, size_t size, const char *more)
{
    size_t len = strlen(text);
    (void)snprintf(text + len, size - len, "%s", more);
}

static bool is_named_before(const struct probe *table, const size_t *gaps, size_t count,
                            const char *without)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[gaps[i]].without, without) == 0)
            return true;
    return false;
}

/* "a", "a and b", "a, b and c" */
static void name_partial_jail(const struct probe *table, size_t count,
                              const struct probe_result *results, struct probe_tier *tier)
{
    size_t gaps[PROBE_COUNT_MAX];
    size_t gap_count = 0;
    for (size_t i = 0; i < count; i++)
        if (table[i].need == PROBE_NEED_FULL && !probe_tier_holds(table, count, results, i) &&
            !is_named_before(table, gaps, gap_count, table[i].without))
            gaps[gap_count++] = i;
    (void)snprintf(tier->name, sizeof tier->name, gap_count == 0 ? "jail: full" : "jail: without ");
    for (size_t i = 0; i < gap_count; i++) {
        if (i > 0)
            probe_tier_add(tier->name, sizeof tier->name, i + 1 == gap_count ? " and " : ", ");
        probe_tier_add(tier->name, sizeof tier->name, table[gaps[i]].without);
    }
    if (gap_count > 0)
        (void)snprintf(tier->reason, sizeof tier->reason, "%s: %s", table[gaps[0]].title,
                       results[gaps[0]].detail);
}

void probe_tier_of(const struct probe *table, size_t count, const struct probe_result *results,
                   struct probe_tier *ret_tier)
{
    assert(count <= PROBE_COUNT_MAX);
    *ret_tier = (struct probe_tier){0};
    size_t gap = first_gap(table, count, results, PROBE_NEED_ISOLATE);
    ret_tier->kind = PROBE_TIER_NONE;
    const char *name = "none";
    if (gap == count) {
        gap = first_gap(table, count, results, PROBE_NEED_JAIL);
        ret_tier->kind = gap == count ? PROBE_TIER_JAIL : PROBE_TIER_ISOLATE;
        name = "isolate only";
    }
    if (ret_tier->kind == PROBE_TIER_JAIL) {
        name_partial_jail(table, count, results, ret_tier);
        return;
    }
    (void)snprintf(ret_tier->name, sizeof ret_tier->name, "%s", name);
    (void)snprintf(ret_tier->reason, sizeof ret_tier->reason, "%s: %s", table[gap].title,
                   results[gap].detail);
}
