/* Parsing a command line against the table, and running what it names. */

#include "cli/cli.h"

#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "cli/internal.h"

const struct cli_option cli_common[] = {
    {.letter = 'h', .name = "help", .help = "Show this help"},
    {.letter = 'c', .name = "config", .value = "FILE", .help = "Read this config.toml"},
    {0},
};

const struct cli_option cli_json_only[] = {
    CLI_OPTION_JSON,
    {0},
};

/* How many words of the command line name this verb; 0 when they do not. */
static int words_matched(const struct cli_verb *verb, int argc, char **argv)
{
    struct str rest = str_of(verb->name), word;
    int words = 0;
    while (str_split(&rest, ' ', &word)) {
        if (words == argc || !str_eq(word, str_of(argv[words])))
            return 0;
        words++;
    }
    return words;
}

static const struct cli_verb *find_verb(int argc, char **argv, int *ret_words)
{
    const struct cli_verb *best = NULL;
    *ret_words = 0;
    CLI_EACH_VERB (verb) {
        int words = words_matched(verb, argc, argv);
        if (words > *ret_words) {
            best = verb;
            *ret_words = words;
        }
    }
    return best;
}

/* "sandglass --config x serve": an option where a command belongs. */
static int misplaced_option(const char *typed, struct err *err)
{
    struct nearest nearest = {.word = str_of(typed)};
    nearest_offer(&nearest, STR("--help"));
    nearest_offer(&nearest, STR("--version"));
    if (nearest.best.len > 0)
        return err_set(err, ERR_INVALID, "unknown option '%s'; did you mean '%.*s'?", typed,
                       STR_ARG(nearest.best));
    return err_set(err, ERR_INVALID,
                   "'%s' is where the command is expected: put options after it; 'sandglass "
                   "--help' lists the commands",
                   typed);
}

static int unknown_verb(int argc, char **argv, struct err *err)
{
    if (argv[0][0] == '-')
        return misplaced_option(argv[0], err);
    bool has_second = argc > 1 && argv[1][0] != '-', grouped = cli_is_group(str_of(argv[0]));
    AUTO_BUF struct buf typed = {0}, meant = {0};
    buf_put_cstr(&typed, argv[0]);
    if (grouped && !has_second)
        return err_set(err, ERR_INVALID, "'%s' needs a subcommand; see 'sandglass %s --help'",
                       argv[0], argv[0]);
    if (grouped)
        buf_printf(&typed, " %s", argv[1]);
    cli_suggest(str_of(argv[0]), str_of(has_second ? argv[1] : ""), &meant);
    if (meant.len > 0)
        return err_set(err, ERR_INVALID, "unknown command '%s'; did you mean '%s'?",
                       buf_cstr(&typed), buf_cstr(&meant));
    return err_set(err, ERR_INVALID,
                   "unknown command '%s'; 'sandglass %s%s--help' lists the commands",
                   buf_cstr(&typed), grouped ? argv[0] : "", grouped ? " " : "");
}

const struct cli_option *cli_next_option(const struct cli_verb *verb,
                                         const struct cli_option *after)
{
    const struct cli_option *next = after == NULL ? verb->options : after + 1;
    if (next != NULL && next->name != NULL)
        return next;
    /* Past the verb's own: the common ones follow, once. */
    bool in_common = after >= cli_common && after < cli_common + countof(cli_common);
    if (!in_common)
        return cli_common;
    return next != NULL && next->name != NULL ? next : NULL;
}

static const struct cli_option *find_option(const struct cli_verb *verb, struct str name)
{
    const struct cli_option *option = NULL;
    while ((option = cli_next_option(verb, option)) != NULL)
        if (str_eq(str_of(option->name), name) ||
            (name.len == 1 && option->letter != 0 && option->letter == name.ptr[0]))
            return option;
    return NULL;
}

static int unknown_option(const struct cli_verb *verb, struct str typed, struct err *err)
{
    struct nearest nearest = {.word = typed};
    const struct cli_option *option = NULL;
    while ((option = cli_next_option(verb, option)) != NULL)
        nearest_offer(&nearest, str_of(option->name));
    if (nearest.best.len > 0)
        return err_set(err, ERR_INVALID, "%s: unknown option '--%.*s'; did you mean '--%.*s'?",
                       verb->name, STR_ARG(typed), STR_ARG(nearest.best));
    return err_set(err, ERR_INVALID, "%s: unknown option '%s%.*s'; see 'sandglass %s --help'",
                   verb->name, typed.len > 1 ? "--" : "-", STR_ARG(typed), verb->name);
}

static int give(struct cli_call *call, const struct cli_option *option, const char *value,
                struct err *err)
{
    if (!option->repeated && cli_has(call, option->name))
        return err_set(err, ERR_INVALID, "%s: --%s is given twice", call->verb->name, option->name);
    if (call->given_count == CLI_GIVEN_MAX)
        return err_set(err, ERR_INVALID, "%s: more than %d options", call->verb->name,
                       CLI_GIVEN_MAX);
    call->given[call->given_count++] = (struct cli_given){option, value};
    return 0;
}

/* One word that begins with '-': "--name", "--name=value" or "-n". Eats the next word when the
 * option takes a value that is not attached. */
static int parse_option(struct cli_call *call, char **argv, int argc, int *at, struct err *err)
{
    struct str word = str_of(argv[*at]);
    struct str name = str_slice(word, str_starts(word, STR("--")) ? 2 : 1, word.len);
    size_t equals = str_find_char(name, '=');
    const char *attached = equals < name.len ? name.ptr + equals + 1 : NULL;
    name = str_slice(name, 0, equals);
    const struct cli_option *option = find_option(call->verb, name);
    if (option == NULL)
        return unknown_option(call->verb, name, err);
    if (option->value == NULL && attached != NULL)
        return err_set(err, ERR_INVALID, "%s: --%s takes no value", call->verb->name, option->name);
    if (option->value == NULL || attached != NULL)
        return give(call, option, attached, err);
    if (*at + 1 >= argc)
        return err_set(err, ERR_INVALID, "%s: --%s needs a value: %s", call->verb->name,
                       option->name, option->value);
    return give(call, option, argv[++*at], err);
}

static int parse_words(struct cli_call *call, int argc, char **argv, struct err *err)
{
    bool options_end = false;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (!options_end && strcmp(word, "--") == 0) {
            options_end = true;
        } else if (!options_end && word[0] == '-' && word[1] != '\0') {
            if (parse_option(call, argv, argc, &i, err) < 0)
                return -1;
        } else {
            /* CLI_ARGS_MAX leaves room for the NULL behind the last. */
            if (call->arg_count == CLI_ARGS_MAX - 1)
                return err_set(err, ERR_INVALID, "%s: more than %d arguments", call->verb->name,
                               CLI_ARGS_MAX - 1);
            call->args[call->arg_count++] = word;
            options_end |= call->verb->verbatim;
        }
    }
    return 0;
}

static int check_arg_count(const struct cli_call *call, struct err *err)
{
    const struct cli_verb *verb = call->verb;
    AUTO_BUF struct buf usage = {0};
    cli_usage_line(verb, &usage);
    if (call->arg_count < verb->args_min)
        return err_set(err, ERR_INVALID, "%s: missing argument; usage: %s", verb->name,
                       buf_cstr(&usage));
    if (call->arg_count > verb->args_max)
        return err_set(err, ERR_INVALID, "%s: unexpected argument '%s'; usage: %s", verb->name,
                       call->args[verb->args_max], buf_cstr(&usage));
    return 0;
}

bool cli_has(const struct cli_call *call, const char *option)
{
    for (size_t i = 0; i < call->given_count; i++)
        if (strcmp(call->given[i].option->name, option) == 0)
            return true;
    return false;
}

const char *cli_value(const struct cli_call *call, const char *option)
{
    for (size_t i = call->given_count; i > 0; i--)
        if (strcmp(call->given[i - 1].option->name, option) == 0)
            return call->given[i - 1].value;
    return NULL;
}

static struct err print_failed; /* why standard output lacks something; code NONE: it does not */

void cli_print(struct str text)
{
    struct err err = {0};
    if (fd_write_all(STDOUT_FILENO, text, &err) < 0 && err.sys != EPIPE)
        print_failed = err;
}

/* U+0080 to U+009F steer as escape sequences do; U+200E, U+200F, U+202A to U+202E and U+2066 to
 * U+2069 turn the direction of what follows, U+2028 and U+2029 end a line. */
static bool is_steering(struct str c)
{
    const unsigned char *p = (const unsigned char *)c.ptr;
    if (c.len == 1)
        return p[0] < 0x20 || p[0] == 0x7f;
    if (c.len == 2)
        return p[0] == 0xc2 && p[1] < 0xa0;
    if (c.len != 3 || p[0] != 0xe2)
        return false;
    return (p[1] == 0x80 && (p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xa8 && p[2] <= 0xae))) ||
           (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9);
}

void cli_put_plain(struct buf *out, struct str text)
{
    while (text.len > 0) {
        size_t len = str_utf8_len(text);
        struct str c = str_slice(text, 0, MAX(len, (size_t)1));
        buf_put(out, len == 0 || is_steering(c) ? STR("?") : c);
        text = str_slice(text, c.len, text.len);
    }
}

int cli_report(const struct err *err)
{
    AUTO_BUF struct buf line = {0};
    cli_put_plain(&line, str_of(err->msg));
    (void)fprintf(stderr, "sandglass: %s\n", buf_cstr(&line));
    return err->code == ERR_INVALID || err->code == ERR_BAD_CWD ? EXIT_USAGE : EXIT_FAILED;
}

/* What could not be printed was not done. */
static int cli_finish(int code)
{
    if (print_failed.code == ERR_NONE)
        return code;
    (void)err_wrap(&print_failed, "standard output");
    int failed = cli_report(&print_failed);
    print_failed = (struct err){0};
    return code == EXIT_OK ? failed : code;
}

/* "sandglass", "sandglass --help", "sandglass config --help": what is asked of no single verb. */
static bool answered_without_verb(int argc, char **argv)
{
    AUTO_BUF struct buf out = {0};
    bool help = argc == 0 || strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0 ||
                (strcmp(argv[0], "help") == 0 && argc == 1);
    bool group_help = argc == 2 && cli_is_group(str_of(argv[0])) &&
                      (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    if (help) {
        cli_help_overview(&out);
    } else if (group_help) {
        CLI_EACH_VERB (verb)
            if (str_starts(str_of(verb->name), str_of(argv[0])) && !verb->hidden)
                cli_help_verb(verb, &out);
    } else if (strcmp(argv[0], "--version") == 0) {
        buf_put_cstr(&out, "sandglass " SG_VERSION "\n");
    }
    cli_print(buf_str(&out));
    return out.len > 0;
}

static int run_verb(const struct cli_verb *verb, int argc, char **argv, struct err *err)
{
    static struct cli_call
        call; /* too large for comfort on the stack; one command line a process */
    call = (struct cli_call){.verb = verb};
    if (parse_words(&call, argc, argv, err) < 0)
        return -1;
    if (cli_has(&call, "help")) {
        AUTO_BUF struct buf out = {0};
        cli_help_verb(verb, &out);
        cli_print(buf_str(&out));
        return EXIT_OK;
    }
    if (check_arg_count(&call, err) < 0)
        return -1;
    return verb->run(&call, err);
}

int cli_main(int argc, char **argv)
{
    argc--, argv++;
    /* "sandglass help exec" is "sandglass exec --help". */
    static char help_flag[] = "--help";
    if (argc > 1 && strcmp(argv[0], "help") == 0) {
        memmove(argv, argv + 1, (size_t)(argc - 1) * sizeof *argv);
        argv[argc - 1] = help_flag;
    }
    if (answered_without_verb(argc, argv))
        return cli_finish(EXIT_OK);
    struct err err = {0};
    int words;
    const struct cli_verb *verb = find_verb(argc, argv, &words);
    if (verb == NULL) {
        (void)unknown_verb(argc, argv, &err);
        return cli_report(&err);
    }
    int code = run_verb(verb, argc - words, argv + words, &err);
    return code < 0 ? cli_report(&err) : cli_finish(code);
}
