/* Snapshots as streams: the trip there and back, and streams that were damaged, cut or made up
 * (VOL-01, FS-11 for imports). */

#include "files/archive/snapshot.h"

#include <errno.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/crypto/sha256.h"
#include "files/archive/pack.h"
#include "tree.h"
#include "ustar.h"

struct cursor {
    struct str rest;
};

static ssize_t read_cursor(void *ctx, void *space, size_t size, UNUSED struct err *err)
{
    struct cursor *cursor = ctx;
    size_t step = MIN(size, (size_t)7000);
    step = MIN(step, cursor->rest.len);
    memcpy(space, cursor->rest.ptr, step);
    cursor->rest = str_slice(cursor->rest, step, cursor->rest.len);
    return (ssize_t)step;
}

static int append(void *ctx, struct str bytes, struct err *err)
{
    return buf_append(ctx, bytes, err);
}

static int take_out(struct tree *tree, struct buf *out, struct err *err)
{
    struct files_sink sink = {append, out};
    struct files_tar_result result;
    return files_snapshot_out(tree->files, STR("layers"), STR("a-name"), &sink, &result, err);
}

static int take_in_with(struct tree *tree, struct str bytes, const struct files_tar_limits *limits,
                        struct err *err)
{
    struct cursor cursor = {bytes};
    struct files_source source = {read_cursor, &cursor};
    struct files_tar_result result;
    return files_snapshot_in(tree->files, &source, limits, &result, err);
}

static int take_in(struct tree *tree, struct str bytes, struct err *err)
{
    return take_in_with(tree, bytes, NULL, err);
}

/* False where this user may not make the mark of a removal. */
static bool put_removal(struct tree *tree, const char *path)
{
    AUTO_BUF struct buf full = {0};
    buf_printf(&full, "%s/%s", tree->dir, path);
    return mknod(buf_cstr(&full), S_IFCHR | 0600, makedev(0, 0)) == 0;
}

static bool put_opaque(struct tree *tree, const char *path)
{
    AUTO_BUF struct buf full = {0};
    buf_printf(&full, "%s/%s", tree->dir, path);
    return setxattr(buf_cstr(&full), "user.overlay.opaque", "y", 1, 0) == 0;
}

/* Two layers: the upper one removes, replaces and adds. */
static void make_layers(struct tree *tree)
{
    struct err err = {0};
    tree_put(tree, "layers/000/app/kept", "kept");
    tree_put(tree, "layers/000/app/changed", "old");
    tree_put(tree, "layers/000/dir/inside", "was a directory");
    tree_put(tree, "layers/001/app/changed", "new");
    tree_put(tree, "layers/001/app/added", "added");
    tree_put(tree, "layers/001/dir", "is a file");
    CHECK_OK(files_symlink(tree->files, STR("layers/001/app/abs"), STR("/usr/bin/env"), &err));
    CHECK_OK(files_symlink(tree->files, STR("layers/001/app/up"), STR("../../../x"), &err));
    CHECK_OK(files_chmod(tree->files, STR("layers/001/app/added"), 0750, &err));
}

TEST(a_snapshot_survives_the_trip)
{
    AUTO_TREE struct tree from = tree_new(), to = tree_new();
    AUTO_BUF struct buf packed = {0};
    struct err err = {0};
    struct files_stat st;
    make_layers(&from);
    CHECK_OK(take_out(&from, &packed, &err));
    tree_put(&to, "base", "is there");
    CHECK_OK(take_in(&to, buf_str(&packed), &err));
    tree_check(&to, "base", "is there");
    tree_check(&to, "app/kept", "kept");
    tree_check(&to, "app/changed", "new");
    tree_check(&to, "app/added", "added");
    tree_check(&to, "dir", "is a file");
    CHECK_OK(files_stat(to.files, STR("app/added"), false, &st, &err));
    CHECK_INT(st.mode, 0750);
    /* Inside the jail these mean its own root. */
    CHECK(tree_has(&to, "app/abs") && tree_has(&to, "app/up"));
    CHECK_INT(tree_count(&to, "."), 3);
}

TEST(removals_of_a_layer_travel_along)
{
    AUTO_TREE struct tree from = tree_new(), to = tree_new();
    AUTO_BUF struct buf packed = {0};
    struct err err = {0};
    make_layers(&from);
    tree_put(&from, "layers/001/emptied/fresh", "fresh");
    if (!put_removal(&from, "layers/001/app/kept") || !put_removal(&from, "layers/001/base") ||
        !put_removal(&from, "layers/001/never-there") || !put_opaque(&from, "layers/001/emptied"))
        SKIP("this user or this filesystem has no marks of removals");
    CHECK_OK(take_out(&from, &packed, &err));
    tree_put(&to, "base/deep/f", "goes");
    tree_put(&to, "emptied/stale", "goes too");
    CHECK_OK(take_in(&to, buf_str(&packed), &err));
    CHECK(!tree_has(&to, "app/kept") && !tree_has(&to, "base") && !tree_has(&to, "emptied/stale"));
    tree_check(&to, "emptied/fresh", "fresh");
    tree_check(&to, "app/added", "added");
}

TEST(a_name_that_would_mean_a_removal_is_not_packed)
{
    AUTO_TREE struct tree from = tree_new();
    AUTO_BUF struct buf packed = {0};
    struct err err = {0};
    tree_put(&from, "layers/000/.wh.passwd", "");
    CHECK_ERR(take_out(&from, &packed, &err), ERR_UNSUPPORTED);
    CHECK(strstr(err.msg, ".wh.passwd") != NULL);
}

/* Whatever bit flips: refused, or the very same tree (some bits of an archive mean nothing). */
TEST(no_flipped_bit_gives_another_tree)
{
    AUTO_TREE struct tree from = tree_new();
    AUTO_BUF struct buf packed = {0};
    struct err err = {0};
    size_t tries = getenv("SG_SOAK") == NULL ? 150 : 1000, refused = 0;
    make_layers(&from);
    CHECK_OK(take_out(&from, &packed, &err));
    for (size_t i = 0; i < tries; i++) {
        AUTO_TREE struct tree to = tree_new();
        AUTO_BUF struct buf bad = {0};
        buf_put(&bad, buf_str(&packed));
        size_t at = i * 7919 % packed.len;
        bad.ptr[at] = (char)(bad.ptr[at] ^ (1 << i % 8));
        if (take_in(&to, buf_str(&bad), &err) < 0) {
            CHECK(err.code == ERR_INVALID || err.code == ERR_TOO_LARGE ||
                  err.code == ERR_UNSUPPORTED || err.code == ERR_CONFLICT);
            refused++;
            continue;
        }
        tree_check(&to, "app/kept", "kept");
        tree_check(&to, "app/changed", "new");
        tree_check(&to, "app/added", "added");
        tree_check(&to, "dir", "is a file");
    }
    CHECK(refused > tries * 8 / 10);
}

TEST(a_stream_that_is_cut_off_is_refused)
{
    AUTO_TREE struct tree from = tree_new();
    AUTO_BUF struct buf packed = {0};
    struct err err = {0};
    make_layers(&from);
    CHECK_OK(take_out(&from, &packed, &err));
    for (size_t len = 0; len + 16 < packed.len; len += packed.len / 40) {
        AUTO_TREE struct tree to = tree_new();
        CHECK_ERR(take_in(&to, str_slice(buf_str(&packed), 0, len), &err), ERR_INVALID);
    }
}

/* --- Invented streams --- */

static void put_file(struct pack_writer *writer, const char *name, struct str bytes)
{
    struct err err = {0};
    struct pack_entry entry = {.type = PACK_FILE, .path = name, .size = bytes.len, .mode = 0644};
    CHECK_OK(pack_writer_entry(writer, &entry, NULL, 0, &err));
    CHECK_OK(pack_writer_data(writer, bytes.ptr, bytes.len, &err));
}

struct forged {
    const char *head; /* NULL: an honest one */
    const char *part_name, *extra, *hash;
    int64_t more_bytes; /* than there are, as the manifest says */
};

static void forge(const struct forged *how, struct str part, struct buf *out)
{
    AUTO(pack_writer_freep) struct pack_writer *writer = NULL;
    AUTO_BUF struct buf manifest = {0};
    struct files_sink sink = {append, out};
    struct err err = {0};
    struct sha256 sha;
    char hash[SHA256_HEX_SIZE];
    sha256_init(&sha);
    sha256_add(&sha, part);
    sha256_hex(&sha, hash);
    buf_put_cstr(&manifest, how->head != NULL ? how->head : "sandglass snapshot 1\nname n\n");
    buf_printf(&manifest, "part 000.tar %lld %s\n", (long long)part.len + how->more_bytes,
               how->hash != NULL ? how->hash : hash);
    CHECK_OK(pack_writer_new(&sink, PACK_ZSTD, &writer, &err));
    put_file(writer, "MANIFEST", buf_str(&manifest));
    put_file(writer, how->part_name != NULL ? how->part_name : "000.tar", part);
    if (how->extra != NULL)
        put_file(writer, how->extra, STR("more"));
    CHECK_OK(pack_writer_finish(writer, &err));
}

static void check_forged(const struct forged *how, struct str part, enum err_code code,
                         const char *word)
{
    AUTO_TREE struct tree to = tree_new();
    AUTO_BUF struct buf packed = {0};
    struct err err = {0};
    forge(how, part, &packed);
    CHECK_ERR(take_in(&to, buf_str(&packed), &err), code);
    CHECK(strstr(err.msg, word) != NULL);
}

TEST(a_manifest_that_lies_is_refused)
{
    AUTO_BUF struct buf part = {0};
    ustar_add(&part, "f", '0', "", "bytes");
    ustar_end(&part);
    AUTO_TREE struct tree to = tree_new();
    AUTO_BUF struct buf packed = {0};
    struct err err = {0};
    forge(&(struct forged){0}, buf_str(&part), &packed);
    CHECK_OK(take_in(&to, buf_str(&packed), &err)); /* what the others are held against */
    tree_check(&to, "f", "bytes");
    struct str bytes = buf_str(&part);
    check_forged(&(struct forged){.head = "sandglass snapshot 2\nname n\n"}, bytes, ERR_UNSUPPORTED,
                 "version 2");
    check_forged(&(struct forged){.head = "sandglass snapshot x\nname n\n"}, bytes, ERR_INVALID,
                 "not the manifest of a snapshot");
    check_forged(&(struct forged){.head = "tar\n"}, bytes, ERR_INVALID,
                 "not the manifest of a snapshot");
    check_forged(&(struct forged){.head = "sandglass snapshot 1\n"}, bytes, ERR_INVALID, "no name");
    check_forged(&(struct forged){.head = "sandglass snapshot 1\nname n\npart 7.tar 1 x\n"}, bytes,
                 ERR_INVALID, "unknown line");
    check_forged(&(struct forged){.part_name = "001.tar"}, bytes, ERR_INVALID, "000.tar");
    check_forged(&(struct forged){.extra = "002.tar"}, bytes, ERR_INVALID, "not in the manifest");
    check_forged(&(struct forged){.more_bytes = 1}, bytes, ERR_INVALID, "size");
    check_forged(&(struct forged){.hash = "00000000000000000000000000000000"
                                          "00000000000000000000000000000000"},
                 bytes, ERR_INVALID, "differ from the manifest");
    CHECK_ERR(take_in(&to, bytes, &err), ERR_INVALID); /* a plain tar */
    CHECK_ERR(take_in(&to, STR("nothing of the kind"), &err), ERR_INVALID);
}

TEST(what_a_part_may_not_hold_is_refused_by_name)
{
    static const struct {
        const char *name;
        char type;
        const char *target, *word;
    } cases[] = {
        {"../x", '0', "", "../x"},
        {"/etc/x", '0', "", "/etc/x"},
        {"dev", '3', "", "dev"},
        {"pipe", '6', "", "pipe"},
        {"hard", '1', "../HOSTFILE", ".."},
        {".wh...", '0', "", ".wh..."},
        {".wh..wh..opq", '0', "", "root"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        AUTO_BUF struct buf part = {0};
        ustar_add(&part, cases[i].name, cases[i].type, cases[i].target, "");
        ustar_end(&part);
        check_forged(&(struct forged){0}, buf_str(&part), ERR_INVALID, cases[i].word);
    }
    /* Through a link that the archive itself has brought. */
    AUTO_BUF struct buf part = {0};
    ustar_add(&part, "l", '2', "..", "");
    ustar_add(&part, "l/HOSTFILE", '0', "", "gotcha");
    ustar_end(&part);
    check_forged(&(struct forged){0}, buf_str(&part), ERR_INVALID, "is not a directory");
}

TEST(a_bomb_is_refused_by_its_ratio_and_by_its_size)
{
    AUTO_BUF struct buf part = {0}, packed = {0};
    AUTO_MEM char *zeros = mem_alloc(8 << 20);
    AUTO_TREE struct tree to = tree_new();
    struct err err = {0};
    ustar_header(&part, "zeros", '0', "", 0644, "00040000000"); /* 8 MiB */
    buf_put(&part, str_n(zeros, 8 << 20));
    ustar_end(&part);
    forge(&(struct forged){0}, buf_str(&part), &packed);
    CHECK_ERR(take_in(&to, buf_str(&packed), &err), ERR_TOO_LARGE);
    CHECK(strstr(err.msg, "times its size") != NULL);
    struct files_tar_limits small = {.ratio = 100000, .unpacked = 1 << 20};
    CHECK_ERR(take_in_with(&to, buf_str(&packed), &small, &err), ERR_TOO_LARGE);
    struct files_tar_limits wide = {.ratio = 100000};
    CHECK_OK(take_in_with(&to, buf_str(&packed), &wide, &err));
}
