/* A heap that forks need not copy.
 *
 * A fork copies an entry of the page table for every page of the process' own memory, which for an
 * interpreter with its packages is most of what a fork costs, and its end as much again. Pages of a
 * file need no such entries: the copy finds them when it looks. So when everything is imported, the
 * pages are written to a sealed file in memory that is mapped over them, privately: who writes to
 * one has it copied, as before.
 *
 * Nothing is allocated here between reading a page and mapping it: what is written in between would
 * be lost. */

#include "jail/zygote/zygote_heap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "jail/wire/linux.h"
#include "jail/zygote/zygote_maps.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* Runs of present pages become one mapping if the gaps between them are at most GAP_PAGES. */
enum { GAP_PAGES = 8, PAGES_AT_ONCE = 4096 };

struct heap {
    int fd, pagemap_fd;
    uint64_t size;
    bool own[PAGES_AT_ONCE];
};

/* Where each part of the file was mapped first, in the order of the file. */
static struct {
    struct {
        uintptr_t start;
        uint64_t offset, bytes;
    } parts[MAPS_MAX];
    size_t count;
} home;

bool zygote_heap_is_home(uintptr_t start, uint64_t offset)
{
    size_t low = 0, high = home.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (home.parts[middle].offset + home.parts[middle].bytes <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < home.count && home.parts[low].offset <= offset &&
           start - home.parts[low].start == offset - home.parts[low].offset;
}

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* The stack grows by itself, and what the Linux kernel shows of its own is not ours. */
static bool is_heap(const struct map_area *area, const struct map_list *list)
{
    bool is_special =
        area->path[0] == '[' && !starts(area->path, "[heap]") && !starts(area->path, "[anon");
    bool is_list =
        area->start < (uintptr_t)list->areas + list->bytes && area->end > (uintptr_t)list->areas;
    return !is_special && !is_list && !area->is_shared && (area->prot & PROT_READ) != 0 &&
           (area->prot & PROT_EXEC) == 0;
}

static int move_pages(struct heap *heap, uintptr_t start, size_t bytes, int prot)
{
    for (size_t done = 0; done < bytes;) {
        /* The Linux kernel reads the pages, so pages that do not exist are not created. */
        ssize_t put = pwrite(heap->fd, (const void *)(start + done), bytes - done,
                             (off_t)(heap->size + done));
        if (put <= 0)
            return -1;
        done += (size_t)put;
    }
    if (mmap((void *)start, bytes, prot, MAP_PRIVATE | MAP_FIXED, heap->fd, (off_t)heap->size) ==
        MAP_FAILED)
        return -1;
    if (home.count < countof(home.parts)) {
        home.parts[home.count].start = start;
        home.parts[home.count].offset = heap->size;
        home.parts[home.count++].bytes = bytes;
    }
    heap->size += bytes;
    return 0;
}

/* Moves the runs of own pages among `count` from `start` on. */
static int move_runs(struct heap *heap, uintptr_t start, size_t count, int prot)
{
    if (maps_own_pages(heap->pagemap_fd, start, count, heap->own) < 0)
        return -1;
    for (size_t i = 0; i < count;) {
        if (!heap->own[i]) {
            i++;
            continue;
        }
        size_t end = i + 1;
        for (size_t at = end; at < count && at - end < GAP_PAGES; at++)
            if (heap->own[at])
                end = at + 1;
        if (move_pages(heap, start + i * MAPS_PAGE, (end - i) * MAPS_PAGE, prot) < 0)
            return -1;
        i = end;
    }
    return 0;
}

static int move_area(struct heap *heap, const struct map_area *area)
{
    size_t count = (area->end - area->start) / MAPS_PAGE;
    for (size_t done = 0; done < count; done += PAGES_AT_ONCE)
        if (move_runs(heap, area->start + done * MAPS_PAGE,
                      MIN(count - done, (size_t)PAGES_AT_ONCE), area->prot) < 0)
            return -1;
    return 0;
}

static int new_file(void)
{
    int fd = memfd_create(ZYGOTE_HEAP_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) /* an older kernel */
        fd = memfd_create(ZYGOTE_HEAP_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd;
}

int zygote_share_heap(int proc_fd, struct err *err)
{
    struct heap heap = {.fd = -1, .pagemap_fd = -1};
    struct map_list list = {0};
    AUTO_CLOSE int pagemap = openat(proc_fd, "pagemap", O_RDONLY | O_CLOEXEC);
    AUTO_CLOSE int file = new_file();
    if (pagemap < 0 || file < 0 || maps_read(proc_fd, &list) < 0)
        return err_sys(err, errno, "inspect the zygote's memory");
    heap.fd = file;
    heap.pagemap_fd = pagemap;
    int done = 0;
    for (size_t i = 0; i < list.count && done == 0; i++)
        if (is_heap(&list.areas[i], &list))
            done = move_area(&heap, &list.areas[i]);
    int code = errno;
    maps_done(&list);
    if (done < 0)
        return err_sys(err, code, "share the zygote's memory");
    if (fcntl(file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return err_sys(err, errno, "seal the zygote's memory");
    return 0;
}
