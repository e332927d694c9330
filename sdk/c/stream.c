/* Streams of events, and what is sent while one runs. */

#include <stdlib.h>
#include <string.h>

#include "transfer.h"

struct stream {
    CURLM *multi;
    struct transfer events;
    struct transfer sending; /* without a handle: nothing is being sent */
    sg_sent *on_sent;
};

static void end_sending(struct stream *stream)
{
    if (stream->sending.curl == NULL)
        return;
    (void)curl_multi_remove_handle(stream->multi, stream->sending.curl);
    transfer_finish(&stream->sending);
    curl_easy_cleanup(stream->sending.curl);
    stream->sending = (struct transfer){0};
}

/* What has ended by now; true when the stream has. */
static bool take_ended(struct stream *stream, CURLcode *ret_done)
{
    int left;
    for (CURLMsg *message; (message = curl_multi_info_read(stream->multi, &left)) != NULL;) {
        if (message->easy_handle == stream->events.curl) {
            *ret_done = message->data.result;
            return true;
        }
        end_sending(stream);
        if (stream->on_sent != NULL)
            stream->on_sent(stream->events.ctx);
    }
    return false;
}

static CURLcode run_beside(struct stream *stream, int fd, sg_ready *on_fd)
{
    CURLcode done = CURLE_OK;
    for (;;) {
        int running, verdict;
        struct curl_waitfd extra = {.fd = fd, .events = CURL_WAIT_POLLIN};
        if (curl_multi_perform(stream->multi, &running) != CURLM_OK)
            return CURLE_FAILED_INIT;
        if (take_ended(stream, &done))
            return done;
        (void)curl_multi_poll(stream->multi, &extra, fd >= 0 ? 1 : 0, 1000, NULL);
        verdict = fd >= 0 && extra.revents != 0 ? on_fd(stream->events.ctx) : 0;
        if (verdict > 0)
            fd = -1;
        if (verdict < 0) {
            stream->events.was_ended = true;
            return CURLE_ABORTED_BY_CALLBACK;
        }
    }
}

/* Without `on_line` one answer, which goes to `ret_json`. */
static int run_request(sg_client *client, const char *method, const char *path, const char *json,
                       sg_line *on_line, char **ret_json, int fd, sg_ready *on_fd, void *ctx)
{
    struct stream stream = {
        .multi = curl_multi_init(),
        .events = {.client = client, .curl = curl_easy_init(), .on_line = on_line, .ctx = ctx}};
    int result = -1;
    if (stream.events.curl == NULL || stream.multi == NULL) {
        (void)sg_client_fail(client, "unavailable", "out of memory");
    } else if (transfer_prepare(&stream.events, method, path, json) == 0) {
        (void)curl_multi_add_handle(stream.multi, stream.events.curl);
        client->stream = &stream;
        CURLcode done = run_beside(&stream, on_fd == NULL ? -1 : fd, on_fd);
        client->stream = NULL;
        end_sending(&stream);
        result = transfer_conclude(&stream.events, done, ret_json);
        (void)curl_multi_remove_handle(stream.multi, stream.events.curl);
    }
    transfer_finish(&stream.events);
    if (stream.multi != NULL)
        (void)curl_multi_cleanup(stream.multi);
    if (stream.events.curl != NULL)
        curl_easy_cleanup(stream.events.curl);
    return result;
}

int sg_stream(sg_client *client, const char *method, const char *path, const char *json,
              sg_line *on_line, int fd, sg_ready *on_fd, void *ctx)
{
    return run_request(client, method, path, json, on_line, NULL, fd, on_fd, ctx);
}

int sg_call_beside(sg_client *client, const char *method, const char *path, const char *json,
                   char **ret_json, int fd, sg_ready *on_fd, void *ctx)
{
    return run_request(client, method, path, json, NULL, ret_json, fd, on_fd, ctx);
}

int sg_stream_send(sg_client *client, const char *path, const char *bytes, size_t len,
                   sg_sent *on_sent)
{
    struct stream *stream = client->stream;
    if (stream == NULL || stream->sending.curl != NULL)
        return sg_client_fail(client, "conflict", "no stream is running, or another send is");
    struct transfer sending = {.client = client, .curl = curl_easy_init()};
    if (sending.curl == NULL || transfer_prepare(&sending, "POST", path, NULL) < 0) {
        transfer_finish(&sending);
        curl_easy_cleanup(sending.curl);
        return sg_client_fail(client, "unavailable", "out of memory");
    }
    transfer_add_header(&sending, "Content-Type: application/octet-stream");
    (void)curl_easy_setopt(sending.curl, CURLOPT_HTTPHEADER, sending.headers);
    (void)curl_easy_setopt(sending.curl, CURLOPT_POSTFIELDSIZE, (long)len);
    (void)curl_easy_setopt(sending.curl, CURLOPT_COPYPOSTFIELDS, bytes);
    stream->sending = sending;
    stream->on_sent = on_sent;
    /* The callbacks of the handle were given the local variable. */
    (void)curl_easy_setopt(sending.curl, CURLOPT_WRITEDATA, &stream->sending);
    (void)curl_multi_add_handle(stream->multi, sending.curl);
    return 0;
}
