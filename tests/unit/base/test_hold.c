#include "test.h"

#include "base/hold.h"

TEST(what_nobody_holds_goes_at_once)
{
    struct hold hold = {0};
    hold_take(&hold);
    CHECK(!hold_release(&hold)); /* it was not freed */
    CHECK(!hold.is_freed);
    CHECK(hold_end(&hold));
}

TEST(the_last_holder_frees)
{
    struct hold hold = {0};
    hold_take(&hold);
    hold_take(&hold); /* a callback inside a callback */
    CHECK(!hold_end(&hold));
    CHECK(hold.is_freed);
    CHECK(!hold_release(&hold)); /* the outer callback still runs */
    CHECK(hold_release(&hold));
}

TEST(an_inner_callback_does_not_end_the_outer_hold)
{
    struct hold hold = {0};
    hold_take(&hold);
    hold_take(&hold);
    CHECK(!hold_release(&hold));
    CHECK(!hold_end(&hold)); /* with a flag the memory would go here, under the outer one */
    CHECK(hold_release(&hold));
}
