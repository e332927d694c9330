#include "egress/gate/gate_secrets.h"

#include "base/arena.h"
#include "base/buf.h"
#include "egress/keys/scrub.h"
#include "egress/keys/secrets.h"

void gate_fill_headers(const struct secrets *secrets, const struct url *url,
                       const struct fetch_header *headers, size_t count, struct buf *values,
                       struct fetch_header out[FETCH_REQUEST_HEADERS_MAX])
{
    size_t from[FETCH_REQUEST_HEADERS_MAX], len[FETCH_REQUEST_HEADERS_MAX];
    assert(count <= FETCH_REQUEST_HEADERS_MAX && values->wipes);
    for (size_t i = 0; i < count; i++) {
        from[i] = values->len;
        bool is_filled =
            url->is_https && placeholder_replace(secrets, &url->host, url->port, headers[i].name,
                                                 headers[i].value, values);
        len[i] = is_filled ? values->len - from[i] : 0;
    }
    /* Only now, when the buffer moves no more. */
    for (size_t i = 0; i < count; i++) {
        out[i] = headers[i];
        if (len[i] > 0)
            out[i].value = str_slice(buf_str(values), from[i], from[i] + len[i]);
    }
}

const char *gate_missing_secret(const struct secrets *secrets, const struct url *url,
                                const struct fetch_header *headers, size_t count)
{
    const char *found = NULL;
    for (size_t i = 0; url->is_https && found == NULL && i < count; i++)
        found = placeholder_without_value(secrets, &url->host, url->port, headers[i].name,
                                          headers[i].value);
    return found;
}

static struct str clean(struct scrub *scrub, struct str text, struct arena *arena)
{
    AUTO_BUF struct buf out = {0};
    scrub_text(scrub, text, &out);
    return arena_dup(arena, buf_str(&out));
}

struct fetch_answer gate_scrub_answer(const struct secrets *secrets, const struct url *url,
                                      const struct fetch_answer *answer, struct arena *arena)
{
    struct fetch_answer cleaned = *answer;
    if (!url->is_https || !secrets_go_to(secrets, &url->host, url->port))
        return cleaned;
    AUTO_SCRUB struct scrub *scrub = scrub_new(secrets, &url->host, url->port, SCRUB_REPLACE);
    struct fetch_header *headers = arena_array(arena, struct fetch_header, answer->header_count);
    for (size_t i = 0; i < answer->header_count; i++) {
        headers[i].name = clean(scrub, answer->headers[i].name, arena);
        headers[i].value = clean(scrub, answer->headers[i].value, arena);
    }
    cleaned.headers = headers;
    cleaned.status_text = clean(scrub, answer->status_text, arena);
    cleaned.body = clean(scrub, answer->body, arena);
    return cleaned;
}

bool gate_is_secret_header(const struct secrets *secrets, struct str name)
{
    for (size_t i = 0; i < secrets_count(secrets); i++)
        if (secret_names_header(secrets_at(secrets, i), name))
            return true;
    return false;
}
