/* sandglass session, volume, snapshot, token ...: what a running server keeps. */

#include "cli/commands.h"
#include "cli/remote.h"

static const struct remote_column session_columns[] = {
    {"id", "ID"},           {"name", "NAME"},     {"state", "STATE"},     {"tier", "TIER"},
    {"sandbox", "SANDBOX"}, {"volume", "VOLUME"}, {"activeAt", "ACTIVE"}, {0}};
static const struct remote_column volume_columns[] = {
    {"id", "ID"},           {"name", "NAME"},   {"capacityMb", "MB"},     {"session", "SESSION"},
    {"sandbox", "SANDBOX"}, {"usedAt", "USED"}, {"expiresAt", "EXPIRES"}, {0}};
static const struct remote_column snapshot_columns[] = {
    {"id", "ID"},          {"slug", "SLUG"},   {"state", "STATE"},    {"source", "SOURCE"},
    {"sizeBytes", "SIZE"}, {"users", "USERS"}, {"createdAt", "MADE"}, {0}};
static const struct remote_column token_columns[] = {
    {"id", "ID"},         {"name", "NAME"},         {"tenant", "TENANT"},
    {"scopes", "SCOPES"}, {"expiresAt", "EXPIRES"}, {0}};

/* The nouns and what is the same for all of them. */
struct noun {
    const char *door, *list;
    const struct remote_column *columns;
};
static const struct noun sessions = {"/v1/sessions", "sessions", session_columns};
static const struct noun volumes = {"/v1/volumes", "volumes", volume_columns};
static const struct noun snapshots = {"/v1/snapshots", "snapshots", snapshot_columns};
static const struct noun tokens = {"/v1/tokens", "tokens", token_columns};

static int list(const struct cli_call *call, const struct noun *noun, struct err *err)
{
    return remote_show(call, "GET", noun->door, NULL, noun->list, noun->columns, err);
}

static int get(const struct cli_call *call, const struct noun *noun, struct err *err)
{
    AUTO_BUF struct buf path = {0};
    buf_put_cstr(&path, noun->door);
    remote_path(&path, "/%s", call->args[0]);
    return remote_show(call, "GET", buf_cstr(&path), NULL, NULL, noun->columns, err);
}

static int remove_one(const struct cli_call *call, const struct noun *noun, struct err *err)
{
    AUTO_BUF struct buf path = {0};
    buf_put_cstr(&path, noun->door);
    remote_path(&path, "/%s", call->args[0]);
    return remote_show(call, "DELETE", buf_cstr(&path), NULL, NULL, NULL, err);
}

/* A member of a body and its option. */
struct member {
    const char *option, *name; /* the same name as a text when `name` is NULL, else a number */
};

static int create(const struct cli_call *call, const struct noun *noun,
                  const struct member *members, struct err *err)
{
    AUTO_BUF struct buf body = {0};
    struct json_out out = {.buf = &body};
    json_begin_object(&out);
    for (; members->option != NULL; members++)
        if (members->name == NULL)
            remote_put_text(call, members->option, &out);
        else if (remote_put_number(call, members->option, members->name, &out, err) < 0)
            return -1;
    json_end_object(&out);
    return remote_show_made(call, noun->door, buf_cstr(&body), noun->columns, err);
}

static int session_create(const struct cli_call *call, struct err *err)
{
    static const struct member members[] = {
        {"id", NULL}, {"name", NULL}, {"idle-ms", "idleMs"}, {0}};
    return create(call, &sessions, members, err);
}
static int volume_create(const struct cli_call *call, struct err *err)
{
    static const struct member members[] = {
        {"name", NULL}, {"tier", NULL}, {"capacity-mb", "capacityMb"}, {"ttl-ms", "ttlMs"}, {0}};
    return create(call, &volumes, members, err);
}
static int snapshot_create(const struct cli_call *call, struct err *err)
{
    static const struct member members[] = {
        {"slug", NULL}, {"sandbox", NULL}, {"directory", NULL}, {0}};
    if ((cli_value(call, "sandbox") == NULL) == (cli_value(call, "directory") == NULL))
        return err_set(
            err, ERR_INVALID,
            "snapshot create: --sandbox ID or --directory DIR is needed, one of the two; "
            "packages are for 'sandglass snapshot build', archives for 'snapshot unpack'");
    return create(call, &snapshots, members, err);
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

/* The token alone goes to standard output, so that a script can take it. */
static int token_create(const struct cli_call *call, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf body = {0};
    struct json_out out = {.buf = &body};
    struct str rest = str_of(cli_value(call, "scope")), scope;
    json_begin_object(&out);
    remote_put_text(call, "name", &out);
    remote_put_text(call, "tenant", &out);
    json_key(&out, "scopes");
    json_begin_array(&out);
    if (rest.len == 0)
        rest = STR("read,run,files");
    while (str_split(&rest, ',', &scope))
        json_put_str(&out, str_trim(scope));
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
        return get(call, &noun##s, err);                                                           \
    }
GET(session)
GET(volume)
GET(snapshot)

#define LIST_AND_REMOVE(noun)                                                                      \
    static int noun##_ls(const struct cli_call *call, struct err *err)                             \
    {                                                                                              \
        return list(call, &noun##s, err);                                                          \
    }                                                                                              \
    static int noun##_rm(const struct cli_call *call, struct err *err)                             \
    {                                                                                              \
        return remove_one(call, &noun##s, err);                                                    \
    }
LIST_AND_REMOVE(session)
LIST_AND_REMOVE(volume)
LIST_AND_REMOVE(snapshot)
LIST_AND_REMOVE(token)

static const struct cli_option session_options[] = {
    REMOTE_OPTIONS,
    {0, "id", "ID", "An id of your choice (a random one)"},
    {0, "name", "NAME", "A name for people"},
    {0, "idle-ms", "N", "Dormant after so many milliseconds without work; -1 for never"},
    {0}};
static const struct cli_option volume_options[] = {
    REMOTE_OPTIONS,
    {0, "name", "NAME", "A name that is unique here"},
    {0, "tier", "TIER", "For sandboxes of this tier (as configured)"},
    {0, "capacity-mb", "N", "How much it holds (as configured)"},
    {0, "ttl-ms", "N", "Goes so many milliseconds after its last use; -1 for never"},
    {0}};
static const struct cli_option snapshot_options[] = {
    REMOTE_OPTIONS,
    {0, "slug", "NAME", "A name that is unique here"},
    {0, "sandbox", "ID", "Of what this sandbox has written"},
    {0, "directory", "DIR", "Of a directory of the server's host"},
    {0}};
static const struct cli_option build_options[] = {
    REMOTE_OPTIONS, {0, "slug", "NAME", "A name that is unique here (deps-HASH)"}, {0}};
static const struct cli_option token_options[] = {
    REMOTE_OPTIONS,
    {0, "scope", "SCOPES", "What it is good for: read,run,files,admin,approve (read,run,files)"},
    {0, "name", "NAME", "A name for people"},
    {0, "tenant", "NAME", "Whose objects it sees (yours)"},
    {0, "expires", "SECONDS", "How long it holds (for ever)"},
    {0, "rate", "N", "Requests a minute (no limit)"},
    {0}};

REMOTE_VERB(cmd_session_create, "session create", "", "Make a session and print its id",
            session_options, 0, session_create);
REMOTE_VERB(cmd_session_ls, "session ls", "", "List sessions", remote_only, 0, session_ls);
REMOTE_VERB(cmd_session_get, "session get", "ID", "Look at a session", remote_only, 1, session_get);
REMOTE_VERB(cmd_session_rm, "session rm", "ID", "Delete a session with its volume", remote_only, 1,
            session_rm);
REMOTE_VERB(cmd_volume_create, "volume create", "", "Make a volume and print its id",
            volume_options, 0, volume_create);
REMOTE_VERB(cmd_volume_ls, "volume ls", "", "List volumes", remote_only, 0, volume_ls);
REMOTE_VERB(cmd_volume_get, "volume get", "ID", "Look at a volume, by id or name", remote_only, 1,
            volume_get);
REMOTE_VERB(cmd_volume_rm, "volume rm", "ID", "Delete a volume", remote_only, 1, volume_rm);
REMOTE_VERB(cmd_snapshot_create, "snapshot create", "", "Make a snapshot", snapshot_options, 0,
            snapshot_create);
const struct cli_verb cmd_snapshot_build = {
    .name = "snapshot build",
    .args = "PACKAGE[@VERSION]...",
    .summary = "Make a snapshot with packages from npm, or pypi:NAME",
    .options = build_options,
    .args_min = 1,
    .args_max = 256,
    .run = snapshot_build};
REMOTE_VERB(cmd_snapshot_get, "snapshot get", "ID", "Look at a snapshot", remote_only, 1,
            snapshot_get);
REMOTE_VERB(cmd_snapshot_ls, "snapshot ls", "", "List snapshots", remote_only, 0, snapshot_ls);
REMOTE_VERB(cmd_snapshot_rm, "snapshot rm", "ID", "Delete a snapshot", remote_only, 1, snapshot_rm);
REMOTE_VERB(cmd_token_create, "token create", "", "Make a token and print it, this once",
            token_options, 0, token_create);
REMOTE_VERB(cmd_token_ls, "token ls", "", "List tokens", remote_only, 0, token_ls);
REMOTE_VERB(cmd_token_rm, "token rm", "ID", "Revoke a token", remote_only, 1, token_rm);
