/* Terminals of a jail end at sixteen. */

#include "probe.h"

#include <fcntl.h>
#include <stdlib.h>

int main(void)
{
    int count = 0;
    while (count < 100 && open("/dev/ptmx", O_RDWR | O_NOCTTY) >= 0)
        count++;
    must_work("sixteen", count == 16);
    return probe_end();
}
