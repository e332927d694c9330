/* An interpreter that becomes another one.
 *
 * First everything is looked up and checked with the C library, and nothing changes: what cannot be
 * restored is reported, and the interpreter serves as a fresh one. Then, on a stack in the scratch,
 * the memory is replaced, the C library's own included: from there on only direct system calls are
 * made, and any failure ends the process. */

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "jail/zygote/zygote_image.h"

/* Shorter runs are read to their place: a mapping of its own for each would cost more. */
enum { MAP_FROM = 256 << 10, EXIT_BROKEN = 120 };

/* --- Looking --- */

static bool is_special(const struct map_area *area)
{
    return area->path[0] == '[' && strncmp(area->path, "[heap]", 6) != 0 &&
           strncmp(area->path, "[anon", 5) != 0;
}

static bool is_same_file(const struct map_area *mine, const struct image_area *area)
{
    return mine->inode != 0 && !mine->is_shared && area->is_shared == 0 &&
           mine->inode == area->inode && mine->device == area->device &&
           mine->offset - mine->start == area->offset - area->start;
}

/* True when all of the area is mapped already, in whatever pieces. */
static bool zygote_restore_is_there(const struct map_list *mine, const struct image_area *area)
{
    uintptr_t at = area->start;
    for (size_t i = 0; i < mine->count && at < area->end; i++) {
        const struct map_area *piece = &mine->areas[i];
        if (piece->end <= at)
            continue;
        if (piece->start > at || !is_same_file(piece, area))
            return false;
        at = piece->end;
    }
    return at >= area->end;
}

static const char *name_at(const struct zygote_scratch *scratch, uint64_t name)
{
    return name < scratch->head.names_len ? scratch->names + name : "";
}

static int open_area(const struct zygote_scratch *scratch, const struct image_area *area,
                     struct err *err)
{
    const char *path = name_at(scratch, area->name);
    bool writes = area->is_shared != 0 && (area->prot & PROT_WRITE) != 0;
    struct stat st;
    int fd = open(path, (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return err_sys(err, errno, "open '%s', which the interpreter had mapped", path);
    if (fstat(fd, &st) < 0 || (area->is_shared == 0 && (uint64_t)st.st_ino != area->inode)) {
        (void)close(fd);
        return err_set(err, ERR_CONFLICT,
                       "'%s', mapped by the saved interpreter, differs in this jail", path);
    }
    return fd;
}

static int look_at_area(struct zygote_scratch *scratch, struct image_plan *plan, size_t i,
                        struct err *err)
{
    const struct image_area *area = &scratch->areas[i];
    plan->fds[i] = -1;
    plan->keep[i] = false;
    if (area->kind == IMAGE_PLAIN || area->kind == IMAGE_STACK)
        return 0;
    plan->keep[i] = zygote_restore_is_there(&scratch->maps, area);
    if (plan->keep[i])
        return 0;
    if (area->kind == IMAGE_ZYGOTE)
        return err_set(err, ERR_CONFLICT, "a part of the zygote's memory has moved");
    plan->fds[i] = open_area(scratch, area, err);
    return plan->fds[i] < 0 ? -1 : 0;
}

static void add_unmap(struct image_plan *plan, uintptr_t start, uintptr_t end)
{
    if (start < end && plan->unmap_count < countof(plan->unmaps))
        plan->unmaps[plan->unmap_count++] = (__typeof__(plan->unmaps[0])){start, end};
}

/* What of the range no kept area covers; both lists are in order. */
static void unmap_rest(const struct zygote_scratch *scratch, struct image_plan *plan,
                       uintptr_t start, uintptr_t end)
{
    for (size_t i = 0; i < scratch->head.area_count && start < end; i++) {
        const struct image_area *area = &scratch->areas[i];
        if (!plan->keep[i] || area->end <= start)
            continue;
        if (area->start >= end)
            break;
        add_unmap(plan, start, MIN(area->start, end));
        start = MAX(start, area->end);
    }
    add_unmap(plan, start, end);
}

static void look_at_mine(struct zygote_scratch *scratch, struct image_plan *plan)
{
    for (size_t i = 0; i < scratch->maps.count; i++) {
        const struct map_area *mine = &scratch->maps.areas[i];
        if (is_special(mine))
            continue;
        if (!zygote_is_reserved(mine->start, mine->end)) {
            unmap_rest(scratch, plan, mine->start, mine->end);
            continue;
        }
        unmap_rest(scratch, plan, mine->start, MIN(mine->end, zygote_reserved_start()));
        unmap_rest(scratch, plan, MAX(mine->start, zygote_reserved_end()), mine->end);
    }
}

static int zygote_restore_load(int fd, void *to, size_t size, uint64_t at, struct err *err)
{
    for (size_t done = 0; done < size;) {
        ssize_t got = pread(fd, (char *)to + done, size - done, (off_t)(at + done));
        if (got < 0)
            return err_sys(err, errno, "read the image");
        if (got == 0)
            return err_set(err, ERR_INVALID, "the image is truncated");
        done += (size_t)got;
    }
    return 0;
}

static int load_tables(int fd, struct zygote_scratch *scratch, struct err *err)
{
    struct image_head *head = &scratch->head;
    if (zygote_restore_load(fd, head, sizeof *head, 0, err) < 0)
        return -1;
    if (head->magic != IMAGE_MAGIC || head->area_count > IMAGE_AREAS_MAX ||
        head->run_count > IMAGE_RUNS_MAX || head->file_count > IMAGE_FILES_MAX ||
        head->names_len > IMAGE_NAMES_MAX)
        return err_set(err, ERR_INVALID, "not an image of an interpreter");
    if (memcmp(head->zygote_id, zygote_id, sizeof head->zygote_id) != 0)
        return err_set(err, ERR_CONFLICT,
                       "the zygote that the interpreter was forked from no longer exists");
    if (zygote_restore_load(fd, scratch->areas, head->area_count * sizeof scratch->areas[0],
                            head->areas_at, err) < 0 ||
        zygote_restore_load(fd, scratch->runs, head->run_count * sizeof scratch->runs[0],
                            head->runs_at, err) < 0 ||
        zygote_restore_load(fd, scratch->files, head->file_count * sizeof scratch->files[0],
                            head->files_at, err) < 0)
        return -1;
    head->cwd[sizeof head->cwd - 1] = '\0';
    if (head->names_len > 0 &&
        zygote_restore_load(fd, scratch->names, head->names_len, head->names_at, err) < 0)
        return -1;
    if (head->names_len > 0)
        scratch->names[head->names_len - 1] = '\0';
    return 0;
}

static int zygote_restore_look(struct zygote_scratch *scratch, struct image_plan *plan,
                               struct err *err)
{
    AUTO_CLOSE int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    plan->unmap_count = 0;
    if (load_tables(plan->fd, scratch, err) < 0)
        return -1;
    if (self < 0 || maps_read_into(self, scratch->maps_space, &scratch->maps) < 0)
        return err_sys(err, errno, "inspect the interpreter's memory");
    fd_close(&self);
    for (size_t i = 0; i < scratch->head.area_count; i++)
        if (look_at_area(scratch, plan, i, err) < 0) {
            while (i-- > 0)
                fd_close(&plan->fds[i]);
            return -1;
        }
    look_at_mine(scratch, plan);
    plan->brk = (uintptr_t)syscall(SYS_brk, 0);
    return 0;
}

/* --- Becoming --- */

#if defined(__x86_64__)
static inline long raw(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
static inline long raw(long number, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}
#else
#error "restoring an interpreter needs raw system calls for this architecture"
#endif

static void NORETURN raw_exit(void)
{
    for (;;)
        (void)raw(SYS_exit_group, EXIT_BROKEN, 0, 0, 0, 0, 0);
}

static inline void must(long result)
{
    if (result < 0)
        raw_exit();
}

static inline void map_at(uintptr_t start, uintptr_t end, int prot, int flags, int fd, uint64_t at)
{
    must(raw(SYS_mmap, (long)start, (long)(end - start), prot, flags | MAP_FIXED, fd, (long)at) ==
                 (long)start
             ? 0
             : -1);
}

/* The area as it was before anything was written to it, open for writing. */
static void lay_area(const struct image_area *area, bool keep, int fd)
{
    int shared = area->is_shared != 0 ? MAP_SHARED : MAP_PRIVATE;
    long size = (long)(area->end - area->start);
    if (area->kind == IMAGE_STACK) {
        /* It grows to where it is written. */
        return;
    }
    if (fd >= 0)
        map_at(area->start, area->end, area->prot | (shared == MAP_PRIVATE ? PROT_WRITE : 0),
               shared, fd, area->offset);
    else if (keep) {
        must(raw(SYS_madvise, (long)area->start, size, MADV_DONTNEED, 0, 0, 0));
        must(raw(SYS_mprotect, (long)area->start, size, PROT_READ | PROT_WRITE, 0, 0, 0));
    } else
        map_at(area->start, area->end, PROT_READ | PROT_WRITE,
               shared | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static void read_run(int fd, const struct image_run *run)
{
    for (uint64_t done = 0; done < run->bytes;) {
        long got = raw(SYS_pread64, fd, (long)(run->start + done), (long)(run->bytes - done),
                       (long)(run->offset + done), 0, 0);
        if (got <= 0)
            raw_exit();
        done += (uint64_t)got;
    }
}

static void lay_runs(const struct zygote_scratch *scratch, int fd, bool copies)
{
    size_t in = 0;
    for (size_t i = 0; i < scratch->head.run_count; i++) {
        const struct image_run *run = &scratch->runs[i];
        while (in < scratch->head.area_count && scratch->areas[in].end <= run->start)
            in++;
        if (in == scratch->head.area_count)
            raw_exit();
        const struct image_area *area = &scratch->areas[in];
        if (!copies && run->bytes >= MAP_FROM && area->kind != IMAGE_STACK && area->is_shared == 0)
            map_at(run->start, run->start + run->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd,
                   run->offset);
        else
            read_run(fd, run);
    }
}

static void set_brk(uintptr_t now, uintptr_t wanted, bool is_down)
{
    if (now != wanted && (wanted < now) == is_down &&
        raw(SYS_brk, (long)wanted, 0, 0, 0, 0, 0) != (long)wanted)
        raw_exit();
}

static void zygote_restore_open_file(const struct image_file *file, const char *name)
{
    long fd = -1;
    if (file->same_as >= 0)
        fd = file->same_as;
    else if (file->is_lost == 0)
        fd = raw(SYS_openat, AT_FDCWD, (long)name,
                 (file->flags & ~O_DIRECT) | O_NOCTTY | O_NONBLOCK, 0, 0, 0);
    bool is_open = fd >= 0 && file->same_as < 0;
    /* A number that served something else by the time its owner closes it would hurt that. */
    if (fd < 0) {
        fd = raw(SYS_openat, AT_FDCWD, (long)"/dev/null", O_PATH, 0, 0, 0);
        is_open = true;
    } else if (is_open) {
        (void)raw(SYS_lseek, fd, file->offset, SEEK_SET, 0, 0, 0);
        (void)raw(SYS_fcntl, fd, F_SETFL, file->flags, 0, 0, 0);
    }
    if (fd < 0)
        return;
    if (fd == file->fd) {
        (void)raw(SYS_fcntl, fd, F_SETFD, file->is_cloexec != 0 ? FD_CLOEXEC : 0, 0, 0, 0);
        return;
    }
    (void)raw(SYS_dup3, fd, file->fd, file->is_cloexec != 0 ? O_CLOEXEC : 0, 0, 0, 0);
    if (is_open)
        (void)raw(SYS_close, fd, 0, 0, 0, 0, 0);
}

static void lay_rest(const struct zygote_scratch *scratch)
{
    const struct image_head *head = &scratch->head;
    (void)raw(SYS_umask, head->umask, 0, 0, 0, 0, 0);
    (void)raw(SYS_chdir, (long)head->cwd, 0, 0, 0, 0, 0);
    for (size_t i = 0; i < head->file_count; i++)
        zygote_restore_open_file(&scratch->files[i], name_at(scratch, scratch->files[i].name));
    (void)raw(SYS_sigaltstack, (long)&head->signal_stack, 0, 0, 0, 0, 0);
    for (int number = 1; number <= IMAGE_SIGNALS; number++)
        (void)raw(SYS_rt_sigaction, number, (long)&head->actions[number - 1], 0, sizeof head->mask,
                  0, 0);
    (void)raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&head->mask, 0, sizeof head->mask, 0, 0);
}

/* On the stack of the scratch. Static data of this program is exchanged here like all the rest; the
 * pointer to the scratch is the same before and after. */
static void NORETURN zygote_restore_become(void)
{
    struct zygote_scratch *scratch = zygote_scratch;
    const struct image_plan *plan = &scratch->plan;
    const struct image_head *head = &scratch->head;
    uint64_t all = ~0ull;
    int fd = plan->fd;
    (void)raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, 0, sizeof all, 0, 0);
    set_brk(plan->brk, head->brk, true);
    for (size_t i = 0; i < plan->unmap_count; i++)
        must(raw(SYS_munmap, (long)plan->unmaps[i].start,
                 (long)(plan->unmaps[i].end - plan->unmaps[i].start), 0, 0, 0, 0));
    set_brk(plan->brk, head->brk, false);
    for (size_t i = 0; i < head->area_count; i++)
        if (plan->keep[i] == false || (scratch->areas[i].prot & PROT_EXEC) == 0)
            lay_area(&scratch->areas[i], plan->keep[i], plan->fds[i]);
    lay_runs(scratch, fd, plan->copies);
    for (size_t i = 0; i < head->area_count; i++) {
        const struct image_area *area = &scratch->areas[i];
        if (area->kind != IMAGE_STACK && !(plan->keep[i] && (area->prot & PROT_EXEC) != 0))
            must(raw(SYS_mprotect, (long)area->start, (long)(area->end - area->start), area->prot,
                     0, 0, 0));
        if (plan->fds[i] >= 0)
            (void)raw(SYS_close, plan->fds[i], 0, 0, 0, 0, 0);
    }
    (void)raw(SYS_close, fd, 0, 0, 0, 0, 0);
    lay_rest(scratch);
    __builtin_longjmp(zygote_point, 1);
}

void zygote_image_restore(int fd, bool copies, struct str env, struct err *err)
{
    struct zygote_scratch *scratch = zygote_scratch;
    AUTO_CLOSE int image = fd;
    static ucontext_t there;
    if (scratch == NULL || env.len > sizeof scratch->env) {
        (void)err_set(err, ERR_UNSUPPORTED, "the zygote has no scratch memory");
        return;
    }
    struct image_plan *plan = &scratch->plan;
    plan->fd = image;
    plan->copies = copies;
    if (zygote_restore_look(scratch, plan, err) < 0)
        return;
    memcpy(scratch->env, env.ptr, env.len);
    scratch->env_len = env.len;
    if (getcontext(&there) < 0) {
        (void)err_sys(err, errno, "leave the stack");
        return;
    }
    there.uc_stack.ss_sp = scratch->stack;
    there.uc_stack.ss_size = sizeof scratch->stack;
    makecontext(&there, (void (*)(void))zygote_restore_become, 0);
    (void)setcontext(&there);
    (void)err_sys(err, errno, "leave the stack");
}
