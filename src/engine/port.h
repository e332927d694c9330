#pragma once

/* Servers that listen in a sandbox: connections to them, and who besides their tenant may connect.
 * Part of engine/engine.h, which says how calls behave.
 *
 * A connection is made from inside, in the sandbox's own network; no port is opened on the host. */

#include "engine/sandbox/sandbox.h"

enum { ENGINE_PORTS_MAX = 32 }; /* exposed, in one sandbox */

/* `fd` is the caller's and does not block. A paused sandbox is resumed for it. NO_LISTENER when
 * nothing listens there, UNSUPPORTED where the tier has no network. */
typedef void port_done(void *ctx, int fd, const struct err *why);
void engine_port_connect(struct engine *engine, const struct engine_caller *caller, struct str id,
                         uint16_t port, port_done *done, void *ctx);

/* A request over such a connection is at work: between the two the sandbox is not idle. */
void engine_port_begin(struct engine *engine, struct str id);
void engine_port_end(struct engine *engine, struct str id);
/* Bytes went over a connection that may also be quiet for long. */
void engine_port_touch(struct engine *engine, struct str id);

/* Exposes a port to everyone, or to clients that have a token for it. Calling it again for the same
 * port changes `is_public` and keeps the key. LIMIT past ENGINE_PORTS_MAX. */
typedef void port_exposed(void *ctx, const struct sandbox_port *port, const struct err *why);
void engine_port_expose(struct engine *engine, const struct engine_caller *caller, struct str id,
                        uint16_t port, bool is_public, port_exposed *done, void *ctx);
/* From now on only its tenant can reach the port; tokens for it are void. Open connections
 * continue. NOT_FOUND when it was not exposed. */
void engine_port_hide(struct engine *engine, const struct engine_caller *caller, struct str id,
                      uint16_t port, engine_done *done, void *ctx);

/* For api/ports, which does not know the tenant before it knows the sandbox: false when there is no
 * such sandbox. `ret_port` has the key "" when the port is not exposed. */
bool engine_port_find(struct engine *engine, struct str id, uint16_t port, struct str *ret_tenant,
                      struct sandbox_port *ret_port);
