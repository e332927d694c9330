/* Stands in for an interpreter in a tree that has nothing else: says its version. */

#include <stdio.h>

int main(void)
{
    return puts("3.99.1 (a stand-in)") < 0;
}
