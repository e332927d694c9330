/* The only process that creates jails: a static program of its own, run from a sealed memfd. */

#include "jail/wire/warden.h"

int main(int argc, char **argv)
{
    return warden_main(argc > 1 ? argv[1] : NULL);
}
