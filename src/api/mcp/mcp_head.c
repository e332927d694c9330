#include "api/mcp/mcp_head.h"

#include "agent/mcp.h"
#include "api/v1/v1.h"
#include "base/format/base64.h"

#define VERSION_HEADER "MCP-Protocol-Version"

static struct str mcp_head_text_of(const struct json_t *object, const char *name)
{
    struct str text = {0};
    (void)!json_to_str(json_get(object, name), &text);
    return text;
}

bool mcp_head_is_modern(const struct request *request)
{
    return mcp_version_of(request->json).len > 0 ||
           mcp_is_modern_version(request_header(request, VERSION_HEADER));
}

/* A value that no header can hold as it is comes as =?base64?...?=. */
static struct str decoded(struct str value, struct buf *space)
{
    struct str start = STR("=?base64?"), end = STR("?=");
    if (!str_starts(value, start) || !str_ends(value, end) || value.len < start.len + end.len)
        return value;
    return base64_read(str_slice(value, start.len, value.len - end.len), space) ? buf_str(space)
                                                                                : value;
}

/* The header that repeats this part of the body; what is wrong with it goes to `why`. */
static bool is_repeated(const struct request *request, const char *name, struct str body,
                        struct buf *why)
{
    AUTO_BUF struct buf space = {0};
    struct str value = decoded(request_header(request, name), &space);
    if (str_eq(value, body))
        return true;
    if (request_count_headers(request, name) == 0)
        buf_printf(why, "the header %s is missing; it must be '%.*s'", name, STR_ARG(body));
    else
        buf_printf(why, "the header %s is '%.*s', but the body has '%.*s'", name, STR_ARG(value),
                   STR_ARG(body));
    return false;
}

static bool are_repeated(const struct request *request, struct buf *why)
{
    const struct json_t *params = json_get(request->json, "params");
    struct str method = mcp_head_text_of(request->json, "method"),
               version = mcp_version_of(request->json);
    if (version.len > 0 && !is_repeated(request, VERSION_HEADER, version, why))
        return false;
    if (!is_repeated(request, "Mcp-Method", method, why))
        return false;
    if (str_eq(method, STR("resources/read")))
        return is_repeated(request, "Mcp-Name", mcp_head_text_of(params, "uri"), why);
    if (str_eq(method, STR("tools/call")) || str_eq(method, STR("prompts/get")))
        return is_repeated(request, "Mcp-Name", mcp_head_text_of(params, "name"), why);
    return true;
}

static void put_mismatch(const struct request *request, const char *why, struct buf *answer)
{
    AUTO_BUF struct buf id = {0};
    struct json_out out = {.buf = &id};
    json_put_value(&out, json_get(request->json, "id"));
    mcp_put_error(answer, buf_str(&id),
                  &(struct mcp_fault){.code = MCP_HEADER_MISMATCH, .message = why});
}

bool mcp_head_is_right(struct request *request)
{
    AUTO_BUF struct buf why = {0};
    AUTO_BUF struct buf answer = {0};
    int status = 0;
    if (!are_repeated(request, &why)) {
        put_mismatch(request, buf_cstr(&why), &answer);
        status = 400;
    } else {
        status = mcp_find_fault(request->json, true, &answer);
    }
    if (status == 0)
        return true;
    reply_json(request, status, &answer);
    return false;
}

bool mcp_head_is_spoken(struct request *request)
{
    struct err err = {0};
    struct str version = request_header(request, VERSION_HEADER);
    if (version.len == 0 || mcp_speaks(version))
        return true;
    (void)err_set(&err, ERR_INVALID, VERSION_HEADER ": '%.*s' is not supported", STR_ARG(version));
    reply_error(request, &err);
    return false;
}
