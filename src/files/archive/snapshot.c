#include "files/archive/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crypto/sha256.h"
#include "base/err.h"
#include "base/fd.h"
#include "files/archive/pack.h"
#include "files/internal.h"

#define MAGIC "sandglass snapshot "
#define MANIFEST "MANIFEST"

enum { PART_NAME_SIZE = 32, CHUNK = 1 << 16 };

struct part {
    char name[PART_NAME_SIZE];    /* in the archive */
    char dir[FILES_NAME_MAX + 1]; /* in the tree; only for output */
    uint64_t bytes;
    char hash[SHA256_HEX_SIZE];
};

struct parts {
    struct part list[FILES_SNAPSHOT_PARTS_MAX];
    size_t count;
};

/* ---- out ---- */

/* Counts and hashes the bytes; passes them on if a sink is set. */
struct counting {
    struct sha256 sha;
    uint64_t bytes;
    struct pack_writer *writer;
};

static int count_bytes(void *ctx, struct str bytes, struct err *err)
{
    struct counting *counting = ctx;
    sha256_add(&counting->sha, bytes);
    counting->bytes += bytes.len;
    return counting->writer == NULL ? 0
                                    : pack_writer_data(counting->writer, bytes.ptr, bytes.len, err);
}

static int pack_part(struct files *files, struct str path, const struct part *part,
                     struct counting *counting, struct files_tar_result *result, struct err *err)
{
    char dir[FILES_PATH_MAX];
    struct files_sink sink = {count_bytes, counting};
    struct files_tar_out_options options = {.is_layer = true};
    if ((size_t)snprintf(dir, sizeof dir, "%.*s/%s", STR_ARG(path), part->dir) >= sizeof dir)
        return err_set(err, ERR_INVALID, "a path is too long");
    sha256_init(&counting->sha);
    counting->bytes = 0;
    return files_tar_out(files, str_of(dir), &sink, &options, result, err);
}

static int snapshot_compare(const void *a, const void *b)
{
    return strcmp(((const struct part *)a)->dir, ((const struct part *)b)->dir);
}

static int find_parts(struct files *files, struct str path, struct parts *parts, struct err *err)
{
    AUTO_CLOSE int fd = files_open_dir(files, path, err);
    AUTO_MEM struct files_dir *dir = mem_alloc(sizeof *dir);
    struct files_dirent entry;
    int got = 0;
    if (fd < 0)
        return -1;
    dir->fd = fd;
    while ((got = files_dir_next(dir, &entry)) > 0) {
        if (parts->count == FILES_SNAPSHOT_PARTS_MAX)
            return err_set(err, ERR_LIMIT, "more than %d layers in one snapshot",
                           FILES_SNAPSHOT_PARTS_MAX);
        struct part *part = &parts->list[parts->count++];
        (void)snprintf(part->dir, sizeof part->dir, "%s", entry.name);
    }
    if (got < 0)
        return err_sys(err, errno, "read a directory");
    qsort(parts->list, parts->count, sizeof parts->list[0], snapshot_compare);
    for (size_t i = 0; i < parts->count; i++)
        (void)snprintf(parts->list[i].name, PART_NAME_SIZE, "%03zu.tar", i);
    return 0;
}

static int snapshot_put_entry(struct pack_writer *writer, const char *name, uint64_t size,
                              struct err *err)
{
    struct pack_entry entry = {.type = PACK_FILE, .path = name, .size = size, .mode = 0644};
    return pack_writer_entry(writer, &entry, NULL, 0, err);
}

static int put_manifest(struct pack_writer *writer, struct str name, const struct parts *parts,
                        struct err *err)
{
    AUTO_BUF struct buf text = {0};
    buf_printf(&text, MAGIC "%d\nname %.*s\n", FILES_SNAPSHOT_VERSION, STR_ARG(name));
    for (size_t i = 0; i < parts->count; i++)
        buf_printf(&text, "part %s %llu %s\n", parts->list[i].name,
                   (unsigned long long)parts->list[i].bytes, parts->list[i].hash);
    return snapshot_put_entry(writer, MANIFEST, text.len, err) < 0
               ? -1
               : pack_writer_data(writer, text.ptr, text.len, err);
}

static int put_part(struct files *files, struct str path, const struct part *part,
                    struct pack_writer *writer, struct err *err)
{
    struct counting counting = {.writer = writer};
    struct files_tar_result again = {0};
    char hash[SHA256_HEX_SIZE];
    if (snapshot_put_entry(writer, part->name, part->bytes, err) < 0 ||
        pack_part(files, path, part, &counting, &again, err) < 0)
        return -1;
    sha256_hex(&counting.sha, hash);
    if (counting.bytes != part->bytes || strcmp(hash, part->hash) != 0)
        return err_set(err, ERR_CONFLICT, "the snapshot changed while it was packed");
    return 0;
}

int files_snapshot_out(struct files *files, struct str path, struct str name,
                       const struct files_sink *sink, struct files_tar_result *ret_result,
                       struct err *err)
{
    AUTO_MEM struct parts *parts = mem_alloc(sizeof *parts);
    AUTO(pack_writer_freep) struct pack_writer *writer = NULL;
    struct files_tar_result total = {0};
    if (find_parts(files, path, parts, err) < 0)
        return -1;
    for (size_t i = 0; i < parts->count; i++) {
        struct counting counting = {0};
        struct files_tar_result result = {0};
        if (pack_part(files, path, &parts->list[i], &counting, &result, err) < 0)
            return -1;
        parts->list[i].bytes = counting.bytes;
        sha256_hex(&counting.sha, parts->list[i].hash);
        total.entries += result.entries;
        total.bytes += result.bytes;
        total.skipped += result.skipped;
    }
    if (pack_writer_new(sink, PACK_ZSTD, &writer, err) < 0 ||
        put_manifest(writer, name, parts, err) < 0)
        return -1;
    for (size_t i = 0; i < parts->count; i++)
        if (put_part(files, path, &parts->list[i], writer, err) < 0)
            return -1;
    if (pack_writer_finish(writer, err) < 0)
        return -1;
    *ret_result = total;
    return 0;
}

/* ---- in ---- */

/* The bytes of one part, as they come out of the archive. */
struct feeding {
    struct pack_reader *outer;
    struct sha256 sha;
    struct str rest;
    uint64_t bytes;         /* of this part */
    uint64_t before, ratio; /* of the parts before */
};

static ssize_t feed(void *ctx, void *space, size_t size, struct err *err)
{
    struct feeding *feeding = ctx;
    if (feeding->rest.len == 0) {
        uint64_t offset = 0;
        int got = pack_reader_data(feeding->outer, &feeding->rest, &offset, err);
        if (got <= 0)
            return got;
        if (offset != feeding->bytes)
            return err_set(err, ERR_INVALID, "a part of the archive is sparse");
        feeding->bytes += feeding->rest.len;
        uint64_t all = feeding->before + feeding->bytes;
        if (all > (1 << 20) && all / feeding->ratio > pack_reader_packed(feeding->outer))
            return err_set(err, ERR_TOO_LARGE, "unpacks to more than %llu times its size",
                           (unsigned long long)feeding->ratio);
    }
    struct str piece = str_slice(feeding->rest, 0, size);
    sha256_add(&feeding->sha, piece);
    memcpy(space, piece.ptr, piece.len);
    feeding->rest = str_slice(feeding->rest, piece.len, feeding->rest.len);
    return (ssize_t)piece.len;
}

static int next_entry(struct pack_reader *outer, const char *name, struct pack_entry *ret_entry,
                      struct err *err)
{
    int got = pack_reader_next(outer, ret_entry, err);
    if (got < 0)
        return -1;
    if (got == 0)
        return err_set(err, ERR_INVALID, "the archive ends before '%s'", name);
    if (ret_entry->type != PACK_FILE || strcmp(ret_entry->path, name) != 0)
        return err_set(err, ERR_INVALID, "found '%.100s' instead of '%s': this is not an export",
                       ret_entry->path, name);
    return 0;
}

static bool is_hash(struct str text)
{
    return text.len == SHA256_HEX_SIZE - 1 && str_is_hex(text);
}

/* "part 000.tar BYTES SHA256" */
static int read_part(struct str line, struct parts *parts, struct err *err)
{
    struct str word = {0}, name = {0}, bytes = {0}, hash = line;
    char expected[PART_NAME_SIZE];
    int64_t n = 0;
    (void)snprintf(expected, sizeof expected, "%03zu.tar", parts->count);
    if (!str_split(&hash, ' ', &word) || !str_eq(word, STR("part")) ||
        !str_split(&hash, ' ', &name) || !str_eq(name, str_of(expected)) ||
        !str_split(&hash, ' ', &bytes) || !str_to_i64(bytes, 0, INT64_MAX, &n) || !is_hash(hash))
        return err_set(err, ERR_INVALID, "the manifest has an unknown line: '%.*s'",
                       (int)MIN(line.len, (size_t)80), line.ptr);
    if (parts->count == FILES_SNAPSHOT_PARTS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d parts", FILES_SNAPSHOT_PARTS_MAX);
    struct part *part = &parts->list[parts->count++];
    (void)snprintf(part->name, sizeof part->name, "%s", expected);
    (void)snprintf(part->hash, sizeof part->hash, "%.*s", STR_ARG(hash));
    part->bytes = (uint64_t)n;
    return 0;
}

static int read_lines(struct str text, struct parts *parts, struct err *err)
{
    struct str line = {0};
    int64_t version = 0;
    if (!str_ends(text, STR("\n")) || !str_split(&text, '\n', &line) ||
        !str_starts(line, STR(MAGIC)) ||
        !str_to_i64(str_slice(line, sizeof MAGIC - 1, line.len), 0, INT32_MAX, &version))
        return err_set(err, ERR_INVALID, "this is not the manifest of a snapshot");
    if (version != FILES_SNAPSHOT_VERSION)
        return err_set(err, ERR_UNSUPPORTED,
                       "a snapshot of format version %lld; this server reads version %d",
                       (long long)version, FILES_SNAPSHOT_VERSION);
    if (!str_split(&text, '\n', &line) || !str_starts(line, STR("name ")))
        return err_set(err, ERR_INVALID, "the manifest has no name");
    while (text.len > 0 && str_split(&text, '\n', &line))
        if (read_part(line, parts, err) < 0)
            return -1;
    return parts->count > 0 ? 0 : err_set(err, ERR_INVALID, "the manifest names no part");
}

static int read_manifest(struct feeding *feeding, struct parts *parts, struct err *err)
{
    struct pack_entry entry;
    char text[FILES_SNAPSHOT_MANIFEST_MAX];
    size_t len = 0;
    if (next_entry(feeding->outer, MANIFEST, &entry, err) < 0)
        return -1;
    for (ssize_t got = 1; got > 0;) {
        if (len == sizeof text)
            return err_set(err, ERR_TOO_LARGE, "the manifest has more than %d bytes",
                           FILES_SNAPSHOT_MANIFEST_MAX);
        got = feed(feeding, text + len, sizeof text - len, err);
        if (got < 0)
            return -1;
        len += (size_t)got;
    }
    return read_lines(str_n(text, len), parts, err);
}

/* libarchive stops at the end marker; the bytes after it still belong to the part. */
static int snapshot_drain(struct feeding *feeding, struct err *err)
{
    AUTO_MEM char *chunk = mem_alloc(CHUNK);
    ssize_t got;
    while ((got = feed(feeding, chunk, CHUNK, err)) > 0)
        ;
    return got < 0 ? -1 : 0;
}

static int read_contents(struct files *files, struct feeding *feeding, const struct part *part,
                         const struct files_tar_limits *limits, struct files_tar_result *total,
                         struct err *err)
{
    struct files_source source = {feed, feeding};
    struct files_tar_limits left = *limits;
    struct files_tar_result result = {0};
    struct pack_entry entry;
    char hash[SHA256_HEX_SIZE];
    left.unpacked -= MIN(total->bytes, left.unpacked - 1);
    left.entries -= MIN(total->entries, left.entries - 1);
    if (next_entry(feeding->outer, part->name, &entry, err) < 0)
        return -1;
    if (entry.size != part->bytes)
        return err_set(err, ERR_INVALID, "its size differs from the manifest");
    feeding->before += feeding->bytes;
    feeding->bytes = 0;
    sha256_init(&feeding->sha);
    if (files_tar_in(files, STR("."), FILES_TAR_LAYER, &source, &left, &result, err) < 0 ||
        snapshot_drain(feeding, err) < 0)
        return -1;
    sha256_hex(&feeding->sha, hash);
    if (strcmp(hash, part->hash) != 0 || feeding->bytes != part->bytes)
        return err_set(err, ERR_INVALID, "its contents differ from the manifest");
    total->entries += result.entries;
    total->bytes += result.bytes;
    return 0;
}

int files_snapshot_in(struct files *files, const struct files_source *source,
                      const struct files_tar_limits *limits, struct files_tar_result *ret_result,
                      struct err *err)
{
    AUTO(pack_reader_freep) struct pack_reader *outer = NULL;
    AUTO_MEM struct parts *parts = mem_alloc(sizeof *parts);
    struct files_tar_limits all = files_tar_limits_of(limits);
    struct files_tar_result total = {0};
    struct pack_entry entry;
    if (pack_reader_new(source, all.packed, &outer, err) < 0)
        return err_wrap(err, "import");
    struct feeding feeding = {.outer = outer, .ratio = all.ratio};
    sha256_init(&feeding.sha);
    if (read_manifest(&feeding, parts, err) < 0)
        return err_wrap(err, "import");
    for (size_t i = 0; i < parts->count; i++)
        if (read_contents(files, &feeding, &parts->list[i], &all, &total, err) < 0)
            return err_wrap(err, "import: part '%s'", parts->list[i].name);
    int more = pack_reader_next(outer, &entry, err);
    if (more < 0)
        return err_wrap(err, "import");
    if (more > 0)
        return err_set(err, ERR_INVALID, "import: '%.100s' is not in the manifest", entry.path);
    *ret_result = total;
    return 0;
}
