/* The verbs of the zones, asked of a server. */

#include "cli/zone_remote.h"

#include <unistd.h>

#include "cli/transfer.h"
#include "cli/zone_search.h"
#include "files/zones/zones.h"

static void route_of(const struct cli_call *call, const char *verb, struct buf *out)
{
    remote_path(out, "/v1/zones/%s/files", cli_value(call, "zone"));
    if (verb != NULL)
        buf_printf(out, "/%s", verb);
    else
        remote_path(out, "?path=%s", call->args[1]);
}

static int zone_remote_ask(const struct cli_call *call, struct json_t **ret_answer, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_BUF struct buf route = {0};
    AUTO_BUF struct buf body = {0};
    struct json_out out = {.buf = &body};
    route_of(call, call->args[0], &route);
    json_begin_object(&out);
    json_key(&out, "path"), json_put_cstr(&out, call->args[1]);
    json_end_object(&out);
    if (remote_open(call, &client, err) < 0)
        return -1;
    return remote_call(client, "POST", buf_cstr(&route), buf_cstr(&body), ret_answer, err);
}

static int read_it(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf route = {0};
    route_of(call, NULL, &route);
    return transfer_down(call, buf_cstr(&route), STDOUT_FILENO, err);
}

static int write_it(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf route = {0};
    route_of(call, NULL, &route);
    return transfer_up(call, "PUT", buf_cstr(&route), STDIN_FILENO, NULL, err);
}

static int delete_it(const struct cli_call *call, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_BUF struct buf route = {0};
    route_of(call, NULL, &route);
    if (cli_has(call, "recursive"))
        buf_put_cstr(&route, "&recursive=true");
    if (remote_open(call, &client, err) < 0)
        return -1;
    return remote_call(client, "DELETE", buf_cstr(&route), NULL, NULL, err);
}

static int exists_it(const struct cli_call *call, struct err *err)
{
    AUTO_JSON struct json_t *answer = NULL;
    bool exists = false;
    if (zone_remote_ask(call, &answer, err) < 0)
        return -1;
    (void)!json_to_bool(json_get(answer, "exists"), &exists);
    cli_print(exists ? STR("true\n") : STR("false\n"));
    return 0;
}

static int list_it(const struct cli_call *call, struct err *err)
{
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf text = {0};
    if (zone_remote_ask(call, &answer, err) < 0)
        return -1;
    const struct json_t *names = json_get(answer, "names");
    for (size_t i = 0; names != NULL && i < json_len(names); i++) {
        struct str name;
        if (json_to_str(json_at(names, i), &name))
            buf_printf(&text, "%.*s\n", STR_ARG(name));
    }
    cli_print(buf_str(&text));
    return 0;
}

static int resolve_it(const struct cli_call *call, struct err *err)
{
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf text = {0};
    if (zone_remote_ask(call, &answer, err) < 0)
        return -1;
    buf_printf(&text, "%.*s\n", STR_ARG(remote_text(answer, "path")));
    cli_print(buf_str(&text));
    return 0;
}

static int search_it(const struct cli_call *call, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf route = {0}, asked = {0}, text = {0};
    struct json_out out = {.buf = &text};
    route_of(call, call->args[0], &route);
    zone_search_put(call, true, &asked);
    if (remote_open(call, &client, err) < 0 ||
        remote_call(client, "POST", buf_cstr(&route), buf_cstr(&asked), &answer, err) < 0)
        return -1;
    json_put_value(&out, answer);
    return zone_search_print(call, buf_str(&text), err);
}

static int edit_it(const struct cli_call *call, struct err *err)
{
    if (call->args[2][0] == '\0')
        return err_set(err, ERR_INVALID, "the text to replace is empty");
    return search_it(call, err);
}

static const struct verb {
    const char *name;
    int (*run)(const struct cli_call *call, struct err *err);
    const char *changes; /* what a zone itself may not be */
} verbs[] = {
    {"read", read_it, NULL},     {"write", write_it, "written"}, {"delete", delete_it, "deleted"},
    {"exists", exists_it, NULL}, {"list", list_it, NULL},        {"resolve", resolve_it, NULL},
    {"glob", search_it, NULL},   {"grep", search_it, NULL},      {"edit", edit_it, "edited"},
};

/* The words of a path are judged here, as every other way into the façade does. */
static int zone_remote_run(const struct verb *verb, const struct cli_call *call, struct err *err)
{
    struct str path = str_of(call->args[1]);
    struct zone_path at;
    if (zone_path_parse(path, &at, err) < 0 ||
        (verb->changes != NULL && zone_path_refuse_zone(&at, path, verb->changes, err) < 0))
        return -1;
    return verb->run(call, err);
}

int zone_remote(const struct cli_call *call, struct err *err)
{
    for (size_t i = 0; i < countof(verbs); i++)
        if (str_eq(str_of(call->args[0]), str_of(verbs[i].name)))
            return zone_remote_run(&verbs[i], call, err);
    return err_set(err, ERR_INVALID, "unknown command 'fs %s'", call->args[0]);
}
