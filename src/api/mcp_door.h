#pragma once

/* /mcp: clients of the Model Context Protocol over HTTP (its "streamable" transport). */

struct mcp_door;

/* Every client's connection ends; their sessions stay and can be gone on with. */
struct mcp_door *mcp_door_free(struct mcp_door *door);
