/* `sandglass serve`: options and places; the work is api/server. */

#include <limits.h>
#include <unistd.h>

#include "api/server.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/commands.h"

enum { NAMES_MAX = 32 };

/* $SANDGLASS_HOME, else /var/lib/sandglass as root, else the user's data directory. */
static int default_data_dir(char out[PATH_MAX], struct err *err)
{
    const char *home = getenv("SANDGLASS_HOME"), *xdg = getenv("XDG_DATA_HOME");
    const char *user = getenv("HOME");
    int len;
    if (home != NULL && home[0] != '\0')
        len = snprintf(out, PATH_MAX, "%s", home);
    else if (geteuid() == 0)
        len = snprintf(out, PATH_MAX, "/var/lib/sandglass");
    else if (xdg != NULL && xdg[0] == '/')
        len = snprintf(out, PATH_MAX, "%s/sandglass", xdg);
    else if (user != NULL && user[0] == '/')
        len = snprintf(out, PATH_MAX, "%s/.local/share/sandglass", user);
    else
        return err_set(err, ERR_NOT_FOUND,
                       "neither SANDGLASS_HOME nor HOME is set; say where with --data-dir DIR");
    if (len >= PATH_MAX)
        return err_set(err, ERR_TOO_LARGE, "the data directory's path is too long");
    return 0;
}

static int collect_names(const struct cli_call *call, const char *names[NAMES_MAX + 1],
                         struct err *err)
{
    size_t count = 0;
    for (size_t i = 0; i < call->given_count; i++) {
        if (strcmp(call->given[i].option->name, "name") != 0)
            continue;
        if (count == NAMES_MAX)
            return err_set(err, ERR_INVALID, "--name: at most %d names", NAMES_MAX);
        names[count++] = call->given[i].value;
    }
    names[count] = NULL;
    return 0;
}

static void print_ready(const char *text, UNUSED void *ctx)
{
    cli_print(str_of(text));
}

int cmd_serve(const struct cli_call *call, struct err *err)
{
    char data_dir[PATH_MAX];
    const char *names[NAMES_MAX + 1];
    const char *listen = cli_value(call, "listen"), *dir = cli_value(call, "data-dir");
    if (collect_names(call, names, err) < 0)
        return -1;
    if (dir == NULL && default_data_dir(data_dir, err) < 0)
        return -1;
    struct server_options options = {
        .listen = listen == NULL ? "127.0.0.1:7070" : listen,
        .data_dir = dir == NULL ? data_dir : dir,
        .names = names,
        .on_ready = print_ready,
    };
    return server_run(&options, err);
}
