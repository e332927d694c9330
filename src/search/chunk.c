#include "search/chunk.h"

#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"

enum { LEVELS = 6 };

/* A paragraph or a code block with the headings above it, or a declaration: never cut unless it is
 * too long. */
struct block {
    size_t start, end;
    bool has_heading;    /* it begins with one */
    struct str headings; /* the path of its content */
};

struct splitting {
    struct str text, title;
    struct arena *arena;
    struct str path[LEVELS + 1]; /* headings now, by level */
    struct str path_text;        /* the same as one text; a NULL ptr: not made yet */
    size_t heading_count;
    VEC(struct block) blocks; /* of the section so far */
    VEC(struct chunk) chunks;
    bool has_title;
};

enum doc_format doc_format_of(struct str path)
{
    if (str_ends(path, STR(".d.ts")) || str_ends(path, STR(".d.mts")) ||
        str_ends(path, STR(".d.cts")))
        return DOC_TYPES;
    if (str_ends(path, STR(".md")) || str_ends(path, STR(".mdx")) ||
        str_ends(path, STR(".markdown")) || str_ends(path, STR("README")))
        return DOC_MARKDOWN;
    if (str_ends(path, STR(".html")) || str_ends(path, STR(".htm")))
        return DOC_HTML;
    return DOC_TEXT;
}

/* --- Lines --- */

struct lines {
    struct str text;
    size_t at;
};

/* The next line without its end; `ret_end` is behind it. */
static bool next_line(struct lines *lines, struct str *ret_line, size_t *ret_end)
{
    if (lines->at >= lines->text.len)
        return false;
    struct str rest = str_slice(lines->text, lines->at, lines->text.len);
    size_t len = str_find_char(rest, '\n');
    *ret_line = str_slice(rest, 0, len);
    lines->at += MIN(len + 1, rest.len);
    *ret_end = lines->at;
    return true;
}

static size_t indent_of(struct str line)
{
    size_t i = 0;
    while (i < line.len && line.ptr[i] == ' ')
        i++;
    return i;
}

/* Three or more ` or ~, indented by up to three blanks: how many; `*ret_mark` is which. */
static size_t fence_of(struct str line, char *ret_mark, bool *ret_is_bare)
{
    size_t at = indent_of(line), count = 0;
    if (at > 3 || at >= line.len || (line.ptr[at] != '`' && line.ptr[at] != '~'))
        return 0;
    while (at + count < line.len && line.ptr[at + count] == line.ptr[at])
        count++;
    *ret_mark = line.ptr[at];
    *ret_is_bare = str_trim(str_slice(line, at + count, line.len)).len == 0;
    return count < 3 ? 0 : count;
}

/* "## Name" gives 2; 0: not a heading. */
static int heading_of(struct str line, struct str *ret_name)
{
    size_t level = 0;
    while (level < line.len && line.ptr[level] == '#')
        level++;
    if (level == 0 || level > LEVELS || level >= line.len || line.ptr[level] != ' ')
        return 0;
    struct str name = str_trim(str_slice(line, level, line.len));
    while (name.len > 0 && name.ptr[name.len - 1] == '#')
        name.len--;
    name = str_trim(name);
    *ret_name = str_slice(name, 0, HEADING_MAX);
    return (int)level;
}

/* --- Heading paths --- */

static struct str cut_utf8(struct str text)
{
    while (text.len > 0 && !str_is_utf8(text))
        text.len--;
    return text;
}

/* Made once for each heading: a document may have more paragraphs than memory for paths. */
static struct str path_now(struct splitting *split)
{
    AUTO_BUF struct buf path = {0};
    if (split->path_text.ptr != NULL)
        return split->path_text;
    buf_put(&path, split->title);
    for (int level = 2; level <= LEVELS; level++)
        if (split->path[level].len > 0) {
            if (path.len > 0)
                buf_put_cstr(&path, " > ");
            buf_put(&path, cut_utf8(split->path[level]));
        }
    split->path_text = arena_dup(split->arena, buf_str(&path));
    return split->path_text;
}

static void enter_heading(struct splitting *split, int level, struct str name)
{
    /* Beyond the limit the document is refused. */
    if (++split->heading_count > CHUNKS_PER_DOCUMENT)
        return;
    split->path_text = (struct str){0};
    for (int deeper = level; deeper <= LEVELS; deeper++)
        split->path[deeper] = (struct str){0};
    if (level > 1)
        split->path[level] = name;
    else if (!split->has_title && name.len > 0) {
        split->title = cut_utf8(name);
        split->has_title = true;
    }
}

/* --- Pieces --- */

static void put_chunk(struct splitting *split, struct str heading, size_t start, size_t end)
{
    struct str all = str_slice(split->text, start, end), inside = str_trim(all);
    if (inside.len > 0)
        *vec_push(&split->chunks) =
            (struct chunk){heading, (size_t)(inside.ptr - split->text.ptr), inside.len};
}

/* Where to cut a block that is too long: behind a line, else behind a blank, else between two
 * characters. */
static size_t cut_point(struct str text, size_t start, size_t end)
{
    size_t limit = MIN(start + CHUNK_BYTES, end), least = start + CHUNK_BYTES / 2;
    for (size_t at = limit; at > least; at--)
        if (text.ptr[at - 1] == '\n')
            return at;
    for (size_t at = limit; at > least; at--)
        if (text.ptr[at - 1] == ' ')
            return at;
    while (limit > start + 1 && limit < end && ((unsigned char)text.ptr[limit] & 0xc0) == 0x80)
        limit--;
    return limit;
}

static void put_long_block(struct splitting *split, const struct block *block)
{
    size_t start = block->start;
    while (block->end - start > CHUNK_BYTES_MAX) {
        size_t end = cut_point(split->text, start, block->end);
        put_chunk(split, block->headings, start, end);
        start = end;
    }
    put_chunk(split, block->headings, start, block->end);
}

/* The first block of the next piece: the last of this one again, when it is short prose. */
static size_t with_overlap(const struct splitting *split, size_t first, size_t next)
{
    const struct block *last = &split->blocks.ptr[next - 1];
    bool is_short = last->end - last->start <= CHUNK_OVERLAP;
    return next - 1 > first && is_short && !last->has_heading &&
                   !split->blocks.ptr[next].has_heading
               ? next - 1
               : next;
}

static size_t piece_end(const struct splitting *split, size_t first)
{
    size_t next = first, start = split->blocks.ptr[first].start;
    while (next < split->blocks.len &&
           (next == first || split->blocks.ptr[next].end - start <= CHUNK_BYTES))
        next++;
    size_t end = split->blocks.ptr[split->blocks.len - 1].end;
    if (next < split->blocks.len && end - split->blocks.ptr[next].start < CHUNK_REST &&
        end - start <= CHUNK_BYTES_MAX)
        return split->blocks.len;
    return next;
}

/* `fresh` is the first block that no piece has yet. */
static void end_section(struct splitting *split)
{
    size_t first = 0, fresh = 0, count = split->blocks.len;
    while (fresh < count) {
        size_t next = MAX(piece_end(split, first), fresh + 1);
        const struct block *from = &split->blocks.ptr[first], *to = &split->blocks.ptr[next - 1];
        if (next == first + 1 && from->end - from->start > CHUNK_BYTES_MAX)
            put_long_block(split, from);
        else if (to->end - from->start > CHUNK_BYTES_MAX && first < fresh) {
            first = fresh; /* the shared paragraph does not fit */
            continue;
        } else
            put_chunk(split, split->blocks.ptr[fresh].headings, from->start, to->end);
        fresh = next;
        first = next < count ? with_overlap(split, first, next) : next;
    }
    split->blocks.len = 0;
}

/* --- Markdown --- */

struct reading {
    struct splitting *split;
    size_t begun; /* of the block that is open */
    bool is_open;
    int level;       /* of the last heading that the open block begins with; 0: none */
    bool is_heading; /* the open block has no content yet */
    size_t fence;    /* length of the fence that is open; 0: none */
    char mark;
};

static void end_block(struct reading *reading, size_t end)
{
    if (reading->is_open)
        *vec_push(&reading->split->blocks) =
            (struct block){reading->begun, end, reading->level > 0, path_now(reading->split)};
    reading->is_open = reading->is_heading = false;
    reading->level = 0;
}

static void begin_block(struct reading *reading, size_t at)
{
    if (!reading->is_open)
        reading->begun = at;
    reading->is_open = true;
    reading->is_heading = false;
}

static size_t section_bytes(const struct splitting *split)
{
    return split->blocks.len == 0 ? 0 : vec_last(&split->blocks)->end - split->blocks.ptr[0].start;
}

/* What stands before the title, such as front matter, stays with the text behind the title when it
 * is short. */
static bool ends_section(const struct splitting *split, int level)
{
    return level == 2 ||
           (level == 1 && (split->path[2].len > 0 || section_bytes(split) >= CHUNK_REST));
}

/* A deeper heading is content of the section, in one block with what follows it: a chunk that is
 * only a heading helps nobody. */
static void read_heading(struct reading *reading, int level, struct str name, size_t start)
{
    if (!reading->is_heading || level <= MAX(reading->level, 2))
        end_block(reading, start);
    if (ends_section(reading->split, level))
        end_section(reading->split);
    enter_heading(reading->split, level, name);
    if (level != 2 && (level > 2 || reading->split->blocks.len > 0)) {
        begin_block(reading, start);
        reading->level = level;
        reading->is_heading = true;
    }
}

static void read_line(struct reading *reading, struct str line, size_t start, size_t end)
{
    char mark = 0;
    bool is_bare = false;
    struct str name = {0};
    size_t fence = fence_of(line, &mark, &is_bare);
    if (reading->fence > 0) {
        if (fence >= reading->fence && mark == reading->mark && is_bare) {
            reading->fence = 0;
            end_block(reading, end);
        }
        return;
    }
    if (fence > 0) {
        begin_block(reading, start); /* with the paragraph that it follows */
        reading->fence = fence;
        reading->mark = mark;
        return;
    }
    int level = heading_of(line, &name);
    if (level > 0)
        read_heading(reading, level, name, start);
    else if (str_trim(line).len > 0)
        begin_block(reading, start);
    else if (!reading->is_heading)
        end_block(reading, start);
}

/* "title: Name" of the front matter. */
static void read_front_line(struct splitting *split, struct str line)
{
    if (!str_starts(line, STR("title:")))
        return;
    struct str name = str_trim(str_slice(line, 6, line.len));
    if (name.len >= 2 && (name.ptr[0] == '"' || name.ptr[0] == '\'') &&
        name.ptr[name.len - 1] == name.ptr[0])
        name = str_slice(name, 1, name.len - 1);
    enter_heading(split, 1, str_slice(name, 0, HEADING_MAX));
}

/* Lines between two `---` at the top; they stay content, as a description often does well. */
static void read_front(struct splitting *split)
{
    struct lines lines = {split->text, 0};
    struct str line;
    size_t end;
    if (!next_line(&lines, &line, &end) || !str_eq(str_trim(line), STR("---")))
        return;
    for (int i = 0; i < 64 && next_line(&lines, &line, &end); i++) {
        if (str_eq(str_trim(line), STR("---")))
            return;
        read_front_line(split, str_trim(line));
    }
}

static void split_markdown(struct splitting *split)
{
    struct reading reading = {.split = split};
    struct lines lines = {split->text, 0};
    struct str line;
    size_t start = 0, end = 0;
    read_front(split);
    while (next_line(&lines, &line, &end)) {
        read_line(&reading, line, start, end);
        start = end;
    }
    end_block(&reading, end);
    end_section(split);
}

/* --- Plain text and declarations --- */

static void split_text(struct splitting *split)
{
    struct reading reading = {.split = split};
    struct lines lines = {split->text, 0};
    struct str line;
    size_t start = 0, end = 0;
    while (next_line(&lines, &line, &end)) {
        if (str_trim(line).len == 0)
            end_block(&reading, start);
        else
            begin_block(&reading, start);
        start = end;
    }
    end_block(&reading, end);
    end_section(split);
}

static bool chunk_take_word(struct str *rest, const char *word)
{
    struct str name = str_of(word);
    if (!str_starts(*rest, name) || rest->len <= name.len || rest->ptr[name.len] != ' ')
        return false;
    *rest = str_trim(str_slice(*rest, name.len, rest->len));
    return true;
}

/* The name that a line at the margin declares; empty: it declares none. */
static struct str declared_name(struct str line)
{
    static const char *const kinds[] = {"interface", "type", "class", "function",  "const",
                                        "let",       "var",  "enum",  "namespace", "module"};
    struct str rest = line;
    while (chunk_take_word(&rest, "export") || chunk_take_word(&rest, "declare") ||
           chunk_take_word(&rest, "default") || chunk_take_word(&rest, "abstract") ||
           chunk_take_word(&rest, "async"))
        ;
    for (size_t i = 0; i < countof(kinds); i++)
        if (chunk_take_word(&rest, kinds[i])) {
            size_t len = 0;
            while (len < rest.len && len < HEADING_MAX &&
                   (char_is_alnum(rest.ptr[len]) || rest.ptr[len] == '_' || rest.ptr[len] == '$'))
                len++;
            return str_slice(rest, 0, len);
        }
    return (struct str){0};
}

/* A comment of documentation belongs to the declaration behind it; short declarations share a
 * chunk. */
static void split_types(struct splitting *split)
{
    struct reading reading = {.split = split};
    struct lines lines = {split->text, 0};
    struct str line;
    size_t start = 0, end = 0;
    bool has_comment = false;
    while (next_line(&lines, &line, &end)) {
        struct str name = declared_name(line);
        bool is_comment = str_starts(line, STR("/**"));
        if (is_comment || (name.len > 0 && !has_comment)) {
            end_block(&reading, start);
            if (section_bytes(split) >= CHUNK_REST)
                end_section(split);
            begin_block(&reading, start);
        }
        if (name.len > 0)
            enter_heading(split, 2, name);
        has_comment = is_comment || (has_comment && name.len == 0);
        begin_block(&reading, start);
        start = end;
    }
    end_block(&reading, end);
    end_section(split);
}

/* --- All of them --- */

static int check(struct str text, struct err *err)
{
    if (text.len > DOCUMENT_MAX)
        return err_set(err, ERR_TOO_LARGE, "the document has more than %d MiB", DOCUMENT_MAX >> 20);
    if (!str_is_utf8(text) || str_find_char(text, '\0') != text.len)
        return err_set(err, ERR_INVALID, "the document is not UTF-8 text");
    return 0;
}

int chunk_document(struct str text, enum doc_format format, struct str title, struct arena *arena,
                   struct chunked *ret_chunked, struct err *err)
{
    struct splitting split = {.text = text, .title = title, .arena = arena};
    if (check(text, err) < 0)
        return -1;
    if (format == DOC_MARKDOWN)
        split_markdown(&split);
    else if (format == DOC_TYPES)
        split_types(&split);
    else
        split_text(&split);
    size_t count = split.chunks.len;
    struct chunk *chunks = arena_array(arena, struct chunk, count + 1);
    if (count > 0)
        memcpy(chunks, split.chunks.ptr, count * sizeof *chunks);
    vec_done(&split.blocks);
    vec_done(&split.chunks);
    if (count > CHUNKS_PER_DOCUMENT || split.heading_count > CHUNKS_PER_DOCUMENT)
        return err_set(err, ERR_TOO_LARGE, "the document has more than %d sections",
                       CHUNKS_PER_DOCUMENT);
    *ret_chunked = (struct chunked){arena_dup(arena, split.title), chunks, count};
    return 0;
}
