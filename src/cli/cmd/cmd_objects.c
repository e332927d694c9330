/* sandglass session, volume, snapshot, token ...: what a running server keeps. */

#include "cli/cmd/commands.h"
#include "cli/remote.h"
#include "cli/sandbox_arg.h"

static const struct remote_column session_columns[] = {{"id", "ID"},
                                                       {"name", "NAME"},
                                                       {"state", "STATE"},
                                                       {"tier", "TIER"},
                                                       {"sandbox", "SANDBOX"},
                                                       {"volume", "VOLUME"},
                                                       {"activeAt", "ACTIVE"},
                                                       {"volumeExpiresAt", "EXPIRES"},
                                                       {0}};
static const struct remote_column session_block[] = {{"id", "id"},
                                                     {"name", "name"},
                                                     {"state", "state"},
                                                     {"tier", "tier"},
                                                     {"runtime", "runtime"},
                                                     {"sandbox", "sandbox"},
                                                     {"volume", "volume"},
                                                     {"warm", "warm"},
                                                     {"idleMs", "idle limit", REMOTE_TIME},
                                                     {"volumeTtlMs", "volume TTL", REMOTE_TIME},
                                                     {"volumeExpiresAt", "volume expires"},
                                                     {"volumeExpiredAt", "volume expired"},
                                                     {"createdAt", "created"},
                                                     {"activeAt", "last active"},
                                                     {0}};
static const struct remote_column volume_columns[] = {{"id", "ID"},
                                                      {"name", "NAME"},
                                                      {"capacityMb", "MB"},
                                                      {"session", "SESSION"},
                                                      {"sandbox", "SANDBOX"},
                                                      {"usedAt", "USED"},
                                                      {"expiresAt", "EXPIRES"},
                                                      {"metadata", "LABELS"},
                                                      {0}};
static const struct remote_column volume_block[] = {{"id", "id"},
                                                    {"name", "name"},
                                                    {"tier", "tier"},
                                                    {"metadata", "labels"},
                                                    {"session", "session"},
                                                    {"sandbox", "sandbox"},
                                                    {"capacityMb", "capacity", REMOTE_SIZE},
                                                    {"ttlMs", "TTL", REMOTE_TIME},
                                                    {"createdAt", "created"},
                                                    {"usedAt", "last used"},
                                                    {"expiresAt", "expires"},
                                                    {0}};
static const struct remote_column snapshot_columns[] = {
    {"id", "ID"},          {"slug", "SLUG"},   {"state", "STATE"},       {"source", "SOURCE"},
    {"sizeBytes", "SIZE"}, {"users", "USERS"}, {"createdAt", "CREATED"}, {0}};
static const struct remote_column snapshot_block[] = {{"id", "id"},
                                                      {"slug", "slug"},
                                                      {"tier", "tier"},
                                                      {"state", "state"},
                                                      {"detail", "detail"},
                                                      {"source", "source"},
                                                      {"sizeBytes", "bytes"},
                                                      {"users", "users"},
                                                      {"createdAt", "created"},
                                                      {0}};
static const struct remote_column token_columns[] = {
    {"id", "ID"},         {"name", "NAME"},         {"tenant", "TENANT"},
    {"scopes", "SCOPES"}, {"expiresAt", "EXPIRES"}, {0}};

/* The nouns and what is the same for all of them. */
struct noun {
    const char *route, *pages, *list;
    const struct remote_column *columns, *block;
};
static const struct noun sessions = {"/v1/sessions", "?limit=1000", "sessions", session_columns,
                                     session_block};
static const struct noun volumes = {"/v1/volumes", "?limit=1000", "volumes", volume_columns,
                                    volume_block};
static const struct noun snapshots = {"/v1/snapshots", "?limit=1000", "snapshots", snapshot_columns,
                                      snapshot_block};
static const struct noun tokens = {"/v1/tokens", "", "tokens", token_columns, NULL};

static int cmd_objects_list(const struct cli_call *call, const struct noun *noun, struct err *err)
{
    AUTO_BUF struct buf path = {0};
    buf_printf(&path, "%s%s", noun->route, noun->pages);
    return remote_show(call, "GET", buf_cstr(&path), NULL, noun->list, noun->columns, err);
}

static int cmd_objects_get(const struct cli_call *call, const struct noun *noun, struct err *err)
{
    AUTO_BUF struct buf path = {0};
    buf_put_cstr(&path, noun->route);
    remote_path(&path, "/%s", call->args[0]);
    return remote_show_one(call, buf_cstr(&path), noun->block, err);
}

static int remove_one(const struct cli_call *call, const struct noun *noun, struct err *err)
{
    AUTO_BUF struct buf path = {0};
    buf_put_cstr(&path, noun->route);
    remote_path(&path, "/%s", call->args[0]);
    return remote_show(call, "DELETE", buf_cstr(&path), NULL, NULL, NULL, err);
}

static int session_create(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf body = {.wipes = true};
    struct json_out out = {.buf = &body};
    json_begin_object(&out);
    remote_put_text(call, "id", &out);
    remote_put_text(call, "name", &out);
    if (cli_has(call, "warm"))
        json_key(&out, "warm"), json_put_bool(&out, true);
    if (sandbox_arg_put_time(call, "idle", "idleMs", &out, err) < 0 ||
        sandbox_arg_put_time(call, "volume-ttl", "volumeTtlMs", &out, err) < 0)
        return -1;
    json_key(&out, "sandbox"), json_begin_object(&out);
    if (sandbox_arg_put(call, &out, err) < 0)
        return -1;
    json_end_object(&out);
    json_end_object(&out);
    return remote_show_made(call, sessions.route, buf_cstr(&body), session_columns, err);
}
static int volume_create(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf body = {0};
    struct json_out out = {.buf = &body};
    json_begin_object(&out);
    remote_put_text(call, "name", &out);
    remote_put_text(call, "tier", &out);
    if (sandbox_arg_put_size(call, "capacity", "capacityMb", &out, err) < 0 ||
        sandbox_arg_put_time(call, "ttl", "ttlMs", &out, err) < 0 ||
        remote_put_pairs(call, "label", "metadata", &out, err) < 0)
        return -1;
    json_end_object(&out);
    return remote_show_made(call, volumes.route, buf_cstr(&body), volumes.columns, err);
}
static int snapshot_create(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf body = {0}, sandbox = {0};
    struct json_out out = {.buf = &body};
    const char *given = cli_value(call, "sandbox");
    if ((given == NULL) == (cli_value(call, "directory") == NULL))
        return err_set(
            err, ERR_INVALID,
            "snapshot create: give either --sandbox SANDBOX or --directory DIR; for packages "
            "use 'sandglass snapshot build', for archives 'snapshot unpack'");
    if (given != NULL && remote_find_sandbox(call, given, false, &sandbox, err) < 0)
        return -1;
    json_begin_object(&out);
    remote_put_text(call, "slug", &out);
    if (given != NULL)
        json_key(&out, "sandbox"), json_put_str(&out, buf_str(&sandbox));
    remote_put_text(call, "directory", &out);
    json_end_object(&out);
    return remote_show_made(call, snapshots.route, buf_cstr(&body), snapshot_columns, err);
}

/* PACKAGE[@VERSION]; a scope's '@' comes first. */
static int snapshot_build(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf body = {0};
    struct json_out out = {.buf = &body};
    json_begin_object(&out);
    remote_put_text(call, "slug", &out);
    json_key(&out, "dependencies"), json_begin_object(&out);
    for (size_t i = 0; i < call->arg_count; i++) {
        struct str word = str_of(call->args[i]);
        size_t at = word.len;
        while (at > 1 && word.ptr[at - 1] != '@')
            at--;
        bool has_version = at > 1;
        json_key_str(&out, has_version ? str_slice(word, 0, at - 1) : word);
        json_put_str(&out, has_version ? str_slice(word, at, word.len) : STR(""));
    }
    json_end_object(&out);
    json_end_object(&out);
    if (!cli_has(call, "json"))
        (void)fprintf(stderr, "installing %zu package%s ...\n", call->arg_count,
                      call->arg_count == 1 ? "" : "s");
    return remote_show_made(call, "/v1/snapshots", buf_cstr(&body), snapshot_columns, err);
}

/* --scope read,run and --scope read --scope run mean the same. */
static void put_scopes(const struct cli_call *call, struct json_out *out)
{
    bool any = false;
    for (size_t i = 0; i <= call->given_count; i++) {
        bool is_default = i == call->given_count;
        if (is_default ? any : strcmp(call->given[i].option->name, "scope") != 0)
            continue;
        struct str rest = is_default ? STR("read,run,files") : str_of(call->given[i].value), scope;
        any = true;
        while (str_split(&rest, ',', &scope))
            json_put_str(out, str_trim(scope));
    }
}

/* Only the token goes to standard output, so that a script can use it. */
static int token_create(const struct cli_call *call, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf body = {0};
    struct json_out out = {.buf = &body};
    json_begin_object(&out);
    remote_put_text(call, "name", &out);
    remote_put_text(call, "tenant", &out);
    json_key(&out, "scopes");
    json_begin_array(&out);
    put_scopes(call, &out);
    json_end_array(&out);
    if (remote_put_number(call, "expires", "expiresSeconds", &out, err) < 0 ||
        remote_put_number(call, "rate", "ratePerMinute", &out, err) < 0)
        return -1;
    json_end_object(&out);
    if (cli_has(call, "json"))
        return remote_show(call, "POST", "/v1/tokens", buf_cstr(&body), NULL, NULL, err);
    if (remote_open(call, &client, err) < 0 ||
        remote_call(client, "POST", "/v1/tokens", buf_cstr(&body), &answer, err) < 0)
        return -1;
    cli_print(remote_text(answer, "token"));
    cli_print(STR("\n"));
    return EXIT_OK;
}

#define GET(noun)                                                                                  \
    static int noun##_get(const struct cli_call *call, struct err *err)                            \
    {                                                                                              \
        return cmd_objects_get(call, &noun##s, err);                                               \
    }
GET(session)
GET(volume)
GET(snapshot)

#define LIST_AND_REMOVE(noun)                                                                      \
    static int noun##_ls(const struct cli_call *call, struct err *err)                             \
    {                                                                                              \
        return cmd_objects_list(call, &noun##s, err);                                              \
    }                                                                                              \
    static int noun##_rm(const struct cli_call *call, struct err *err)                             \
    {                                                                                              \
        return remove_one(call, &noun##s, err);                                                    \
    }
LIST_AND_REMOVE(session)
static int volume_ls(const struct cli_call *call, struct err *err)
{
    return cmd_objects_list(call, &volumes, err);
}
LIST_AND_REMOVE(snapshot)
LIST_AND_REMOVE(token)

static const struct cli_option session_options[] = {
    REMOTE_OPTIONS,
    {0, "id", "ID", "An id of your choice (default: random)"},
    {0, "name", "NAME", "A display name"},
    {0, "warm", NULL, "Create its sandbox now, not at first use"},
    {0, "idle", "TIME",
     "Make it dormant after this idle time; none for never (default: as configured)"},
    {0, "volume-ttl", "TIME",
     "Delete its files after this time without use; none for never (default: as configured)"},
    SANDBOX_OPTIONS,
    {0}};
static const struct cli_option volume_options[] = {
    REMOTE_OPTIONS,
    {0, "name", "NAME", "A unique name"},
    {0, "tier", "TIER", "For sandboxes of this tier (default: as configured)"},
    {0, "capacity", "SIZE", "Capacity, such as 512m or 2g (default: as configured)"},
    {0, "ttl", "TIME", "Delete it this long after its last use, such as 12h (default: never)"},
    {.name = "label", .value = "NAME=VALUE", .help = "A label to find it by", .repeated = true},
    {0}};
static const struct cli_option snapshot_options[] = {
    REMOTE_OPTIONS,
    {0, "slug", "NAME", "A unique name"},
    {0, "sandbox", "SANDBOX", "Take the files that this sandbox has written"},
    {0, "directory", "DIR", "Take this directory of the server's host"},
    {0}};
static const struct cli_option build_options[] = {
    REMOTE_OPTIONS, {0, "slug", "NAME", "A unique name (default: deps-HASH)"}, {0}};
static const struct cli_option token_options[] = {
    REMOTE_OPTIONS,
    {0, "scope", "SCOPES", "Scopes: read,run,files,admin,approve (default: read,run,files)",
     .repeated = true},
    {0, "name", "NAME", "A display name"},
    {0, "tenant", "NAME", "Tenant whose objects it can use (default: yours)"},
    {0, "expires", "SECONDS", "Lifetime (default: forever)"},
    {0, "rate", "N", "Requests per minute (default: no limit)"},
    {0}};

REMOTE_VERB(cmd_session_create, "session create", "", "Create a session and print its id",
            session_options, 0, session_create);
REMOTE_VERB(cmd_session_ls, "session ls", "", "List sessions", remote_only, 0, session_ls);
REMOTE_VERB(cmd_session_get, "session get", "ID", "Show a session", remote_only, 1, session_get);
REMOTE_VERB(cmd_session_rm, "session rm", "ID", "Delete a session with its volume", remote_only, 1,
            session_rm);
REMOTE_VERB(cmd_volume_create, "volume create", "", "Create a volume and print its id",
            volume_options, 0, volume_create);
REMOTE_VERB(cmd_volume_ls, "volume ls", "", "List volumes", remote_only, 0, volume_ls);
REMOTE_VERB(cmd_volume_get, "volume get", "ID", "Show a volume, by id or name", remote_only, 1,
            volume_get);
REMOTE_VERB(cmd_snapshot_create, "snapshot create", "", "Create a snapshot", snapshot_options, 0,
            snapshot_create);
const struct cli_verb cmd_snapshot_build = {
    .name = "snapshot build",
    .args = "PACKAGE[@VERSION]...",
    .summary = "Create a snapshot with packages from npm, or pypi:NAME",
    .options = build_options,
    .args_min = 1,
    .args_max = 256,
    .run = snapshot_build};
REMOTE_VERB(cmd_snapshot_get, "snapshot get", "ID", "Show a snapshot", remote_only, 1,
            snapshot_get);
REMOTE_VERB(cmd_snapshot_ls, "snapshot ls", "", "List snapshots", remote_only, 0, snapshot_ls);
REMOTE_VERB(cmd_snapshot_rm, "snapshot rm", "ID", "Delete a snapshot", remote_only, 1, snapshot_rm);
REMOTE_VERB(cmd_token_create, "token create", "",
            "Create a token and print it; it is shown only once", token_options, 0, token_create);
REMOTE_VERB(cmd_token_ls, "token ls", "", "List tokens", remote_only, 0, token_ls);
REMOTE_VERB(cmd_token_rm, "token rm", "ID", "Revoke a token", remote_only, 1, token_rm);
