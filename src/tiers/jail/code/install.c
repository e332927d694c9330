/* Packages: installed in the jail, by its own policy, into its working tree. */

#include "base/buf.h"
#include "base/err.h"
#include "egress/policy/settings.h"
#include "engine/installer.h"
#include "engine/network.h"
#include "engine/provider.h"
#include "runtime/packages.h"
#include "tiers/jail/code/interpreter.h"
#include "tiers/jail/exec/exec.h"
#include "tiers/jail/place.h"

enum { TAIL_MAX = 16 << 10 };

struct install {
    struct place *place;
    struct exec *exec;
    struct buf tail;   /* of what the installer says */
    const char *group; /* the index that it asks */
    install_done *done;
    void *ctx;
    bool is_beginning; /* the call that began it has not returned */
    bool is_dropped;   /* its result is no longer needed */
    struct err failure;
};

static void install_free(struct install *install)
{
    tier_exec_free(install->exec);
    buf_done(&install->tail);
    free(install);
}

void install_stop(struct install *install)
{
    install->is_dropped = true;
    if (install->exec != NULL)
        install_free(install); /* else when it has started, or cannot be */
}

static void end(struct install *install, const struct err *why)
{
    install_done *done = install->done;
    void *ctx = install->ctx;
    struct err copy = why == NULL ? (struct err){0} : *why;
    install_free(install);
    done(ctx, why == NULL ? NULL : &copy);
}

static void install_on_started(void *ctx, struct exec *exec, const struct err *why)
{
    struct install *install = ctx;
    install->exec = exec;
    if (install->is_dropped)
        install_free(install);
    else if (why == NULL)
        return;
    else if (install->is_beginning)
        install->failure = *why;
    else
        end(install, why);
}

static void install_on_output(void *ctx, UNUSED enum command_stream stream, struct str bytes)
{
    struct install *install = ctx;
    buf_put(&install->tail, bytes);
    if (install->tail.len > TAIL_MAX)
        buf_consume(&install->tail, install->tail.len - TAIL_MAX);
}

static void install_on_end(void *ctx, const struct exec_end *ended, const struct err *why)
{
    struct install *install = ctx;
    struct err err = {0};
    if (why == NULL && ended->code == 0 && ended->signal == 0) {
        end(install, NULL);
        return;
    }
    AUTO_BUF struct buf text = {0};
    installer_explain(buf_str(&install->tail), install->group, &text);
    if (why == NULL)
        (void)err_set(&err, ERR_UNAVAILABLE, "%s", buf_cstr(&text));
    end(install, why == NULL ? &err : why);
}

static void install_on_drain(UNUSED void *ctx)
{
}

int install_start(struct context *context, const struct str *packages, size_t count,
                  install_done *done, void *ctx, struct install **ret_install, struct err *err)
{
    static const struct exec_calls calls = {install_on_started, install_on_output, install_on_end,
                                            install_on_drain};
    AUTO_ARENA struct arena arena = {0};
    const char *argv[PACKAGE_ARGS_MAX];
    struct place *place = context->place;
    if (package_command(context->runtime, packages, count, &arena, argv, err) < 0)
        return -1;
    const char *group = strcmp(context->runtime->language, "python") == 0 ? "pypi" : "npm";
    if (place->network_in_effect == NULL || network_is_offline(place->network_in_effect))
        return err_set(err, ERR_FORBIDDEN, INSTALL_OFFLINE("%s"), group);
    struct install *install = mem_alloc(sizeof *install);
    *install = (struct install){
        .place = place, .group = group, .done = done, .ctx = ctx, .is_beginning = true};
    struct exec_plan plan = {.argv = argv, .env = context_env(context, &arena)};
    tier_exec(place, &plan, &calls, install);
    install->is_beginning = false;
    if (install->failure.code != ERR_NONE) {
        *err = install->failure;
        install_free(install);
        return -1;
    }
    *ret_install = install;
    return 0;
}
