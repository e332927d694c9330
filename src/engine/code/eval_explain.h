#pragma once

/* Errors of code with what only the engine knows of them, for eval.c. */

#include "engine/code/eval.h"

struct sandbox;

/* An error as it is shown: the tier's own, with what the engine knows of it. The
 * buffers are its own; the rest is borrowed. */
struct eval_explanation {
    struct isolate_result run;
    struct run_output interpreter;
    struct buf message, stack;
};

/* Adds which setting set the deadline of an isolate. `result` then points to `told`. */
void eval_explain_timeout(const struct eval_spec *spec, struct eval_result *result,
                          struct eval_explanation *told);
/* Why a package of the configuration is not there, after an import that failed. */
void eval_explain_import(const struct sandbox *sandbox, struct eval_result *result,
                         struct eval_explanation *told);
void eval_explanation_done(struct eval_explanation *told);
