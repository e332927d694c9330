#include "engine/code/eval_explain.h"

#include "engine/session/session_internal.h"

/* An isolate knows its deadline, not who set it. */
void eval_explain_timeout(const struct eval_spec *spec, struct eval_result *result,
                          struct eval_explanation *told)
{
    told->run = *result->run;
    buf_put_cstr(&told->message, "the code was ended ");
    time_limit_put(&spec->limit, &told->message);
    buf_printf(&told->stack, "%s: %s", buf_cstr(&told->run.error_name), buf_cstr(&told->message));
    told->run.error_message = told->message;
    told->run.error_stack = told->stack;
    result->run = &told->run;
}

/* What an isolate says of a module that it has not. */
static struct str missing_in(const struct isolate_result *run)
{
    struct str text = buf_str(&run->error_message), before = STR("cannot import '");
    size_t at = str_find(text, before);
    if (run->status != ISOLATE_ERROR || at == text.len)
        return (struct str){0};
    text = str_slice(text, at + before.len, text.len);
    return str_slice(text, 0, str_find_char(text, '\''));
}

/* The buffers with `why` behind what they hold. */
static void explain_error(struct str why, const struct buf *message, const struct buf *stack,
                          struct buf *ret_message, struct buf *ret_stack)
{
    bool has_end = stack->len > 0 && stack->ptr[stack->len - 1] == '\n';
    buf_printf(ret_message, "%.*s; %.*s", STR_ARG(buf_str(message)), STR_ARG(why));
    if (stack->len > 0)
        buf_printf(ret_stack, "%.*s%s[sandglass] %.*s\n", STR_ARG(buf_str(stack)),
                   has_end ? "" : "\n", STR_ARG(why));
}

void eval_explain_import(const struct sandbox *sandbox, struct eval_result *result,
                         struct eval_explanation *told)
{
    AUTO_BUF struct buf why = {0};
    struct str module = result->interpreter != NULL ? buf_str(&result->interpreter->module)
                                                    : missing_in(result->run);
    bool has_failed = result->interpreter == NULL || result->interpreter->status == RUN_FAILED;
    if (!has_failed || !session_explain_import(sandbox, module, &why))
        return;
    if (result->interpreter != NULL) {
        told->interpreter = *result->interpreter;
        explain_error(buf_str(&why), &told->interpreter.error_message, &told->interpreter.traceback,
                      &told->message, &told->stack);
        told->interpreter.error_message = told->message;
        told->interpreter.traceback = told->stack;
        result->interpreter = &told->interpreter;
        return;
    }
    told->run = *result->run;
    explain_error(buf_str(&why), &told->run.error_message, &told->run.error_stack, &told->message,
                  &told->stack);
    told->run.error_message = told->message;
    told->run.error_stack = told->stack;
    result->run = &told->run;
}

void eval_explanation_done(struct eval_explanation *told)
{
    buf_done(&told->message);
    buf_done(&told->stack);
}
