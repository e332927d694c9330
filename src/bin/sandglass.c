/* The program: the command line, and with `serve` the daemon. */

#include <string.h>

#include "cli/cli.h"
#include "isolate/nursery.h"

int main(int argc, char **argv)
{
    /* The maker of workers for isolates is this program again, started by nursery_start. */
    if (argc == 1 && strcmp(argv[0], NURSERY_NAME) == 0)
        return nursery_main();
    return cli_main(argc, argv);
}
