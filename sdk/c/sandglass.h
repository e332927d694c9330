/* sandglass for C programs: a small client of its HTTP API (docs/API.md).
 *
 * A client belongs to one thread at a time. Calls block until they are answered. What is asked and
 * answered is JSON text; bring your own parser, or use the calls that need none. A call gives 0, or
 * -1 with sg_error and sg_error_code set until the next call. */
#ifndef SANDGLASS_H
#define SANDGLASS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SG_API __attribute__((visibility("default")))
#else
#define SG_API
#endif

typedef struct sg_client sg_client;

/* `url` is like "http://127.0.0.1:7070", "https://box.example.com" or "unix:/run/sandglass.sock";
 * NULL takes $SANDGLASS_URL, else http://127.0.0.1:7070. `token` NULL takes $SANDGLASS_TOKEN. Gives
 * NULL when there is no token or the URL is not one. */
SG_API sg_client *sg_open(const char *url, const char *token);
/* A server of this program's own, for programs that want no daemon: `program` (NULL: "sandglass" of
 * the PATH) is started as a child process with a directory of its own, spoken to through a socket,
 * and ends with sg_close or with this program. Nothing of it runs inside this process, which so
 * needs none of its privileges or libraries. NULL when it cannot be started. */
SG_API sg_client *sg_open_local(const char *program);
SG_API void sg_close(sg_client *client);
/* File of trusted certificates (PEM) instead of the system's, for a server with an authority of its
 * own; $SSL_CERT_FILE when this is not called. */
SG_API void sg_set_ca_file(sg_client *client, const char *path);

/* Sets a time limit: a call without a complete answer after `ms` milliseconds fails with
 * "unavailable". 0, the default, sets no limit. Streams and downloads are not limited. */
SG_API void sg_set_timeout(sg_client *client, long ms);

/* Where it speaks to, without a '/' at the end; "http://localhost" for a Unix socket. */
SG_API const char *sg_url(const sg_client *client);

/* Of the last call that failed: one line for people, and the code of the API's table ("not_found"),
 * "tls_error" when the server's certificate is not trusted or TLS failed otherwise, "unavailable"
 * when no answer came for another reason. "" after a call that did not fail. */
SG_API const char *sg_error(const sg_client *client);
SG_API const char *sg_error_code(const sg_client *client);
/* The HTTP status of the last answer; 0: none came. */
SG_API int sg_status(const sg_client *client);

/* One request. `json` NULL sends no body. On success *ret_json is the answer, NUL-terminated, which
 * the caller frees with sg_free; ret_json may be NULL. */
SG_API int sg_call(sg_client *client, const char *method, const char *path, const char *json,
                   char **ret_json);
SG_API void sg_free(char *json);

/* Gives the bytes of an answer as they come; a call-back that gives other than 0 ends the call. */
typedef int sg_sink(void *ctx, const char *bytes, size_t len);
SG_API int sg_download(sg_client *client, const char *path, sg_sink *sink, void *ctx);
/* Sends bytes as they are asked for: up to `room`, 0 at the end, -1 to give up. `length` is what
 * will come in all, -1 when unknown. */
typedef long sg_source(void *ctx, char *out, size_t room);
SG_API int sg_upload(sg_client *client, const char *method, const char *path, sg_source *source,
                     void *ctx, int64_t length, char **ret_json);

/* A stream of events, one JSON object a line: {"event", "id"?, "data"}. A call-back that gives
 * other than 0 ends the call. With `fd` not -1, `on_fd` is called while the stream runs whenever
 * `fd` can be read; it may use the client for other calls. It gives 0 to go on, 1 to be asked no
 * more, -1 to end the stream. */
typedef int sg_line(void *ctx, const char *json, size_t len);
typedef int sg_ready(void *ctx);
SG_API int sg_stream(sg_client *client, const char *method, const char *path, const char *json,
                     sg_line *on_line, int fd, sg_ready *on_fd, void *ctx);
/* sg_call with the same `fd` and `on_fd`, which is called while the answer is waited for. */
SG_API int sg_call_beside(sg_client *client, const char *method, const char *path, const char *json,
                          char **ret_json, int fd, sg_ready *on_fd, void *ctx);
/* From `on_fd` or `on_line`: POSTs bytes while the stream goes on, and calls `on_sent` with the
 * stream's ctx when it was answered, whatever the answer. For input of a command, which the server
 * takes only as fast as the command reads: a call that waits for that would keep the command's
 * output waiting. One at a time ("conflict"); one that is still being sent when the stream ends is
 * given up. */
typedef void sg_sent(void *ctx);
SG_API int sg_stream_send(sg_client *client, const char *path, const char *bytes, size_t len,
                          sg_sent *on_sent);

/* ---- everyday calls ----------------------------------------------------------------------- */

enum { SG_ID_SIZE = 72 };

/* `spec_json` is the body of POST /v1/sandboxes; NULL: all as configured. */
SG_API int sg_create(sg_client *client, const char *spec_json, char id[SG_ID_SIZE]);
SG_API int sg_delete(sg_client *client, const char *sandbox);
/* Code, and a command for sh -c; the answers are those of run_code and commands. `language` NULL:
 * the sandbox's own. What the code does wrong is part of the answer, and so is whether variables of
 * earlier runs were lost: "stateLost", "stateLostReason", "stateLostMessage". */
SG_API int sg_run(sg_client *client, const char *sandbox, const char *language, const char *code,
                  char **ret_json);
SG_API int sg_exec(sg_client *client, const char *sandbox, const char *command, char **ret_json);
/* Automatic checkpoints of /workspace (a sandbox made with "checkpoints": "turn"): back to the
 * newest that differs, or to the one given (`to` NULL: one step); what differs since one (`from`
 * NULL: the newest) until another (`to` NULL: now). */
SG_API int sg_undo(sg_client *client, const char *sandbox, const char *to, char **ret_json);
SG_API int sg_diff(sg_client *client, const char *sandbox, const char *from, const char *to,
                   char **ret_json);
/* Whole files. What is read has a NUL behind it and is freed with sg_free. */
SG_API int sg_file_read(sg_client *client, const char *sandbox, const char *path, char **ret_bytes,
                        size_t *ret_len);
SG_API int sg_file_write(sg_client *client, const char *sandbox, const char *path,
                         const char *bytes, size_t len);

/* Documents for search: `spec_json` is the body of POST /v1/docs. `more` is the rest of the query
 * ("&package=ai&limit=3", escaped) or NULL; the answer is that of GET /v1/docs/search. */
SG_API int sg_docs_add(sg_client *client, const char *spec_json, char **ret_json);
SG_API int sg_docs_search(sg_client *client, const char *query, const char *more, char **ret_json);

/* Approvals (docs/APPROVALS.md): `spec_json` is the body of POST /v1/approvals; `status` NULL lists
 * all. A decision names the subject and the digest (NULL: not compared) that the person saw, and
 * needs a token with the scope "approve"; `note` may be NULL. */
SG_API int sg_approval_request(sg_client *client, const char *spec_json, char **ret_json);
SG_API int sg_approval_list(sg_client *client, const char *status, char **ret_json);
SG_API int sg_approval_get(sg_client *client, const char *id, char **ret_json);
SG_API int sg_approval_decide(sg_client *client, const char *id, int approved, const char *subject,
                              const char *digest, const char *note, char **ret_json);

/* ---- zones --------------------------------------------------------------------------------- */

/* /workspace and /cache over directories of this machine (docs/ZONES.md); needs no server.
 * `program` (NULL: "sandglass" of the PATH) is started as a worker that can reach nothing but them;
 * a zone whose directory is NULL is "zone_not_configured". Belongs to one thread at a time. */
typedef struct sg_zones sg_zones;
SG_API sg_zones *sg_zones_open(const char *program, const char *workspace, const char *cache,
                               int read_only);
/* Both zones below one directory, which is made with them. */
SG_API sg_zones *sg_zones_open_root(const char *program, const char *root, int read_only);
SG_API void sg_zones_close(sg_zones *zones);
SG_API const char *sg_zones_error(const sg_zones *zones);
SG_API const char *sg_zones_error_code(const sg_zones *zones);

/* What is given has a NUL behind it and is freed with sg_free. */
SG_API int sg_zones_read(sg_zones *zones, const char *path, char **ret_bytes, size_t *ret_len);
SG_API int sg_zones_write(sg_zones *zones, const char *path, const char *bytes, size_t len);
SG_API int sg_zones_delete(sg_zones *zones, const char *path, int recursive);
SG_API int sg_zones_exists(sg_zones *zones, const char *path); /* 1, 0, or -1 */
/* Names, each with a NUL behind it. */
SG_API int sg_zones_list(sg_zones *zones, const char *path, char **ret_names, size_t *ret_len);
/* Where it lies on this machine, for other programs. */
SG_API int sg_zones_resolve(sg_zones *zones, const char *path, char **ret_path);
/* Searches and edits; what is asked and answered is JSON, as over HTTP (docs/API.md, "zones"), but
 * for the path: {"pattern", "limit"?, "searchAll"?}; {"pattern", "include"?, "ignoreCase"?,
 * "limit"?, "searchAll"?}; {"old", "new", "all"?}. ret_json may be NULL. */
SG_API int sg_zones_glob(sg_zones *zones, const char *path, const char *asked_json,
                         char **ret_json);
SG_API int sg_zones_grep(sg_zones *zones, const char *path, const char *asked_json,
                         char **ret_json);
SG_API int sg_zones_edit(sg_zones *zones, const char *path, const char *asked_json,
                         char **ret_json);

/* "a b/c" becomes "a%20b%2Fc", to be freed with sg_free. */
SG_API char *sg_escape(const char *text);

#ifdef __cplusplus
}
#endif
#endif
