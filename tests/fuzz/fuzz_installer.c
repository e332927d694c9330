/* What an installer in a sandbox printed: the reason that is reported is a part of it, on one
 * line. */

#include "base/buf.h"
#include "engine/installer.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str output = str_n((const char *)data, size);
    struct str reason = installer_reason(output);
    assert(reason.len > 0 && reason.len <= 200);
    assert(str_find_char(reason, '\n') == reason.len);
    AUTO_BUF struct buf text = {0};
    installer_explain(output, "npm", &text);
    assert(text.len > 0 && text.len <= INSTALLER_EXPLAINED_MAX);
    assert(str_find_char(buf_str(&text), '\n') == text.len);
    return 0;
}
