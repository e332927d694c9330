#pragma once

/* Only for src/cli: walking the table and composing what is made from it. */

#include "base/buf.h"
#include "cli/cli.h"

/* Walks the options of a verb, then the common ones: start with NULL. */
const struct cli_option *cli_next_option(const struct cli_verb *verb,
                                         const struct cli_option *after);

/* "sandglass exec [OPTION...] -- CMD [ARG...]" */
void cli_usage_line(const struct cli_verb *verb, struct buf *out);
/* "--config FILE", with "-c, " before it where there is a letter. */
void cli_option_label(const struct cli_option *option, struct buf *out);

/* "config" is no verb, but the first word of some. */
bool cli_is_group(struct str word);
/* The verb that was probably meant by words that name none; nothing when none is near. */
void cli_suggest(struct str first, struct str second, struct buf *out);

void cli_help_overview(struct buf *out);
void cli_help_verb(const struct cli_verb *verb, struct buf *out);

/* A loop over the table; hidden verbs too. */
#define CLI_EACH_VERB(verb)                                                                        \
    for (const struct cli_verb *const *at_ = cli_verbs, *verb = *at_; verb != NULL; verb = *++at_)
