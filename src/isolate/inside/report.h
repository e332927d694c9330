#pragma once

/* What came of a run, written into its result. All but the first are for the isolate that runs. */

#include "isolate/inside/isolate.h"
#include "isolate/vm/vm.h"

void report_error(struct isolate_result *result, enum isolate_status status, const char *name,
                  const char *message);
void report_timeout(struct isolate *isolate);
void report_thrown(struct isolate *isolate, vm_value thrown);
void report_value(struct isolate *isolate, vm_value value);
/* The isolate is gone with it. */
void report_trap(struct isolate *isolate, enum rt_trap trap);
