/* api.getWeather: a forecast in Open-Meteo's shape, from the service that the operator chose. */

#include "base/err.h"
#include "base/format/json.h"
#include "egress/gate/gate.h"
#include "runtime/bridges.h"

enum { TIMEOUT_MS = 10000, BODY_MAX = 1 << 20 };

static const char place_schema[] =
    "{\"type\":\"object\",\"description\":\"Where. Left out: the location hints of the request.\","
    "\"additionalProperties\":false,\"required\":[\"latitude\",\"longitude\"],\"properties\":{"
    "\"latitude\":{\"type\":\"number\",\"minimum\":-90,\"maximum\":90,"
    "\"description\":\"Degrees north.\"},"
    "\"longitude\":{\"type\":\"number\",\"minimum\":-180,\"maximum\":180,"
    "\"description\":\"Degrees east.\"}}}";

static const char result_types[] =
    "interface Weather {\n"
    "    latitude: number;\n"
    "    longitude: number;\n"
    "    /** The place's own, as in 'Europe/Berlin'; all times are in it. */\n"
    "    timezone: string;\n"
    "    current: { time: string; interval: number; temperature_2m: number };\n"
    "    current_units: { [name: string]: string };\n"
    "    hourly: { time: string[]; temperature_2m: number[] };\n"
    "    hourly_units: { [name: string]: string };\n"
    "    daily: { time: string[]; sunrise: string[]; sunset: string[] };\n"
    "    daily_units: { [name: string]: string };\n"
    "    [name: string]: unknown;\n"
    "}";

/* The service's own words ({"error": true, "reason": "..."}) help more than a number. */
static void put_reason(const struct json_t *body, int status, struct err *why)
{
    struct str reason;
    if (body != NULL && json_kind(body) == JSON_KIND_OBJECT &&
        json_to_str(json_get(body, "reason"), &reason))
        (void)err_set(why, ERR_UNAVAILABLE, "the weather service answered: %.*s",
                      STR_ARG(str_slice(reason, 0, 120)));
    else
        (void)err_set(why, ERR_UNAVAILABLE, "the weather service answered with status %d", status);
}

static bool has_parts(const struct json_t *body)
{
    static const char *const parts[] = {"current", "hourly", "daily"};
    for (size_t i = 0; i < countof(parts); i++) {
        const struct json_t *part = json_get(body, parts[i]);
        if (part == NULL || json_kind(part) != JSON_KIND_OBJECT)
            return false;
    }
    return true;
}

static void bridge_weather_on_done(void *ctx, const struct gate_answer *answer,
                                   UNUSED const struct verdict *refusal, const struct err *why)
{
    struct bridge_call *call = ctx;
    struct err err = {0};
    AUTO_JSON struct json_t *body = NULL;
    if (answer == NULL) {
        bridge_fail(call, why);
        return;
    }
    bool is_json = json_parse(answer->http.body, &body, &err) == 0;
    if (answer->http.status != 200) {
        put_reason(body, answer->http.status, &err);
        bridge_fail(call, &err);
    } else if (!is_json || json_kind(body) != JSON_KIND_OBJECT || !has_parts(body)) {
        (void)err_set(&err, ERR_UNAVAILABLE, "the weather service's answer is not a forecast");
        bridge_fail(call, &err);
    } else {
        AUTO_BUF struct buf text = {0};
        struct json_out out = {.buf = &text};
        json_put_value(&out, body);
        bridge_done(call, buf_str(&text));
    }
}

static int find_place(const struct bridge_call *call, const struct hints *hints,
                      double *ret_latitude, double *ret_longitude, struct err *err)
{
    const struct json_t *place = bridge_arg(call, 0);
    if (place == NULL && !hints_has_place(hints))
        return err_set(err, ERR_INVALID,
                       "needs {latitude, longitude}: the request has no location hints");
    *ret_latitude = hints->latitude;
    *ret_longitude = hints->longitude;
    if (place != NULL && (!json_to_f64(json_get(place, "latitude"), ret_latitude) ||
                          !json_to_f64(json_get(place, "longitude"), ret_longitude)))
        return err_set(err, ERR_INVALID, "latitude and longitude must be numbers");
    return 0;
}

static int bridge_weather_start(struct bridge_call *call, struct err *err)
{
    struct services *services = bridge_services(call);
    double latitude, longitude;
    services->used_hints |= bridge_arg(call, 0) == NULL;
    if (find_place(call, &services->hints, &latitude, &longitude, err) < 0)
        return -1;
    if (services->weather_url == NULL)
        return err_set(err, ERR_UNAVAILABLE, "no weather service is configured");
    AUTO_BUF struct buf url = {0};
    buf_printf(&url,
               "%s/v1/forecast?latitude=%.4f&longitude=%.4f&current=temperature_2m"
               "&hourly=temperature_2m&daily=sunrise,sunset&timezone=auto",
               services->weather_url, latitude, longitude);
    struct gate_request request = {
        .policy = services->weather_policy,
        .allowance = services->allowance,
        .url = buf_str(&url),
        .method = STR("GET"),
        .limits = {.total_ms = bridge_left_ms(call), .body_max = BODY_MAX},
    };
    *bridge_state(call) = gate_fetch(services->gate, &request, bridge_weather_on_done, call);
    return 0;
}

static void bridge_weather_stop(struct bridge_call *call)
{
    *bridge_state(call) = gate_call_free(*bridge_state(call));
}

const struct bridge bridge_weather = {
    .name = "getWeather",
    .description =
        "Gives the temperature now and by the hour, and sunrise and sunset of the coming "
        "days, as Open-Meteo's forecast does.",
    .params = {{"place", place_schema, true}},
    .returns = "Weather",
    .types = result_types,
    .example = "const weather = await api.getWeather({ latitude: 52.52, longitude: 13.41 });\n"
               "console.log(weather.current.temperature_2m, weather.daily.sunset[0]);",
    .timeout_ms = TIMEOUT_MS,
    .start = bridge_weather_start,
    .stop = bridge_weather_stop,
};
