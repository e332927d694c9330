/* --help, composed from the table. */

#include "cli/internal.h"

enum { LABEL_WIDTH = 26, TEXT_WIDTH = 80 };

void cli_usage_line(const struct cli_verb *verb, struct buf *out)
{
    buf_printf(out, "sandglass %s [OPTION...]", verb->name);
    if (verb->args[0] != '\0')
        buf_printf(out, " %s", verb->args);
}

void cli_option_label(const struct cli_option *option, struct buf *out)
{
    if (option->letter != 0)
        buf_printf(out, "-%c, ", option->letter);
    buf_printf(out, "--%s", option->name);
    if (option->value != NULL)
        buf_printf(out, " %s", option->value);
}

static void put_option(const struct cli_option *option, struct buf *out)
{
    AUTO_BUF struct buf label = {0};
    cli_option_label(option, &label);
    buf_printf(out, "  %-*s %s%s\n", LABEL_WIDTH, buf_cstr(&label), option->help,
               option->repeated ? " (may be repeated)" : "");
}

/* Words of a paragraph on lines that fit a terminal; its own line ends stay. */
static void put_wrapped(struct str text, struct buf *out)
{
    struct str line, word;
    while (str_split(&text, '\n', &line)) {
        for (size_t column = 0; str_split(&line, ' ', &word); column += word.len) {
            bool fits = column + 1 + word.len <= TEXT_WIDTH;
            if (column > 0)
                buf_put_char(out, fits ? ' ' : '\n');
            column = column > 0 && fits ? column + 1 : 0;
            buf_put(out, word);
        }
        buf_put_char(out, '\n');
    }
}

void cli_help_verb(const struct cli_verb *verb, struct buf *out)
{
    buf_put_cstr(out, "Usage: ");
    cli_usage_line(verb, out);
    buf_printf(out, "\n\n%s.\n", verb->summary);
    if (verb->details != NULL) {
        buf_put_char(out, '\n');
        put_wrapped(str_of(verb->details), out);
    }
    buf_put_cstr(out, "\nOptions:\n");
    const struct cli_option *option = NULL;
    while ((option = cli_next_option(verb, option)) != NULL)
        put_option(option, out);
    buf_put_char(out, '\n');
}

void cli_help_overview(struct buf *out)
{
    buf_put_cstr(out,
                 "sandglass " SG_VERSION ": a place where the code that a model writes can run\n"
                 "\nUsage: sandglass COMMAND [OPTION...] [ARG...]\n\nCommands:\n");
    CLI_EACH_VERB (verb)
        if (!verb->hidden)
            buf_printf(out, "  %-16s %s\n", verb->name, verb->summary);
    buf_put_cstr(out,
                 "\n'sandglass COMMAND --help' explains one.\n"
                 "\nExit codes: 0 done, 1 failed (the message says why), 2 wrong command line or\n"
                 "configuration, 124 time limit reached. 'run' and 'exec' give the code of what "
                 "they ran.\n");
}
