#pragma once

/* The directory of the engine that `sandglass mcp` has for itself. It goes with the process, except
 * where the configuration has packages: their snapshot takes time to make, so the directory is then
 * one of DATA/mcp/N, which no other process uses meanwhile, and the next start finds it. */

#include "base/base.h"

struct config;
struct err;

struct mcp_dir {
    char *path;
    int lock; /* held as long as the directory is in use */
    bool is_kept;
};

int mcp_dir_open(const struct config *config, struct mcp_dir *dir, struct err *err) MUST_USE;
void mcp_dir_close(struct mcp_dir *dir);
#define AUTO_MCP_DIR AUTO(mcp_dir_close)
