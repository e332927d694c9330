/* A page of commands: rows of the store, and in their place what memory knows better. */

#include <stdlib.h>

#include "base/map.h"
#include "engine/answer.h"
#include "engine/command/command_internal.h"
#include "engine/internal.h"
#include "engine/page.h"

struct listed {
    int64_t ord;
    struct command_info info;
};

struct listing {
    struct arena arena;
    struct str tenant, sandbox;
    int64_t after, until; /* the orders that this page may hold; `until` 0: all behind `after` */
    size_t limit;
    bool running_only;
    VEC(struct listed) found;
    command_list_done *done;
};

static bool is_asked_for(const struct listing *listing, const struct command *command)
{
    return command->starting == 0 && command->ord > listing->after &&
           (listing->until == 0 || command->ord <= listing->until) &&
           str_eq(command->tenant, listing->tenant) &&
           (listing->sandbox.len == 0 || str_eq(listing->sandbox, command->info.sandbox)) &&
           (!listing->running_only || command->info.state == COMMAND_RUNNING);
}

static int by_order(const void *a, const void *b)
{
    const struct listed *one = a, *other = b;
    return (one->ord > other->ord) - (one->ord < other->ord);
}

/* Those in memory are as they are now; a row of one of them has said nothing new. */
static void add_those_in_memory(struct listing *listing, const struct engine *engine)
{
    size_t kept = 0;
    VEC_EACH (listed, &listing->found)
        if (!map_has(&engine->commands, listed->info.id))
            listing->found.ptr[kept++] = *listed;
    listing->found.len = kept;
    MAP_EACH (entry, &engine->commands) {
        const struct command *command = entry->value;
        if (is_asked_for(listing, command))
            *vec_push(&listing->found) = (struct listed){command->ord, command->info};
    }
    if (listing->found.len > 1)
        qsort(listing->found.ptr, listing->found.len, sizeof *listing->found.ptr, by_order);
}

static size_t info_size(const struct command_info *info)
{
    size_t size = sizeof *info + info->shell.len + info->cwd.len + info->user.len;
    for (size_t i = 0; i < info->arg_count; i++)
        size += info->argv[i].len;
    return size;
}

static struct command_list page_of(struct listing *listing)
{
    struct command_list list = {0};
    size_t most = MIN(listing->found.len, listing->limit), used = 0;
    list.items = arena_array(&listing->arena, struct command_info, most + 1);
    while (list.count < most &&
           page_has_room(&used, info_size(&listing->found.ptr[list.count].info))) {
        list.items[list.count] = listing->found.ptr[list.count].info;
        list.count++;
    }
    if (listing->found.len > list.count)
        page_cursor_write(listing->found.ptr[list.count - 1].ord, list.next);
    else if (listing->until > 0)
        page_cursor_write(listing->until, list.next);
    return list;
}

static void deliver_list(struct answer *answer, const struct err *why)
{
    struct listing *listing = answer->data;
    if (why == NULL) {
        add_those_in_memory(listing, answer->engine);
        struct command_list list = page_of(listing);
        listing->done(answer->ctx, &list, NULL);
    } else {
        listing->done(answer->ctx, NULL, why);
    }
    vec_done(&listing->found);
    arena_done(&listing->arena);
    free(listing);
}

static void on_rows(void *ctx, const struct store_command *rows, size_t count,
                    const struct err *why)
{
    struct answer *answer = ctx;
    struct listing *listing = answer->data;
    for (size_t i = 0; i < count; i++)
        *vec_push(&listing->found) =
            (struct listed){rows[i].ord, command_info_of_row(&rows[i], &listing->arena)};
    if (count > listing->limit)
        listing->until = rows[count - 1].ord;
    answer_give(answer, why);
}

void engine_command_list(struct engine *engine, const struct engine_caller *caller,
                         const struct command_filter *filter, command_list_done *done, void *ctx)
{
    struct answer *answer = answer_new(engine, deliver_list, ctx);
    struct listing *listing = mem_alloc(sizeof *listing);
    struct err err = {0};
    answer->data = listing;
    listing->done = done;
    listing->tenant = arena_dup(&listing->arena, caller->tenant);
    listing->sandbox = arena_dup(&listing->arena, filter->sandbox);
    listing->limit = page_limit(&filter->page);
    listing->running_only = filter->running_only;
    if (page_cursor_read(filter->page.after, &listing->after, &err) < 0)
        answer_give(answer, &err);
    else if (filter->running_only) /* all of them are in memory */
        answer_give(answer, NULL);
    else
        store_read_commands(engine->store, listing->tenant, listing->sandbox, listing->after,
                            listing->limit + 1, on_rows, answer);
}
