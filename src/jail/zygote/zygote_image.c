#include "jail/zygote/zygote_image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "jail/wire/plan.h"
#include "jail/zygote/zygote_heap.h"
#include "jail/zygote/zygote_thread.h"

/* Unchanged pages of the zygote in a gap of at most GAP_PAGES are written as well. */
enum { GAP_PAGES = 4, PAGES_AT_ONCE = sizeof((struct zygote_scratch *)NULL)->own };

struct zygote_scratch *zygote_scratch;
char zygote_id[16];
void *zygote_point[5];

/* --- The scratch --- */

#define SCRATCH_BYTES ((sizeof(struct zygote_scratch) + MAPS_PAGE - 1) / MAPS_PAGE * MAPS_PAGE)

uintptr_t zygote_reserved_start(void)
{
    return (uintptr_t)zygote_scratch - MAPS_PAGE;
}

uintptr_t zygote_reserved_end(void)
{
    return (uintptr_t)zygote_scratch + SCRATCH_BYTES + MAPS_PAGE;
}

bool zygote_is_reserved(uintptr_t start, uintptr_t end)
{
    return start < zygote_reserved_end() && end > zygote_reserved_start();
}

void zygote_image_prepare(void)
{
    if (getrandom(zygote_id, sizeof zygote_id, 0) != (ssize_t)sizeof zygote_id)
        return;
    char *space = mmap(NULL, SCRATCH_BYTES + 2 * (size_t)MAPS_PAGE, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED)
        return;
    if (mprotect(space + MAPS_PAGE, SCRATCH_BYTES, PROT_READ | PROT_WRITE) == 0)
        zygote_scratch = (struct zygote_scratch *)(void *)(space + MAPS_PAGE);
}

struct str zygote_image_env(void)
{
    return zygote_scratch == NULL ? (struct str){0}
                                  : str_n(zygote_scratch->env, zygote_scratch->env_len);
}

/* --- The copy, which writes --- */

struct writer {
    struct zygote_scratch *scratch;
    int fd, pagemap_fd;
    uint64_t at, limit;
    uint64_t program_device, program_inode;
    const int *reserved;
    size_t reserved_count;
};

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_deleted(const char *path)
{
    static const char word[] = " (deleted)";
    size_t len = strlen(path);
    return len >= sizeof word && strcmp(path + len - (sizeof word - 1), word) == 0;
}

/* Places that every jail shows alike. */
static bool is_system(const char *path)
{
    return (starts(path, "/usr/") || starts(path, "/lib") || starts(path, "/opt/") ||
            starts(path, "/etc/")) &&
           !is_deleted(path);
}

static enum image_kind kind_of(const struct writer *writer, const struct map_area *area)
{
    if (starts(area->path, "[stack]"))
        return IMAGE_STACK;
    if (area->inode == 0)
        return IMAGE_PLAIN;
    if (area->inode == writer->program_inode && area->device == writer->program_device)
        return IMAGE_ZYGOTE;
    if (starts(area->path, "/memfd:" ZYGOTE_HEAP_NAME " ") &&
        zygote_heap_is_home(area->start, area->offset))
        return IMAGE_ZYGOTE;
    if (area->is_shared ? !is_deleted(area->path) && area->path[0] == '/' : is_system(area->path))
        return IMAGE_FILE;
    return IMAGE_PLAIN;
}

static int zygote_image_put(struct writer *writer, const void *bytes, uint64_t size)
{
    for (uint64_t done = 0; done < size;) {
        ssize_t sent =
            pwrite(writer->fd, (const char *)bytes + done, size - done, (off_t)writer->at);
        if (sent <= 0)
            return -1;
        done += (uint64_t)sent;
        writer->at += (uint64_t)sent;
    }
    return 0;
}

static int put_run(struct writer *writer, uintptr_t start, uint64_t bytes)
{
    struct image_head *head = &writer->scratch->head;
    if (head->run_count == IMAGE_RUNS_MAX) {
        errno = E2BIG;
        return -1;
    }
    if (writer->at + bytes > writer->limit) {
        errno = EFBIG;
        return -1;
    }
    writer->scratch->runs[head->run_count++] = (struct image_run){start, bytes, writer->at};
    return zygote_image_put(writer, (const void *)start, bytes);
}

/* The runs of own pages among `count` from `start` on. */
static int put_own(struct writer *writer, uintptr_t start, size_t count)
{
    const bool *own = writer->scratch->own;
    if (maps_own_pages(writer->pagemap_fd, start, count, writer->scratch->own) < 0)
        return -1;
    for (size_t i = 0; i < count;) {
        if (!own[i]) {
            i++;
            continue;
        }
        size_t end = i + 1;
        for (size_t at = end; at < count && at - end < GAP_PAGES; at++)
            if (own[at])
                end = at + 1;
        if (put_run(writer, start + i * MAPS_PAGE, (end - i) * MAPS_PAGE) < 0)
            return -1;
        i = end;
    }
    return 0;
}

static int put_pages(struct writer *writer, const struct map_area *area, enum image_kind kind)
{
    bool is_own = area->inode == 0 && !area->is_shared;
    size_t count = (area->end - area->start) / MAPS_PAGE;
    if (kind == IMAGE_FILE && area->is_shared)
        return 0;
    /* Code is what its file says. */
    if ((kind == IMAGE_FILE || kind == IMAGE_ZYGOTE) && (area->prot & PROT_EXEC) != 0)
        return 0;
    if ((area->prot & PROT_READ) == 0 &&
        mprotect((void *)area->start, area->end - area->start, PROT_READ) < 0)
        return -1;
    /* Nobody else has the bytes of a file that is neither the zygote's nor found by its name. */
    if (kind == IMAGE_PLAIN && !is_own)
        return put_run(writer, area->start, area->end - area->start);
    for (size_t done = 0; done < count; done += PAGES_AT_ONCE)
        if (put_own(writer, area->start + done * MAPS_PAGE,
                    MIN(count - done, (size_t)PAGES_AT_ONCE)) < 0)
            return -1;
    return 0;
}

static int put_name(struct writer *writer, const char *path, uint64_t *ret_name)
{
    struct image_head *head = &writer->scratch->head;
    size_t len = strlen(path) + 1;
    if (len > IMAGE_NAMES_MAX - head->names_len) {
        errno = E2BIG;
        return -1;
    }
    memcpy(writer->scratch->names + head->names_len, path, len);
    *ret_name = head->names_len;
    head->names_len += (uint32_t)len;
    return 0;
}

static int put_area(struct writer *writer, const struct map_area *area)
{
    struct image_head *head = &writer->scratch->head;
    enum image_kind kind = kind_of(writer, area);
    struct image_area *out = &writer->scratch->areas[head->area_count];
    if (area->start >= area->end)
        return 0;
    if (head->area_count == IMAGE_AREAS_MAX) {
        errno = E2BIG;
        return -1;
    }
    *out = (struct image_area){.start = area->start,
                               .end = area->end,
                               .offset = area->offset,
                               .inode = area->inode,
                               .device = area->device,
                               .kind = kind,
                               .prot = area->prot,
                               .is_shared = area->is_shared};
    head->area_count++;
    if (kind == IMAGE_FILE && put_name(writer, area->path, &out->name) < 0)
        return -1;
    return put_pages(writer, area, kind);
}

/* What the Linux kernel shows of its own is left out, and so is the scratch, which neighbours
 * may have been joined to. */
static int put_areas(struct writer *writer)
{
    const struct map_list *list = &writer->scratch->maps;
    for (size_t i = 0; i < list->count; i++) {
        struct map_area area = list->areas[i];
        if (area.path[0] == '[' && !starts(area.path, "[heap]") && !starts(area.path, "[anon") &&
            !starts(area.path, "[stack]"))
            continue;
        if (!zygote_is_reserved(area.start, area.end)) {
            if (put_area(writer, &area) < 0)
                return -1;
            continue;
        }
        struct map_area below = area, above = area;
        below.end = MIN(area.end, zygote_reserved_start());
        above.start = MAX(area.start, zygote_reserved_end());
        if (put_area(writer, &below) < 0 || put_area(writer, &above) < 0)
            return -1;
    }
    return 0;
}

/* --- Its descriptors, its signals --- */

static bool is_reserved(const struct writer *writer, int fd)
{
    for (size_t i = 0; i < writer->reserved_count; i++)
        if (writer->reserved[i] == fd)
            return true;
    return fd == writer->fd || fd == writer->pagemap_fd;
}

/* One of the interpreter's own streams by another number. */
static int find_same(const struct stat *st)
{
    for (int fd = 1; fd <= 2; fd++) {
        struct stat other;
        if (fstat(fd, &other) == 0 && other.st_dev == st->st_dev && other.st_ino == st->st_ino)
            return fd;
    }
    return -1;
}

static int put_file(struct writer *writer, int fd)
{
    struct image_head *head = &writer->scratch->head;
    struct stat st;
    char link[64], path[IMAGE_CWD_MAX];
    int flags = fcntl(fd, F_GETFL);
    if (is_reserved(writer, fd) || flags < 0 || fstat(fd, &st) < 0)
        return 0;
    if (head->file_count == IMAGE_FILES_MAX) {
        errno = E2BIG;
        return -1;
    }
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    path[len < 0 ? 0 : len] = '\0';
    struct image_file *out = &writer->scratch->files[head->file_count++];
    *out = (struct image_file){.fd = fd,
                               .flags = flags & ~(O_CREAT | O_EXCL | O_TRUNC),
                               .same_as = find_same(&st),
                               .is_cloexec = (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0};
    bool is_plain = S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || starts(path, "/dev/");
    out->is_lost = out->same_as < 0 && (!is_plain || path[0] != '/' || is_deleted(path));
    if (S_ISREG(st.st_mode) && (flags & O_PATH) == 0)
        out->offset = lseek(fd, 0, SEEK_CUR);
    return put_name(writer, out->is_lost || out->same_as >= 0 ? "" : path, &out->name);
}

static int put_files(struct writer *writer)
{
    long max = sysconf(_SC_OPEN_MAX);
    for (int fd = 0; fd < (int)MIN(max, 65536L); fd++)
        if (fcntl(fd, F_GETFD) >= 0 && put_file(writer, fd) < 0)
            return -1;
    return 0;
}

static void note_signals(struct image_head *head)
{
    for (int number = 1; number <= IMAGE_SIGNALS; number++)
        (void)syscall(SYS_rt_sigaction, number, NULL, &head->actions[number - 1],
                      sizeof head->mask);
    (void)syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &head->mask, sizeof head->mask);
    (void)sigaltstack(NULL, &head->signal_stack);
}

/* --- All of it --- */

static void find_program(struct writer *writer)
{
    const struct map_list *list = &writer->scratch->maps;
    uintptr_t here = (uintptr_t)find_program;
    for (size_t i = 0; i < list->count; i++)
        if (here >= list->areas[i].start && here < list->areas[i].end) {
            writer->program_device = list->areas[i].device;
            writer->program_inode = list->areas[i].inode;
        }
}

static int put_tables(struct writer *writer)
{
    struct zygote_scratch *scratch = writer->scratch;
    struct image_head *head = &scratch->head;
    head->areas_at = writer->at;
    if (zygote_image_put(writer, scratch->areas, head->area_count * sizeof scratch->areas[0]) < 0)
        return -1;
    head->runs_at = writer->at;
    if (zygote_image_put(writer, scratch->runs, head->run_count * sizeof scratch->runs[0]) < 0)
        return -1;
    head->files_at = writer->at;
    if (zygote_image_put(writer, scratch->files, head->file_count * sizeof scratch->files[0]) < 0)
        return -1;
    head->names_at = writer->at;
    if (zygote_image_put(writer, scratch->names, head->names_len) < 0)
        return -1;
    writer->at = 0;
    return zygote_image_put(writer, head, sizeof *head);
}

static int write_all(struct writer *writer)
{
    struct image_head *head = &writer->scratch->head;
    AUTO_CLOSE int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int pagemap = self < 0 ? -1 : openat(self, "pagemap", O_RDONLY | O_CLOEXEC);
    *head = (struct image_head){.magic = IMAGE_MAGIC};
    memcpy(head->zygote_id, zygote_id, sizeof head->zygote_id);
    note_signals(head);
    if (pagemap < 0 ||
        maps_read_into(self, writer->scratch->maps_space, &writer->scratch->maps) < 0)
        return -1;
    fd_close(&self);
    writer->pagemap_fd = pagemap;
    writer->at = IMAGE_DATA_AT;
    find_program(writer);
    head->brk = (uint64_t)syscall(SYS_brk, 0);
    head->umask = umask(0);
    if (getcwd(head->cwd, sizeof head->cwd) == NULL)
        head->cwd[0] = '\0';
    if (put_files(writer) < 0 || put_areas(writer) < 0)
        return -1;
    return put_tables(writer);
}

static int await(pid_t pid, struct err *err)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_sys(err, errno, "wait for the copy of the interpreter");
    if (WIFSIGNALED(status))
        return err_set(err, ERR_LIMIT, "the copy of the interpreter was killed by signal %d",
                       WTERMSIG(status));
    int code = WEXITSTATUS(status);
    if (code == EFBIG)
        return err_set(err, ERR_TOO_LARGE, JAIL_COPY_TOO_LARGE);
    if (code == ENOMEM || code == ENOSPC)
        return err_set(err, ERR_TOO_LARGE,
                       "the sandbox's memory limit leaves no room for a copy of the interpreter");
    return code == 0 ? 0 : err_sys(err, code, "write the interpreter's memory");
}

int zygote_image_write(int fd, uint64_t limit, const int *reserved, size_t count, struct err *err)
{
    struct writer writer = {.scratch = zygote_scratch,
                            .fd = fd,
                            .limit = limit,
                            .reserved = reserved,
                            .reserved_count = count};
    if (zygote_scratch == NULL)
        return err_set(err, ERR_UNSUPPORTED, "the interpreter was not forked from a zygote");
    pid_t pid = fork();
    if (pid < 0)
        return err_sys(err, errno, "copy the interpreter");
    if (pid > 0)
        return await(pid, err);
    if (__builtin_setjmp(zygote_point) != 0) {
        zygote_thread_renumber();
        return 1;
    }
    _exit(write_all(&writer) < 0 ? MAX(errno, 1) : 0);
}
