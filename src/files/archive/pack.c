#include "files/archive/pack.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>

#include "base/err.h"

enum { CHUNK = 65536 };

struct pack_reader {
    struct archive *archive;
    const struct files_source *source;
    uint64_t packed, packed_max;
    struct err err; /* of the source: libarchive cannot carry it */
    char chunk[CHUNK];
};

/* What libarchive says, or what our own callback said to it. */
static int pack_say(struct archive *archive, const struct err *own, struct err *err)
{
    if (own->code != ERR_NONE) {
        *err = *own;
        return -1;
    }
    const char *text = archive_error_string(archive);
    return err_set(err, ERR_INVALID, "archive: %s", text == NULL ? "damaged" : text);
}

static la_ssize_t read_source(UNUSED struct archive *archive, void *ctx, const void **ret_bytes)
{
    struct pack_reader *reader = ctx;
    ssize_t got = reader->source->read(reader->source->ctx, reader->chunk, CHUNK, &reader->err);
    if (got < 0)
        return ARCHIVE_FATAL;
    reader->packed += (size_t)got;
    if (reader->packed > reader->packed_max) {
        (void)err_set(&reader->err, ERR_TOO_LARGE, "the archive has more than %llu bytes",
                      (unsigned long long)reader->packed_max);
        return ARCHIVE_FATAL;
    }
    *ret_bytes = reader->chunk;
    return got;
}

int pack_reader_new(const struct files_source *source, uint64_t packed_max,
                    struct pack_reader **ret_reader, struct err *err)
{
    struct pack_reader *reader = mem_alloc(sizeof *reader);
    reader->source = source;
    reader->packed_max = packed_max;
    reader->archive = archive_read_new();
    assert(reader->archive != NULL);
    (void)archive_read_support_format_tar(reader->archive);
    (void)archive_read_support_filter_gzip(reader->archive);
    (void)archive_read_support_filter_zstd(reader->archive);
    if (archive_read_open(reader->archive, reader, NULL, read_source, NULL) != ARCHIVE_OK) {
        (void)pack_say(reader->archive, &reader->err, err);
        (void)pack_reader_free(reader);
        return -1;
    }
    *ret_reader = reader;
    return 0;
}

struct pack_reader *pack_reader_free(struct pack_reader *reader)
{
    if (reader == NULL)
        return NULL;
    (void)archive_read_free(reader->archive);
    free(reader);
    return NULL;
}

static enum pack_type type_of(struct archive_entry *entry)
{
    if (archive_entry_hardlink(entry) != NULL || archive_entry_hardlink_utf8(entry) != NULL)
        return PACK_HARDLINK;
    switch (archive_entry_filetype(entry)) {
    case AE_IFREG:
        return PACK_FILE;
    case AE_IFDIR:
        return PACK_DIR;
    case AE_IFLNK:
        return PACK_SYMLINK;
    default:
        return PACK_OTHER;
    }
}

/* The bytes as they are in the archive, or UTF-8 where only that is known. */
static const char *either(const char *bytes, const char *utf8)
{
    return bytes == NULL ? utf8 : bytes;
}

/* -1 for a time that nanoseconds since 1970 cannot say: it is left out. */
static int64_t mtime_of(struct archive_entry *entry)
{
    int64_t ns;
    if (!mul_i64(archive_entry_mtime(entry), 1000000000, &ns) ||
        !add_i64(ns, archive_entry_mtime_nsec(entry), &ns))
        return -1;
    return ns;
}

int pack_reader_next(struct pack_reader *reader, struct pack_entry *ret_entry, struct err *err)
{
    struct archive_entry *entry;
    int got = archive_read_next_header(reader->archive, &entry);
    if (got == ARCHIVE_EOF)
        return 0;
    /* ARCHIVE_WARN: the name is not text in our locale; its bytes are still there. */
    if (got != ARCHIVE_OK && got != ARCHIVE_WARN)
        return pack_say(reader->archive, &reader->err, err);
    struct pack_entry found = {
        .type = type_of(entry),
        .path = either(archive_entry_pathname(entry), archive_entry_pathname_utf8(entry)),
        .mode = archive_entry_perm(entry),
        .mtime_ns = mtime_of(entry),
    };
    if (found.type == PACK_HARDLINK)
        found.target = either(archive_entry_hardlink(entry), archive_entry_hardlink_utf8(entry));
    if (found.type == PACK_SYMLINK)
        found.target = either(archive_entry_symlink(entry), archive_entry_symlink_utf8(entry));
    if (archive_entry_size(entry) < 0)
        return err_set(err, ERR_INVALID, "archive: a file has a negative size");
    if (found.path == NULL || (found.type == PACK_SYMLINK && found.target == NULL))
        return err_set(err, ERR_INVALID, "archive: an entry has no name");
    found.size = (uint64_t)archive_entry_size(entry);
    *ret_entry = found;
    return 1;
}

int pack_reader_data(struct pack_reader *reader, struct str *ret_bytes, uint64_t *ret_offset,
                     struct err *err)
{
    const void *bytes;
    size_t size;
    la_int64_t offset;
    int got = archive_read_data_block(reader->archive, &bytes, &size, &offset);
    if (got == ARCHIVE_EOF)
        return 0;
    if (got != ARCHIVE_OK || offset < 0)
        return pack_say(reader->archive, &reader->err, err);
    *ret_bytes = str_n(bytes, size);
    *ret_offset = (uint64_t)offset;
    return 1;
}

uint64_t pack_reader_packed(const struct pack_reader *reader)
{
    return reader->packed;
}

struct pack_writer {
    struct archive *archive;
    const struct files_sink *sink;
    struct err err;
};

static la_ssize_t write_sink(struct archive *archive, void *ctx, const void *bytes, size_t size)
{
    struct pack_writer *writer = ctx;
    if (writer->err.code != ERR_NONE || size == 0)
        return (la_ssize_t)size; /* closing after an error: the sink has seen its last */
    if (writer->sink->write(writer->sink->ctx, str_n(bytes, size), &writer->err) < 0) {
        archive_set_error(archive, EIO, "the sink refused");
        return ARCHIVE_FATAL;
    }
    return (la_ssize_t)size;
}

int pack_writer_new(const struct files_sink *sink, enum pack_packing packing,
                    struct pack_writer **ret_writer, struct err *err)
{
    struct pack_writer *writer = mem_alloc(sizeof *writer);
    writer->sink = sink;
    writer->archive = archive_write_new();
    assert(writer->archive != NULL);
    int done = archive_write_set_format_pax_restricted(writer->archive);
    if (packing == PACK_GZIP)
        done |= archive_write_add_filter_gzip(writer->archive);
    if (packing == PACK_ZSTD)
        done |= archive_write_add_filter_zstd(writer->archive);
    /* Blocks of this size go to the sink; the last one is not padded to it. */
    (void)archive_write_set_bytes_per_block(writer->archive, CHUNK);
    (void)archive_write_set_bytes_in_last_block(writer->archive, 1);
    if (done != ARCHIVE_OK ||
        archive_write_open(writer->archive, writer, NULL, write_sink, NULL) != ARCHIVE_OK) {
        (void)pack_say(writer->archive, &writer->err, err);
        (void)pack_writer_free(writer);
        return -1;
    }
    *ret_writer = writer;
    return 0;
}

struct pack_writer *pack_writer_free(struct pack_writer *writer)
{
    if (writer == NULL)
        return NULL;
    /* An unfinished archive gets no end marker, so that its reader notices. */
    if (writer->err.code == ERR_NONE)
        (void)err_set(&writer->err, ERR_CANCELED, "not finished");
    (void)archive_write_free(writer->archive);
    free(writer);
    return NULL;
}

static mode_t pack_kind_of(enum pack_type type)
{
    return type == PACK_DIR ? AE_IFDIR : type == PACK_SYMLINK ? AE_IFLNK : AE_IFREG;
}

int pack_writer_entry(struct pack_writer *writer, const struct pack_entry *entry,
                      const struct pack_extent *extents, size_t count, struct err *err)
{
    struct archive_entry *out = archive_entry_new();
    assert(out != NULL);
    archive_entry_copy_pathname(out, entry->path);
    archive_entry_set_filetype(out, pack_kind_of(entry->type));
    archive_entry_set_perm(out, entry->mode & 0777);
    archive_entry_set_size(out, entry->type == PACK_FILE ? (la_int64_t)entry->size : 0);
    archive_entry_set_mtime(out, entry->mtime_ns / 1000000000,
                            (long)(entry->mtime_ns % 1000000000));
    if (entry->type == PACK_SYMLINK)
        archive_entry_copy_symlink(out, entry->target);
    for (size_t i = 0; i < count; i++)
        archive_entry_sparse_add_entry(out, (la_int64_t)extents[i].offset,
                                       (la_int64_t)extents[i].len);
    int done = archive_write_header(writer->archive, out);
    archive_entry_free(out);
    return done < ARCHIVE_WARN ? pack_say(writer->archive, &writer->err, err) : 0;
}

int pack_writer_data(struct pack_writer *writer, const void *bytes, size_t size, struct err *err)
{
    const char *at = bytes;
    while (size > 0) {
        la_ssize_t wrote = archive_write_data(writer->archive, at, size);
        if (wrote <= 0)
            return pack_say(writer->archive, &writer->err, err);
        at += wrote;
        size -= (size_t)wrote;
    }
    return 0;
}

int pack_writer_finish(struct pack_writer *writer, struct err *err)
{
    if (archive_write_close(writer->archive) < ARCHIVE_WARN || writer->err.code != ERR_NONE)
        return pack_say(writer->archive, &writer->err, err);
    return 0;
}
