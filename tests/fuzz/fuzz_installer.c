/* What an installer in a sandbox printed: the reason that is told of it is a part of it, on one
 * line. */

#include "engine/installer.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str output = str_n((const char *)data, size);
    struct str reason = installer_reason(output);
    assert(reason.len > 0 && reason.len <= 200);
    assert(str_find_char(reason, '\n') == reason.len);
    return 0;
}
