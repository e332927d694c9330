/* Which variables are gone, told once for each loss and context. */

#include "engine/sandbox/ledger.h"

#include "base/buf.h"
#include "base/format/json.h"
#include "test.h"

#define A STR("python3")
#define B STR("bash")

static enum loss_reason tell(struct ledger *ledger, struct str context, bool is_dying)
{
    struct loss loss = {0};
    (void)ledger_tell(ledger, context, is_dying, &loss);
    return loss.reason;
}

TEST(a_loss_is_reported_once_by_each_context)
{
    AUTO_LEDGER struct ledger ledger = {0};
    struct loss loss = {LOSS_DORMANT, 7};
    CHECK(!ledger_lose_all(&ledger, &loss)); /* nothing ran */
    CHECK_INT(tell(&ledger, A, false), LOSS_NONE);
    CHECK(ledger_begin(&ledger, A));
    CHECK(!ledger_begin(&ledger, A));
    CHECK(ledger_begin(&ledger, B));
    CHECK(ledger_lose_all(&ledger, &loss));
    CHECK(!ledger_lose_all(&ledger, &loss));
    CHECK_INT(tell(&ledger, A, false), LOSS_DORMANT);
    CHECK_INT(tell(&ledger, A, false), LOSS_NONE);
    CHECK_INT(tell(&ledger, B, false), LOSS_DORMANT);
    CHECK_INT(tell(&ledger, B, false), LOSS_NONE);
}

TEST(a_run_that_dies_tells_and_so_does_the_next)
{
    AUTO_LEDGER struct ledger ledger = {0};
    struct loss restart = {LOSS_RESTART, 1}, late = {LOSS_TIMEOUT, 2};
    (void)ledger_begin(&ledger, A);
    (void)ledger_lose(&ledger, A, &late);
    CHECK_INT(tell(&ledger, A, true), LOSS_TIMEOUT);
    CHECK_INT(tell(&ledger, A, false), LOSS_TIMEOUT);
    CHECK_INT(tell(&ledger, A, false), LOSS_NONE);
    /* The first run after a loss dies as well: both are reported. */
    (void)ledger_begin(&ledger, A);
    (void)ledger_lose(&ledger, A, &restart);
    (void)ledger_begin(&ledger, A);
    (void)ledger_lose(&ledger, A, &late);
    CHECK_INT(tell(&ledger, A, true), LOSS_RESTART);
    CHECK_INT(tell(&ledger, A, false), LOSS_TIMEOUT);
    CHECK_INT(tell(&ledger, A, false), LOSS_NONE);
}

TEST(what_came_back_or_was_closed_is_not_missed)
{
    AUTO_LEDGER struct ledger ledger = {0};
    struct loss loss = {LOSS_FORK, 1}, ended = {LOSS_EXITED, 2}, memory = {LOSS_OUT_OF_MEMORY, 3};
    (void)ledger_begin(&ledger, A);
    (void)ledger_lose_all(&ledger, &loss);
    CHECK(ledger_restore(&ledger, A));
    CHECK(ledger_has_state(&ledger, A));
    CHECK_INT(tell(&ledger, A, false), LOSS_NONE);
    CHECK(ledger_forget(&ledger, A));
    CHECK(!ledger_lose_all(&ledger, &loss));
    CHECK_INT(tell(&ledger, A, false), LOSS_NONE);
    /* The cause of an end may be known a moment after it. */
    (void)ledger_begin(&ledger, A);
    (void)ledger_lose(&ledger, A, &ended);
    CHECK(ledger_lose(&ledger, A, &memory));
    CHECK_INT(tell(&ledger, A, false), LOSS_OUT_OF_MEMORY);
    CHECK(!ledger_lose(&ledger, A, &memory));
}

TEST(lost_files_are_reported_though_nothing_ran)
{
    AUTO_LEDGER struct ledger ledger = {0}, ran = {0};
    struct loss loss = {LOSS_VOLUME_EXPIRED, 1}, slept = {LOSS_DORMANT, 0};
    (void)ledger_lose_files(&ledger, &loss);
    CHECK_INT(tell(&ledger, B, false), LOSS_VOLUME_EXPIRED);
    CHECK_INT(tell(&ledger, A, false), LOSS_NONE);
    (void)ledger_begin(&ran, A);
    (void)ledger_lose_all(&ran, &slept);
    (void)ledger_lose_files(&ran, &loss);
    CHECK_INT(tell(&ran, A, false), LOSS_VOLUME_EXPIRED);
    CHECK_INT(tell(&ran, A, false), LOSS_NONE);
}

TEST(it_survives_as_text)
{
    AUTO_LEDGER struct ledger ledger = {0}, read = {0}, broken = {0};
    struct loss loss = {LOSS_ROLLBACK, 1234567890123}, told = {0};
    (void)ledger_begin(&ledger, A);
    (void)ledger_begin(&ledger, B);
    (void)ledger_lose(&ledger, B, &loss);
    AUTO_MEM char *text = ledger_text(&ledger);
    ledger_read_json(&read, str_of(text));
    CHECK(ledger_has_state(&read, A));
    CHECK(!ledger_has_state(&read, B));
    CHECK(ledger_tell(&read, B, false, &told));
    CHECK_INT(told.reason, LOSS_ROLLBACK);
    CHECK(told.at_ms == loss.at_ms);
    ledger_read_json(&broken, STR("[{\"context\":\"x\",\"lost\":{\"reason\":\"of my own\"}},7]"));
    CHECK_INT(tell(&broken, STR("x"), false), LOSS_NONE);
    CHECK(ledger_text(&(struct ledger){0}) == NULL);
}

TEST(it_is_bounded)
{
    AUTO_LEDGER struct ledger ledger = {0};
    for (int i = 0; i < LEDGER_MAX * 3; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "c%d", i);
        (void)ledger_begin(&ledger, str_of(name));
    }
    CHECK_INT(ledger.entries.len, LEDGER_MAX);
}

TEST(every_reason_has_its_name_and_sentence)
{
    for (unsigned i = 1; i < LOSS_COUNT; i++) {
        enum loss_reason reason = LOSS_NONE;
        AUTO_BUF struct buf text = {0};
        CHECK(loss_of_name(str_of(loss_name((enum loss_reason)i)), &reason));
        CHECK_INT(reason, i);
        loss_put_text(&(struct loss){reason, 0}, &text);
        CHECK(str_find(buf_str(&text), STR(" at 1970-01-01T00:00:00.000Z")) < text.len);
        CHECK(str_ends(buf_str(&text), STR("; define them again.")));
        bool lost_files = reason == LOSS_VOLUME_EXPIRED || reason == LOSS_VOLUME_DELETED;
        CHECK(str_starts(buf_str(&text), lost_files ? STR("The session's files in /workspace ")
                                                    : STR("Variables of earlier runs ")));
    }
}
