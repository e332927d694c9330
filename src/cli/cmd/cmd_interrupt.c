/* sandglass interrupt: ends the code that a sandbox or a session runs; variables stay. */

#include <unistd.h>

#include "cli/cmd/commands.h"
#include "cli/run/interrupt.h"

static void put_place(struct buf *path, const char *sandbox, const char *session)
{
    remote_path(path, session != NULL ? "/v1/sessions/%s/contexts" : "/v1/sandboxes/%s/contexts",
                session != NULL ? session : sandbox);
}

/* `verb` is interrupt or restart. */
static int ask_one(sg_client *client, const struct buf *place, const char *context,
                   const char *verb, struct err *err)
{
    AUTO_BUF struct buf path = {0};
    buf_put(&path, buf_str(place));
    remote_path(&path, "/%s/", context);
    buf_put_cstr(&path, verb);
    return remote_call(client, "POST", buf_cstr(&path), NULL, NULL, err);
}

static int ask_running(sg_client *client, const struct interrupt_target *target, const char *verb,
                       struct err *err)
{
    AUTO_BUF struct buf place = {0};
    AUTO_JSON struct json_t *answer = NULL;
    put_place(&place, target->sandbox, target->session);
    if (target->context != NULL)
        return ask_one(client, &place, target->context, verb, err) < 0 ? -1 : 1;
    if (remote_call(client, "GET", buf_cstr(&place), NULL, &answer, err) < 0)
        return -1;
    const struct json_t *contexts = json_get(answer, "contexts");
    int count = 0;
    for (size_t i = 0; contexts != NULL && i < json_len(contexts); i++) {
        const struct json_t *context = json_at(contexts, i);
        AUTO_BUF struct buf id = {0};
        buf_put(&id, remote_text(context, "id"));
        bool is_wanted = target->runtime == NULL ||
                         str_eq(remote_text(context, "runtime"), str_of(target->runtime));
        if (!is_wanted || !str_eq(remote_text(context, "state"), STR("busy")))
            continue;
        if (ask_one(client, &place, buf_cstr(&id), verb, err) < 0)
            return -1;
        count++;
    }
    return count;
}

int interrupt_code(sg_client *client, const struct interrupt_target *target, struct err *err)
{
    return ask_running(client, target, "interrupt", err);
}

int interrupt_end_code(sg_client *client, const struct interrupt_target *target, struct err *err)
{
    return ask_running(client, target, "restart", err);
}

static int interrupt(const struct cli_call *call, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    struct interrupt_target target = {.sandbox = call->arg_count > 0 ? call->args[0] : NULL,
                                      .session = cli_value(call, "session"),
                                      .context = cli_value(call, "context")};
    if ((target.sandbox == NULL) == (target.session == NULL))
        return err_set(err, ERR_INVALID, "interrupt: give either a SANDBOX or --session ID");
    AUTO_BUF struct buf id = {0};
    if (target.sandbox != NULL) {
        if (remote_find_sandbox(call, target.sandbox, false, &id, err) < 0)
            return -1;
        target.sandbox = buf_cstr(&id);
    }
    if (remote_open(call, &client, err) < 0)
        return -1;
    int count = interrupt_code(client, &target, err);
    if (count < 0)
        return -1;
    if (count == 0)
        (void)fprintf(stderr, "sandglass: no code is running in %s\n",
                      target.sandbox != NULL ? call->args[0] : target.session);
    return EXIT_OK;
}

static const struct cli_option interrupt_options[] = {
    REMOTE_OPTIONS,
    {0, "session", "ID", "Interrupt the code of this session"},
    {0, "context", "NAME", "Interrupt only this interpreter (default: all that run code)"},
    {0}};

const struct cli_verb cmd_interrupt = {
    .name = "interrupt",
    .args = "[SANDBOX]",
    .summary = "Interrupt running code in a sandbox, as Ctrl-C does; variables are kept",
    .details = "Does not affect commands: 'sandglass sandbox exec' passes Ctrl-C to its command.",
    .options = interrupt_options,
    .args_max = 1,
    .run = interrupt,
};
