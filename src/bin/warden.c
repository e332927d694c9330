/* The only maker of jails: a static program of its own, run from a sealed memfd. */

#include "jail/warden.h"

int main(void)
{
    return warden_main();
}
