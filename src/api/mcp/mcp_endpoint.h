#pragma once

/* /mcp: clients of the Model Context Protocol over HTTP (its "streamable" transport). */

struct mcp_endpoint;

/* Every client's connection ends; their sessions stay and can be gone on with. */
struct mcp_endpoint *mcp_endpoint_free(struct mcp_endpoint *endpoint);
