#include "transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_MAX = 64 << 20, ERROR_KEPT = 64 << 10, STREAM_SILENCE_S = 60 };

static bool text_add(struct text *text, const char *bytes, size_t len, size_t max)
{
    if (len > max || text->len > max - len)
        return false;
    if (text->len + len + 1 > text->cap) {
        size_t cap = (text->len + len + 1) * 2;
        char *grown = realloc(text->ptr, cap);
        if (grown == NULL)
            return false;
        text->ptr = grown;
        text->cap = cap;
    }
    memcpy(text->ptr + text->len, bytes, len);
    text->len += len;
    text->ptr[text->len] = '\0';
    return true;
}

static int fail(sg_client *client, const char *code, const char *message)
{
    (void)snprintf(client->error, sizeof client->error, "%s", message);
    (void)snprintf(client->code, sizeof client->code, "%s", code);
    return -1;
}

int sg_client_fail(sg_client *client, const char *code, const char *message)
{
    return fail(client, code, message);
}

/* ---- opening ------------------------------------------------------------------------------- */

static char *join(const char *a, const char *b)
{
    size_t len = strlen(a) + strlen(b) + 1;
    char *text = malloc(len);
    if (text != NULL)
        (void)snprintf(text, len, "%s%s", a, b);
    return text;
}

static bool set_url(sg_client *client, const char *url)
{
    if (strncmp(url, "unix:", 5) == 0) {
        client->socket = strdup(url + 5);
        client->base = strdup("http://localhost");
        return client->socket != NULL && client->base != NULL;
    }
    if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
        return false;
    client->base = strdup(url);
    size_t len = client->base == NULL ? 0 : strlen(client->base);
    if (len > 0 && client->base[len - 1] == '/')
        client->base[len - 1] = '\0';
    return client->base != NULL;
}

sg_client *sg_open(const char *url, const char *token)
{
    if (url == NULL)
        url = getenv("SANDGLASS_URL");
    if (url == NULL)
        url = "http://127.0.0.1:7070";
    if (token == NULL)
        token = getenv("SANDGLASS_TOKEN");
    if (token == NULL || token[0] == '\0' || strpbrk(token, "\r\n") != NULL)
        return NULL;
    sg_client *client = calloc(1, sizeof *client);
    if (client == NULL)
        return NULL;
    client->auth = join("Authorization: Bearer ", token);
    client->plain = curl_easy_init();
    sg_set_ca_file(client, getenv("SSL_CERT_FILE"));
    if (client->auth == NULL || client->plain == NULL || !set_url(client, url)) {
        sg_close(client);
        return NULL;
    }
    return client;
}

void sg_client_on_close(sg_client *client, void (*done)(void *ctx), void *ctx)
{
    client->on_close = done;
    client->close_ctx = ctx;
}

void sg_close(sg_client *client)
{
    if (client == NULL)
        return;
    if (client->on_close != NULL)
        client->on_close(client->close_ctx);
    if (client->plain != NULL)
        curl_easy_cleanup(client->plain);
    if (client->auth != NULL)
        memset(client->auth, 0, strlen(client->auth));
    free(client->auth);
    free(client->base);
    free(client->socket);
    free(client->ca_file);
    free(client);
}

void sg_set_ca_file(sg_client *client, const char *path)
{
    free(client->ca_file);
    client->ca_file = path == NULL ? NULL : strdup(path);
}

void sg_set_timeout(sg_client *client, long ms)
{
    client->timeout_ms = ms;
}

const char *sg_url(const sg_client *client)
{
    return client->base;
}

const char *sg_error(const sg_client *client)
{
    return client->error;
}

const char *sg_error_code(const sg_client *client)
{
    return client->code;
}

int sg_status(const sg_client *client)
{
    return client->status;
}

void sg_free(char *json)
{
    free(json);
}

char *sg_escape(const char *text)
{
    char *escaped = curl_easy_escape(NULL, text, 0);
    char *copy = escaped == NULL ? NULL : strdup(escaped);
    curl_free(escaped);
    return copy;
}

/* ---- one transfer -------------------------------------------------------------------------- */

static bool is_error(struct transfer *transfer)
{
    long status = 0;
    (void)curl_easy_getinfo(transfer->curl, CURLINFO_RESPONSE_CODE, &status);
    return status >= 300;
}

static bool take_lines(struct transfer *transfer, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != '\n') {
            if (!text_add(&transfer->line, bytes + i, 1, ANSWER_MAX))
                return false;
            continue;
        }
        if (transfer->line.len > 0 &&
            transfer->on_line(transfer->ctx, transfer->line.ptr, transfer->line.len) != 0) {
            transfer->was_ended = true;
            return false;
        }
        transfer->line.len = 0;
    }
    return true;
}

static size_t on_answer(char *bytes, size_t size, size_t count, void *user)
{
    struct transfer *transfer = user;
    size_t len = size * count;
    bool taken;
    if (is_error(transfer))
        taken = text_add(&transfer->answer, bytes, len, ERROR_KEPT);
    else if (transfer->on_line != NULL)
        taken = take_lines(transfer, bytes, len);
    else if (transfer->sink != NULL)
        taken = !(transfer->was_ended = transfer->sink(transfer->ctx, bytes, len) != 0);
    else
        taken = text_add(&transfer->answer, bytes, len, ANSWER_MAX);
    return taken ? len : 0;
}

static size_t on_body(char *out, size_t size, size_t count, void *user)
{
    struct transfer *transfer = user;
    long got = transfer->source(transfer->ctx, out, size * count);
    transfer->was_ended = got < 0;
    return got < 0 ? CURL_READFUNC_ABORT : (size_t)got;
}

void transfer_add_header(struct transfer *transfer, const char *line)
{
    struct curl_slist *more = curl_slist_append(transfer->headers, line);
    if (more != NULL)
        transfer->headers = more;
}

int transfer_prepare(struct transfer *transfer, const char *method, const char *path,
                     const char *json)
{
    sg_client *client = transfer->client;
    CURL *curl = transfer->curl;
    client->error[0] = client->code[0] = '\0';
    client->reason[0] = '\0';
    client->status = 0;
    char *url = join(client->base, path);
    if (url == NULL)
        return fail(client, "unavailable", "out of memory");
    curl_easy_reset(curl);
    (void)curl_easy_setopt(curl, CURLOPT_URL, url);
    free(url);
    (void)curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, client->reason);
    (void)curl_easy_setopt(curl, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 10L);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_answer);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, transfer);
    if (client->timeout_ms > 0 && transfer->on_line == NULL && transfer->sink == NULL)
        (void)curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, client->timeout_ms);
    if (client->socket != NULL)
        (void)curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, client->socket);
    if (client->ca_file != NULL)
        (void)curl_easy_setopt(curl, CURLOPT_CAINFO, client->ca_file);
    transfer_add_header(transfer, client->auth);
    transfer_add_header(transfer, "Expect:");
    if (transfer->on_line != NULL) {
        transfer_add_header(transfer, "Accept: application/x-ndjson");
        /* The server sends something every 15 s: a longer silence means a lost connection. */
        (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
        (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)STREAM_SILENCE_S);
    }
    if (json != NULL) {
        transfer_add_header(transfer, "Content-Type: application/json");
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)strlen(json));
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, json);
    }
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, transfer->headers);
    return 0;
}

/* The text of "message" and "code" in an error's body, without a parser: the server writes both as
 * plain JSON strings. */
static void copy_member(const char *body, const char *key, char *out, size_t size)
{
    char wanted[32];
    size_t len = 0;
    (void)snprintf(wanted, sizeof wanted, "\"%s\":\"", key);
    const char *at = body == NULL ? NULL : strstr(body, wanted);
    out[0] = '\0';
    if (at == NULL)
        return;
    for (at += strlen(wanted); *at != '\0' && *at != '"' && len + 1 < size; at++) {
        if (*at == '\\' && at[1] != '\0')
            at++;
        out[len++] = *at;
    }
    out[len] = '\0';
}

/* What is wrong with the certificate or the encryption, not with the server or the way to it. */
static bool is_tls_error(CURLcode done)
{
    switch (done) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR:
        return true;
    default:
        return false;
    }
}

int transfer_conclude(struct transfer *transfer, CURLcode done, char **ret_json)
{
    sg_client *client = transfer->client;
    long status = 0;
    (void)curl_easy_getinfo(transfer->curl, CURLINFO_RESPONSE_CODE, &status);
    client->status = (int)status;
    if (status >= 300) {
        copy_member(transfer->answer.ptr, "message", client->error, sizeof client->error);
        copy_member(transfer->answer.ptr, "code", client->code, sizeof client->code);
        if (client->error[0] == '\0')
            (void)snprintf(client->error, sizeof client->error,
                           "the server responded with status %ld", status);
        return -1;
    }
    if (done != CURLE_OK && !transfer->was_ended)
        return fail(client, is_tls_error(done) ? "tls_error" : "unavailable",
                    client->reason[0] != '\0' ? client->reason : curl_easy_strerror(done));
    if (done != CURLE_OK)
        return fail(client, "canceled", "cancelled by the caller");
    if (ret_json != NULL) {
        *ret_json = transfer->answer.ptr == NULL ? strdup("") : transfer->answer.ptr;
        transfer->answer.ptr = NULL;
    }
    return 0;
}

void transfer_finish(struct transfer *transfer)
{
    curl_slist_free_all(transfer->headers);
    free(transfer->answer.ptr);
    free(transfer->line.ptr);
}

static int perform(struct transfer *transfer, const char *method, const char *path,
                   const char *json, char **ret_json)
{
    int result = transfer_prepare(transfer, method, path, json);
    if (result == 0)
        result = transfer_conclude(transfer, curl_easy_perform(transfer->curl), ret_json);
    transfer_finish(transfer);
    return result;
}

int sg_call(sg_client *client, const char *method, const char *path, const char *json,
            char **ret_json)
{
    struct transfer transfer = {.client = client, .curl = client->plain};
    return perform(&transfer, method, path, json, ret_json);
}

int sg_download(sg_client *client, const char *path, sg_sink *sink, void *ctx)
{
    struct transfer transfer = {.client = client, .curl = client->plain, .sink = sink, .ctx = ctx};
    return perform(&transfer, "GET", path, NULL, NULL);
}

int sg_upload(sg_client *client, const char *method, const char *path, sg_source *source, void *ctx,
              int64_t length, char **ret_json)
{
    struct transfer transfer = {
        .client = client, .curl = client->plain, .source = source, .ctx = ctx};
    int result = transfer_prepare(&transfer, method, path, NULL);
    if (result == 0) {
        transfer_add_header(&transfer, "Content-Type: application/octet-stream");
        (void)curl_easy_setopt(transfer.curl, CURLOPT_HTTPHEADER, transfer.headers);
        (void)curl_easy_setopt(transfer.curl, CURLOPT_UPLOAD, 1L);
        (void)curl_easy_setopt(transfer.curl, CURLOPT_READFUNCTION, on_body);
        (void)curl_easy_setopt(transfer.curl, CURLOPT_READDATA, &transfer);
        (void)curl_easy_setopt(transfer.curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)length);
        result = transfer_conclude(&transfer, curl_easy_perform(transfer.curl), ret_json);
    }
    transfer_finish(&transfer);
    return result;
}
