/* undo: /workspace as it was before a call that changed files. */

#include "agent/internal.h"

bool tool_has_turns(const struct tool_context *context)
{
    AUTO_ARENA struct arena arena = {0};
    struct file_place place = {.session = context->session, .sandbox = context->sandbox};
    struct turn_list list;
    struct err err = {0};
    return engine_turn_list(context->engine, &context->caller, &place, &arena, &list, &err) == 0 &&
           list.is_on;
}

static void put_turn(struct json_out *out, const struct turn_info *turn)
{
    json_key(out, "checkpoint"), json_put_str(out, turn->id);
    json_key(out, "before"), json_put_str(out, turn->before);
}

/* Those that a later call can name, oldest first. */
static void put_turns(struct tool_run *run, struct json_out *out)
{
    struct file_place place = tool_file_place(run);
    struct turn_list list = {0};
    struct err err = {0};
    (void)!engine_turn_list(run->engine, &run->caller, &place, &run->arena, &list, &err);
    json_key(out, "checkpoints"), json_begin_array(out);
    for (size_t i = 0; i < list.count; i++) {
        json_begin_object(out);
        put_turn(out, &list.turns[i]);
        json_end_object(out);
    }
    json_end_array(out);
}

static const char *hint_of(const struct tool_run *run, enum err_code code)
{
    if (code == ERR_CONFLICT)
        return "Change the files yourself, with edit or write.";
    if (code != ERR_NOT_FOUND)
        return NULL;
    return tool_arg_str(run, "to").len > 0
               ? "Name a checkpoint of an earlier result, or omit 'to' for one step back."
               : "No earlier state to restore: change the files yourself.";
}

static void on_undone(void *ctx, const struct turn_info *turn, const struct err *why)
{
    struct tool_run *run = ctx;
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text};
    if (tool_is_over(run))
        return;
    if (why != NULL) {
        tool_fail(run, why, hint_of(run, why->code));
        return;
    }
    json_begin_object(&out);
    json_key(&out, "success"), json_put_bool(&out, true);
    put_turn(&out, turn);
    put_turns(run, &out);
    json_end_object(&out);
    tool_end(run, &text);
}

void tool_undo(struct tool_run *run)
{
    struct file_place place = tool_file_place(run);
    engine_turn_undo(run->engine, &run->caller, &place, tool_arg_str(run, "to"), on_undone, run);
}
