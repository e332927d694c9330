#pragma once

/* sandglass fs --zone NAME VERB PATH: the façade's verbs over HTTP. */

#include "base/base.h"

struct cli_call;
struct err;

/* The verb and its path are the call's arguments and known to be verbs of the façade. */
int zone_remote(const struct cli_call *call, struct err *err) MUST_USE;
