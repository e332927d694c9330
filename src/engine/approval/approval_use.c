/* The one use of an approval. */

#include "base/clock.h"
#include "engine/answer.h"
#include "engine/approval/approval_internal.h"
#include "engine/internal.h"

static int check_usable(struct approval *approval, struct str digest, struct err *err)
{
    if (approval->deciding == NULL && approval_is_open(approval->info.state) &&
        approval->info.expires_ms <= clock_date_ms())
        approval_end(approval, APPROVAL_EXPIRED, "", NULL);
    if (approval->deciding != NULL || approval->info.state != APPROVAL_APPROVED)
        return approval_refuse(approval, err);
    if (digest.len > 0 && !str_eq(digest, approval->info.digest))
        return err_set(err, ERR_CONFLICT, "approval '%.*s' was given for another digest",
                       STR_ARG(approval->info.id));
    return 0;
}

void engine_approval_use(struct engine *engine, const struct engine_caller *caller, struct str id,
                         struct str digest, approval_done *done, void *ctx)
{
    struct answer *answer = approval_answer(engine, done, ctx);
    struct err err = {0};
    struct approval *approval = NULL;
    if (engine_check_caller(engine, caller, &err) < 0 ||
        (approval = approval_find(engine, caller->tenant, id, &err)) == NULL ||
        check_usable(approval, digest, &err) < 0) {
        answer_give(answer, &err);
        return;
    }
    (void)approval_decide_begin(approval, APPROVAL_USED);
    approval_decide_record(approval, answer);
}
