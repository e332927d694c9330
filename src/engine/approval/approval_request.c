/* Requests for a decision, and what makes them void. */

#include "base/clock.h"
#include "base/crypto/hash.h"
#include "base/format/json.h"
#include "base/log.h"
#include "base/map.h"
#include "config/config.h"
#include "engine/answer.h"
#include "engine/approval/approval_internal.h"
#include "engine/internal.h"
#include "engine/key.h"
#include "engine/quota.h"
#include "store/store.h"

enum { HOUR_MS = 3600000 };

/* --- Checks --- */

/* Characters that would let a line look like another one: controls, and marks of direction. */
static bool is_deceptive(struct str text, size_t at)
{
    const unsigned char *c = (const unsigned char *)text.ptr + at;
    size_t left = text.len - at;
    if (c[0] < 0x20 || c[0] == 0x7f)
        return true;
    if (left >= 2 && c[0] == 0xc2 && c[1] < 0xa0) /* U+0080 to U+009F */
        return true;
    if (left < 3 || c[0] != 0xe2)
        return false;
    return (c[1] == 0x80 && (c[2] == 0x8e || c[2] == 0x8f || (c[2] >= 0xa8 && c[2] <= 0xae))) ||
           (c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9);
}

static int check_line(struct str text, const char *what, size_t most, struct err *err)
{
    if (text.len == 0 || text.len > most)
        return err_set(err, ERR_INVALID, "%s: must have 1 to %zu bytes", what, most);
    if (!str_is_utf8(text))
        return err_set(err, ERR_INVALID, "%s: not UTF-8", what);
    for (size_t i = 0; i < text.len; i++)
        if (is_deceptive(text, i))
            return err_set(err, ERR_INVALID,
                           "%s: contains a control character or a text-direction character", what);
    return 0;
}

static int check_detail(struct str detail, struct err *err)
{
    AUTO_JSON struct json_t *value = NULL;
    if (detail.len > APPROVAL_DETAIL_MAX)
        return err_set(err, ERR_TOO_LARGE, "detail: longer than %d bytes", APPROVAL_DETAIL_MAX);
    if (detail.len > 0 && json_parse(detail, &value, err) < 0)
        return err_wrap(err, "detail");
    return 0;
}

static int request_check(struct engine *engine, const struct approval_spec *spec, struct err *err)
{
    if (approval_kind(engine, spec->kind) == NULL)
        return err_set(err, ERR_INVALID, "kind: unknown kind of approval '%.*s'",
                       STR_ARG(str_slice(spec->kind, 0, 40)));
    if (spec->expires_ms < 0 || spec->expires_ms > APPROVAL_EXPIRES_MAX_MS)
        return err_set(err, ERR_INVALID, "expires: must be at most 30 days from now");
    if (spec->digest.len > 0 && check_line(spec->digest, "digest", APPROVAL_DIGEST_MAX, err) < 0)
        return -1;
    return check_line(spec->subject, "subject", APPROVAL_SUBJECT_MAX, err) < 0 ||
                   check_line(spec->title, "title", APPROVAL_TITLE_MAX, err) < 0 ||
                   check_detail(spec->detail, err) < 0
               ? -1
               : 0;
}

/* --- Making --- */

/* Each part with its length before it: no two requests have the same bytes. */
static void digest_of(const struct approval_spec *spec, char out[HASH_HEX_SIZE])
{
    const struct str parts[] = {spec->kind, spec->subject, spec->title, spec->detail};
    AUTO_BUF struct buf bytes = {0};
    for (size_t i = 0; i < countof(parts); i++) {
        buf_printf(&bytes, "%zu:", parts[i].len);
        buf_put(&bytes, parts[i]);
    }
    hash_sha256_hex(buf_str(&bytes), out);
}

static struct approval *make(struct engine *engine, const struct engine_caller *caller,
                             const struct approval_spec *spec, struct str digest)
{
    struct approval *approval = approval_new(engine, caller->tenant);
    struct approval_info *info = &approval->info;
    struct arena *arena = &approval->arena;
    struct str by = caller->token_name.len > 0 ? caller->token_name : caller->token;
    char id[ID_SIZE];
    id_new(id);
    info->id = arena_dup(arena, str_of(id));
    info->kind = arena_dup(arena, spec->kind);
    info->subject = arena_dup(arena, spec->subject);
    info->digest = arena_dup(arena, digest);
    info->title = arena_dup(arena, spec->title);
    info->detail = arena_dup(arena, spec->detail);
    info->sandbox = arena_dup(arena, spec->sandbox);
    info->requested_by = arena_dup(arena, by);
    info->requested_token = arena_dup(arena, caller->token);
    info->requested_ms = clock_date_ms();
    info->expires_ms = info->requested_ms +
                       (spec->expires_ms > 0 ? spec->expires_ms
                                             : engine->config->approvals.expire_hours * HOUR_MS);
    approval->ord = engine_order(engine);
    approval->is_new = true;
    (void)map_put(&engine->approvals, info->id, approval);
    return approval;
}

static void on_requested(void *ctx, const struct err *why)
{
    struct answer *answer = ctx;
    struct approval *approval = map_get(&answer->engine->approvals, str_of(answer->id));
    if (approval != NULL && approval->is_new) {
        if (why != NULL) {
            approval_remove(approval, NULL);
        } else {
            approval->is_new = false;
            log_info("approval.requested", LOG_VIEW("approval", approval->info.id),
                     LOG_VIEW("kind", approval->info.kind),
                     LOG_VIEW("by", approval->info.requested_token),
                     LOG_VIEW("digest", approval->info.digest));
            if (!approval->is_told) /* it may be void already */
                approval_tell(approval);
            approval_due(answer->engine, approval->info.expires_ms);
        }
    }
    answer_give(answer, why);
}

static bool is_same(const struct approval_info *info, const struct approval_spec *spec,
                    struct str digest)
{
    return str_eq(info->digest, digest) && str_eq(info->title, spec->title) &&
           str_eq(info->detail, spec->detail);
}

static bool approval_is_there(struct engine *engine, struct str object)
{
    return map_has(&engine->approvals, object);
}

static void approval_known(struct answer *answer, struct str object)
{
    (void)snprintf(answer->id, sizeof answer->id, "%.*s", STR_ARG(object));
}

static int request_begin(struct answer *answer, const struct engine_caller *caller,
                         const struct approval_spec *spec, struct err *err)
{
    struct engine *engine = answer->engine;
    char made[HASH_HEX_SIZE];
    struct str digest = spec->digest;
    if (digest.len == 0) {
        digest_of(spec, made);
        digest = str_of(made);
    }
    struct approval *open = approval_find_open(engine, caller->tenant, spec->kind, spec->subject);
    bool is_known = open != NULL && is_same(&open->info, spec, digest);
    if (!is_known && quota_check_count(engine, caller->tenant, QUOTA_APPROVALS, err) < 0)
        return -1;
    struct store_batch *batch = store_begin(engine->store);
    if (!is_known) {
        if (open != NULL)
            approval_end(open, APPROVAL_VOID, "replaced by a newer request with other content",
                         NULL);
        open = make(engine, caller, spec, digest);
        approval_save(open, batch);
        approval_trim(engine, caller->tenant, batch);
    }
    /* A known one may not be in the store yet: its batch is written before this one. */
    approval_known(answer, open->info.id);
    key_keep(answer->claim, open->info.id, batch);
    store_commit(batch, STORE_DURABLE, on_requested, answer);
    return 0;
}

void engine_approval_request(struct engine *engine, const struct engine_caller *caller,
                             const struct approval_spec *spec, approval_done *done, void *ctx)
{
    struct answer *answer = approval_answer(engine, done, ctx);
    struct err err = {0};
    if (engine_check_caller(engine, caller, &err) < 0) {
        answer_give(answer, &err);
        return;
    }
    int claimed = answer_claim(answer, caller, approval_is_there, approval_known, &err);
    if (claimed > 0)
        return;
    if (claimed < 0 || request_check(engine, spec, &err) < 0 ||
        request_begin(answer, caller, spec, &err) < 0)
        answer_give(answer, &err);
}

/* --- Void --- */

void engine_approval_withdraw(struct engine *engine, const struct engine_caller *caller,
                              struct str id, approval_done *done, void *ctx)
{
    struct answer *answer = approval_answer(engine, done, ctx);
    struct err err = {0};
    struct approval *approval = approval_find(engine, caller->tenant, id, &err);
    if (approval == NULL) {
        answer_give(answer, &err);
        return;
    }
    if (!approval_is_open(approval->info.state)) {
        (void)approval_refuse(approval, &err);
        answer_give(answer, &err);
        return;
    }
    approval_known(answer, approval->info.id);
    approval_end(approval, APPROVAL_VOID, "withdrawn by the requester", answer);
}
