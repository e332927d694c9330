#include "search/embed/model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "search/embed/encoder.h"
#include "search/embed/model_internal.h"
#include "search/embed/path.h"
#include "search/embed/weights.h"
#include "search/embed/wordpiece.h"
#include "search/embed/workers.h"

/* One run, and a second one in the middle of it. */
enum { ROOMS = 2 };

struct embed_model {
    struct str bytes; /* the mapped file of weights: the vectors of words are read from it */
    struct weights *weights;
    struct wordpiece *wordpiece;
    struct workers *workers;
    struct encoder *encoder;
    struct encoder_room *rooms[ROOMS];
    size_t depth; /* runs under way */
};

/* ---- loading ---- */

/* The size by lseek: a confined process may not call stat. */
static int map_file(int fd, struct str *ret_bytes, struct err *err)
{
    off_t size = SYS(lseek(fd, 0, SEEK_END));
    if (size <= 0 || size > WEIGHTS_FILE_MAX)
        return err_set(err, ERR_INVALID, "the weights are not a file of 1 to %d bytes",
                       WEIGHTS_FILE_MAX);
    void *at = SYS(mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0));
    if (at == MAP_FAILED)
        return err_sys(err, errno, "map the weights");
    *ret_bytes = str_n(at, (size_t)size);
    return 0;
}

static int load_wordpiece(int fd, struct wordpiece **ret_wordpiece, struct err *err)
{
    AUTO_BUF struct buf text = buf_with_limit(WORDPIECE_FILE_MAX);
    if (buf_read_all(&text, fd, err) < 0)
        return err_wrap(err, "read the tokenizer");
    return wordpiece_load(buf_str(&text), ENCODER_VOCAB, ret_wordpiece, err);
}

static int load_all(struct embed_model *self, int weights_fd, int tokenizer_fd,
                    const struct path *path, struct err *err)
{
    if (load_wordpiece(tokenizer_fd, &self->wordpiece, err) < 0 ||
        map_file(weights_fd, &self->bytes, err) < 0 ||
        weights_open(self->bytes, &self->weights, err) < 0)
        return -1;
    if (encoder_new(self->weights, path, self->workers, &self->encoder, err) < 0)
        return -1;
    /* The layers were copied into panels. Rows of words come back one by one as texts need them. */
    (void)madvise((void *)(uintptr_t)self->bytes.ptr, self->bytes.len, MADV_DONTNEED);
    return 0;
}

int embed_model_load(int weights_fd, int tokenizer_fd, struct workers *workers,
                     const struct path *path, struct embed_model **ret_model, struct err *err)
{
    AUTO_EMBED_MODEL struct embed_model *self = mem_alloc(sizeof *self);
    self->workers = workers;
    if (load_all(self, weights_fd, tokenizer_fd, path == NULL ? path_best() : path, err) < 0)
        return -1;
    *ret_model = self;
    self = NULL;
    return 0;
}

static int model_open_file(const char *dir, const char *name, struct err *err)
{
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s/model/%s", dir, name) >= sizeof path)
        return err_set(err, ERR_TOO_LARGE, "the path of the model is too long");
    int fd = SYS(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd < 0 && errno == ENOENT)
        return err_set(err, ERR_NOT_FOUND,
                       "the embedding model is not installed: run 'sandglass model add minilm'");
    return fd < 0 ? err_sys(err, errno, "open '%s'", path) : fd;
}

int embed_model_files(const char *dir, int *ret_weights_fd, int *ret_tokenizer_fd, struct err *err)
{
    AUTO_CLOSE int weights = model_open_file(dir, "model.fp16.safetensors", err);
    if (weights < 0)
        return -1;
    int tokenizer = model_open_file(dir, "tokenizer.json", err);
    if (tokenizer < 0)
        return -1;
    *ret_weights_fd = fd_take(&weights);
    *ret_tokenizer_fd = tokenizer;
    return 0;
}

int embed_model_open_with(const char *dir, int threads, const struct path *path,
                          struct embed_model **ret_model, struct err *err)
{
    AUTO_CLOSE int weights = -1, tokenizer = -1;
    struct workers *workers = NULL;
    if (threads < 1 || threads > EMBED_THREADS_MAX)
        return err_set(err, ERR_INVALID, "a model has 1 to %d threads", EMBED_THREADS_MAX);
    if (embed_model_files(dir, &weights, &tokenizer, err) < 0 ||
        workers_start(threads, &workers, err) < 0 ||
        embed_model_load(weights, tokenizer, workers, path, ret_model, err) < 0)
        return err_wrap(err, "open the model '%s'", dir);
    return 0;
}

int embed_model_open(const char *dir, int threads, struct embed_model **ret_model, struct err *err)
{
    return embed_model_open_with(dir, threads, NULL, ret_model, err);
}

struct embed_model *embed_model_free(struct embed_model *model)
{
    if (model == NULL)
        return NULL;
    model->workers = workers_stop(model->workers);
    model->encoder = encoder_free(model->encoder);
    for (size_t i = 0; i < ROOMS; i++)
        model->rooms[i] = encoder_room_free(model->rooms[i]);
    model->weights = weights_free(model->weights);
    model->wordpiece = wordpiece_free(model->wordpiece);
    if (model->bytes.len > 0)
        (void)munmap((void *)(uintptr_t)model->bytes.ptr, model->bytes.len);
    free(model);
    return NULL;
}

/* ---- embedding ---- */

/* As many of the texts as fit; at least one. */
static size_t fill_batch(const struct embed_model *model, const struct str *texts, size_t count,
                         struct encoder_batch *batch)
{
    static_assert(ENCODER_TOKENS_MAX >= 2 * EMBED_TOKENS_MAX, "a text fits behind others");
    size_t used = 0;
    batch->texts = 0;
    while (batch->texts < MIN(count, (size_t)ENCODER_TEXTS_MAX) &&
           used + EMBED_TOKENS_MAX <= ENCODER_TOKENS_MAX) {
        struct str text = str_slice(texts[batch->texts], 0, EMBED_TEXT_MAX);
        used += wordpiece_encode(model->wordpiece, text, batch->ids + used, EMBED_TOKENS_MAX);
        batch->ends[batch->texts++] = used;
    }
    return batch->texts;
}

void embed_texts_pausing(struct embed_model *model, const struct str *texts, size_t count,
                         void (*pause)(void *ctx), void *ctx, float *out)
{
    struct encoder_batch batch;
    assert(model->depth < ROOMS);
    struct encoder_room **room = &model->rooms[model->depth];
    if (*room == NULL)
        *room = encoder_room_new(model->encoder);
    model->depth++;
    for (size_t at = 0; at < count;) {
        size_t taken = fill_batch(model, texts + at, count - at, &batch);
        encoder_run(model->encoder, *room, &batch, pause, ctx, out + at * EMBED_DIMS);
        at += taken;
    }
    model->depth--;
}

void embed_texts(struct embed_model *model, const struct str *texts, size_t count, float *out)
{
    embed_texts_pausing(model, texts, count, NULL, NULL, out);
}
