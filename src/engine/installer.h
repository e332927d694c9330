#pragma once

/* What an installer's output says about its failure. */

#include "base/str.h"

struct buf;

enum { INSTALLER_EXPLAINED_MAX = 200 };

/* In place of that, where no installer can reach anything. */
#define INSTALL_OFFLINE(group)                                                                     \
    "the sandbox has no network. Give it the network policy \"allow " group                        \
    "\", which allows the package index."

/* The one line that helps, of at most 180 bytes, borrowed. */
struct str installer_reason(struct str output);
/* It could not reach its index: no package of it can be installed. */
bool installer_was_cut_off(struct str output);
/* Appends the cause and what helps, in one or two sentences on one line, of at most
 * INSTALLER_EXPLAINED_MAX bytes. `group`: the index that was asked, "pypi" or "npm". */
void installer_explain(struct str output, const char *group, struct buf *out);
