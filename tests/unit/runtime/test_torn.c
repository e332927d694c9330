/* A fork that is killed in the middle leaves the template's memory, which it shares, as it was at
 * that moment, with whatever is locked there. The template in this program has that happen to each
 * of its forks; kernels come to life all the same. */

#include "stage.h"

TEST(a_template_whose_fork_was_killed_in_the_middle_is_not_used_again)
{
    static const char seed[] = "print(hash('of the template'))";
    AUTO_STAGE struct stage stage = {0};
    AUTO_BUF struct buf first = {0};
    stage_template(&stage, "json");
    stage_jail(&stage);
    stage_fork(&stage);
    run(&stage, seed);
    buf_put(&first, buf_str(&stage.out));
    for (int i = 0; i < 2; i++) {
        buf_clear(&stage.out);
        stage_fork_again(&stage);
        run(&stage, seed);
        CHECK(stage.ok);
        CHECK(!str_eq(buf_str(&stage.out), buf_str(&first)));
    }
}
