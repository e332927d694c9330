/* The program: the command line, with `serve` the daemon. By other names it is a maker of workers,
 * started by the program itself: for isolates (nursery_start) and for the gateway (gateway_start).
 */

#include <string.h>

#include "cli/cli.h"
#include "egress/gateway.h"
#include "isolate/nursery.h"

int main(int argc, char **argv)
{
    if (argc == 1 && strcmp(argv[0], NURSERY_NAME) == 0)
        return nursery_main();
    if (argc == 1 && strcmp(argv[0], GATEWAY_PROGRAM) == 0)
        return gateway_main();
    return cli_main(argc, argv);
}
