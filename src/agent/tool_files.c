/* The tools that work on a session's files, but for read. */

#include "agent/internal.h"

enum { LINE_MAX_SHOWN = 400 };

/* What one tool says of the engine's answer, between "success": true and the closing brace. */
typedef void put_answer(struct tool_run *run, struct json_out *out,
                        const struct file_answer *answer);

struct asked {
    put_answer *put;
    bool may_be_absent; /* that there is no such file is an answer: NULL */
};

static void tool_files_on_answer(void *ctx, const struct file_answer *answer, const struct err *why)
{
    struct tool_run *run = ctx;
    const struct asked *asked = run->state;
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text};
    if (tool_is_over(run))
        return;
    bool is_absent = why != NULL && why->code == ERR_NOT_FOUND && asked->may_be_absent;
    if (why != NULL && !is_absent) {
        tool_fail(run, why, NULL);
        return;
    }
    json_begin_object(&out);
    json_key(&out, "success"), json_put_bool(&out, true);
    asked->put(run, &out, is_absent ? NULL : answer);
    json_end_object(&out);
    tool_end(run, &text);
}

static void tool_files_ask(struct tool_run *run, const struct file_request *request,
                           put_answer *put)
{
    struct file_place place = tool_file_place(run);
    struct asked *asked = run->state;
    if (asked == NULL)
        asked = run->state = arena_new(&run->arena, struct asked);
    asked->put = put;
    engine_file(run->engine, &run->caller, &place, request, tool_files_on_answer, run);
}

/* "note" tells the model how to go on where an answer was cut. */
static void put_truncated(struct json_out *out, bool truncated, const char *note)
{
    json_key(out, "truncated"), json_put_bool(out, truncated);
    if (truncated)
        json_key(out, "note"), json_put_cstr(out, note);
}

/* --- write, edit --- */

static void put_written(struct tool_run *run, struct json_out *out,
                        const struct file_answer *answer)
{
    json_key(out, "path"), json_put_str(out, tool_arg_path(run, "path"));
    json_key(out, "created"), json_put_bool(out, answer->created);
    json_key(out, "size"), json_put_i64(out, (int64_t)answer->info.size);
}

void tool_write(struct tool_run *run)
{
    tool_files_ask(run,
                   &(struct file_request){.op = FILE_WRITE,
                                          .path = tool_arg_path(run, "path"),
                                          .bytes = tool_arg_str(run, "content"),
                                          .make_parents = true},
                   put_written);
}

static void put_edited(struct tool_run *run, struct json_out *out, const struct file_answer *answer)
{
    json_key(out, "path"), json_put_str(out, tool_arg_path(run, "path"));
    json_key(out, "replaced"), json_put_i64(out, (int64_t)answer->count);
    json_key(out, "size"), json_put_i64(out, (int64_t)answer->info.size);
}

void tool_edit(struct tool_run *run)
{
    tool_files_ask(run,
                   &(struct file_request){.op = FILE_EDIT,
                                          .path = tool_arg_path(run, "path"),
                                          .old_text = tool_arg_str(run, "oldString"),
                                          .new_text = tool_arg_str(run, "newString"),
                                          .all = tool_arg_bool(run, "replaceAll")},
                   put_edited);
}

/* --- glob, grep, list --- */

static void put_globbed(UNUSED struct tool_run *run, struct json_out *out,
                        const struct file_answer *answer)
{
    json_key(out, "paths");
    json_begin_array(out);
    for (size_t i = 0; i < answer->entry_count; i++)
        json_put_str(out, answer->entries[i].path);
    json_end_array(out);
    put_truncated(out, answer->truncated,
                  "More results exist: narrow the pattern or name a subdirectory.");
}

void tool_glob(struct tool_run *run)
{
    tool_files_ask(run,
                   &(struct file_request){.op = FILE_GLOB,
                                          .path = tool_arg_path(run, "dirPath"),
                                          .pattern = tool_arg_str(run, "pattern"),
                                          .search_all = tool_arg_bool(run, "searchAll"),
                                          .limit = TOOL_PATHS_MAX},
                   put_globbed);
}

static void put_match(struct json_out *out, const struct file_match *match)
{
    json_begin_object(out);
    json_key(out, "path"), json_put_str(out, match->path);
    json_key(out, "line"), json_put_i64(out, (int64_t)match->line);
    json_key(out, "text"), tool_put_cut(out, match->text, LINE_MAX_SHOWN);
    json_end_object(out);
}

static void put_grepped(UNUSED struct tool_run *run, struct json_out *out,
                        const struct file_answer *answer)
{
    json_key(out, "matches");
    json_begin_array(out);
    for (size_t i = 0; i < answer->match_count; i++)
        put_match(out, &answer->matches[i]);
    json_end_array(out);
    put_truncated(out, answer->truncated,
                  "More results exist: narrow pattern, glob or directory, or raise maxResults.");
}

void tool_grep(struct tool_run *run)
{
    tool_files_ask(run,
                   &(struct file_request){
                       .op = FILE_GREP,
                       .path = tool_arg_path(run, "dirPath"),
                       .pattern = tool_arg_str(run, "pattern"),
                       .include = tool_arg_str(run, "glob"),
                       .ignore_case = tool_arg_bool(run, "ignoreCase"),
                       .search_all = tool_arg_bool(run, "searchAll"),
                       .limit = (size_t)tool_arg_int(run, "maxResults", TOOL_MATCHES_DEFAULT)},
                   put_grepped);
}

static void tool_files_put_entry(struct json_out *out, const struct file_info *info)
{
    json_begin_object(out);
    json_key(out, "name"), json_put_str(out, info->path);
    json_key(out, "type"), json_put_cstr(out, file_type_name(info->type));
    if (info->type == FILE_REGULAR)
        json_key(out, "size"), json_put_i64(out, (int64_t)info->size);
    json_end_object(out);
}

static void put_listed(UNUSED struct tool_run *run, struct json_out *out,
                       const struct file_answer *answer)
{
    json_key(out, "entries");
    json_begin_array(out);
    for (size_t i = 0; i < answer->entry_count; i++)
        tool_files_put_entry(out, &answer->entries[i]);
    json_end_array(out);
    put_truncated(out, answer->truncated, "More entries exist: pass the last name as after.");
}

void tool_list(struct tool_run *run)
{
    tool_files_ask(run,
                   &(struct file_request){.op = FILE_LIST,
                                          .path = tool_arg_path(run, "path"),
                                          .after = tool_arg_str(run, "after"),
                                          .recursive = tool_arg_bool(run, "recursive"),
                                          .limit = TOOL_PATHS_MAX},
                   put_listed);
}

/* --- exists, delete, move --- */

static void put_looked(UNUSED struct tool_run *run, struct json_out *out,
                       const struct file_answer *answer)
{
    json_key(out, "exists"), json_put_bool(out, answer != NULL);
    if (answer == NULL)
        return;
    json_key(out, "type"), json_put_cstr(out, file_type_name(answer->info.type));
    json_key(out, "size"), json_put_i64(out, (int64_t)answer->info.size);
}

void tool_exists(struct tool_run *run)
{
    struct asked *asked = arena_new(&run->arena, struct asked);
    struct tool_place place;
    struct err err = {0};
    /* That there is no such session is another thing than no such file. */
    asked->may_be_absent = tool_place(run, &place, &err) == 0;
    run->state = asked;
    tool_files_ask(
        run,
        &(struct file_request){.op = FILE_STAT, .path = tool_arg_path(run, "path"), .follow = true},
        put_looked);
}

static void put_deleted(UNUSED struct tool_run *run, struct json_out *out,
                        const struct file_answer *answer)
{
    json_key(out, "deleted"), json_put_i64(out, (int64_t)answer->count);
}

void tool_delete(struct tool_run *run)
{
    tool_files_ask(run,
                   &(struct file_request){.op = FILE_DELETE,
                                          .path = tool_arg_path(run, "path"),
                                          .recursive = tool_arg_bool(run, "recursive")},
                   put_deleted);
}

static void put_moved(struct tool_run *run, struct json_out *out,
                      UNUSED const struct file_answer *answer)
{
    json_key(out, "path"), json_put_str(out, tool_arg_path(run, "to"));
}

void tool_move(struct tool_run *run)
{
    tool_files_ask(run,
                   &(struct file_request){.op = FILE_MOVE,
                                          .path = tool_arg_path(run, "from"),
                                          .to = tool_arg_path(run, "to"),
                                          .replace = tool_arg_bool(run, "replace")},
                   put_moved);
}
