#pragma once

/* fs ... glob, grep and edit: what they ask for, and how their answers are printed, wherever the
 * zones lie. What is asked and answered is JSON (files/zones/zones.h). */

#include "base/str.h"

struct buf;
struct cli_call;
struct err;

/* How many arguments a verb takes, itself included; 0 for another verb. */
size_t zone_search_args(const char *verb);
/* "glob PATH PATTERN" and so on, as JSON; the path is in it for a server. */
void zone_search_put(const struct cli_call *call, bool with_path, struct buf *asked);
/* As lines, or as it is with --json. */
int zone_search_print(const struct cli_call *call, struct str answer, struct err *err) MUST_USE;
