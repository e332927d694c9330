/* The program: the command line, with `serve` the daemon, and by another name the gateway. */

#include <string.h>

#include "cli/cli.h"
#include "egress/gateway.h"

int main(int argc, char **argv)
{
    if (argc > 0 && strcmp(argv[0], GATEWAY_PROGRAM) == 0)
        return gateway_main();
    return cli_main(argc, argv);
}
