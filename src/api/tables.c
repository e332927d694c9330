/* Every table that the server serves, in the order in which rows are tried. */

#include "api/http/meta.h"
#include "api/route/openapi.h"
#include "api/v1/v1.h"

/* One a line. */
/* clang-format off */
const struct route *const api_tables[] = {
    meta_routes,
    v1_run_routes,
    v1_turn_routes,
    v1_context_routes,
    v1_sandbox_routes,
    v1_command_routes,
    v1_log_routes,
    v1_tty_routes,
    v1_byte_routes,
    v1_file_routes,
    v1_session_routes,
    v1_volume_routes,
    v1_zone_routes,
    v1_snapshot_byte_routes,
    v1_snapshot_routes,
    v1_event_routes,
    v1_docs_routes,
    v1_du_routes,
    v1_token_routes,
    v1_approval_routes,
    v1_port_routes,
    v1_tool_routes,
    mcp_routes,
    NULL,
};
/* clang-format on */
