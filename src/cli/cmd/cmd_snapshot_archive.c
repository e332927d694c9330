/* sandglass snapshot export, import and unpack: snapshots as files. */

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/cmd/commands.h"
#include "cli/transfer.h"

static int export_it(const struct cli_call *call, struct err *err)
{
    AUTO_BUF struct buf route = {0};
    remote_path(&route, "/v1/snapshots/%s/export", call->args[0]);
    const char *file = call->arg_count > 1 ? call->args[1] : "-";
    if (strcmp(file, "-") == 0 && isatty(STDOUT_FILENO) == 1)
        return err_set(
            err, ERR_INVALID,
            "cannot write an archive to a terminal: name a FILE, or redirect the output");
    return transfer_down_file(call, buf_cstr(&route), file, err) < 0 ? -1 : EXIT_OK;
}

static int send(const struct cli_call *call, const char *form, struct err *err)
{
    AUTO_BUF struct buf route = {0}, text = {0};
    AUTO_JSON struct json_t *answer = NULL;
    const char *file = call->args[0], *slug = cli_value(call, "slug");
    bool is_input = strcmp(file, "-") == 0;
    AUTO_CLOSE int opened = is_input ? -1 : open(file, O_RDONLY | O_CLOEXEC);
    if (opened < 0 && !is_input)
        return err_sys(err, errno, "open '%s'", file);
    buf_printf(&route, "/v1/snapshots/upload?form=%s", form);
    if (slug != NULL)
        remote_path(&route, "&slug=%s", slug);
    if (transfer_up(call, "POST", buf_cstr(&route), is_input ? STDIN_FILENO : opened, &answer,
                    err) < 0)
        return -1;
    if (cli_has(call, "json")) {
        json_put_value(&(struct json_out){.buf = &text}, answer);
        buf_put_char(&text, '\n');
    } else {
        buf_printf(&text, "%.*s\n", STR_ARG(remote_text(answer, "id")));
    }
    cli_print(buf_str(&text));
    return EXIT_OK;
}

static int import_it(const struct cli_call *call, struct err *err)
{
    return send(call, "export", err);
}

static int unpack_it(const struct cli_call *call, struct err *err)
{
    return send(call, "tar", err);
}

static const struct cli_option slug_options[] = {
    REMOTE_OPTIONS, {0, "slug", "NAME", "A unique name"}, {0}};

const struct cli_verb cmd_snapshot_export = {
    .name = "snapshot export",
    .args = "ID [FILE]",
    .summary = "Write a snapshot to a file (tar.zst with a manifest)",
    .details = "Without FILE, or with -, writes to standard output. FILE is created only when the "
               "export is complete.",
    .options = remote_only,
    .args_min = 1,
    .args_max = 2,
    .run = export_it,
};
const struct cli_verb cmd_snapshot_import = {
    .name = "snapshot import",
    .args = "FILE",
    .summary = "Create a snapshot from an exported file and print its id",
    .details = "FILE - is standard input. A damaged, truncated or modified file is rejected.",
    .options = slug_options,
    .args_min = 1,
    .args_max = 1,
    .run = import_it,
};
const struct cli_verb cmd_snapshot_unpack = {
    .name = "snapshot unpack",
    .args = "TAR",
    .summary = "Create a snapshot from a tar archive and print its id",
    .details = "Plain, gzip or zstd; paths in the archive start at the root of the sandbox. TAR - "
               "is standard input.",
    .options = slug_options,
    .args_min = 1,
    .args_max = 1,
    .run = unpack_it,
};
