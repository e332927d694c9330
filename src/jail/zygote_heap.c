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

#include "jail/zygote_heap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "jail/kernel.h"
#include "jail/zygote.h"
#include "jail/zygote_maps.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* Runs of pages that are there, with gaps of no more than so many, are one mapping. */
enum { GAP_PAGES = 8, KINDS_AT_ONCE = 4096 };

struct heap {
    int fd, pagemap_fd;
    uint64_t size;
    uint8_t kinds[KINDS_AT_ONCE];
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

/* The stack grows by itself, and what the machine's kernel shows of its own is not ours. */
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
        /* The machine's kernel reads them: pages that are not there stay so. */
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
    if (maps_pages(heap->pagemap_fd, start, count, heap->kinds) < 0)
        return -1;
    for (size_t i = 0; i < count;) {
        if ((heap->kinds[i] & MAPS_ANON) == 0) {
            i++;
            continue;
        }
        size_t end = i + 1;
        for (size_t at = end; at < count && at - end < GAP_PAGES; at++)
            if ((heap->kinds[at] & MAPS_ANON) != 0)
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
    for (size_t done = 0; done < count; done += KINDS_AT_ONCE)
        if (move_runs(heap, area->start + done * MAPS_PAGE,
                      MIN(count - done, (size_t)KINDS_AT_ONCE), area->prot) < 0)
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
        return err_sys(err, errno, "look at the template's memory");
    heap.fd = file;
    heap.pagemap_fd = pagemap;
    int done = 0;
    for (size_t i = 0; i < list.count && done == 0; i++)
        if (is_heap(&list.areas[i], &list))
            done = move_area(&heap, &list.areas[i]);
    int code = errno;
    maps_done(&list);
    if (done < 0)
        return err_sys(err, code, "share the template's memory");
    if (fcntl(file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return err_sys(err, errno, "seal the template's memory");
    return 0;
}

/* --- Pages that every kernel writes to first --- */

enum { HOT_MAX = 1024, HOT_GAP = 2 };

struct hot_run {
    uintptr_t start;
    size_t bytes;
};

static struct {
    struct hot_run runs[HOT_MAX];
    size_t count;
} hot;

static void add_hot(struct hot_run *runs, size_t *count, uintptr_t page)
{
    struct hot_run *last = *count == 0 ? NULL : &runs[*count - 1];
    if (last != NULL && page >= last->start &&
        page - last->start <= last->bytes + HOT_GAP * MAPS_PAGE)
        last->bytes = page - last->start + MAPS_PAGE;
    else if (*count < HOT_MAX)
        runs[(*count)++] = (struct hot_run){page, MAPS_PAGE};
}

/* The pages of an area that are this process' own. */
static void find_hot(int pagemap, const struct map_area *area, struct hot_run *runs, size_t *count)
{
    static uint8_t kinds[KINDS_AT_ONCE];
    for (uintptr_t start = area->start; start < area->end; start += KINDS_AT_ONCE * MAPS_PAGE) {
        size_t pages = MIN((area->end - start) / MAPS_PAGE, (size_t)KINDS_AT_ONCE);
        if (maps_pages(pagemap, start, pages, kinds) < 0)
            return;
        for (size_t i = 0; i < pages; i++)
            if ((kinds[i] & MAPS_ANON) != 0)
                add_hot(runs, count, start + i * MAPS_PAGE);
    }
}

/* In the rehearsal's process: what of the shared heap it has copied by now. */
static void tell_hot(int proc_fd, int to)
{
    static struct hot_run runs[HOT_MAX];
    struct map_list list = {0};
    struct err ignored;
    size_t count = 0;
    AUTO_CLOSE int self = openat(proc_fd, "../self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int pagemap = self < 0 ? -1 : openat(self, "pagemap", O_RDONLY | O_CLOEXEC);
    if (pagemap < 0 || maps_read(self, &list) < 0)
        return;
    for (size_t i = 0; i < list.count; i++)
        if ((list.areas[i].prot & PROT_WRITE) != 0 &&
            starts(list.areas[i].path, "/memfd:" ZYGOTE_HEAP_NAME))
            find_hot(pagemap, &list.areas[i], runs, &count);
    (void)!fd_write_all(to, str_n((const char *)runs, count * sizeof runs[0]), &ignored);
}

static void NORETURN rehearse(int proc_fd, int to, const struct zygote_hooks *hooks)
{
    hooks->rehearse();
    tell_hot(proc_fd, to);
    _exit(0);
}

void zygote_learn_pages(int proc_fd, const struct zygote_hooks *hooks)
{
    int pair[2];
    size_t len = 0;
    if (pipe2(pair, O_CLOEXEC) < 0)
        return;
    hooks->before();
    pid_t pid = fork();
    if (pid == 0)
        rehearse(proc_fd, pair[1], hooks);
    hooks->after();
    (void)close(pair[1]);
    for (ssize_t got = 1; got > 0 && len<sizeof hot.runs; len += got> 0 ? (size_t)got : 0)
        got = read(pair[0], (char *)hot.runs + len, sizeof hot.runs - len);
    (void)close(pair[0]);
    if (pid > 0)
        (void)waitpid(pid, NULL, 0);
    hot.count = len / sizeof hot.runs[0];
}

void zygote_copy_pages(void)
{
    for (size_t i = 0; i < hot.count; i++)
        (void)madvise((void *)hot.runs[i].start, hot.runs[i].bytes, MADV_POPULATE_WRITE);
}
