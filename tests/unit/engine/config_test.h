#pragma once

/* What the configuration's tests share: a clean environment and a file to load. */

#include "test.h"

#include <unistd.h>

#include "base/buf.h"
#include "base/crypto/secret.h"
#include "config/config.h"

/* No variable of the machine may reach a test; the home is the test's own directory. */
static inline void clean_environment(void)
{
    static const char *const names[] = {
        "SANDGLASS_CONFIG",     "SANDGLASS_HOME",  "SANDGLASS_LISTEN", "SANDGLASS_LOG_LEVEL",
        "SANDGLASS_LOG_FORMAT", "XDG_CONFIG_HOME", "XDG_DATA_HOME",    "GROQ_API_KEY",
        "LINEAR_API_KEY",       "MY_KEY"};
    for (size_t i = 0; i < countof(names); i++)
        CHECK_INT(unsetenv(names[i]), 0);
    CHECK_INT(setenv("HOME", test_tmpdir(), 1), 0);
}

/* Loads this text as config.toml of the current directory. */
static inline int load_text(const char *text, struct config **ret_config, struct err *err)
{
    CHECK_INT(chdir(test_tmpdir()), 0);
    test_write(test_tmpdir(), "config.toml", text);
    return config_load("config.toml", ret_config, err);
}
