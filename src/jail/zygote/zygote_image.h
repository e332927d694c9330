#pragma once

/* The memory of a running interpreter as a file, and an interpreter that continues from it.
 *
 * Both ends are forks of one zygote: whatever that one had mapped, including its stack and the
 * data of its thread, is at the same addresses in both, and its heap is the same sealed file. So
 * the file holds what has changed since, and the tables that say where it goes:
 *
 *   head │ pages, in runs │ areas │ runs │ files │ names
 *
 * It is written by a tenant's process (zygote_image.c) and read by another one inside its full
 * isolation (zygote_restore.c). Nothing else reads it: a malicious file can do there only what
 * the tenant's code could do anyway. */

#include <signal.h>

#include "base/str.h"
#include "jail/zygote/zygote_maps.h"

struct err;

enum {
    IMAGE_AREAS_MAX = MAPS_MAX,
    IMAGE_RUNS_MAX = 1 << 16,
    IMAGE_FILES_MAX = 1024,
    IMAGE_NAMES_MAX = 1 << 20,
    IMAGE_SIGNALS = 64,
    IMAGE_CWD_MAX = 4096,
};

/* A signal's action, as the Linux kernel defines it. */
struct image_action {
    uintptr_t handler;
    unsigned long flags;
    uintptr_t restorer;
    uint64_t mask;
};

enum image_kind {
    IMAGE_PLAIN,  /* pages of its own; what no run holds is zeros */
    IMAGE_ZYGOTE, /* a file of the zygote's: where it always was */
    IMAGE_FILE,   /* of a file by its name: where it always was, or mapped again */
    IMAGE_STACK,
};

struct image_area {
    uintptr_t start, end;
    uint64_t offset, inode, device, name; /* `name`: offset among the names */
    uint32_t kind;
    int32_t prot;
    uint32_t is_shared;
};

struct image_run {
    uintptr_t start;
    uint64_t bytes, offset; /* in the file */
};

/* A descriptor besides the interpreter's own. */
struct image_file {
    int32_t fd, flags;
    int64_t offset;
    uint64_t name;
    int32_t same_as; /* another descriptor's number; -1: opened by its name */
    int32_t is_lost; /* its number stays taken, by what cannot be read or written */
    int32_t is_cloexec;
};

struct image_head {
    uint64_t magic;
    char zygote_id[16];
    uint64_t brk;
    uint64_t areas_at, runs_at, files_at, names_at;
    uint32_t area_count, run_count, file_count, names_len;
    uint64_t mask; /* of signals */
    stack_t signal_stack;
    struct image_action actions[IMAGE_SIGNALS];
    uint32_t umask;
    char cwd[IMAGE_CWD_MAX];
};

#define IMAGE_MAGIC 0x31656c6769733367ull
#define IMAGE_DATA_AT ((sizeof(struct image_head) + MAPS_PAGE - 1) / MAPS_PAGE * MAPS_PAGE)

/* In the zygote, before its heap is shared: the scratch, an area that is at the same address in
 * all its forks and private to each. Without it there are no images. */
void zygote_image_prepare(void);

/* In an interpreter, between two cells: writes its memory to `fd`, at most `limit` bytes, from a
 * copy of itself. Gives 0 when that is done, -1 when it could not be, and 1 in the interpreter that
 * continues from it, which is another process in another jail. `reserved` are descriptors of the
 * interpreter's own that a later one has, too. */
int zygote_image_write(int fd, uint64_t limit, const int *reserved, size_t count,
                       struct err *err) MUST_USE;
/* What the continuing interpreter was started with, until the next image. */
struct str zygote_image_env(void);

/* In a new, confined interpreter: continues from the file. Returns only on failure, with the
 * interpreter as it was. Takes `fd` in any case. Large parts of it are mapped, unless it `copies`
 * them. */
void zygote_image_restore(int fd, bool copies, struct str env, struct err *err);

/* --- Between the two files --- */

/* What a new interpreter has to do to become another one. */
struct image_plan {
    int fd; /* the image */
    bool copies;
    uintptr_t brk;
    size_t unmap_count;
    struct {
        uintptr_t start, end;
    } unmaps[2 * MAPS_MAX];
    int fds[IMAGE_AREAS_MAX];   /* of the file to map there; -1: none */
    bool keep[IMAGE_AREAS_MAX]; /* it is there */
};

enum { LEDGE_STACK = 256 << 10, LEDGE_ENV = 128 << 10 };

struct zygote_scratch {
    char stack[LEDGE_STACK];
    char env[LEDGE_ENV];
    size_t env_len;
    struct image_head head;
    struct image_area areas[IMAGE_AREAS_MAX];
    struct image_run runs[IMAGE_RUNS_MAX];
    struct image_file files[IMAGE_FILES_MAX];
    char names[IMAGE_NAMES_MAX];
    struct map_list maps;
    _Alignas(16) char maps_space[MAPS_BYTES];
    bool own[4096];
    struct image_plan plan;
};

extern struct zygote_scratch *zygote_scratch;
extern char zygote_id[16];
/* Where an interpreter continues, a __builtin_setjmp; it is in memory that the image contains. */
extern void *zygote_point[5];

/* What save and restore must not touch: the scratch memory and the pages around it. */
bool zygote_is_reserved(uintptr_t start, uintptr_t end);
uintptr_t zygote_reserved_start(void);
uintptr_t zygote_reserved_end(void);
