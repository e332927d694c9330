/* The template that Python kernels are forked from. It costs a second and its imports' memory, so
 * it is made when the first such kernel is asked for, which is started by its program meanwhile. */

#include "base/fd.h"
#include "base/log.h"
#include "engine/config.h"
#include "engine/jail_kernel.h"
#include "jail/jail_fork.h"

static void on_prepared(struct request *request, const struct warden_event *event,
                        const struct err *why)
{
    struct provider *provider = request->ctx;
    provider->template = why == NULL ? TEMPLATE_READY : TEMPLATE_FAILED;
    if (why != NULL)
        log_warn("jail.template", LOG_STR("error", why->msg));
    else
        log_info("jail.template", LOG_STR("missing", event->missing));
}

void jail_template_want(struct provider *provider)
{
    AUTO_BUF struct buf names = {0};
    struct err err = {0};
    uint32_t number = 0;
    buf_put(&names, provider->host->config->jail.python_imports);
    if (provider->template != TEMPLATE_NONE || str_eq(buf_str(&names), STR("none")) ||
        provider->warden == NULL)
        return;
    provider->template = TEMPLATE_ASKED;
    AUTO_CLOSE int fd = runtime_program("kernel-python", &err);
    if (fd < 0 || warden_ask_template(provider->warden, fd, buf_cstr(&names), &number, &err) < 0) {
        provider->template = TEMPLATE_FAILED;
        log_warn("jail.template", LOG_STR("error", err.msg));
        return;
    }
    (void)jail_warden_asked(provider, number, on_prepared, provider);
}
