/* Copies of live isolates: pause and resume. */

#include <stdlib.h>
#include <zstd.h>

#include "base/clock.h"
#include "base/err.h"
#include "isolate/inside/internal.h"

enum {
    LEVEL = -3, /* speed first: heaps hold much that repeats anyway */
    IMAGE_BYTES_MAX = 1200 << 20
};
#define ABANDONED "the call was in progress when the isolate was copied: repeat it"

static void abandon(struct vm *vm, void *arg)
{
    struct isolate *isolate = arg;
    vm_value reason = vm_from_str(vm, STR(ABANDONED));
    vm_drop(vm,
            vm_call(vm, isolate->engine->entries.at[ENTRY_ABANDON], vm_undefined(), &reason, 1));
    vm_drop(vm, reason);
}

/* After the memory was replaced by a copy. */
static int settle_in(struct isolate *isolate, struct err *err)
{
    isolate->pending_count = isolate->rejection_count = 0;
    isolate->is_gone = false;
    int64_t now = clock_now_ns();
    enum rt_trap trap = vm_try(isolate->vm, now + 100000000, now + 200000000, abandon, isolate);
    if (trap != RT_OK)
        return err_set(err, ERR_INVALID, "the image failed to start: %s", rt_trap_text(trap));
    return 0;
}

/* The state of `image` becomes that of the isolate. */
static int adopt(struct isolate *isolate, const struct vm_image *image, struct err *err)
{
    struct vm_limits limits = host_vm_limits(&isolate->limits);
    if (vm_load(isolate->vm, image, &limits, err) < 0)
        return -1;
    return settle_in(isolate, err);
}

static int check_rest(const struct isolate *isolate, struct err *err)
{
    if (isolate->is_gone)
        return err_set(err, ERR_GONE, "the isolate has ended and cannot be copied");
    if (isolate->result != NULL)
        return err_set(err, ERR_BUSY, "the isolate is running: copy it when the run has ended");
    return 0;
}

static int compress(struct str plain, struct buf *out, struct err *err)
{
    char *space = NULL;
    size_t bound = ZSTD_compressBound(plain.len);
    if (buf_reserve(out, bound, &space, err) < 0)
        return -1;
    size_t size = ZSTD_compress(space, bound, plain.ptr, plain.len, LEVEL);
    if (ZSTD_isError(size))
        return err_set(err, ERR_INTERNAL, "compress an image: %s", ZSTD_getErrorName(size));
    buf_commit(out, size);
    return 0;
}

int isolate_pause(struct isolate *isolate, struct buf *out, struct err *err)
{
    AUTO_BUF struct buf plain = buf_with_limit(IMAGE_BYTES_MAX);
    if (check_rest(isolate, err) < 0 ||
        vm_save_bytes(isolate->vm, bootstrap_key(), &plain, err) < 0)
        return -1;
    return compress(buf_str(&plain), out, err);
}

static int decompress(struct str bytes, struct buf *out, struct err *err)
{
    unsigned long long size = ZSTD_getFrameContentSize(bytes.ptr, bytes.len);
    if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN ||
        size > IMAGE_BYTES_MAX)
        return err_set(err, ERR_INVALID, "these bytes are not an image of an isolate");
    char *space = NULL;
    if (buf_reserve(out, (size_t)size, &space, err) < 0)
        return -1;
    size_t got = ZSTD_decompress(space, (size_t)size, bytes.ptr, bytes.len);
    if (ZSTD_isError(got) || got != size)
        return err_set(err, ERR_INVALID, "the image is damaged");
    buf_commit(out, got);
    return 0;
}

static int copy_of(struct isolate_engine *engine, const struct vm_image *image,
                   const struct isolate_limits *limits, struct isolate **ret_isolate,
                   struct err *err)
{
    AUTO_ISOLATE struct isolate *isolate = NULL;
    if (isolate_bare(engine, limits, &isolate, err) < 0 || adopt(isolate, image, err) < 0)
        return -1;
    *ret_isolate = isolate;
    isolate = NULL;
    return 0;
}

int isolate_resume(struct isolate_engine *engine, struct str bytes,
                   const struct isolate_limits *limits, struct isolate **ret_isolate,
                   struct err *err)
{
    AUTO_BUF struct buf plain = buf_with_limit(IMAGE_BYTES_MAX);
    AUTO_VM_IMAGE struct vm_image *image = NULL;
    uint32_t magic = 0;
    if (bytes.len >= sizeof magic)
        memcpy(&magic, bytes.ptr, sizeof magic);
    if (magic == ZSTD_MAGICNUMBER) {
        if (decompress(bytes, &plain, err) < 0)
            return err_wrap(err, "resume an isolate");
        bytes = buf_str(&plain);
    }
    if (vm_image_decode(bytes, bootstrap_key(), &image, err) < 0 ||
        copy_of(engine, image, limits, ret_isolate, err) < 0)
        return err_wrap(err, "resume an isolate");
    return 0;
}
