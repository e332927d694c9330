#include "jail/zygote/zygote_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"

enum { WORDS_AT_ONCE = 512 };

static uint64_t number(const char **at, int base)
{
    char *end;
    uint64_t value = strtoull(*at, &end, base);
    *at = end + (*end != '\0');
    return value;
}

/* "start-end rwxp offset major:minor inode   path" */
static void parse(const char *line, struct map_area *area)
{
    area->start = (uintptr_t)number(&line, 16);
    area->end = (uintptr_t)number(&line, 16);
    area->prot = (line[0] == 'r' ? PROT_READ : 0) | (line[1] == 'w' ? PROT_WRITE : 0) |
                 (line[2] == 'x' ? PROT_EXEC : 0);
    area->is_shared = line[3] == 's';
    line += 5;
    area->offset = number(&line, 16);
    uint64_t major = number(&line, 16);
    area->device = major << 32 | number(&line, 16);
    area->inode = number(&line, 10);
    while (*line == ' ')
        line++;
    area->path = line;
}

static ssize_t zygote_maps_read_text(int proc_fd, char *text, size_t size)
{
    size_t len = 0;
    AUTO_CLOSE int fd = openat(proc_fd, "maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    for (;;) {
        ssize_t got = read(fd, text + len, size - 1 - len);
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        len += (size_t)got;
    }
    text[len] = '\0';
    return len + 1 == size ? -1 : (ssize_t)len;
}

int maps_read_into(int proc_fd, void *space, struct map_list *ret_list)
{
    struct map_list list = {.areas = space, .bytes = MAPS_BYTES};
    char *text = (char *)(list.areas + MAPS_MAX);
    if (zygote_maps_read_text(proc_fd, text, MAPS_TEXT_MAX) < 0)
        return -1;
    while (*text != '\0' && list.count < MAPS_MAX) {
        char *end = strchr(text, '\n');
        if (end != NULL)
            *end = '\0';
        parse(text, &list.areas[list.count++]);
        text = end == NULL ? text + strlen(text) : end + 1;
    }
    if (*text != '\0') {
        errno = E2BIG;
        return -1;
    }
    *ret_list = list;
    return 0;
}

int maps_read(int proc_fd, struct map_list *ret_list)
{
    void *space = mmap(NULL, MAPS_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED)
        return -1;
    if (maps_read_into(proc_fd, space, ret_list) == 0)
        return 0;
    int code = errno;
    (void)munmap(space, MAPS_BYTES);
    errno = code;
    return -1;
}

void maps_done(struct map_list *list)
{
    if (list->areas != NULL)
        (void)munmap(list->areas, list->bytes);
    *list = (struct map_list){0};
}

int maps_own_pages(int pagemap_fd, uintptr_t start, size_t count, bool *ret_own)
{
    uint64_t words[WORDS_AT_ONCE];
    for (size_t done = 0; done < count;) {
        size_t part = MIN(count - done, (size_t)WORDS_AT_ONCE);
        off_t at = (off_t)((start / MAPS_PAGE + done) * sizeof words[0]);
        ssize_t got = pread(pagemap_fd, words, part * sizeof words[0], at);
        if (got != (ssize_t)(part * sizeof words[0])) {
            errno = got < 0 ? errno : EIO;
            return -1;
        }
        for (size_t i = 0; i < part; i++) {
            bool there = words[i] >> 63 != 0 || (words[i] >> 62 & 1) != 0; /* or swapped out */
            ret_own[done + i] = there && (words[i] >> 61 & 1) == 0;
        }
        done += part;
    }
    return 0;
}
