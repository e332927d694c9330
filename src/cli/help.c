/* --help, composed from the table. */

#include "cli/internal.h"

enum {
    NAME_WIDTH = 20,
    LABEL_WIDTH = 26,
    HELP_COLUMN = LABEL_WIDTH + 3,
    TEXT_WIDTH = 80,
};

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

/* Words on lines that fit a terminal, beginning at column `at`; later lines begin at `indent`. */
static void put_words(struct str line, size_t at, size_t indent, struct buf *out)
{
    struct str word;
    for (bool is_first = true; str_split(&line, ' ', &word); is_first = false) {
        if (!is_first && at + 1 + word.len > TEXT_WIDTH) {
            buf_printf(out, "\n%*s", (int)indent, "");
            at = indent;
        } else if (!is_first) {
            buf_put_char(out, ' ');
            at++;
        }
        buf_put(out, word);
        at += word.len;
    }
    buf_put_char(out, '\n');
}

static void put_option(const struct cli_option *option, struct buf *out)
{
    AUTO_BUF struct buf label = {0}, help = {0};
    cli_option_label(option, &label);
    buf_printf(&help, "%s%s", option->help, option->repeated ? " (may be repeated)" : "");
    buf_printf(out, "  %-*s ", LABEL_WIDTH, buf_cstr(&label));
    if (label.len > LABEL_WIDTH)
        buf_printf(out, "\n%*s", HELP_COLUMN, "");
    put_words(buf_str(&help), HELP_COLUMN, HELP_COLUMN, out);
}

/* Its own line ends stay. */
static void put_wrapped(struct str text, struct buf *out)
{
    struct str line;
    while (str_split(&text, '\n', &line))
        put_words(line, 0, 0, out);
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

static void put_summary(const struct cli_verb *verb, struct buf *out)
{
    buf_printf(out, "  %-*s ", NAME_WIDTH, verb->name);
    put_words(str_of(verb->summary), NAME_WIDTH + 3, NAME_WIDTH + 3, out);
}

void cli_help_overview(struct buf *out)
{
    buf_put_cstr(out, "sandglass " SG_VERSION ": a sandbox for code that language models write\n"
                      "\n"
                      "Usage: sandglass COMMAND [OPTION...] [ARG...]\n"
                      "\n"
                      "Commands:\n");
    CLI_EACH_VERB (verb)
        if (!verb->hidden)
            put_summary(verb, out);
    buf_put_char(out, '\n');
    put_wrapped(STR("'sandglass COMMAND --help' explains a command.\n"
                    "SANDBOX is the id or the name of a sandbox, or of a session, whose sandbox is "
                    "created or resumed when needed; session:NAME is the session if a sandbox has "
                    "the same name.\n"
                    "TIME is a number with a unit: 500ms, 30s, 5m, 2h, 7d. SIZE too: 64k, 512m, "
                    "2g.\n"),
                out);
    buf_put_char(out, '\n');
    put_wrapped(STR("Exit codes: 0 success, 1 failure (the message says why), 2 wrong command line "
                    "or configuration, 124 time limit reached. 'run' and 'exec' return the exit "
                    "code of what they ran."),
                out);
}
