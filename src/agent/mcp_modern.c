/* Revisions of the protocol, and requests of those that know no initialize: each says all about
 * itself in params._meta, and its answer says what it is. */

#include "agent/mcp_internal.h"

const char *const mcp_modern_versions[] = {"2026-07-28", NULL};
const char *const mcp_old_versions[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05",
                                        NULL};

static bool has(const char *const *versions, struct str version)
{
    for (size_t i = 0; versions[i] != NULL; i++)
        if (str_eq(version, str_of(versions[i])))
            return true;
    return false;
}

bool mcp_is_modern_version(struct str version)
{
    return has(mcp_modern_versions, version);
}

bool mcp_speaks(struct str version)
{
    return has(mcp_modern_versions, version) || has(mcp_old_versions, version);
}

static const struct json_t *meta_of(const struct json_t *params)
{
    const struct json_t *meta = json_get(params, "_meta");
    return mcp_is_object(meta) ? meta : NULL;
}

static struct str version_of(const struct json_t *params)
{
    return mcp_text(meta_of(params), MCP_META "protocolVersion");
}

struct str mcp_version_of(const struct json_t *message)
{
    return version_of(json_get(message, "params"));
}

bool mcp_is_listen(const struct json_t *message)
{
    return str_eq(mcp_text(message, "method"), STR("subscriptions/listen"));
}

struct mcp_asked mcp_asked_of(const struct json_t *params, struct str id)
{
    struct mcp_asked asked = {.id = id, .level = LEVEL_COUNT};
    asked.is_modern = version_of(params).len > 0;
    if (asked.is_modern)
        (void)!mcp_level_of(mcp_text(meta_of(params), MCP_META "logLevel"), &asked.level);
    return asked;
}

/* --- What is wrong with a request --- */

static int mcp_modern_refuse(const struct json_t *message, int status,
                             const struct mcp_fault *fault, struct buf *answer)
{
    AUTO_BUF struct buf id = {0};
    struct json_out out = {.buf = &id};
    const struct json_t *named = json_get(message, "id");
    if (named != NULL)
        json_put_value(&out, named);
    mcp_put_error(answer, buf_str(&id), fault);
    return status;
}

static void put_versions(struct json_out *out, const char *const *versions)
{
    for (size_t i = 0; versions[i] != NULL; i++)
        json_put_cstr(out, versions[i]);
}

static int refuse_version(const struct json_t *message, struct str version, struct buf *answer)
{
    AUTO_BUF struct buf data = {0};
    struct json_out out = {.buf = &data};
    json_begin_object(&out);
    json_key(&out, "supported");
    json_begin_array(&out);
    put_versions(&out, mcp_modern_versions); /* those that a request may name; see mcp_discover */
    json_end_array(&out);
    json_key(&out, "requested"), json_put_str(&out, version);
    json_end_object(&out);
    return mcp_modern_refuse(
        message, 400,
        &(struct mcp_fault){RPC_NO_VERSION, "Unsupported protocol version", buf_cstr(&data)},
        answer);
}

static int refuse_params(const struct json_t *message, const char *why, struct buf *answer)
{
    return mcp_modern_refuse(message, 400, &(struct mcp_fault){.code = RPC_PARAMS, .message = why},
                             answer);
}

int mcp_find_fault(const struct json_t *message, bool is_modern, struct buf *answer)
{
    AUTO_BUF struct buf why = {0};
    const struct json_t *params = json_get(message, "params");
    struct str name = mcp_text(message, "method"), version = version_of(params);
    bool is_needed = is_modern || (mcp_has_method(name, true) && !mcp_has_method(name, false));
    if (params != NULL && !mcp_is_object(params))
        return refuse_params(message, "params must be an object", answer);
    if (is_needed && version.len == 0)
        return refuse_params(message, "params._meta: " MCP_META "protocolVersion is missing",
                             answer);
    if (is_modern && !mcp_is_modern_version(version))
        return refuse_version(message, version, answer);
    if (is_modern && !mcp_is_object(json_get(meta_of(params), MCP_META "clientCapabilities")))
        return refuse_params(message, "params._meta: " MCP_META "clientCapabilities is missing",
                             answer);
    if (mcp_has_method(name, is_modern))
        return 0;
    buf_printf(&why, "unknown method '%.*s'", STR_ARG(name));
    return mcp_modern_refuse(message, 404,
                             &(struct mcp_fault){.code = RPC_NO_METHOD, .message = buf_cstr(&why)},
                             answer);
}

/* --- server/discover --- */

void mcp_discover(struct mcp *mcp, const struct mcp_asked *asked,
                  UNUSED const struct json_t *params)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out;
    (void)mcp_begin(&out, &text, asked);
    mcp_put_cache(&out, asked, true);
    json_key(&out, "supportedVersions");
    json_begin_array(&out);
    put_versions(&out, mcp_modern_versions);
    json_end_array(&out);
    mcp_put_abilities(mcp, &out);
    mcp_send(mcp, asked, &out);
}
