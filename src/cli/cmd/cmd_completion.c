/* Bash completion and the man page, composed from the same table as --help. */

#include "cli/cmd/commands.h"

#include "cli/internal.h"

static void put_verb_case(const struct cli_verb *verb, struct buf *out)
{
    buf_printf(out, "        \"%s\") words=\"", verb->name);
    const struct cli_option *option = NULL;
    while ((option = cli_next_option(verb, option)) != NULL)
        buf_printf(out, "--%s ", option->name);
    buf_put_cstr(out, "\" ;;\n");
}

static void put_verb_words(struct buf *out)
{
    CLI_EACH_VERB (verb)
        if (!verb->hidden)
            buf_printf(out, "%s\n", verb->name);
}

static int completion_bash(UNUSED const struct cli_call *call, UNUSED struct err *err)
{
    AUTO_BUF struct buf out = {0};
    buf_put_cstr(&out,
                 "# bash completion for sandglass: source <(sandglass completion bash)\n"
                 "_sandglass()\n{\n"
                 "    local cur=${COMP_WORDS[COMP_CWORD]} typed words=\"\" verbs first second\n"
                 "    verbs='");
    put_verb_words(&out);
    buf_put_cstr(&out, "'\n"
                       "    typed=\"${COMP_WORDS[*]:1:COMP_CWORD-1}\"\n"
                       "    case \"$typed\" in\n"
                       "        *' --config'|*' -c'|--config|-c)\n"
                       "            mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); return ;;\n"
                       "    esac\n"
                       "    local verb=\"${COMP_WORDS[*]:1:2}\"\n"
                       "    grep -qxF -- \"$verb\" <<<\"$verbs\" || verb=${COMP_WORDS[1]}\n"
                       "    case \"$verb\" in\n");
    CLI_EACH_VERB (verb)
        if (!verb->hidden)
            put_verb_case(verb, &out);
    buf_put_cstr(&out,
                 "    esac\n"
                 "    if [[ $COMP_CWORD -eq 1 ]]; then\n"
                 "        words=$(cut -d' ' -f1 <<<\"$verbs\" | sort -u)\n"
                 "    elif [[ $COMP_CWORD -eq 2 && $verbs == *\"${COMP_WORDS[1]} \"* ]]; then\n"
                 "        while read -r first second; do\n"
                 "            [[ $first == \"${COMP_WORDS[1]}\" ]] && words+=\"$second \"\n"
                 "        done <<<\"$verbs\"\n"
                 "    elif [[ $cur != -* ]]; then\n"
                 "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); return\n"
                 "    fi\n"
                 "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
                 "}\n"
                 "complete -F _sandglass sandglass\n");
    cli_print(buf_str(&out));
    return EXIT_OK;
}

/* Text for troff: backslashes and hyphens escaped, no line begins with a control character, and a
 * line end is a line end. */
static void put_roff(struct buf *out, struct str text)
{
    bool line_start = true;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (line_start && (c == '.' || c == '\''))
            buf_put_cstr(out, "\\&");
        if (c == '\\')
            buf_put_cstr(out, "\\e");
        else if (c == '-')
            buf_put_cstr(out, "\\-");
        else if (c == '\n')
            buf_put_cstr(out, "\n.br\n");
        else
            buf_put_char(out, c);
        line_start = c == '\n';
    }
}

static void put_man_options(const struct cli_option *options, struct buf *out)
{
    for (const struct cli_option *option = options; option != NULL && option->name != NULL;
         option++) {
        AUTO_BUF struct buf label = {0};
        cli_option_label(option, &label);
        buf_put_cstr(out, ".TP\n.B ");
        put_roff(out, buf_str(&label));
        buf_put_char(out, '\n');
        put_roff(out, str_of(option->help));
        buf_put_cstr(out, ".\n");
    }
}

static void put_man_verb(const struct cli_verb *verb, struct buf *out)
{
    AUTO_BUF struct buf usage = {0};
    cli_usage_line(verb, &usage);
    buf_put_cstr(out, ".SS \"");
    put_roff(out, buf_str(&usage));
    buf_put_cstr(out, "\"\n");
    put_roff(out, str_of(verb->summary));
    buf_put_cstr(out, ".\n");
    if (verb->details != NULL) {
        buf_put_cstr(out, ".PP\n");
        put_roff(out, str_of(verb->details));
        buf_put_char(out, '\n');
    }
    put_man_options(verb->options, out);
}

static int man(UNUSED const struct cli_call *call, UNUSED struct err *err)
{
    AUTO_BUF struct buf out = {0};
    buf_put_cstr(&out, ".TH SANDGLASS 1 \"\" \"sandglass " SG_VERSION "\"\n"
                       ".SH NAME\n"
                       "sandglass \\- a sandbox for code that language models write\n"
                       ".SH SYNOPSIS\n"
                       ".B sandglass\n"
                       "COMMAND [OPTION...] [ARG...]\n"
                       ".SH COMMANDS\n");
    CLI_EACH_VERB (verb)
        if (!verb->hidden)
            put_man_verb(verb, &out);
    buf_put_cstr(&out, ".SH COMMON OPTIONS\n");
    put_man_options(cli_common, &out);
    buf_put_cstr(&out,
                 ".SH EXIT STATUS\n"
                 "0 success; 1 failure, the message says why; 2 wrong command line or "
                 "configuration; 124 time limit reached.\n"
                 ".SH FILES\n"
                 ".TP\n"
                 ".I /etc/sandglass/config.toml\n"
                 "Configuration; also the XDG directory, $SANDGLASS_CONFIG and \\-\\-config.\n"
                 ".TP\n"
                 ".I /var/lib/sandglass\n"
                 "Data directory of root; otherwise $SANDGLASS_HOME or the XDG directory.\n");
    cli_print(buf_str(&out));
    return EXIT_OK;
}

const struct cli_verb cmd_completion_bash = {
    .name = "completion bash",
    .args = "",
    .summary = "Print bash completion",
    .details = "Try it: source <(sandglass completion bash)",
    .run = completion_bash,
};

const struct cli_verb cmd_man = {
    .name = "man",
    .args = "",
    .summary = "Print the man page",
    .details = "Read it: sandglass man | man -l -",
    .run = man,
};
