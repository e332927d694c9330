#pragma once

/* The command line: one table of verbs from which come dispatch, --help, completion and the man
 * page. A verb is defined with its options in its cmd_*.c and listed in verbs.c. */

#include "base/str.h"

struct buf;
struct err;

/* Exit codes, as documented in --help and the man page. */
enum {
    EXIT_OK = 0,
    EXIT_FAILED = 1,       /* the thing asked for did not work; the message says why */
    EXIT_USAGE = 2,        /* the command line or config.toml is wrong; nothing was done */
    EXIT_TIMEOUT = 124,    /* the code or command ran into its time limit */
    EXIT_SIGNALED = 128,   /* and the number of the signal that ended the command */
    EXIT_INTERRUPTED = 130 /* Ctrl-C interrupted the code */
};

struct cli_option {
    char letter;       /* 0 for none */
    const char *name;  /* "config" for --config */
    const char *value; /* what follows it ("FILE"), NULL for a flag */
    const char *help;  /* one line */
    bool repeated;     /* may be given more than once */
};

enum { CLI_ARGS_MAX = 256, CLI_GIVEN_MAX = 128 };

struct cli_given {
    const struct cli_option *option;
    const char *value; /* NULL for a flag */
};

/* One parsed command line. */
struct cli_call {
    const struct cli_verb *verb;
    struct cli_given given[CLI_GIVEN_MAX];
    size_t given_count;
    const char *args[CLI_ARGS_MAX]; /* what is not an option; NULL behind the last */
    size_t arg_count;
};

struct cli_verb {
    const char *name;    /* one word or two: "doctor", "config show" */
    const char *args;    /* for the usage line: "FILE", "-- CMD [ARG...]"; "" for none */
    const char *summary; /* one line, no full stop */
    const char *details; /* paragraphs for --help and the man page; NULL for none */
    const struct cli_option *options; /* ends with a row without name; NULL for none */
    size_t args_min, args_max;
    bool hidden;   /* for our own scripts */
    bool verbatim; /* options end at the first argument: a command with its own follows */
    /* Gives the exit code, or -1 with `err` set, which is printed and exits EXIT_FAILED
     * (EXIT_USAGE when the code is INVALID). */
    int (*run)(const struct cli_call *call, struct err *err);
};

/* The option of every verb whose output a program may read. */
#define CLI_OPTION_JSON                                                                            \
    {                                                                                              \
        .name = "json", .help = "Print JSON for programs instead of text for people"               \
    }

/* For a verb that has that option and no other. */
extern const struct cli_option cli_json_only[];

/* The table; NULL ends it. `cli_common` options are understood by every verb: --help, --config
 * FILE. */
extern const struct cli_verb *const cli_verbs[];
extern const struct cli_option cli_common[];

/* All of main(): parses, runs, prints errors, gives the exit code. */
int cli_main(int argc, char **argv);

/* Prints an error, which may quote what was typed and what files hold, as one line; gives the exit
 * code for it. */
int cli_report(const struct err *err);

bool cli_has(const struct cli_call *call, const char *option);
/* The value of the last one given, or NULL. */
const char *cli_value(const struct cli_call *call, const char *option);

/* Standard output as one write. A pipe without a reader is no error; any other failure makes
 * cli_main say so and fail. */
void cli_print(struct str text);

/* Text that others wrote, as one piece of a line: what would steer a terminal (control characters,
 * those of eight bits too), break the line or turn its direction becomes '?', and so do bytes that
 * are no UTF-8. */
void cli_put_plain(struct buf *out, struct str text);
