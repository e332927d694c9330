/* Any file: either a message that names the file, or a configuration whose own printing is a file
 * that loads again and a JSON text that parses. */

#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/format/json.h"
#include "config/config.h"

static int load_bytes(struct str bytes, struct config **ret_config, struct err *err)
{
    AUTO_CLOSE int fd = memfd_create("config", MFD_CLOEXEC);
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd_write_all(fd, bytes, err) < 0)
        return -1;
    return config_load(path, ret_config, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    AUTO_CONFIG struct config *config = NULL, *again = NULL;
    if (load_bytes(str_n((const char *)data, size), &config, &err) < 0) {
        assert(err.msg[0] != '\0' && strchr(err.msg, '\n') == NULL);
        return 0;
    }
    AUTO_BUF struct buf shown = {0}, text = {0};
    config_put_settings(config, &shown);
    config_put_settings_json(config, &text);
    int result = load_bytes(buf_str(&shown), &again, &err);
    assert(result == 0);
    assert(again->providers.len == config->providers.len);
    assert(again->sandbox.dependencies.len == config->sandbox.dependencies.len);
    AUTO_JSON struct json_t *json = NULL;
    result = json_parse(buf_str(&text), &json, &err);
    assert(result == 0);
    return 0;
}
