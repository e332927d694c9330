#include "engine/code/eval_modules.h"

#include "base/map.h"
#include "engine/code/eval.h"
#include "engine/internal.h"
#include "engine/session/session_internal.h"

/* Below WIRE_MODULES_MAX: packages of the session are modules too. */
enum { MODULES_SENT = 192 };

/* --- Modules that are shared --- */

/* Modules of scope "user" of the tenant's other sessions; of those with the same path the newest. A
 * file of another session's volume cannot be imported here. */
static void find_shared(const struct session *session, struct map *ret_shared)
{
    MAP_EACH (other, &session->engine->sessions) {
        const struct session *owner = other->value;
        if (owner == session || !str_eq(owner->info.tenant, session->info.tenant))
            continue;
        MAP_EACH (entry, &owner->modules) {
            const struct session_module *module = entry->value;
            const struct session_module *known = map_get(ret_shared, entry->key);
            if (!module->in_volume && str_eq(module->scope, STR("user")) &&
                (known == NULL || known->updated_ms < module->updated_ms))
                (void)map_put(ret_shared, entry->key, entry->value);
        }
    }
}

static bool has_module(const struct isolate_module *list, size_t count, struct str path)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(list[i].path, path))
            return true;
    return false;
}

/* The name of its file is in the code, or in a module that may be imported. */
static bool is_mentioned(const struct isolate_module *list, size_t count, struct str code,
                         struct str path)
{
    struct str name = path;
    for (size_t at; (at = str_find_char(name, '/')) < name.len;)
        name = str_slice(name, at + 1, name.len);
    for (size_t i = 0; i < count; i++)
        if (str_find(list[i].source, name) < list[i].source.len)
            return true;
    return str_find(code, name) < code.len;
}

static struct isolate_module copy_of(const struct map_entry *entry, struct arena *arena)
{
    const struct session_module *module = entry->value;
    return (struct isolate_module){arena_dup(arena, entry->key),
                                   arena_dup(arena, str_n(module->source, module->len))};
}

/* Until no further one is mentioned: a shared module may import another. */
static size_t put_shared(struct isolate_module *list, size_t count, size_t most, struct str code,
                         const struct map *shared, struct arena *arena)
{
    for (size_t before = SIZE_MAX; before != count;) {
        before = count;
        MAP_EACH (entry, shared)
            if (count < most && !has_module(list, count, entry->key) &&
                is_mentioned(list, count, code, entry->key))
                list[count++] = copy_of(entry, arena);
    }
    return count;
}

/* --- All --- */

void eval_put_modules(const struct eval_spec *call, const struct session *session,
                      struct arena *arena, struct eval_spec *ret_spec)
{
    struct map shared = {0};
    size_t kept = session == NULL ? 0 : session->modules.len, count = 0;
    if (session != NULL)
        find_shared(session, &shared);
    struct isolate_module *list =
        arena_array(arena, struct isolate_module, call->module_count + kept + shared.len + 1);
    for (; count < call->module_count; count++)
        list[count] = (struct isolate_module){arena_dup(arena, call->modules[count].path),
                                              arena_dup(arena, call->modules[count].source)};
    if (session != NULL)
        MAP_EACH (entry, &session->modules) {
            const struct session_module *module = entry->value;
            /* One in the volume is where imports look anyway. */
            if (!module->in_volume && !has_module(list, call->module_count, entry->key))
                list[count++] = copy_of(entry, arena);
        }
    ret_spec->module_count =
        put_shared(list, count, MAX(count, (size_t)MODULES_SENT), ret_spec->code, &shared, arena);
    ret_spec->modules = list;
    map_done(&shared);
}
