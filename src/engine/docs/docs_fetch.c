/* Sources that are read again: URLs and directories, two at a time. URLs are fetched through the
 * egress gate, again when they are old, and later when they failed. A page that fails keeps what
 * was indexed of it; one that the server says is gone (404, 410) is removed. */

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "config/config.h"
#include "egress/gate/gate.h"
#include "egress/net/effective.h"
#include "egress/policy/url.h"
#include "engine/docs/docs_internal.h"

enum {
    AT_ONCE = 2,
    TOTAL_MS = 60000,
    RETRY_MAX_MS = 3600000,
    HOUR_MS = 3600000,
    VALIDATOR_MAX = 512, /* bytes of an ETag that is kept */
};

static void fetch(struct docs_remote *remote);

/* --- The gate --- */

int docs_open_gate(struct docs_service *service, struct err *err)
{
    const struct config_egress *egress = &service->engine->config->egress;
    service->gate_options = mem_alloc(sizeof *service->gate_options);
    buf_put_joined(&service->dns_servers, egress->dns_servers.items, egress->dns_servers.len, ",");
    buf_put(&service->ca_file, egress->ca_file);
    if (service->dns_servers.len > 0)
        service->gate_options->dns_servers = buf_cstr(&service->dns_servers);
    if (service->ca_file.len > 0)
        service->gate_options->ca_file = buf_cstr(&service->ca_file);
    return gate_open(service->engine->loop, service->gate_options, &service->gate, err);
}

static void remote_free(struct docs_remote *remote)
{
    (void)gate_call_free(remote->call);
    (void)policy_free(remote->policy);
    buf_done(&remote->body);
    arena_done(&remote->arena);
    free(remote->tenant);
    free(remote->package);
    free(remote->location);
    free(remote);
}

void docs_close_gate(struct docs_service *service)
{
    while (service->remotes != NULL) {
        struct docs_remote *remote = service->remotes;
        service->remotes = remote->next;
        remote_free(remote);
    }
    (void)gate_free(service->gate);
    free(service->gate_options);
    buf_done(&service->dns_servers);
    buf_done(&service->ca_file);
}

/* --- Watching --- */

static char *dup_text(struct str text)
{
    AUTO_BUF struct buf copy = {0};
    buf_put(&copy, text);
    return mem_dup_cstr(buf_cstr(&copy));
}

static struct docs_remote *docs_fetch_find(const struct docs_service *service, const char *id)
{
    for (struct docs_remote *remote = service->remotes; remote != NULL; remote = remote->next)
        if (strcmp(remote->id, id) == 0 && !remote->is_removed)
            return remote;
    return NULL;
}

void docs_watch(struct docs_service *service, const struct docs_source_spec *spec, bool is_config,
                int64_t created_ms)
{
    char id[17];
    library_source_id(spec->tenant, spec->package, spec->location, id);
    struct docs_remote *remote = docs_fetch_find(service, id);
    if (remote == NULL) {
        remote = mem_alloc(sizeof *remote);
        remote->service = service;
        memcpy(remote->id, id, sizeof id);
        remote->tenant = dup_text(spec->tenant);
        remote->package = dup_text(spec->package);
        remote->location = dup_text(spec->location);
        remote->is_directory = str_eq(spec->kind, STR("directory"));
        remote->is_config = is_config;
        remote->created_ms = created_ms;
        remote->next = service->remotes;
        service->remotes = remote;
    }
    remote->due_ms = 0; /* now */
    docs_fetch_tick(service);
}

void docs_unwatch(struct docs_service *service, struct str id)
{
    for (struct docs_remote *remote = service->remotes; remote != NULL; remote = remote->next)
        if (str_eq(str_of(remote->id), id))
            remote->is_removed = true; /* it goes when nothing of it is under way */
}

static void sweep(struct docs_service *service)
{
    for (struct docs_remote **at = &service->remotes; *at != NULL;) {
        struct docs_remote *remote = *at;
        if (!remote->is_removed || remote->is_busy) {
            at = &remote->next;
            continue;
        }
        *at = remote->next;
        remote_free(remote);
    }
}

/* In the order in which they became due; new ones are at the front of the list. */
static struct docs_remote *next_due(const struct docs_service *service)
{
    struct docs_remote *next = NULL;
    int64_t now = clock_boot_ms();
    for (struct docs_remote *remote = service->remotes; remote != NULL; remote = remote->next)
        if (!remote->is_busy && !remote->is_removed && remote->due_ms <= now &&
            (next == NULL || remote->due_ms <= next->due_ms))
            next = remote;
    return next;
}

void docs_fetch_tick(void *ctx)
{
    struct docs_service *service = ctx;
    sweep(service);
    docs_packages_tick(service);
    docs_look_for_model(service);
    while (service->is_open && service->busy < AT_ONCE) {
        struct docs_remote *remote = next_due(service);
        if (remote == NULL)
            return;
        remote->is_busy = true;
        service->busy++;
        if (remote->is_directory)
            docs_read_directory(remote);
        else
            fetch(remote);
    }
}

/* --- The end of a round --- */

struct recording {
    struct docs_job work; /* first */
    struct docs_remote *remote;
    const char *state;
    struct err why;
    bool is_gone, is_unchanged;
    struct document_ask ask; /* what was fetched */
    struct library_page page;
};

struct docs_source_spec docs_remote_spec(const struct docs_remote *remote)
{
    return (struct docs_source_spec){.tenant = str_of(remote->tenant),
                                     .kind = remote->is_directory ? STR("directory") : STR("url"),
                                     .package = str_of(remote->package),
                                     .location = str_of(remote->location)};
}

static int run_record(struct docs_job *work, struct library *library, struct err *err)
{
    struct recording *recording = (struct recording *)work;
    struct docs_remote *remote = recording->remote;
    struct docs_source_spec spec = docs_remote_spec(remote);
    struct docs_source row = docs_source_row(&spec, recording->state, str_of(recording->why.msg),
                                             remote->created_ms, &work->arena);
    if (!library_has_source(library, row.id)) /* removed meanwhile */
        return 0;
    if (recording->is_gone)
        return library_put_pages(library, &row, NULL, 0, err);
    if (recording->why.code != ERR_NONE || recording->is_unchanged)
        return library_put_source(library, &row, err);
    return library_put_pages(library, &row, &recording->page, 1, err);
}

/* A page that was fetched and is no document: what was indexed stays. */
static int prepare_record(struct docs_job *work, struct err *err)
{
    struct recording *recording = (struct recording *)work;
    struct reader_answer *answer = arena_new(&work->arena, struct reader_answer);
    if (reader_read(&work->service->reader, &recording->ask, 1, &work->arena, answer, err) < 0)
        return -1;
    recording->page.document = &answer->document;
    recording->why = answer->why;
    if (answer->why.code == ERR_NONE && str_trim(answer->document.text).len == 0)
        (void)err_set(&recording->why, ERR_INVALID, "the page is empty");
    if (recording->why.code != ERR_NONE)
        recording->state = "failed";
    return 0;
}

int64_t docs_retry_ms(const struct docs_service *service, int tries)
{
    int64_t wait = service->engine->config->search.retry_seconds * 1000;
    for (int i = 1; i < tries && wait < RETRY_MAX_MS; i++)
        wait *= 2;
    return MIN(wait, (int64_t)RETRY_MAX_MS);
}

/* A directory is read again at the next start. */
static int64_t next_due_ms(const struct docs_remote *remote)
{
    const struct docs_service *service = remote->service;
    if (remote->tries > 0)
        return clock_boot_ms() + docs_retry_ms(service, remote->tries);
    return remote->is_directory
               ? INT64_MAX
               : clock_boot_ms() + service->engine->config->search.refresh_hours * HOUR_MS;
}

void docs_end_round(struct docs_remote *remote, const struct err *why)
{
    struct docs_source_spec spec = docs_remote_spec(remote);
    remote->tries = why == NULL ? 0 : remote->tries + 1;
    remote->due_ms = next_due_ms(remote);
    if (why != NULL)
        log_warn("docs.source", LOG_STR("location", remote->location), LOG_STR("error", why->msg));
    if (remote->tries <= 1 && !remote->is_removed) /* one event for all failures in a row */
        docs_publish_source(remote->service, &spec, why);
    remote->call = gate_call_free(remote->call);
    buf_done(&remote->body);
    arena_done(&remote->arena);
    remote->is_busy = false;
    remote->service->busy--;
    docs_fetch_tick(remote->service);
}

static void record_done(struct docs_job *work, const struct err *why)
{
    struct recording *recording = (struct recording *)work;
    struct docs_remote *remote = recording->remote;
    struct err err = why != NULL ? *why : recording->why;
    bool is_closing = work->service->is_closing;
    docs_job_free(work);
    if (!is_closing) /* else the source is gone already */
        docs_end_round(remote, err.code == ERR_NONE ? NULL : &err);
}

static struct recording *recording_of(struct docs_remote *remote, const char *state)
{
    struct recording *recording = mem_alloc(sizeof *recording);
    recording->remote = remote;
    recording->state = state;
    recording->work.run = run_record;
    recording->work.done = record_done;
    return recording;
}

static void docs_fetch_fail(struct docs_remote *remote, const struct err *why, bool is_gone)
{
    struct recording *recording = recording_of(remote, "failed");
    recording->why = *why;
    recording->is_gone = is_gone;
    docs_submit(remote->service, &recording->work);
}

static void index_text(struct docs_remote *remote, struct str text, enum doc_format format)
{
    struct recording *recording = recording_of(remote, "ready");
    struct arena *arena = &recording->work.arena;
    struct str package = str_of(remote->package), url = str_of(remote->location);
    recording->ask = (struct document_ask){
        .title = arena_dup(arena, package.len > 0 ? package : url),
        .text = arena_dup(arena, text),
        .format = format,
    };
    recording->page = (struct library_page){
        .path = arena_dup(arena, url),
        .etag = arena_dup(arena, remote->etag),
        .modified = arena_dup(arena, remote->modified),
    };
    recording->work.prepare = prepare_record;
    docs_submit(remote->service, &recording->work);
}

/* --- The answer --- */

static struct str header_of(const struct fetch_answer *answer, const char *name)
{
    for (size_t i = 0; i < answer->header_count; i++)
        if (str_eq(answer->headers[i].name, str_of(name)))
            return answer->headers[i].value;
    return (struct str){0};
}

/* By the type that the server gives; where it says nothing, by the end of the path. */
static void take_body(struct docs_remote *remote, struct str type, struct str body)
{
    struct err err = {0};
    struct url url;
    type = str_trim(str_slice(type, 0, str_find_char(type, ';')));
    enum doc_format format = url_parse(str_of(remote->location), &url, &err) == 0
                                 ? doc_format_of(url_path(&url))
                                 : DOC_TEXT;
    if (str_eq_nocase(type, STR("text/html")) || str_eq_nocase(type, STR("application/xhtml+xml")))
        format = DOC_HTML;
    else if (str_eq_nocase(type, STR("text/markdown")) ||
             str_eq_nocase(type, STR("text/x-markdown")) || str_eq_nocase(type, STR("text/mdx")))
        format = DOC_MARKDOWN;
    else if (type.len > 0 && !str_starts(type, STR("text/")) &&
             !str_eq_nocase(type, STR("application/typescript")) &&
             !(str_eq_nocase(type, STR("application/octet-stream")) && format != DOC_TEXT)) {
        (void)err_set(&err, ERR_UNSUPPORTED,
                      "content type '%.*s' is not a document: Markdown, HTML or text is needed",
                      STR_ARG(str_slice(type, 0, 80)));
        docs_fetch_fail(remote, &err, false);
        return;
    }
    index_text(remote, body, format);
}

static void docs_fetch_on_answer(void *ctx, const struct gate_answer *answer,
                                 UNUSED const struct verdict *refusal, const struct err *why)
{
    struct docs_remote *remote = ctx;
    struct err err = {0};
    if (why != NULL) {
        docs_fetch_fail(remote, why, false);
        return;
    }
    int status = answer->http.status;
    if (status == 304 && (remote->etag.len > 0 || remote->modified.len > 0)) {
        struct recording *recording = recording_of(remote, "ready");
        recording->is_unchanged = true;
        docs_submit(remote->service, &recording->work);
        return;
    }
    if (status != 200) {
        (void)err_set(&err, status == 404 || status == 410 ? ERR_NOT_FOUND : ERR_UNAVAILABLE,
                      "the server answered %d", status);
        docs_fetch_fail(remote, &err, status == 404 || status == 410);
        return;
    }
    struct str etag = header_of(&answer->http, "etag");
    struct str modified = header_of(&answer->http, "last-modified");
    remote->etag = etag.len > VALIDATOR_MAX ? (struct str){0} : arena_dup(&remote->arena, etag);
    remote->modified =
        modified.len > VALIDATOR_MAX ? (struct str){0} : arena_dup(&remote->arena, modified);
    take_body(remote, header_of(&answer->http, "content-type"), answer->http.body);
}

/* --- The request --- */

/* The public Internet; and an address that is not public when the operator has opened it for the
 * host, and the source is the operator's too. */
static int make_policy(struct docs_remote *remote, struct err *err)
{
    const struct config_list *private = &remote->service->engine->config->egress.private;
    struct effective_sources sources = {.private = private->items, .private_count = private->len};
    struct url url;
    AUTO_BUF struct buf text = {0};
    AUTO_POLICY struct policy *written = NULL;
    if (url_parse(str_of(remote->location), &url, err) < 0)
        return -1;
    bool is_private = false;
    for (size_t i = 0; remote->is_config && i < private->len; i++)
        is_private |= str_starts(private->items[i], str_of(url.host.text)) &&
                      private->items[i].len > strlen(url.host.text) &&
                      private->items[i].ptr[strlen(url.host.text)] == '=';
    if (is_private)
        buf_printf(&text, "allow %s:%u", url.host.text, (unsigned)url.port);
    else
        buf_put_cstr(&text, "public");
    if (policy_parse(buf_str(&text), POLICY_BY_OPERATOR, &written, err) < 0)
        return -1;
    remote->policy = policy_free(remote->policy);
    if (!is_private)
        sources.private_count = 0;
    return policy_effective(written, &sources, &remote->policy, err);
}

static void request(struct docs_remote *remote)
{
    struct fetch_header headers[4] = {
        {STR("Accept"), STR("text/markdown, text/plain;q=0.9, text/html;q=0.8")},
        {STR("User-Agent"), STR("sandglass/" SG_VERSION)},
    };
    size_t count = 2;
    struct err err = {0};
    if (make_policy(remote, &err) < 0) {
        docs_fetch_fail(remote, &err, false);
        return;
    }
    if (remote->etag.len > 0)
        headers[count++] = (struct fetch_header){STR("If-None-Match"), remote->etag};
    if (remote->modified.len > 0)
        headers[count++] = (struct fetch_header){STR("If-Modified-Since"), remote->modified};
    struct gate_request asked = {
        .policy = remote->policy,
        .url = str_of(remote->location),
        .method = STR("GET"),
        .headers = headers,
        .header_count = count,
        .redirect = GATE_REDIRECT_FOLLOW,
        .limits = {.total_ms = TOTAL_MS, .body_max = DOCUMENT_MAX},
    };
    remote->call = gate_fetch(remote->service->gate, &asked, docs_fetch_on_answer, remote);
}

/* --- Validators --- */

struct validating {
    struct docs_job work; /* first */
    struct docs_remote *remote;
    struct str etag, modified;
};

static int run_validate(struct docs_job *work, struct library *library, struct err *err)
{
    struct validating *validating = (struct validating *)work;
    return library_validators(library, str_of(validating->remote->id),
                              str_of(validating->remote->location), &work->arena, &validating->etag,
                              &validating->modified, err);
}

static void validate_done(struct docs_job *work, const struct err *why)
{
    struct validating *validating = (struct validating *)work;
    struct docs_remote *remote = validating->remote;
    if (work->service->is_closing) {
        docs_job_free(work);
        return;
    }
    remote->etag = arena_dup(&remote->arena, validating->etag);
    remote->modified = arena_dup(&remote->arena, validating->modified);
    if (why != NULL)
        docs_end_round(remote, why);
    else
        request(remote);
    docs_job_free(work);
}

static void fetch(struct docs_remote *remote)
{
    struct validating *validating = mem_alloc(sizeof *validating);
    validating->remote = remote;
    validating->work.run = run_validate;
    validating->work.done = validate_done;
    docs_submit(remote->service, &validating->work);
}
