#include "runtime/bridges.h"

#include "base/err.h"
#include "egress/policy/policy.h"
#include "egress/policy/url.h"

const struct bridge *const bridges[] = {
    &bridge_fetch,
    &bridge_weather,
    NULL,
};

static void put_weather_policy(const struct url *url, const char *private, struct buf *out)
{
    buf_printf(out, "allow %s:%d GET", url->host.text, url->port);
    if (host_is_ip(&url->host))
        buf_printf(out, "; private %s=%s:%d", url->host.text, url->host.text, url->port);
    if (private != NULL && private[0] != '\0')
        buf_printf(out, "; private %s", private);
}

int services_set_weather(struct services *services, const char *url_text, const char *private,
                         struct err *err)
{
    struct url url;
    AUTO_BUF struct buf rule = {0};
    struct str text = str_of(url_text == NULL ? WEATHER_URL_DEFAULT : url_text);
    if (url_parse(text, &url, err) < 0)
        return err_wrap(err, "weather service");
    if (str_find_char(url.target, '?') < url.target.len)
        return err_set(err, ERR_INVALID, "bridges.weather_url must have no query");
    put_weather_policy(&url, private, &rule);
    struct policy *policy = NULL;
    if (policy_parse(buf_str(&rule), POLICY_BY_OPERATOR, &policy, err) < 0)
        return err_wrap(err, "weather service");
    services_done(services);
    AUTO_BUF struct buf full = {0};
    url_put(&url, &full);
    while (full.ptr[full.len - 1] == '/')
        full.ptr[--full.len] = '\0';
    services->weather_url = buf_take(&full);
    services->weather_policy = policy;
    return 0;
}

void services_done(struct services *services)
{
    free(services->weather_url);
    services->weather_url = NULL;
    services->weather_policy = policy_free(services->weather_policy);
}
