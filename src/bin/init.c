/* pid 1 of every jail, and what it is a copy of: a static program run from a sealed memfd. */

#include "jail/inside/init_spawner.h"

int main(void)
{
    return init_spawner_main();
}
