/* Any bytes: told to be no hello, too short, or one name of a bounded length; and what a part says
 * holds for the whole: bad stays bad, and done stays done with the same name. */

#include "fuzz.h"

#include "egress/gateway/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str bytes = str_n((const char *)data, size);
    struct hello hello = {0}, part = {0};
    enum hello_state state = hello_read(bytes, &hello);
    assert(state != HELLO_DONE || !hello.has_name || hello.name.len < sizeof hello.space);
    for (size_t i = 1; i <= 4; i++) {
        enum hello_state earlier = hello_read(str_slice(bytes, 0, size * i / 5), &part);
        assert(earlier == HELLO_MORE || earlier == state);
        assert(earlier != HELLO_DONE || str_eq(part.name, hello.name));
    }
    return 0;
}
