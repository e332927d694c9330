/* Ports: connections to servers in sandboxes, and which of them others may reach. */

#include "engine/port.h"

#include "base/clock.h"
#include "base/id.h"
#include "base/map.h"
#include "engine/answer.h"
#include "engine/feed_internal.h"
#include "engine/file/file_work.h"
#include "engine/internal.h"
#include "engine/sandbox/sandbox_internal.h"
#include "store/store.h"

/* --- Connections --- */

struct connecting {
    struct file_work work;
    struct loop_task task;
    uint16_t port;
    port_done *done;
    void *ctx;
    int fd;
    struct err err;
    bool has_failed;
};

static void tell_port(struct loop_task *task)
{
    struct connecting *connecting = CONTAINER_OF(task, struct connecting, task);
    struct engine *engine = connecting->work.engine;
    connecting->done(connecting->ctx, connecting->fd,
                     connecting->has_failed ? &connecting->err : NULL);
    engine->answers--;
    loop_release(engine->loop);
    free(connecting);
}

/* The sandbox may be gone when the call-back runs, so the work ends now. */
static void port_over(struct connecting *connecting, int fd, const struct err *why)
{
    file_work_end(&connecting->work);
    connecting->fd = fd;
    connecting->has_failed = why != NULL;
    if (why != NULL)
        connecting->err = *why;
    connecting->task.run = tell_port;
    loop_post(connecting->work.engine->loop, &connecting->task);
}

static void on_port(void *ctx, int fd, const struct err *why)
{
    port_over(ctx, fd, why);
}

static void port_place(struct file_work *work, const struct err *why)
{
    struct connecting *connecting = (struct connecting *)work;
    struct err err = {0};
    if (why != NULL) {
        port_over(connecting, -1, why);
        return;
    }
    const struct provider_table *table = engine_table(work->engine, work->sandbox->info.tier);
    if (table->port == NULL) {
        (void)engine_unsupported(work->sandbox->info.tier, "listen on ports", &err);
        port_over(connecting, -1, &err);
        return;
    }
    table->port(work->sandbox->place, connecting->port, on_port, connecting);
}

static int check_port(uint16_t port, struct err *err)
{
    return port == 0 ? err_set(err, ERR_INVALID, "port: must be between 1 and 65535") : 0;
}

void engine_port_connect(struct engine *engine, const struct engine_caller *caller, struct str id,
                         uint16_t port, port_done *done, void *ctx)
{
    loop_assert(engine->loop);
    struct connecting *connecting = mem_alloc(sizeof *connecting);
    struct file_place place = {.sandbox = id};
    struct err err = {0};
    connecting->work.call = port_place;
    connecting->work.engine = engine;
    connecting->port = port;
    connecting->done = done;
    connecting->ctx = ctx;
    engine->answers++;
    loop_hold(engine->loop);
    if (check_port(port, &err) < 0 ||
        file_work_start(engine, caller, &place, &connecting->work, &err) < 0)
        port_over(connecting, -1, &err);
}

/* By id: the sandbox may go while a connection is open. */
void engine_port_begin(struct engine *engine, struct str id)
{
    struct sandbox *sandbox = sandbox_find_worked(engine, id);
    if (sandbox != NULL)
        sandbox_begin_work(sandbox);
}

void engine_port_end(struct engine *engine, struct str id)
{
    struct sandbox *sandbox = sandbox_find_worked(engine, id);
    if (sandbox != NULL)
        sandbox_end_work(sandbox);
}

void engine_port_touch(struct engine *engine, struct str id)
{
    struct sandbox *sandbox = map_get(&engine->sandboxes, id);
    if (sandbox != NULL)
        sandbox_touch(sandbox);
}

/* --- Who may --- */

static struct sandbox_port *find_exposed(struct sandbox *sandbox, uint16_t port)
{
    VEC_EACH (each, &sandbox->ports)
        if (each->port == port)
            return each;
    return NULL;
}

/* Pointers move with the vector. */
static void show_ports(struct sandbox *sandbox)
{
    sandbox->info.ports = sandbox->ports.ptr;
    sandbox->info.port_count = sandbox->ports.len;
}

void sandbox_add_port(struct sandbox *sandbox, const struct sandbox_port *port)
{
    *vec_push(&sandbox->ports) = *port;
    show_ports(sandbox);
}

static void deliver_port(struct answer *answer, const struct err *why)
{
    struct sandbox *sandbox =
        why == NULL ? map_get(&answer->engine->sandboxes, str_of(answer->id)) : NULL;
    const struct sandbox_port *port =
        sandbox == NULL ? NULL : find_exposed(sandbox, (uint16_t)answer->number);
    struct err gone = {0};
    if (why == NULL && port == NULL) {
        (void)err_set(&gone, ERR_NOT_FOUND, "sandbox '%s' not found, or its port is not exposed",
                      answer->id);
        why = &gone;
    }
    answer->done.port(answer->ctx, port, why);
}

static struct sandbox *find_living(struct engine *engine, const struct engine_caller *caller,
                                   struct str id, uint16_t port, struct err *err)
{
    struct sandbox *sandbox = NULL;
    if (engine_check_caller(engine, caller, err) < 0 || check_port(port, err) < 0)
        return NULL;
    sandbox = sandbox_find(engine, caller, id, err);
    if (sandbox == NULL)
        return NULL;
    const struct sandbox_info *info = &sandbox->info;
    if (engine_table(engine, info->tier)->port == NULL) {
        (void)engine_unsupported(info->tier, "listen on ports", err);
        return NULL;
    }
    if (info->state == SANDBOX_STOPPED || info->state == SANDBOX_STOPPING) {
        (void)err_set(err, ERR_GONE, "sandbox '%.*s' has stopped", STR_ARG(info->id));
        return NULL;
    }
    return sandbox;
}

static void port_save(struct sandbox *sandbox, struct answer *answer)
{
    struct engine *engine = sandbox->engine;
    struct store_batch *batch = store_begin(engine->store);
    sandbox->info.version++;
    sandbox_save(sandbox, batch);
    feed_publish(engine, batch, EVENT_SANDBOX_UPDATED, sandbox->info.tenant, sandbox->info.id,
                 sandbox->info.id, "", "");
    /* A hidden port must stay hidden after a power cut. */
    sandbox_commit(sandbox, batch, STORE_DURABLE, answer);
}

void engine_port_expose(struct engine *engine, const struct engine_caller *caller, struct str id,
                        uint16_t port, bool is_public, port_exposed *done, void *ctx)
{
    struct answer *answer = answer_new(engine, deliver_port, ctx);
    struct err err = {0};
    answer->done.port = done;
    answer->number = port;
    struct sandbox *sandbox = find_living(engine, caller, id, port, &err);
    if (sandbox == NULL) {
        answer_give(answer, &err);
        return;
    }
    (void)snprintf(answer->id, sizeof answer->id, "%.*s", STR_ARG(sandbox->info.id));
    struct sandbox_port *exposed = find_exposed(sandbox, port);
    if (exposed == NULL && sandbox->ports.len >= ENGINE_PORTS_MAX) {
        answer_fail(answer, ERR_LIMIT, "the sandbox already exposes %d ports; hide one first",
                    ENGINE_PORTS_MAX);
        return;
    }
    if (exposed == NULL) {
        struct sandbox_port fresh = {.port = port, .created_ms = clock_date_ms()};
        id_new(fresh.key);
        sandbox_add_port(sandbox, &fresh);
        exposed = find_exposed(sandbox, port);
    }
    exposed->is_public = is_public;
    port_save(sandbox, answer);
}

void engine_port_hide(struct engine *engine, const struct engine_caller *caller, struct str id,
                      uint16_t port, engine_done *done, void *ctx)
{
    struct answer *answer = answer_plain(engine, done, ctx);
    struct err err = {0};
    struct sandbox *sandbox = find_living(engine, caller, id, port, &err);
    if (sandbox == NULL) {
        answer_give(answer, &err);
        return;
    }
    struct sandbox_port *exposed = find_exposed(sandbox, port);
    if (exposed == NULL) {
        answer_fail(answer, ERR_NOT_FOUND, "port %u is not exposed", port);
        return;
    }
    vec_remove(&sandbox->ports, (size_t)(exposed - sandbox->ports.ptr));
    show_ports(sandbox);
    port_save(sandbox, answer);
}

bool engine_port_find(struct engine *engine, struct str id, uint16_t port, struct str *ret_tenant,
                      struct sandbox_port *ret_port)
{
    struct sandbox *sandbox = id_is_valid(id) ? map_get(&engine->sandboxes, id) : NULL;
    if (sandbox == NULL || sandbox->is_helper)
        return false;
    const struct sandbox_port *exposed = find_exposed(sandbox, port);
    *ret_tenant = sandbox->info.tenant;
    *ret_port = exposed != NULL ? *exposed : (struct sandbox_port){.port = port};
    return true;
}
