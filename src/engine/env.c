#include "engine/env.h"

#include "base/map.h"
#include "engine/network.h"
#include "runtime/runtimes.h"

static size_t put_pair(const char **env, size_t count, const struct engine_pair *pair,
                       struct arena *arena)
{
    struct str text = arena_printf(arena, "%.*s=%.*s", STR_ARG(pair->name), STR_ARG(pair->value));
    return runtime_env_set(env, count, text.ptr);
}

const char **env_inside(struct str runtime, const struct network *network,
                        const struct engine_pairs *const *lists, size_t list_count,
                        struct arena *arena)
{
    const char *const *own = runtime_env(runtime);
    struct engine_pairs net = {0};
    size_t count = 0, all = 1;
    if (network != NULL)
        net = network_env(network, true, arena);
    while (own[all - 1] != NULL)
        all++;
    all += net.len;
    for (size_t i = 0; i < list_count; i++)
        all += lists[i]->len;
    const char **env = arena_array(arena, const char *, all); /* zeroed: NULL behind the last */
    for (; own[count] != NULL; count++)
        env[count] = own[count];
    for (size_t i = 0; i < net.len; i++)
        count = put_pair(env, count, &net.items[i], arena);
    for (size_t list = 0; list < list_count; list++)
        for (size_t i = 0; i < lists[list]->len; i++)
            count = put_pair(env, count, &lists[list]->items[i], arena);
    return env;
}
