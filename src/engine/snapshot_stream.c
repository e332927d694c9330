/* Snapshots as streams of bytes: what a tier does not have is refused before the first byte. */

#include "engine/internal.h"

/* One that goes up; the provider's handle does the work. */
struct snapshot_writer {
    struct engine *engine;
    const struct provider_table *table;
    void *inner;
};

int engine_snapshot_upload(struct engine *engine, const struct engine_caller *caller,
                           struct str slug, enum snapshot_form form,
                           const struct snapshot_writer_calls *calls, void *ctx,
                           struct snapshot_writer **ret_writer, struct err *err)
{
    enum engine_tier tier = spec_tier(engine, ENGINE_TIER_DEFAULT);
    struct provider *provider = NULL;
    if (engine_check_caller(engine, caller, err) < 0 || engine_check_name(slug, "slug", err) < 0 ||
        engine_provider(engine, tier, &provider, err) < 0)
        return -1;
    const struct provider_table *table = engine_table(engine, tier);
    if (table->snapshot_upload == NULL)
        return engine_unsupported(
            tier, form == SNAPSHOT_TAR ? "begin from an archive" : "begin from an export", err);
    struct snapshot_writer *writer = mem_alloc(sizeof *writer);
    writer->engine = engine;
    writer->table = table;
    if (table->snapshot_upload(provider, slug, form, calls, ctx, &writer->inner, err) < 0) {
        free(writer);
        return -1;
    }
    *ret_writer = writer;
    return 0;
}

bool snapshot_writer_write(struct snapshot_writer *writer, struct str bytes)
{
    return writer->table->writer_write(writer->inner, bytes);
}

void snapshot_writer_finish(struct snapshot_writer *writer)
{
    writer->table->writer_finish(writer->inner);
}

struct snapshot_writer *snapshot_writer_free(struct snapshot_writer *writer)
{
    if (writer != NULL) {
        writer->table->writer_free(writer->inner);
        free(writer);
    }
    return NULL;
}

int engine_snapshot_download(struct engine *engine, const struct engine_caller *caller,
                             struct str id, UNUSED const struct file_reader_calls *calls,
                             UNUSED void *ctx, UNUSED struct file_reader **ret_reader,
                             struct err *err)
{
    struct snapshot_info snapshot;
    if (engine_check_caller(engine, caller, err) < 0 ||
        engine_snapshot_get(engine, caller, id, &snapshot, err) < 0)
        return -1;
    return engine_unsupported(snapshot.tier, "be exported", err);
}
