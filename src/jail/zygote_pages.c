/* What a kernel of a template needs first, learned from one that is made for it alone.
 *
 * Pages that it writes to are copied in one go when it is born. Pages that it only reads, of the
 * shared heap and of libraries, cost it a fault for each sixteen, some 4 us, since a fork leaves
 * them out of the copy's table of pages, except in areas that hold a page of the process' own. So
 * the template is given one such page in each area that is read, and has in its table what is read
 * and nothing else: each entry costs every fork a tenth of a microsecond.
 *
 * Which pages those are the machine's kernel tells of a process whose areas are watched by a
 * userfaultfd: it brings in what is asked for then, and no neighbours. Without that (before Linux
 * 6.7) only what is written to is learned. */

#include "jail/zygote_pages.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "jail/zygote.h"
#include "jail/zygote_maps.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

enum { RUNS_MAX = 4096, AREA_PAGES_MAX = 64 << 10 };

enum page_use { PAGES_WRITTEN, PAGES_READ, PAGES_AREA };

struct run {
    uintptr_t start;
    uint32_t pages, use; /* PAGES_AREA: the first page that is read in an area */
};

struct runs {
    struct run list[RUNS_MAX];
    size_t count;
};

static struct runs learned; /* at last only what is written to */

static void add_page(struct runs *runs, uintptr_t page, enum page_use use)
{
    struct run *last = runs->count == 0 ? NULL : &runs->list[runs->count - 1];
    if (last != NULL && last->use == use &&
        page == last->start + (uintptr_t)last->pages * MAPS_PAGE)
        last->pages++;
    else if (runs->count < RUNS_MAX)
        runs->list[runs->count++] = (struct run){page, 1, use};
}

static bool is_file(const struct map_area *area)
{
    return area->inode != 0 && !area->is_shared &&
           (area->end - area->start) / MAPS_PAGE <= AREA_PAGES_MAX;
}

/* Until the descriptor is closed, pages of files are brought in one by one. -1 when they are not.
 */
static int watch(const struct map_list *maps)
{
    AUTO_CLOSE int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC};
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) < 0)
        return -1;
    for (size_t i = 0; i < maps->count; i++) {
        const struct map_area *area = &maps->areas[i];
        struct uffdio_register range = {.range = {area->start, area->end - area->start},
                                        .mode = UFFDIO_REGISTER_MODE_WP};
        if (is_file(area) && ioctl(fd, UFFDIO_REGISTER, &range) < 0)
            return -1;
    }
    return fd_take(&fd);
}

/* --- The rehearsal --- */

static size_t find_kind(const uint8_t *kinds, size_t from, size_t count, uint8_t kind)
{
    while (from < count && kinds[from] != kind)
        from++;
    return from;
}

static void add_kind(struct runs *runs, const struct map_area *area, const uint8_t *kinds,
                     uint8_t kind, enum page_use use)
{
    size_t count = (area->end - area->start) / MAPS_PAGE;
    for (size_t i = find_kind(kinds, 0, count, kind); i < count;
         i = find_kind(kinds, i + 1, count, kind))
        add_page(runs, area->start + i * MAPS_PAGE, use);
}

/* The pages of an area that this process has by now. */
static void find_pages(int pagemap, const struct map_area *area, bool is_watched, struct runs *runs)
{
    static uint8_t kinds[AREA_PAGES_MAX];
    size_t count = (area->end - area->start) / MAPS_PAGE;
    if (maps_pages(pagemap, area->start, count, kinds) < 0)
        return;
    if ((area->prot & PROT_WRITE) != 0)
        add_kind(runs, area, kinds, MAPS_PRESENT | MAPS_ANON, PAGES_WRITTEN);
    size_t at = find_kind(kinds, 0, count, MAPS_PRESENT);
    if (!is_watched || at == count)
        return;
    add_page(runs, area->start + at * MAPS_PAGE, PAGES_AREA);
    add_kind(runs, area, kinds, MAPS_PRESENT, PAGES_READ);
}

static void NORETURN rehearse(int proc_fd, int to, const struct zygote_hooks *hooks)
{
    static struct runs runs;
    struct map_list maps = {0};
    struct err ignored;
    int self = openat(proc_fd, "../self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int pagemap = self < 0 ? -1 : openat(self, "pagemap", O_RDONLY | O_CLOEXEC);
    if (pagemap < 0 || maps_read(self, &maps) < 0)
        _exit(1);
    bool is_watched = watch(&maps) >= 0;
    hooks->rehearse();
    for (size_t i = 0; i < maps.count; i++)
        if (is_file(&maps.areas[i]))
            find_pages(pagemap, &maps.areas[i], is_watched, &runs);
    _exit(fd_write_all(to, str_n((const char *)runs.list, runs.count * sizeof runs.list[0]),
                       &ignored) < 0);
}

static void hear(int from)
{
    size_t len = 0, size = sizeof learned.list;
    for (ssize_t got = 1; got > 0 && len<size; len += got> 0 ? (size_t)got : 0)
        got = read(from, (char *)learned.list + len, size - len);
    learned.count = len / sizeof learned.list[0];
}

/* --- The template's table of pages --- */

/* Code and constants that only imports have needed. */
static void forget_read(const struct map_list *maps, int pagemap)
{
    static uint8_t kinds[AREA_PAGES_MAX];
    for (size_t i = 0; i < maps->count; i++) {
        const struct map_area *area = &maps->areas[i];
        size_t count = (area->end - area->start) / MAPS_PAGE;
        if (!is_file(area) || (area->prot & PROT_WRITE) != 0 ||
            maps_pages(pagemap, area->start, count, kinds) < 0)
            continue;
        if (find_kind(kinds, 0, count, MAPS_PRESENT | MAPS_ANON) == count)
            (void)madvise((void *)area->start, count * MAPS_PAGE, MADV_DONTNEED);
    }
}

/* Writes to a page what it holds, also where the code itself could not. */
static void own_page(int mem, uintptr_t page)
{
    char byte;
    if (pread(mem, &byte, 1, (off_t)page) == 1)
        (void)!pwrite(mem, &byte, 1, (off_t)page);
}

static void have_at_hand(int mem)
{
    size_t kept = 0;
    for (size_t i = 0; i < learned.count; i++) {
        struct run run = learned.list[i];
        if (run.use == PAGES_WRITTEN)
            learned.list[kept++] = run;
        else if (run.use == PAGES_AREA)
            own_page(mem, run.start);
        else
            (void)madvise((void *)run.start, (size_t)run.pages * MAPS_PAGE, MADV_POPULATE_READ);
    }
    learned.count = kept;
}

/* A page that is in the table is copied at a higher price than one that is not. Nothing but the
 * stack is written to between the look at a page and its being given back. */
static void give_back_written(int pagemap)
{
    for (size_t i = 0; i < learned.count; i++)
        for (uint32_t k = 0; k < learned.list[i].pages; k++) {
            uintptr_t page = learned.list[i].start + (uintptr_t)k * MAPS_PAGE;
            uint8_t kind;
            if (maps_pages(pagemap, page, 1, &kind) == 0 && kind == MAPS_PRESENT)
                (void)madvise((void *)page, MAPS_PAGE, MADV_DONTNEED);
        }
}

static void arrange_table(int proc_fd)
{
    struct map_list maps = {0};
    AUTO_CLOSE int pagemap = openat(proc_fd, "pagemap", O_RDONLY | O_CLOEXEC);
    AUTO_CLOSE int mem = openat(proc_fd, "mem", O_RDWR | O_CLOEXEC);
    if (pagemap < 0 || mem < 0 || maps_read(proc_fd, &maps) < 0)
        return;
    AUTO_CLOSE int watched = watch(&maps);
    if (watched >= 0)
        forget_read(&maps, pagemap);
    have_at_hand(mem);
    maps_done(&maps);
    give_back_written(pagemap);
}

void zygote_learn_pages(int proc_fd, const struct zygote_hooks *hooks)
{
    int pair[2];
    if (pipe2(pair, O_CLOEXEC) < 0)
        return;
    hooks->before();
    pid_t pid = fork();
    if (pid == 0)
        rehearse(proc_fd, pair[1], hooks);
    hooks->after();
    (void)close(pair[1]);
    hear(pair[0]);
    (void)close(pair[0]);
    if (pid > 0)
        (void)waitpid(pid, NULL, 0);
    arrange_table(proc_fd);
}

void zygote_copy_pages(void)
{
    for (size_t i = 0; i < learned.count; i++)
        (void)madvise((void *)learned.list[i].start, (size_t)learned.list[i].pages * MAPS_PAGE,
                      MADV_POPULATE_WRITE);
}
