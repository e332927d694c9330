/* Resources: the files of the session, as file://workspace/PATH, and pages of documentation, as
 * docs://page/NUMBER. */

#include "agent/mcp_internal.h"
#include "base/format/base64.h"

enum { PAGE = 500 };

/* --- Names --- */

static bool is_plain(char c)
{
    return char_is_alnum(c) || (c != '\0' && strchr("-._~/", c) != NULL);
}

void mcp_put_uri(struct buf *out, struct str path)
{
    buf_put_cstr(out, MCP_FILE_SCHEME);
    for (size_t i = 0; i < path.len; i++) {
        if (is_plain(path.ptr[i]))
            buf_put_char(out, path.ptr[i]);
        else
            buf_printf(out, "%%%02X", (unsigned char)path.ptr[i]);
    }
}

static bool climbs(struct str path)
{
    struct str segment;
    while (str_split(&path, '/', &segment))
        if (str_eq(segment, STR("..")))
            return true;
    return false;
}

bool mcp_path_of(struct str uri, struct buf *out)
{
    if (!str_starts(uri, STR(MCP_FILE_SCHEME "/")))
        return false;
    buf_put_cstr(out, MCP_FILE_ROOT);
    for (size_t i = strlen(MCP_FILE_SCHEME); i < uri.len; i++) {
        if (uri.ptr[i] != '%') {
            buf_put_char(out, uri.ptr[i]);
            continue;
        }
        int high = i + 2 < uri.len ? char_hex(uri.ptr[i + 1]) : -1;
        int low = i + 2 < uri.len ? char_hex(uri.ptr[i + 2]) : -1;
        if (high < 0 || low < 0 || high + low == 0)
            return false;
        buf_put_char(out, (char)(high * 16 + low));
        i += 2;
    }
    return !climbs(buf_str(out));
}

bool mcp_uri_of(struct mcp *mcp, const struct mcp_asked *asked, const struct json_t *params,
                struct str *ret_uri, struct buf *path)
{
    *ret_uri = (struct str){0};
    if (json_to_str(json_get(params, "uri"), ret_uri) && mcp_path_of(*ret_uri, path))
        return true;
    mcp_send_error(mcp, asked->id, RPC_PARAMS, "uri: " MCP_FILE_SCHEME "/PATH is required");
    return false;
}

static void mcp_files_ask(struct mcp *mcp, const struct file_request *request, file_done *done,
                          struct mcp_call *call)
{
    struct file_place place = {.session = mcp->context.session};
    engine_file(mcp->context.engine, &mcp->context.caller, &place, request, done, call);
}

/* --- resources/list --- */

static void put_file(struct json_out *out, const struct file_info *info)
{
    AUTO_BUF struct buf uri = {0};
    AUTO_BUF struct buf path = {0};
    buf_printf(&path, "/%.*s", STR_ARG(info->path));
    mcp_put_uri(&uri, buf_str(&path));
    json_begin_object(out);
    json_key(out, "uri"), json_put_str(out, buf_str(&uri));
    json_key(out, "name"), json_put_str(out, info->path);
    json_key(out, "size"), json_put_i64(out, (int64_t)info->size);
    json_end_object(out);
}

static void on_listed(void *ctx, const struct file_answer *answer, const struct err *why)
{
    struct mcp_call *call = ctx;
    AUTO_BUF struct buf text = {0};
    struct json_out out;
    if (call->mcp != NULL && why != NULL) {
        mcp_send_error(call->mcp, call->asked.id, RPC_INTERNAL, why->msg);
    } else if (call->mcp != NULL) {
        (void)mcp_begin(&out, &text, &call->asked);
        mcp_put_cache(&out, &call->asked, false);
        json_key(&out, "resources");
        json_begin_array(&out);
        for (size_t i = 0; i < answer->entry_count; i++)
            if (answer->entries[i].type == FILE_REGULAR)
                put_file(&out, &answer->entries[i]);
        json_end_array(&out);
        if (answer->truncated && answer->entry_count > 0)
            json_key(&out, "nextCursor"),
                json_put_str(&out, answer->entries[answer->entry_count - 1].path);
        mcp_send(call->mcp, &call->asked, &out);
    }
    mcp_call_free(call);
}

void mcp_list_files(struct mcp *mcp, const struct mcp_asked *asked, const struct json_t *params)
{
    struct file_request request = {
        .op = FILE_LIST, .path = STR(MCP_FILE_ROOT), .recursive = true, .limit = PAGE};
    if (params != NULL)
        (void)!json_to_str(json_get(params, "cursor"), &request.after);
    mcp_files_ask(mcp, &request, on_listed, mcp_call_new(mcp, asked, NULL));
}

void mcp_list_templates(struct mcp *mcp, const struct mcp_asked *asked,
                        UNUSED const struct json_t *params)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out;
    (void)mcp_begin(&out, &text, asked);
    mcp_put_cache(&out, asked, true);
    json_key(&out, "resourceTemplates");
    json_begin_array(&out);
    json_begin_object(&out);
    json_key(&out, "uriTemplate"), json_put_cstr(&out, MCP_FILE_TEMPLATE);
    json_key(&out, "name"), json_put_cstr(&out, "workspace");
    json_key(&out, "title"), json_put_cstr(&out, "Files of the sandbox");
    json_end_object(&out);
    json_begin_object(&out);
    json_key(&out, "uriTemplate"), json_put_cstr(&out, MCP_PAGE_SCHEME "{page}");
    json_key(&out, "name"), json_put_cstr(&out, "docs");
    json_key(&out, "title"), json_put_cstr(&out, "Pages of documentation");
    json_key(&out, "description");
    json_put_cstr(&out, "The whole page of a result of search_docs, by its page number");
    json_end_object(&out);
    json_end_array(&out);
    mcp_send(mcp, asked, &out);
}

/* --- resources/read --- */

static void put_content(struct json_out *out, struct str uri, struct str bytes)
{
    AUTO_BUF struct buf coded = {0};
    bool is_text = str_is_utf8(bytes) && str_find_char(bytes, '\0') == bytes.len;
    json_key(out, "contents");
    json_begin_array(out);
    json_begin_object(out);
    json_key(out, "uri"), json_put_str(out, uri);
    json_key(out, "mimeType");
    json_put_cstr(out, is_text ? "text/plain" : "application/octet-stream");
    if (is_text) {
        json_key(out, "text"), json_put_str(out, bytes);
    } else {
        base64_put(bytes, &coded);
        json_key(out, "blob"), json_put_str(out, buf_str(&coded));
    }
    json_end_object(out);
    json_end_array(out);
}

static void send_content(struct mcp_call *call, const struct file_answer *answer,
                         const struct err *why)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out;
    struct str id = call->asked.id;
    int absent = call->asked.is_modern ? RPC_PARAMS : RPC_NO_RESOURCE;
    if (why != NULL) {
        mcp_send_error(call->mcp, id, why->code == ERR_NOT_FOUND ? absent : RPC_INTERNAL, why->msg);
    } else if (answer->truncated) {
        mcp_send_error(call->mcp, id, RPC_INTERNAL,
                       "the file is larger than 1 MiB: read parts of it with the tool read");
    } else {
        (void)mcp_begin(&out, &text, &call->asked);
        mcp_put_cache(&out, &call->asked, false);
        put_content(&out, buf_str(&call->uri), answer->bytes);
        mcp_send(call->mcp, &call->asked, &out);
    }
}

static void mcp_files_on_read(void *ctx, const struct file_answer *answer, const struct err *why)
{
    struct mcp_call *call = ctx;
    if (call->mcp != NULL)
        send_content(call, answer, why);
    mcp_call_free(call);
}

static void send_page(struct mcp_call *call, const struct docs_page *page, const struct err *why)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out;
    int absent = call->asked.is_modern ? RPC_PARAMS : RPC_NO_RESOURCE;
    if (why != NULL) {
        mcp_send_error(call->mcp, call->asked.id,
                       why->code == ERR_NOT_FOUND ? absent : RPC_INTERNAL, why->msg);
        return;
    }
    (void)mcp_begin(&out, &text, &call->asked);
    mcp_put_cache(&out, &call->asked, false);
    put_content(&out, buf_str(&call->uri), page->text);
    mcp_send(call->mcp, &call->asked, &out);
}

static void mcp_files_on_page(void *ctx, const struct docs_page *page, const struct err *why)
{
    struct mcp_call *call = ctx;
    if (call->mcp != NULL)
        send_page(call, page, why);
    mcp_call_free(call);
}

/* False: it is no page. */
static bool mcp_files_read_page(struct mcp *mcp, const struct mcp_asked *asked,
                                const struct json_t *params)
{
    struct str uri = {0}, scheme = STR(MCP_PAGE_SCHEME);
    int64_t id = 0;
    if (!json_to_str(json_get(params, "uri"), &uri) || !str_starts(uri, scheme) ||
        !str_to_i64(str_slice(uri, scheme.len, uri.len), 1, INT64_MAX, &id))
        return false;
    struct mcp_call *call = mcp_call_new(mcp, asked, NULL);
    buf_put(&call->uri, uri);
    engine_docs_page(mcp->context.engine, &mcp->context.caller, id, mcp_files_on_page, call);
    return true;
}

void mcp_read_file(struct mcp *mcp, const struct mcp_asked *asked, const struct json_t *params)
{
    AUTO_BUF struct buf path = {0};
    struct str uri;
    if (mcp_files_read_page(mcp, asked, params))
        return;
    if (!mcp_uri_of(mcp, asked, params, &uri, &path))
        return;
    struct mcp_call *call = mcp_call_new(mcp, asked, NULL);
    buf_put(&call->uri, uri);
    mcp_files_ask(
        mcp,
        &(struct file_request){.op = FILE_READ, .path = buf_str(&path), .limit = FILE_READ_MAX},
        mcp_files_on_read, call);
}
