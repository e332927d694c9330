/* pid 1 of every jail: a static program of its own, run from a sealed memfd. */

#include "jail/init.h"

int main(void)
{
    return init_main();
}
