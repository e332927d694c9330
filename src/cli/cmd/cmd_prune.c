/* sandglass sandbox rm, volume rm and prune: deleting many things of a running server at once; and
 * du: disk usage there. */

#include "base/clock.h"
#include "base/vec.h"
#include "cli/cmd/commands.h"
#include "cli/net_arg.h"
#include "cli/remote.h"

struct noun {
    const char *route, *list, *one, *many;
    const char *since; /* the date that --older-than looks at */
};
static const struct noun sandboxes = {"/v1/sandboxes", "sandboxes", "sandbox", "sandboxes",
                                      "activeAt"};
static const struct noun volumes = {"/v1/volumes", "volumes", "volume", "volumes", "usedAt"};

/* What shall be deleted, and what became of it. */
struct deletion {
    const struct cli_call *call;
    const struct noun *noun;
    sg_client *client;
    const char *states;           /* "stopped,failed"; NULL: all */
    char before[CLOCK_TEXT_SIZE]; /* a date; empty: any */
    struct arena arena;
    VEC(struct str) names; /* ids, or what was given for them */
    size_t deleted, failed;
    struct buf ids; /* deleted, as JSON */
};

/* ---- choosing ------------------------------------------------------------------------------ */

static bool is_word_of(const char *list, struct str word)
{
    struct str rest = str_of(list), each;
    while (str_split(&rest, ',', &each))
        if (str_eq(str_trim(each), word))
            return true;
    return false;
}

static bool has_labels(const struct cli_call *call, const struct json_t *row)
{
    const struct json_t *metadata = json_get(row, "metadata");
    for (size_t i = 0; i < call->given_count; i++) {
        if (strcmp(call->given[i].option->name, "label") != 0)
            continue;
        struct str label = str_of(call->given[i].value);
        size_t equals = str_find_char(label, '=');
        AUTO_BUF struct buf name = {0};
        buf_put(&name, str_slice(label, 0, equals));
        if (metadata == NULL || !str_eq(remote_text(metadata, buf_cstr(&name)),
                                        str_slice(label, equals + 1, label.len)))
            return false;
    }
    return true;
}

/* A session's own things go with their session. */
static bool is_chosen(const struct deletion *deletion, const struct json_t *row)
{
    struct str since = remote_text(row, deletion->noun->since);
    if (since.len == 0)
        since = remote_text(row, "createdAt");
    if (remote_text(row, "session").len > 0 ||
        (deletion->states != NULL && !is_word_of(deletion->states, remote_text(row, "state"))) ||
        (deletion->noun == &volumes && remote_text(row, "sandbox").len > 0))
        return false;
    return (deletion->before[0] == '\0' || str_cmp(since, str_of(deletion->before)) < 0) &&
           has_labels(deletion->call, row);
}

static int choose(struct deletion *deletion, struct err *err)
{
    AUTO_BUF struct buf after = {0};
    do {
        AUTO_BUF struct buf path = {0};
        AUTO_JSON struct json_t *page = NULL;
        buf_printf(&path, "%s?limit=1000", deletion->noun->route);
        if (after.len > 0)
            remote_path(&path, "&after=%s", buf_cstr(&after));
        if (remote_call(deletion->client, "GET", buf_cstr(&path), NULL, &page, err) < 0)
            return -1;
        const struct json_t *rows = json_get(page, deletion->noun->list);
        for (size_t i = 0; rows != NULL && i < json_len(rows); i++)
            if (is_chosen(deletion, json_at(rows, i)))
                *vec_push(&deletion->names) =
                    arena_dup(&deletion->arena, remote_text(json_at(rows, i), "id"));
        buf_clear(&after);
        buf_put(&after, remote_text(page, "next"));
    } while (after.len > 0);
    return 0;
}

/* ---- deleting ------------------------------------------------------------------------------ */

static int delete_by(struct deletion *deletion, const char *name, struct err *err)
{
    AUTO_BUF struct buf path = {0};
    bool is_dry = cli_has(deletion->call, "dry-run");
    buf_put_cstr(&path, deletion->noun->route);
    remote_path(&path, "/%s", name);
    return remote_call(deletion->client, is_dry ? "GET" : "DELETE", buf_cstr(&path), NULL, NULL,
                       err);
}

/* What names no sandbox may name a session: its sandbox is meant, the session stays. */
static int delete_named(struct deletion *deletion, const char *name, struct err *err)
{
    AUTO_BUF struct buf id = {0};
    if (delete_by(deletion, name, err) == 0)
        return 0;
    if (err->code != ERR_NOT_FOUND || deletion->noun != &sandboxes ||
        remote_find_sandbox(deletion->call, name, false, &id, err) < 0)
        return -1;
    return delete_by(deletion, buf_cstr(&id), err);
}

static void delete_one(struct deletion *deletion, struct str name)
{
    struct err err = {0};
    bool is_json = cli_has(deletion->call, "json");
    if (delete_named(deletion, name.ptr, &err) < 0) {
        deletion->failed++;
        if (strstr(err.msg, name.ptr) == NULL) /* most messages name it */
            (void)err_wrap(&err, "%s '%s'", deletion->noun->one, name.ptr);
        (void)cli_report(&err);
        return;
    }
    deletion->deleted++;
    buf_put_char(&deletion->ids, deletion->ids.len == 0 ? '[' : ',');
    json_put_str(&(struct json_out){.buf = &deletion->ids}, name);
    if (!is_json) {
        cli_print(name);
        cli_print(STR("\n"));
    }
}

static void deletion_done(struct deletion *deletion)
{
    vec_done(&deletion->names);
    arena_done(&deletion->arena);
    buf_done(&deletion->ids);
}

/* Each one that can be deleted is; the exit code says whether all could. */
static int delete_all(struct deletion *deletion)
{
    bool is_dry = cli_has(deletion->call, "dry-run");
    VEC_EACH (name, &deletion->names)
        delete_one(deletion, *name);
    if (cli_has(deletion->call, "json")) {
        AUTO_BUF struct buf text = {0};
        buf_printf(&text, "{\"%s\":", is_dry ? "wouldDelete" : "deleted");
        buf_put(&text, deletion->ids.len == 0 ? STR("[") : buf_str(&deletion->ids));
        buf_printf(&text, "],\"failed\":%zu}\n", deletion->failed);
        cli_print(buf_str(&text));
    } else if (is_dry || deletion->names.len != 1) {
        (void)fprintf(stderr, "%zu %s %s\n", deletion->deleted,
                      deletion->deleted == 1 ? deletion->noun->one : deletion->noun->many,
                      is_dry ? "would be deleted" : "deleted");
    }
    return deletion->failed == 0 ? EXIT_OK : EXIT_FAILED;
}

static int set_age(struct deletion *deletion, struct err *err)
{
    const char *age = cli_value(deletion->call, "older-than");
    int64_t ms = 0;
    if (age == NULL)
        return 0;
    if (cli_read_time("older-than", age, &ms, err) < 0)
        return -1;
    clock_format_utc(clock_date_ms() - ms, deletion->before);
    return 0;
}

static int check_labels(const struct cli_call *call, struct err *err)
{
    for (size_t i = 0; i < call->given_count; i++)
        if (strcmp(call->given[i].option->name, "label") == 0 &&
            strchr(call->given[i].value, '=') == NULL)
            return err_set(err, ERR_INVALID, "--label '%s' is not NAME=VALUE",
                           call->given[i].value);
    return 0;
}

static int cmd_prune_run(struct deletion *deletion, bool chooses, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    int code = -1;
    if (check_labels(deletion->call, err) == 0 && set_age(deletion, err) == 0 &&
        remote_open(deletion->call, &client, err) == 0) {
        deletion->client = client;
        for (size_t i = 0; !chooses && i < deletion->call->arg_count; i++)
            *vec_push(&deletion->names) = str_of(deletion->call->args[i]);
        if (!chooses || choose(deletion, err) == 0)
            code = delete_all(deletion);
    }
    deletion_done(deletion);
    return code;
}

/* ---- the verbs ----------------------------------------------------------------------------- */

/* Named ones, or all that fit: nothing is deleted by leaving words out. */
static int remove_many(const struct cli_call *call, const struct noun *noun, struct err *err)
{
    bool chooses = cli_has(call, "label") || cli_has(call, "older-than") || cli_has(call, "all") ||
                   (noun == &sandboxes && cli_has(call, "state"));
    if ((call->arg_count > 0) == chooses)
        return err_set(err, ERR_INVALID,
                       chooses ? "%s rm: give either ids and names, or filter options, not both"
                               : "%s rm: give ids or names, --label NAME=VALUE, --older-than or "
                                 "--all",
                       noun->one);
    struct deletion deletion = {.call = call, .noun = noun};
    if (noun == &sandboxes)
        deletion.states = cli_value(call, "state");
    return cmd_prune_run(&deletion, chooses, err);
}

static int sandbox_rm(const struct cli_call *call, struct err *err)
{
    return remove_many(call, &sandboxes, err);
}

static int volume_rm(const struct cli_call *call, struct err *err)
{
    return remove_many(call, &volumes, err);
}

static int prune(const struct cli_call *call, struct err *err)
{
    static const char *const known[] = {"stopped", "failed", "paused", "interrupted", "running"};
    const char *states = cli_value(call, "state");
    struct str rest = str_of(states == NULL ? "" : states), word;
    while (states != NULL && str_split(&rest, ',', &word)) {
        size_t at = 0;
        while (at < countof(known) && !str_eq(str_trim(word), str_of(known[at])))
            at++;
        if (at == countof(known))
            return err_set(
                err, ERR_INVALID,
                "--state: unknown state '%.*s'; valid states: stopped, failed, paused, interrupted",
                STR_ARG(str_slice(word, 0, 40)));
    }
    struct deletion deletion = {
        .call = call, .noun = &sandboxes, .states = states == NULL ? "stopped,failed" : states};
    return cmd_prune_run(&deletion, true, err);
}

#define CHOICES                                                                                    \
    {.name = "label",                                                                              \
     .value = "NAME=VALUE",                                                                        \
     .help = "Only with this label; repeat the option to require several labels",                  \
     .repeated = true},                                                                            \
        {0, "older-than", "TIME", "Only if not used for this time, such as 12h or 7d"},            \
    {                                                                                              \
        0, "dry-run", NULL, "Print what would be deleted, without deleting it"                     \
    }

static const struct cli_option sandbox_rm_options[] = {
    REMOTE_OPTIONS,
    CHOICES,
    {0, "state", "STATES", "Only in these states: stopped,failed,paused"},
    {0, "all", NULL, "All sandboxes"},
    {0}};
static const struct cli_option volume_rm_options[] = {
    REMOTE_OPTIONS, CHOICES, {0, "all", NULL, "All volumes that no sandbox uses"}, {0}};
static const struct cli_option prune_options[] = {
    REMOTE_OPTIONS,
    CHOICES,
    {0, "state", "STATES",
     "In these states (default: stopped,failed); a paused sandbox loses its files"},
    {0}};

const struct cli_verb cmd_sandbox_rm = {
    .name = "sandbox rm",
    .args = "[SANDBOX...]",
    .summary = "Delete sandboxes by id or name, or all that match the options",
    .details = "Prints the deleted ids, one per line. If one cannot be deleted, an error is "
               "printed, the others are still deleted, and the exit code is 1. The options do not "
               "match sandboxes of sessions. For a session, only its sandbox is deleted; its files "
               "are kept; 'session rm' deletes a session with its sandbox and files.",
    .options = sandbox_rm_options,
    .args_max = CLI_ARGS_MAX,
    .run = sandbox_rm,
};

const struct cli_verb cmd_volume_rm = {
    .name = "volume rm",
    .args = "[ID|NAME...]",
    .summary = "Delete volumes by id or name, or all that match the options",
    .details = "Prints the deleted ids, one per line. A volume that a sandbox uses cannot be "
               "deleted. The options match neither volumes in use nor volumes of sessions.",
    .options = volume_rm_options,
    .args_max = CLI_ARGS_MAX,
    .run = volume_rm,
};

const struct cli_verb cmd_prune = {
    .name = "prune",
    .args = "",
    .summary = "Delete stopped and failed sandboxes",
    .details = "Sandboxes of sessions are not deleted. The server does this automatically after "
               "the number "
               "of days in [retention] of the configuration. 'sandglass du' shows disk usage.",
    .options = prune_options,
    .run = prune,
};

static int du(const struct cli_call *call, struct err *err)
{
    static const struct remote_column columns[] = {{"bytes", "BYTES"}, {"kind", "KIND"},
                                                   {"state", "STATE"}, {"id", "ID"},
                                                   {"name", "NAME"},   {0}};
    return remote_show(call, "GET", "/v1/du", NULL, "items", columns, err);
}

const struct cli_verb cmd_du = {
    .name = "du",
    .args = "",
    .summary = "Show disk usage of the server, largest first",
    .details = "Lists each sandbox, volume and snapshot, and the logs of commands; with an admin "
               "token also shared data: layers (of checkpoints, forks and snapshots), blobs, "
               "cache, runtimes and the database.",
    .options = remote_only,
    .run = du,
};
