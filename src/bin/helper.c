/* What init starts inside a jail for file operations that need a heavy library. */

#include "jail/inside/helper.h"

int main(void)
{
    return helper_main();
}
