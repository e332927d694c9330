/* Tokens or vectors of texts, for the comparison with the reference: embed_texts WHAT DIR THREADS
 * PATH, where WHAT is `ids` or `vectors` and PATH a name of search/embed/path.h. On stdin each text
 * behind its length; on stdout for each its ids behind their number, or its vector. Numbers are of
 * 4 bytes. */

#include <stdlib.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/vec.h"
#include "search/embed/encoder.h"
#include "search/embed/model_internal.h"
#include "search/embed/path.h"
#include "search/embed/wordpiece.h"

struct texts {
    VEC(struct str) all;
};

static void split(struct str in, struct texts *texts)
{
    while (in.len >= 4) {
        uint32_t len;
        memcpy(&len, in.ptr, 4);
        *vec_push(&texts->all) = str_slice(in, 4, 4 + (size_t)len);
        in = str_slice(in, 4 + (size_t)len, in.len);
    }
}

static int put_ids(const char *dir, const struct texts *texts, struct buf *out, struct err *err)
{
    AUTO_CLOSE int weights = -1, tokenizer = -1;
    AUTO_BUF struct buf json = {0};
    AUTO_WORDPIECE struct wordpiece *wordpiece = NULL;
    if (embed_model_files(dir, &weights, &tokenizer, err) < 0 ||
        buf_read_all(&json, tokenizer, err) < 0 ||
        wordpiece_load(buf_str(&json), ENCODER_VOCAB, &wordpiece, err) < 0)
        return -1;
    VEC_EACH (text, &texts->all) {
        uint16_t ids[EMBED_TOKENS_MAX];
        uint32_t count = (uint32_t)wordpiece_encode(wordpiece, *text, ids, countof(ids));
        buf_put(out, str_n((const char *)&count, 4));
        for (uint32_t i = 0; i < count; i++)
            buf_put(out, str_n((const char *)&(uint32_t){ids[i]}, 4));
    }
    return 0;
}

static int put_vectors(const char *dir, int threads, const char *name, const struct texts *texts,
                       struct buf *out, struct err *err)
{
    AUTO_EMBED_MODEL struct embed_model *model = NULL;
    const struct path *const *path = paths;
    while (*path != NULL && strcmp((*path)->name, name) != 0)
        path++;
    if (*path == NULL || !(*path)->is_supported())
        return err_set(err, ERR_UNSUPPORTED, "no path '%s' on this processor", name);
    if (embed_model_open_with(dir, threads, *path, &model, err) < 0)
        return -1;
    AUTO_MEM float *vectors = mem_alloc(texts->all.len * EMBED_DIMS * sizeof(float));
    embed_texts(model, texts->all.ptr, texts->all.len, vectors);
    buf_put(out, str_n((const char *)vectors, texts->all.len * EMBED_DIMS * sizeof(float)));
    return 0;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    struct texts texts = {0};
    int64_t threads = 0;
    AUTO_BUF struct buf in = {0};
    AUTO_BUF struct buf out = buf_with_limit((size_t)1 << 30);
    if (argc != 5 || !str_to_i64(str_of(argv[3]), 1, EMBED_THREADS_MAX, &threads))
        return 2;
    int done = buf_read_all(&in, STDIN_FILENO, &err);
    split(buf_str(&in), &texts);
    if (done == 0)
        done = strcmp(argv[1], "ids") == 0
                   ? put_ids(argv[2], &texts, &out, &err)
                   : put_vectors(argv[2], (int)threads, argv[4], &texts, &out, &err);
    if (done == 0)
        done = fd_write_all(STDOUT_FILENO, buf_str(&out), &err);
    vec_done(&texts.all);
    if (done < 0)
        (void)fprintf(stderr, "%s\n", err.msg);
    return done < 0 ? err.code == ERR_UNSUPPORTED ? 3 : 1 : 0;
}
