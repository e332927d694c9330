/* sandglass approvals ...: what waits for a person's decision on a running server. */

#include "cli/cmd/commands.h"
#include "cli/remote.h"

static const struct remote_column columns[] = {
    {"id", "ID"},          {"status", "STATUS"},     {"kind", "KIND"},   {"subject", "SUBJECT"},
    {"requestedBy", "BY"}, {"expiresAt", "EXPIRES"}, {"title", "TITLE"}, {0}};
static const struct remote_column block[] = {{"id", "id"},
                                             {"status", "status"},
                                             {"title", "title"},
                                             {"kind", "kind"},
                                             {"subject", "subject"},
                                             {"digest", "digest"},
                                             {"sandbox", "sandbox"},
                                             {"requestedBy", "requested by"},
                                             {"requestedAt", "requested"},
                                             {"expiresAt", "expires"},
                                             {"decidedBy", "decided by"},
                                             {"decidedByToken", "with token"},
                                             {"decidedAt", "decided"},
                                             {"note", "note"},
                                             {"reason", "reason"},
                                             {"endedAt", "ended"},
                                             {0}};

static int cmd_approvals_list(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf path = {0};
    const char *status = cli_value(call, "status");
    if (status != NULL && cli_has(call, "all"))
        return err_set(err, ERR_INVALID, "approvals ls: give --status or --all, not both");
    buf_put_cstr(&path, "/v1/approvals?limit=1000");
    if (!cli_has(call, "all"))
        remote_path(&path, "&status=%s", status == NULL ? "pending" : status);
    return remote_show(call, "GET", buf_cstr(&path), NULL, "approvals", columns, err);
}

/* The detail is for people and written by others: one member a line, nothing that steers a
 * terminal. */
static void put_detail(const struct json_t *detail, struct buf *out)
{
    AUTO_BUF struct buf text = {0};
    void *iter = NULL;
    struct str key;
    struct json_t *value;
    if (detail == NULL || json_kind(detail) == JSON_KIND_NULL)
        return;
    buf_put_cstr(out, "detail:\n");
    if (json_kind(detail) != JSON_KIND_OBJECT) {
        json_put_value(&(struct json_out){.buf = &text}, detail);
        buf_put_cstr(out, "  ");
        cli_put_plain(out, buf_str(&text));
        buf_put_char(out, '\n');
        return;
    }
    while (json_next((struct json_t *)detail, &iter, &key, &value)) {
        struct str line;
        buf_clear(&text);
        if (!json_to_str(value, &line)) {
            json_put_value(&(struct json_out){.buf = &text}, value);
            line = buf_str(&text);
        }
        buf_put_cstr(out, "  ");
        cli_put_plain(out, key);
        buf_put_cstr(out, ": ");
        cli_put_plain(out, line);
        buf_put_char(out, '\n');
    }
}

static void cmd_approvals_print(const struct cli_call *call, const struct json_t *approval)
{
    AUTO_BUF struct buf out = {0};
    if (cli_has(call, "json")) {
        json_put_value(&(struct json_out){.buf = &out}, approval);
        buf_put_char(&out, '\n');
    } else {
        remote_put_block(approval, block, &out);
        put_detail(json_get(approval, "detail"), &out);
    }
    cli_print(buf_str(&out));
}

static int cmd_approvals_find(sg_client *client, const char *name, struct json_t **ret_approval,
                              struct err *err)
{
    AUTO_BUF struct buf path = {0};
    remote_path(&path, "/v1/approvals/%s", name);
    return remote_call(client, "GET", buf_cstr(&path), NULL, ret_approval, err);
}

static int show(const struct cli_call *call, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_JSON struct json_t *approval = NULL;
    if (remote_open(call, &client, err) < 0 ||
        cmd_approvals_find(client, call->args[0], &approval, err) < 0)
        return -1;
    cmd_approvals_print(call, approval);
    return EXIT_OK;
}

/* Behind a subject may be a newer request than the one that the person looked at. */
static int check_seen(const struct cli_call *call, const struct json_t *approval, struct err *err)
{
    const char *digest = cli_value(call, "digest");
    if (digest != NULL || str_eq(remote_text(approval, "id"), str_of(call->args[0])))
        return 0;
    return err_set(err, ERR_INVALID,
                   "approvals approve: '%.60s' is a subject, whose content can change: give the id "
                   "of the request that you looked at, or its --digest",
                   call->args[0]);
}

static int decide(const struct cli_call *call, bool is_approved, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_JSON struct json_t *approval = NULL;
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf body = {0}, path = {0};
    struct json_out out = {.buf = &body};
    const char *digest = cli_value(call, "digest");
    if (remote_open(call, &client, err) < 0 ||
        cmd_approvals_find(client, call->args[0], &approval, err) < 0 ||
        (is_approved && check_seen(call, approval, err) < 0))
        return -1;
    json_begin_object(&out);
    json_key(&out, "approved"), json_put_bool(&out, is_approved);
    json_key(&out, "subject"), json_put_str(&out, remote_text(approval, "subject"));
    json_key(&out, "digest");
    json_put_str(&out, digest != NULL ? str_of(digest) : remote_text(approval, "digest"));
    remote_put_text(call, "note", &out);
    json_end_object(&out);
    AUTO_BUF struct buf id = {0};
    buf_put(&id, remote_text(approval, "id"));
    remote_path(&path, "/v1/approvals/%s", buf_cstr(&id));
    if (remote_call(client, "POST", buf_cstr(&path), buf_cstr(&body), &answer, err) < 0)
        return -1;
    cmd_approvals_print(call, answer);
    return EXIT_OK;
}

static int approve(const struct cli_call *call, struct err *err)
{
    return decide(call, true, err);
}

static int reject(const struct cli_call *call, struct err *err)
{
    return decide(call, false, err);
}

static const struct cli_option list_options[] = {
    {0, "status", "STATUS", "pending (default), approved, used, rejected, expired or void"},
    {0, "all", NULL, "With every status"},
    REMOTE_OPTIONS,
    {0},
};
static const struct cli_option decide_options[] = {
    {0, "note", "TEXT", "A note for the requester"},
    {0, "digest", "DIGEST", "Refuse unless the request has this digest"},
    REMOTE_OPTIONS,
    {0},
};

REMOTE_VERB(cmd_approvals_ls, "approvals ls", "", "List what waits for a decision", list_options, 0,
            cmd_approvals_list);
REMOTE_VERB(cmd_approvals_show, "approvals show", "ID", "Show a request and its decision",
            remote_only, 1, show);

const struct cli_verb cmd_approvals_approve = {
    .name = "approvals approve",
    .args = "ID",
    .summary = "Approve a request",
    .details = "Needs a token with the scope 'approve'. The decision is final, and recorded with "
               "the token's name, the time and the digest. A request can be named by its subject "
               "together with --digest.",
    .options = decide_options,
    .args_min = 1,
    .args_max = 1,
    .run = approve,
};
REMOTE_VERB(cmd_approvals_reject, "approvals reject", "ID", "Reject a request, by id or subject",
            decide_options, 1, reject);
