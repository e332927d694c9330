/* sandglass top: the sandboxes of a running server, live. */

#include <poll.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/remote.h"

enum { TICK_MS = 1000 };

static const struct remote_column columns[] = {
    {"id", "ID"},           {"name", "NAME"},          {"tier", "TIER"},
    {"state", "STATE"},     {"limits.memoryMb", "MB"}, {"session", "SESSION"},
    {"activeAt", "ACTIVE"}, {"expiresAt", "EXPIRES"},  {0},
};

static int draw(sg_client *client, bool is_live, struct err *err)
{
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf out = {0};
    if (remote_call(client, "GET", "/v1/sandboxes?limit=1000", NULL, &answer, err) < 0)
        return -1;
    const struct json_t *rows = json_get(answer, "sandboxes");
    if (is_live)
        buf_put_cstr(&out, "\x1b[H\x1b[2J");
    buf_printf(&out, "%zu sandboxes%s\n\n", json_len(rows), is_live ? "; q ends" : "");
    remote_put_table(rows, columns, &out);
    cli_print(buf_str(&out));
    return 0;
}

/* Waits for the next turn; true when a key asked for the end. */
static bool was_asked_to_end(void)
{
    struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
    char key = 0;
    if (poll(&keys, 1, TICK_MS) <= 0)
        return false;
    return read(STDIN_FILENO, &key, 1) <= 0 || key == 'q';
}

static int top(const struct cli_call *call, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    if (cli_has(call, "json"))
        return remote_show(call, "GET", "/v1/sandboxes?limit=1000", NULL, NULL, NULL, err);
    bool is_live = isatty(STDOUT_FILENO) == 1 && isatty(STDIN_FILENO) == 1;
    if (remote_open(call, &client, err) < 0)
        return -1;
    do {
        if (draw(client, is_live, err) < 0)
            return -1;
    } while (is_live && !was_asked_to_end());
    return EXIT_OK;
}

const struct cli_verb cmd_top = {
    .name = "top",
    .args = "",
    .summary = "Watch the sandboxes of a server",
    .details = "On a terminal the table is drawn anew each second until q; elsewhere once.",
    .options = remote_only,
    .run = top,
};
