/* Sources as rows of the library, and reading their pages. */

#include "base/clock.h"
#include "base/crypto/hash.h"
#include "engine/docs/docs_internal.h"

enum { LEFT_OUT_SHOWN = 400 }; /* bytes */

struct docs_source docs_source_row(const struct docs_source_spec *spec, const char *state,
                                   struct str error, int64_t created_ms, struct arena *arena)
{
    char id[17];
    library_source_id(spec->tenant, spec->package, spec->location, id);
    return (struct docs_source){.id = arena_dup(arena, str_of(id)),
                                .tenant = spec->tenant,
                                .kind = spec->kind,
                                .package = spec->package,
                                .location = spec->location,
                                .state = str_of(state),
                                .error = error,
                                .created_ms = created_ms,
                                .checked_ms = clock_date_ms()};
}

static void name_left_out(struct buf *left_out, struct str path, const struct err *why)
{
    if (left_out->len < LEFT_OUT_SHOWN)
        buf_printf(left_out, "%s%.*s: %s", left_out->len > 0 ? "; " : "", STR_ARG(path), why->msg);
}

int docs_list_known(struct docs_job *work, struct library *library,
                    const struct docs_source_spec *source, struct docs_known *ret_known,
                    struct err *err)
{
    char id[17];
    library_source_id(source->tenant, source->package, source->location, id);
    return library_known(library, str_of(id), &work->arena, &ret_known->items, &ret_known->count,
                         err);
}

bool docs_is_known(const struct docs_known *known, struct str path, struct str scope,
                   struct str text)
{
    for (size_t i = 0; i < known->count; i++) {
        char hash[HASH_HEX_SIZE];
        if (!str_eq(known->items[i].path, path))
            continue;
        hash_sha256_hex(text, hash);
        return str_eq(known->items[i].hash, str_of(hash)) && str_eq(known->items[i].scope, scope);
    }
    return false;
}

/* The hash of HTML is that of the converted text. */
static bool is_unchanged(const struct docs_known *known, const struct docs_upload *upload)
{
    return known != NULL && doc_format_of(upload->path) != DOC_HTML &&
           docs_is_known(known, upload->path, (struct str){0}, upload->text);
}

int docs_read_pages(struct docs_job *work, const struct docs_upload *uploads, size_t count,
                    const struct docs_known *known, struct docs_pages *ret_pages, struct err *err)
{
    struct arena *arena = &work->arena;
    AUTO_BUF struct buf left_out = {0};
    size_t asked = 0;
    struct document_ask *asks = arena_array(arena, struct document_ask, count + 1);
    struct reader_answer *answers = arena_array(arena, struct reader_answer, count + 1);
    struct library_page *pages = arena_array(arena, struct library_page, count + 1);
    for (size_t i = 0; i < count; i++) {
        pages[i] = (struct library_page){.path = uploads[i].path,
                                         .is_unread = is_unchanged(known, &uploads[i])};
        if (!pages[i].is_unread)
            asks[asked++] = (struct document_ask){.title = uploads[i].path,
                                                  .text = uploads[i].text,
                                                  .format = doc_format_of(uploads[i].path)};
    }
    if (reader_read(&work->service->reader, asks, asked, arena, answers, err) < 0)
        return -1;
    for (size_t i = 0, at = 0; i < count; i++) {
        if (pages[i].is_unread)
            continue;
        const struct reader_answer *answer = &answers[at++];
        pages[i].document = &answer->document;
        pages[i].is_unread = answer->why.code != ERR_NONE;
        if (pages[i].is_unread)
            name_left_out(&left_out, uploads[i].path, &answer->why);
    }
    *ret_pages = (struct docs_pages){pages, count, asked, arena_dup(arena, buf_str(&left_out))};
    return 0;
}
