/* pid 1 of every jail, and what it is a copy of: a static program run from a sealed memfd. */

#include "jail/seed.h"

int main(void)
{
    return seed_main();
}
