/* Bytes of a client and of a server, given to an opened conversation. Byte 0 says where the first
 * ends and in what pieces they come. No value may ever reach the client, no matter what the two do;
 * pieces of any size give the same; and what goes to the server is a sequence of requests that our
 * own strict reader takes. */

#include "fuzz.h"

#include "base/err.h"
#include "egress/keys/http1.h"
#include "egress/keys/rewrite.h"
#include "egress/keys/secrets.h"

static const char value[] = "cnry_0123456789abcdef";
static struct secrets *secrets;
static struct host host;

static void start(void)
{
    struct err err = {0};
    struct secret_rule rule;
    secrets = secrets_new();
    int done = secret_rule_parse(STR("KEY=env:K@ok.test"), &rule, &err);
    assert(done == 0);
    done = secrets_add(secrets, &rule, STR("cnry_0123456789abcdef"), &err);
    assert(done == 0);
    done = host_parse(STR("ok.test"), &host, &err);
    assert(done == 0);
}

static void converse(struct str client, struct str server, size_t step, struct buf *to_server,
                     struct buf *to_client)
{
    struct rewrite_options options = {
        .secrets = secrets, .host = host, .port = 443, .is_https = true};
    AUTO_REWRITE struct rewrite *rewrite = rewrite_new(&options);
    size_t at = 0;
    do {
        size_t used;
        while (client.len > 0 &&
               (used = rewrite_from_client(rewrite, str_slice(client, 0, step))) > 0)
            client = str_slice(client, used, client.len);
        rewrite_from_server(rewrite, str_slice(server, at, at + step));
        at += step;
    } while (at < server.len);
    if (!rewrite_is_over(rewrite))
        rewrite_server_ended(rewrite, true);
    buf_put(to_server, buf_str(rewrite_to_server(rewrite)));
    buf_put(to_client, buf_str(rewrite_to_client(rewrite)));
}

/* The first request as the server would read it. */
static void check_sound(struct str sent)
{
    struct http1_head head = {.bytes_max = 1 << 20, .fields_max = 1000};
    size_t used;
    const char *why;
    struct http1_body body;
    if (sent.len > 0) {
        enum http1_step step = http1_head_feed(&head, sent, &used);
        assert(step == HTTP1_DONE);
        bool is_framed = http1_read_framing(&head, false, &body, &why);
        assert(is_framed);
        assert(str_eq(http1_find(&head, "Host")->value, STR("ok.test")));
        assert(http1_find(&head, "Accept-Encoding") != NULL);
    }
    http1_head_done(&head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (secrets == NULL)
        start();
    if (size < 3)
        return 0;
    struct str all = str_n((const char *)data + 2, size - 2);
    struct str client = str_slice(all, 0, all.len * data[0] / 255);
    struct str server = str_slice(all, client.len, all.len);
    AUTO_BUF struct buf to_server = {0}, to_client = {0}, again = {0}, ignored = {0};
    converse(client, server, (size_t)data[1] + 1, &to_server, &to_client);
    bool client_knew = str_find(client, str_of(value)) < client.len;
    assert(client_knew || str_find(buf_str(&to_client), str_of(value)) == to_client.len);
    check_sound(buf_str(&to_server));
    /* The server's bytes in one piece may end it earlier or later than in several (an answer before
     * its request), so only the client's side is compared; chunks are as long as what came. */
    bool is_chunked = str_find(buf_str(&to_server), STR("chunked")) < to_server.len;
    if (server.len == 0 && !is_chunked) {
        converse(client, server, SIZE_MAX / 2, &again, &ignored);
        assert(str_eq(buf_str(&again), buf_str(&to_server)));
    }
    return 0;
}
