/* prompts/list and prompts/get: what people begin with. */

#include "agent/mcp_internal.h"

static const struct prompt {
    const char *name, *title, *help, *argument, *argument_help, *text;
} prompts[] = {
    {"analyze_file", "Analyze a file", "Describe the contents of a file in the sandbox", "path",
     "Path of the file below /workspace",
     "Analyze the file %.*s in the sandbox: read it (or load it with run_code if it is data), "
     "describe what it contains, and show the most important numbers or a chart."},
    {"explore", "Explore the workspace", "Answer a question from the files of the sandbox",
     "question", "What you want to know",
     "Answer this from the files in /workspace, with list, glob, grep and read; name the files and "
     "lines that you rely on: %.*s"},
};

const char *mcp_prompt_argument(struct str name)
{
    for (size_t i = 0; i < countof(prompts); i++)
        if (str_eq(name, str_of(prompts[i].name)))
            return prompts[i].argument;
    return NULL;
}

void mcp_list_prompts(struct mcp *mcp, const struct mcp_asked *asked,
                      UNUSED const struct json_t *params)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out;
    (void)mcp_begin(&out, &text, asked);
    mcp_put_cache(&out, asked, true);
    json_key(&out, "prompts");
    json_begin_array(&out);
    for (size_t i = 0; i < countof(prompts); i++) {
        json_begin_object(&out);
        json_key(&out, "name"), json_put_cstr(&out, prompts[i].name);
        json_key(&out, "title"), json_put_cstr(&out, prompts[i].title);
        json_key(&out, "description"), json_put_cstr(&out, prompts[i].help);
        json_key(&out, "arguments");
        json_begin_array(&out);
        json_begin_object(&out);
        json_key(&out, "name"), json_put_cstr(&out, prompts[i].argument);
        json_key(&out, "description"), json_put_cstr(&out, prompts[i].argument_help);
        json_key(&out, "required"), json_put_bool(&out, true);
        json_end_object(&out);
        json_end_array(&out);
        json_end_object(&out);
    }
    json_end_array(&out);
    mcp_send(mcp, asked, &out);
}

static void put_prompt(struct json_out *out, const struct prompt *prompt, struct str argument)
{
    AUTO_BUF struct buf words = {0};
    struct str rest = str_of(prompt->text);
    size_t at = str_find(rest, STR("%.*s"));
    buf_put(&words, str_slice(rest, 0, at));
    buf_put(&words, argument);
    buf_put(&words, str_slice(rest, at + strlen("%.*s"), rest.len));
    json_key(out, "description"), json_put_cstr(out, prompt->help);
    json_key(out, "messages");
    json_begin_array(out);
    json_begin_object(out);
    json_key(out, "role"), json_put_cstr(out, "user");
    json_key(out, "content");
    json_begin_object(out);
    json_key(out, "type"), json_put_cstr(out, "text");
    json_key(out, "text"), json_put_str(out, buf_str(&words));
    json_end_object(out);
    json_end_object(out);
    json_end_array(out);
}

void mcp_get_prompt(struct mcp *mcp, const struct mcp_asked *asked, const struct json_t *params)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out;
    struct str name = mcp_text(params, "name");
    for (size_t i = 0; i < countof(prompts); i++) {
        if (!str_eq(name, str_of(prompts[i].name)))
            continue;
        const struct json_t *arguments = json_get(params, "arguments");
        struct str argument = mcp_text(arguments, prompts[i].argument);
        if (argument.len == 0) {
            AUTO_BUF struct buf why = {0};
            buf_printf(&why, "arguments.%s is missing", prompts[i].argument);
            mcp_send_error(mcp, asked->id, RPC_PARAMS, buf_cstr(&why));
            return;
        }
        put_prompt(mcp_begin(&out, &text, asked), &prompts[i], argument);
        mcp_send(mcp, asked, &out);
        return;
    }
    mcp_send_error(mcp, asked->id, RPC_PARAMS, "unknown prompt; prompts/list lists the prompts");
}
