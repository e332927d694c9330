#pragma once

/* tar as a sequence of plain structs. libarchive is included only by pack.c. */

#include "files/files.h"

struct err;

enum pack_type { PACK_FILE, PACK_DIR, PACK_SYMLINK, PACK_HARDLINK, PACK_OTHER };

struct pack_entry {
    enum pack_type type;
    const char *path;
    const char *target; /* of links */
    uint64_t size;
    mode_t mode;
    int64_t mtime_ns;
};
struct pack_extent {
    uint64_t offset, len;
};

struct pack_reader;
/* The source is borrowed. Reading more than `packed_max` bytes of it is TOO_LARGE. */
int pack_reader_new(const struct files_source *source, uint64_t packed_max,
                    struct pack_reader **ret_reader, struct err *err) MUST_USE;
struct pack_reader *pack_reader_free(struct pack_reader *reader);
DEFINE_FREEP(pack_reader)
/* 1 with an entry, good until the next call; 0 at the end. */
int pack_reader_next(struct pack_reader *reader, struct pack_entry *ret_entry,
                     struct err *err) MUST_USE;
/* 1 with bytes at an offset, 0 at the end of the entry. */
int pack_reader_data(struct pack_reader *reader, struct str *ret_bytes, uint64_t *ret_offset,
                     struct err *err) MUST_USE;
uint64_t pack_reader_packed(const struct pack_reader *reader); /* bytes read so far */

struct pack_writer;
enum pack_packing { PACK_PLAIN, PACK_GZIP, PACK_ZSTD };
int pack_writer_new(const struct files_sink *sink, enum pack_packing packing,
                    struct pack_writer **ret_writer, struct err *err) MUST_USE;
struct pack_writer *pack_writer_free(struct pack_writer *writer);
DEFINE_FREEP(pack_writer)
/* With extents the rest of the file is holes. Then exactly `size` bytes follow, holes as zeros. */
int pack_writer_entry(struct pack_writer *writer, const struct pack_entry *entry,
                      const struct pack_extent *extents, size_t count, struct err *err) MUST_USE;
int pack_writer_data(struct pack_writer *writer, const void *bytes, size_t size,
                     struct err *err) MUST_USE;
int pack_writer_finish(struct pack_writer *writer, struct err *err) MUST_USE;
