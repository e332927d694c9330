/* The program: the command line, with `serve` the daemon. By other names it is a process that the
 * program starts itself: the isolate spawner (spawner_start), the gateway spawner
 * (gateway_start), the process that computes embeddings (embedder_open), or the one that reads
 * documents (reader_read).
 */

#include <string.h>

#include "cli/cli.h"
#include "egress/gateway/gateway.h"
#include "isolate/spawner/spawner.h"
#include "search/embed/embedder.h"
#include "search/reader.h"

int main(int argc, char **argv)
{
    if (argc == 1 && strcmp(argv[0], SPAWNER_NAME) == 0)
        return spawner_main();
    if (argc == 1 && strcmp(argv[0], GATEWAY_PROGRAM) == 0)
        return gateway_main();
    if (argc == 1 && strcmp(argv[0], EMBEDDER_PROGRAM) == 0)
        return embedder_main();
    if (argc == 1 && strcmp(argv[0], READER_PROGRAM) == 0)
        return reader_main();
    return cli_main(argc, argv);
}
