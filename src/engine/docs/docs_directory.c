/* Directories and files of the server. One that cannot be read keeps what was indexed of it and is
 * tried again; one that does not exist any more is removed from the index, as a page is that the
 * server says is gone. */

#include "base/log.h"
#include "engine/docs/docs_internal.h"

struct reading {
    struct docs_job work; /* first */
    struct docs_remote *remote;
    struct docs_known known;
    struct docs_pages read;
    struct err why; /* it could not be read */
};

static bool is_gone(const struct err *why)
{
    return why->code == ERR_NOT_FOUND || why->code == ERR_NOT_A_DIRECTORY;
}

static int prepare_directory(struct docs_job *work, struct err *err)
{
    struct reading *reading = (struct reading *)work;
    struct docs_upload *pages = NULL;
    size_t count = 0;
    if (directory_read(str_of(reading->remote->location), &work->arena, &pages, &count,
                       &reading->why) < 0)
        return 0;
    return docs_read_pages(work, pages, count, &reading->known, &reading->read, err);
}

static int run_directory(struct docs_job *work, struct library *library, struct err *err)
{
    struct reading *reading = (struct reading *)work;
    struct docs_source_spec spec = docs_remote_spec(reading->remote);
    bool is_read = reading->why.code == ERR_NONE;
    struct docs_source row =
        docs_source_row(&spec, is_read ? "ready" : "failed",
                        is_read ? reading->read.left_out : str_of(reading->why.msg),
                        reading->remote->created_ms, &work->arena);
    if (!library_has_source(library, row.id)) /* removed meanwhile */
        return 0;
    if (!is_read && !is_gone(&reading->why))
        return library_put_source(library, &row, err);
    return library_put_pages(library, &row, reading->read.items, reading->read.count, err);
}

static void directory_done(struct docs_job *work, const struct err *why)
{
    struct reading *reading = (struct reading *)work;
    struct docs_remote *remote = reading->remote;
    struct err err = why != NULL ? *why : reading->why;
    bool is_closing = work->service->is_closing;
    if (err.code == ERR_NONE)
        log_debug("docs.directory", LOG_STR("path", remote->location),
                  LOG_INT("pages", (int64_t)reading->read.count),
                  LOG_INT("read", (int64_t)reading->read.read));
    docs_job_free(work);
    if (!is_closing) /* else the source is freed already */
        docs_end_round(remote, err.code == ERR_NONE ? NULL : &err);
}

/* --- What is stored --- */

static int run_known(struct docs_job *work, struct library *library, struct err *err)
{
    struct reading *reading = (struct reading *)work;
    struct docs_source_spec spec = docs_remote_spec(reading->remote);
    return docs_list_known(work, library, &spec, &reading->known, err);
}

static void known_done(struct docs_job *work, const struct err *why)
{
    if (why != NULL) {
        directory_done(work, why);
        return;
    }
    work->prepare = prepare_directory;
    work->run = run_directory;
    work->done = directory_done;
    docs_submit(work->service, work);
}

void docs_read_directory(struct docs_remote *remote)
{
    struct reading *reading = mem_alloc(sizeof *reading);
    reading->remote = remote;
    reading->work.run = run_known;
    reading->work.done = known_done;
    docs_submit(remote->service, &reading->work);
}
