/* What init starts inside a jail for file operations that need a heavy library. */

#include "jail/helper.h"

int main(void)
{
    return helper_main();
}
