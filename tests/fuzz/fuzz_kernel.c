/* What a hostile interpreter sends, read as the server reads it. */

#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "fuzz.h"
#include "runtime/interpreter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_KERNEL struct interpreter *interpreter = NULL;
    struct interpreter_event event = {0};
    struct err err;
    int inner[3];
    /* More would not fit into the socket at once. */
    if (size > 32 << 10 || interpreter_open(&interpreter, inner, &err) < 0)
        return 0;
    if (interpreter_run(interpreter, STR("1"), STR(""), (struct str){0}, &err) < 0)
        abort();
    (void)send(inner[0], data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    for (int i = 0; i < 3; i++)
        fd_close(&inner[i]);
    while (interpreter_next(interpreter, &event) && event.type != INTERPRETER_GONE) {
        assert(event.part_count <= INTERPRETER_PARTS_MAX && event.text.len <= size);
        for (size_t i = 0; i < event.part_count; i++)
            assert(event.parts[i].mime.len + event.parts[i].bytes.len <= size);
    }
    assert(event.type == INTERPRETER_GONE);
    return 0;
}
