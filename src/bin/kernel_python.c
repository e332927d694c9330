/* The Python kernel as a program of a jail: kernel-python FD [MODULE,...] serves cells on FD. */

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "kernel/python.h"

extern const struct embed_file kernel_cells[];

int main(int argc, char **argv)
{
    struct err err = {0};
    char library[512];
    if (argc < 2 || argc > 3)
        return 2;
    if (python_find("", library, sizeof library, &err) < 0 ||
        python_start(library, "/usr/bin/python3", kernel_cells, &err) < 0 ||
        python_prepare(argc > 2 ? argv[2] : "", &err) < 0 ||
        python_serve((int)strtol(argv[1], NULL, 10), &err) < 0) {
        (void)fprintf(stderr, "kernel-python: %s\n", err.msg);
        return 1;
    }
    return 0;
}
