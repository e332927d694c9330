/* The machine of a sandbox's life holds together. */

#include "engine/sandbox/sandbox_state.h"
#include "test.h"

TEST(names_lead_back)
{
    for (unsigned i = 0; i < SANDBOX_STATE_COUNT; i++) {
        enum sandbox_state at = SANDBOX_STATE_COUNT;
        CHECK(sandbox_state_of_name(str_of(sandbox_state_name((enum sandbox_state)i)), &at));
        CHECK_INT(at, i);
    }
    enum engine_tier tier = ENGINE_TIER_COUNT;
    CHECK(engine_tier_of_name(STR("isolate"), &tier));
    CHECK_INT(tier, ENGINE_TIER_ISOLATE);
    CHECK(!engine_tier_of_name(STR("default"), &tier)); /* not for the outside */
}

TEST(every_state_is_reached_and_every_move_ends)
{
    size_t count = 0;
    const struct sandbox_move *moves = sandbox_moves(&count);
    bool reached[SANDBOX_STATE_COUNT] = {[SANDBOX_CREATING] = true};
    bool left[SANDBOX_STATE_COUNT] = {[SANDBOX_STOPPED] = true};
    for (size_t i = 0; i < count; i++) {
        CHECK(moves[i].from != moves[i].to);
        CHECK(moves[i].by != NULL);
        reached[moves[i].to] = left[moves[i].from] = true;
    }
    for (unsigned i = 0; i < SANDBOX_STATE_COUNT; i++)
        CHECK(reached[i] && left[i]);
}

TEST(stopping_is_open_to_all_that_last_and_stopped_is_the_end)
{
    for (unsigned i = 0; i < SANDBOX_STATE_COUNT; i++) {
        enum sandbox_state at = (enum sandbox_state)i;
        CHECK(!sandbox_may_move(SANDBOX_STOPPED, at));
        if (!sandbox_is_moving(at) && at != SANDBOX_STOPPED)
            CHECK(sandbox_may_move(at, SANDBOX_STOPPING));
    }
    CHECK(!sandbox_may_move(SANDBOX_PAUSED, SANDBOX_RUNNING)); /* by way of resuming */
}
