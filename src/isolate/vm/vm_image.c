/* Images: the linear memory of an isolate that runs no code, as extents that are not zero.
 *
 * The engine's stack is empty then, so an image begins above it. */

#include <stdlib.h>

#include "base/buf.h"
#include "base/err.h"
#include "isolate/vm/vm_engine.h"

enum {
    GRAIN = 4096,        /* extents begin and end at multiples of this */
    GAP = 4 * GRAIN,     /* shorter runs of zeros are copied along */
    EXTENTS_MAX = 65536, /* 1 GB of every other gap */
    KEEP_MAX = 4 << 20,
    SLACK_PAGES = 16, /* above the script's limit, for our own texts */
    IMAGE_MAGIC = 0x4d493147,
};

struct extent {
    uint32_t from, to;
    const uint8_t *bytes;
};

struct vm_image {
    uint32_t pages, stack_pointer, context, runtime, random_at;
    uint64_t lexical;
    uint8_t classes[VM_CLASS_IDS];
    uint32_t extent_count;
    struct extent *extents;
    uint64_t bytes;
    /* The bytes of the extents; NULL if this image does not own them. */
    uint8_t *store;
    size_t room;
};

/* The room of an image that went, for the next one: getting pages from the kernel takes longer than
 * copying into them. */
static struct {
    uint8_t *store;
    size_t room;
} spare;

static void take_store(struct vm_image *image, size_t room)
{
    if (spare.store != NULL && spare.room >= room) {
        image->store = spare.store;
        image->room = spare.room;
        spare.store = NULL;
        return;
    }
    image->store = mem_resize(NULL, room);
    image->room = room;
}

static void give_store(struct vm_image *image)
{
    if (image->store == NULL || image->room > KEEP_MAX ||
        (spare.store != NULL && spare.room >= image->room)) {
        free(image->store);
        return;
    }
    free(spare.store);
    spare.store = image->store;
    spare.room = image->room;
}

static bool is_zero(const uint8_t *at, size_t size)
{
    return at[0] == 0 && memcmp(at, at + 1, size - 1) == 0;
}

/* The next run of bytes worth keeping at or above `*from`. */
static bool next_extent(const struct vm *vm, uint32_t from, struct extent *ret)
{
    uint32_t size = (uint32_t)vm->memory->size;
    const uint8_t *base = vm->memory->data;
    while (from < size && is_zero(base + from, GRAIN))
        from += GRAIN;
    if (from >= size)
        return false;
    uint32_t to = from + GRAIN;
    for (uint32_t at = to; at < size && at < to + GAP; at += GRAIN)
        if (!is_zero(base + at, GRAIN))
            to = at + GRAIN;
    *ret = (struct extent){.from = from, .to = to};
    return true;
}

static void fill_head(const struct vm *vm, struct vm_image *image)
{
    image->pages = (uint32_t)vm->memory->pages;
    image->stack_pointer = *vm->stack_pointer;
    image->context = vm->context;
    image->runtime = vm->runtime;
    image->random_at = vm->random_at;
    image->lexical = vm->lexical;
    memcpy(image->classes, vm->classes, sizeof image->classes);
}

int vm_save(struct vm *vm, struct vm_image **ret_image, struct err *err)
{
    if (vm->trap != RT_OK)
        return err_set(err, ERR_GONE, "the isolate has ended: %s", rt_trap_text(vm->trap));
    struct vm_image *image = mem_alloc(sizeof *image);
    fill_head(vm, image);
    take_store(image, (size_t)(vm->memory->size - vm->frame.stack_top));
    struct extent found;
    uint32_t room = 0;
    for (uint32_t at = vm->frame.stack_top; next_extent(vm, at, &found); at = found.to) {
        if (image->extent_count == room) {
            room = room == 0 ? 16 : room * 2;
            image->extents = mem_resize(image->extents, room * sizeof *image->extents);
        }
        found.bytes = image->store + image->bytes;
        memcpy(image->store + image->bytes, vm->memory->data + found.from, found.to - found.from);
        image->extents[image->extent_count++] = found;
        image->bytes += found.to - found.from;
    }
    *ret_image = image;
    return 0;
}

struct vm_image *vm_image_free(struct vm_image *image)
{
    if (image == NULL)
        return NULL;
    give_store(image);
    free(image->extents);
    free(image);
    return NULL;
}

/* Leaves nothing of what ran before: the stack to its lowest mark, and what the image does not
 * cover. */
static void wipe_stack(struct vm *vm)
{
    uint32_t hot = vm->frame.stack_top - RT_STACK_HOT;
    rt_revoke(vm->frame.base, vm->frame.stack_low, hot);
    vm->frame.stack_low = hot;
    memset(vm->frame.base + hot, 0, RT_STACK_HOT);
}

/* Pages that fall out of use keep their frames up to KEEP_MAX: zeroing one is five times cheaper
 * than getting it back by a fault. */
static int fit_memory(struct vm *vm, uint32_t pages)
{
    uint64_t have = vm->memory->size, need = (uint64_t)pages * RT_PAGE;
    if (need > have && rt_grant(vm->frame.base, have, need) < 0)
        return -1;
    uint64_t kept = MAX(need, MIN(have, (uint64_t)vm->frame.stack_top + KEEP_MAX));
    if (kept > need) {
        memset(vm->frame.base + need, 0, kept - need);
        rt_withdraw(vm->frame.base, need, kept);
    }
    rt_revoke(vm->frame.base, kept, have);
    vm->memory->pages = pages;
    vm->memory->size = (__typeof__(vm->memory->size))need;
    return 0;
}

static int begin_load(struct vm *vm, uint32_t pages, uint32_t stack_pointer, struct err *err)
{
    if (stack_pointer != vm->frame.stack_top)
        return err_set(err, ERR_INVALID, "the image was taken while code was running");
    wipe_stack(vm);
    vm->trap = RT_TRAP_UNREACHABLE;
    if (fit_memory(vm, pages) < 0)
        return err_set(err, ERR_UNAVAILABLE, "no memory for an isolate of %u KB",
                       pages * (RT_PAGE / 1024));
    return 0;
}

static void end_load(struct vm *vm, const struct vm_limits *limits)
{
    /* Two copies of one image must not draw the same numbers. */
    uint64_t seed = vm_seed(vm);
    memcpy(vm->frame.base + vm->random_at, &seed, sizeof seed);
    uint64_t most = vm->frame.stack_top / RT_PAGE + limits->memory_bytes / RT_PAGE + SLACK_PAGES;
    vm->memory->max_pages =
        (__typeof__(vm->memory->max_pages))MAX(most, (uint64_t)vm->memory->pages);
    vm->trap = RT_OK;
}

int vm_load(struct vm *vm, const struct vm_image *image, const struct vm_limits *limits,
            struct err *err)
{
    if (begin_load(vm, image->pages, image->stack_pointer, err) < 0)
        return -1;
    uint32_t at = vm->frame.stack_top;
    for (uint32_t i = 0; i < image->extent_count; i++) {
        const struct extent *extent = &image->extents[i];
        memset(vm->frame.base + at, 0, extent->from - at);
        memcpy(vm->frame.base + extent->from, extent->bytes, extent->to - extent->from);
        at = extent->to;
    }
    memset(vm->frame.base + at, 0, vm->memory->size - at);

    *vm->stack_pointer = image->stack_pointer;
    vm->context = image->context;
    vm->runtime = image->runtime;
    vm->random_at = image->random_at;
    vm->lexical = image->lexical;
    memcpy(vm->classes, image->classes, sizeof vm->classes);
    end_load(vm, limits);
    return 0;
}

/* --- As bytes --- */

static void put32(struct buf *out, uint32_t n)
{
    buf_put(out, str_n((const char *)&n, sizeof n));
}

static size_t put_head(const struct vm_image *image, const char *key, struct buf *out)
{
    put32(out, IMAGE_MAGIC);
    buf_put(out, str_n(key, VM_KEY_LEN));
    put32(out, image->pages);
    put32(out, image->stack_pointer);
    put32(out, image->context);
    put32(out, image->runtime);
    put32(out, image->random_at);
    size_t count_at = out->len;
    put32(out, image->extent_count);
    buf_put(out, str_n((const char *)&image->lexical, sizeof image->lexical));
    buf_put(out, str_n((const char *)image->classes, sizeof image->classes));
    return count_at;
}

static int put_extent(const struct extent *extent, struct buf *out, struct err *err)
{
    uint32_t bounds[2] = {extent->from, extent->to};
    if (buf_append(out, str_n((const char *)bounds, sizeof bounds), err) < 0)
        return -1;
    return buf_append(out, str_n((const char *)extent->bytes, extent->to - extent->from), err);
}

int vm_save_bytes(struct vm *vm, const char *key, struct buf *out, struct err *err)
{
    if (vm->trap != RT_OK)
        return err_set(err, ERR_GONE, "the isolate has ended: %s", rt_trap_text(vm->trap));
    struct vm_image head = {0};
    fill_head(vm, &head);
    size_t count_at = put_head(&head, key, out);
    struct extent found;
    uint32_t count = 0;
    for (uint32_t at = vm->frame.stack_top; next_extent(vm, at, &found); at = found.to) {
        found.bytes = vm->memory->data + found.from;
        if (put_extent(&found, out, err) < 0)
            return -1;
        count++;
    }
    memcpy(out->ptr + count_at, &count, sizeof count);
    return 0;
}

static bool vm_image_take(struct str *rest, void *to, size_t size)
{
    if (rest->len < size)
        return false;
    memcpy(to, rest->ptr, size);
    *rest = str_slice(*rest, size, rest->len);
    return true;
}

static bool take_extent(struct str *rest, uint32_t above, uint64_t end, struct extent *extent)
{
    if (!vm_image_take(rest, &extent->from, 4) || !vm_image_take(rest, &extent->to, 4))
        return false;
    if (extent->from < above || extent->from >= extent->to || extent->to > end ||
        extent->from % GRAIN != 0 || extent->to % GRAIN != 0)
        return false;
    uint32_t size = extent->to - extent->from;
    if (rest->len < size)
        return false;
    extent->bytes = (const uint8_t *)rest->ptr;
    *rest = str_slice(*rest, size, rest->len);
    return true;
}

static bool vm_image_take_head(struct str *rest, struct vm_image *image)
{
    return vm_image_take(rest, &image->pages, 4) && vm_image_take(rest, &image->stack_pointer, 4) &&
           vm_image_take(rest, &image->context, 4) && vm_image_take(rest, &image->runtime, 4) &&
           vm_image_take(rest, &image->random_at, 4) &&
           vm_image_take(rest, &image->extent_count, 4) &&
           vm_image_take(rest, &image->lexical, 8) &&
           vm_image_take(rest, image->classes, sizeof image->classes);
}

int vm_image_decode(struct str bytes, const char *key, struct vm_image **ret_image, struct err *err)
{
    uint32_t magic = 0;
    char found[VM_KEY_LEN];
    struct str rest = bytes;
    if (!vm_image_take(&rest, &magic, 4) || magic != IMAGE_MAGIC ||
        !vm_image_take(&rest, found, sizeof found))
        return err_set(err, ERR_INVALID, "these bytes are not an image of an isolate");
    if (memcmp(found, key, sizeof found) != 0)
        return err_set(err, ERR_INVALID,
                       "the image was made by another build of sandglass: run the code again");

    AUTO_VM_IMAGE struct vm_image *image = mem_alloc(sizeof *image);
    uint32_t count = 0;
    bool ok = vm_image_take_head(&rest, image) && image->extent_count <= EXTENTS_MAX &&
              (uint64_t)image->pages * RT_PAGE <= VM_MEMORY_MAX;
    count = image->extent_count;
    image->extent_count = 0;
    uint64_t end = (uint64_t)image->pages * RT_PAGE;
    /* The stack lies below the first extent; vm_load writes above it only. */
    ok = ok && image->stack_pointer < end && image->random_at >= image->stack_pointer &&
         (uint64_t)image->random_at + 8 <= end;
    image->extents = mem_alloc(MAX(ok ? count : 0, 1u) * sizeof *image->extents);
    uint32_t above = image->stack_pointer;
    for (uint32_t i = 0; ok && i < count; i++) {
        image->extent_count = i + 1;
        ok = take_extent(&rest, above, end, &image->extents[i]);
        above = image->extents[i].to;
        image->bytes += ok ? image->extents[i].to - image->extents[i].from : 0;
    }
    if (!ok || rest.len != 0)
        return err_set(err, ERR_INVALID, "the image is damaged");
    *ret_image = image;
    image = NULL;
    return 0;
}
