#pragma once

/* Values as text for the console, as Node's util.inspect writes them.
 *
 * Scripts choose what is inspected: getters are named, not run; proxies are seen through without
 * their traps; whatever a script's own code throws on the way (constructor names, custom
 * inspection) is swallowed. Under vm_try; the text belongs to the arena. */

#include "isolate/vm/vm.h"

struct arena;

struct inspect {
    struct vm *vm;
    struct arena *arena;
    vm_value peek, stop; /* of the bootstrap: what to ask past replaced prototypes */
    size_t bytes_max;    /* of arena memory; what is beyond becomes "..." */
    int depth;           /* 2 as in Node */
};

struct str inspect_value(const struct inspect *how, vm_value value);
/* console.log's way: %s %d %i %f %j %o %O %c, then the rest with blanks between. `args` is an array
 * of ours. */
struct str inspect_format(const struct inspect *how, vm_value args);
/* Name, message and stack of what was thrown; the stack with our own frames taken out. */
struct inspect_error {
    struct str name, message, stack;
};
struct inspect_error inspect_error(const struct inspect *how, vm_value thrown);
