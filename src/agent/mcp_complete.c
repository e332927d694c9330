/* completion/complete: paths of the session's files, for a user who fills in a prompt or the
 * template of a resource. */

#include "agent/mcp_internal.h"

#define ROOT "/workspace/"

enum { VALUES_MAX = 100 }; /* the protocol's */

static void send_values(struct mcp *mcp, const struct mcp_asked *asked, struct str before,
                        const struct file_answer *answer)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out;
    (void)mcp_begin(&out, &text, asked);
    json_key(&out, "completion");
    json_begin_object(&out);
    json_key(&out, "values");
    json_begin_array(&out);
    for (size_t i = 0; answer != NULL && i < answer->entry_count; i++) {
        AUTO_BUF struct buf path = {0};
        struct str found = answer->entries[i].path;
        if (str_starts(found, STR(ROOT)))
            found = str_slice(found, strlen(ROOT), found.len);
        buf_printf(&path, "%.*s%.*s", STR_ARG(before), STR_ARG(found));
        json_put_str(&out, buf_str(&path));
    }
    json_end_array(&out);
    json_key(&out, "hasMore"), json_put_bool(&out, answer != NULL && answer->truncated);
    json_end_object(&out);
    mcp_send(mcp, asked, &out);
}

static void mcp_complete_on_found(void *ctx, const struct file_answer *answer,
                                  const struct err *why)
{
    struct mcp_call *call = ctx;
    if (call->mcp != NULL && why != NULL)
        mcp_send_error(call->mcp, call->asked.id, RPC_INTERNAL, why->msg);
    else if (call->mcp != NULL)
        send_values(call->mcp, &call->asked, buf_str(&call->uri), answer);
    mcp_call_free(call);
}

/* What begins like this, in its directory or below; no byte of it is a pattern. */
static void put_pattern(struct buf *out, struct str start)
{
    for (size_t i = 0; i < start.len; i++) {
        if (strchr("*?[]{},\\", start.ptr[i]) != NULL)
            buf_put_char(out, '\\');
        buf_put_char(out, start.ptr[i]);
    }
    buf_put_cstr(out, "{*,*/**}");
}

static void find_paths(struct mcp *mcp, const struct mcp_asked *asked, struct str start)
{
    AUTO_BUF struct buf pattern = {0};
    struct file_place place = {.session = mcp->context.session};
    struct mcp_call *call = mcp_call_new(mcp, asked, NULL);
    if (str_starts(start, STR(ROOT))) {
        buf_put_cstr(&call->uri, ROOT);
        start = str_slice(start, strlen(ROOT), start.len);
    }
    put_pattern(&pattern, start);
    struct file_request request = {.op = FILE_GLOB,
                                   .path = STR("/workspace"),
                                   .pattern = buf_str(&pattern),
                                   .limit = VALUES_MAX};
    engine_file(mcp->context.engine, &mcp->context.caller, &place, &request, mcp_complete_on_found,
                call);
}

void mcp_complete(struct mcp *mcp, const struct mcp_asked *asked, const struct json_t *params)
{
    const struct json_t *ref = params == NULL ? NULL : json_get(params, "ref");
    const struct json_t *argument = params == NULL ? NULL : json_get(params, "argument");
    struct str type = mcp_text(ref, "type"), name = mcp_text(argument, "name");
    struct str value = mcp_text(argument, "value");
    bool is_file = str_eq(type, STR("ref/resource"));
    const char *known = is_file ? "path" : mcp_prompt_argument(mcp_text(ref, "name"));
    if ((!is_file && !str_eq(type, STR("ref/prompt"))) || known == NULL ||
        (is_file && !str_eq(mcp_text(ref, "uri"), STR(MCP_FILE_TEMPLATE))))
        mcp_send_error(
            mcp, asked->id, RPC_PARAMS,
            "ref: must be a prompt of prompts/list or a template of resources/templates/list");
    else if (!str_eq(name, str_of(known)))
        mcp_send_error(mcp, asked->id, RPC_PARAMS, "argument: unknown argument name");
    else if (value.len >= FILE_PATH_MAX / 2 || str_find_char(value, '\0') != value.len)
        mcp_send_error(mcp, asked->id, RPC_PARAMS,
                       "argument.value: must be the beginning of a path");
    else if (str_eq(name, STR("path")))
        find_paths(mcp, asked, value);
    else
        send_values(mcp, asked, (struct str){0}, NULL);
}
