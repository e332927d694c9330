/* Runs at build time: evaluates the bootstrap and writes what programs start from.
 *
 *   isolate_boot OUTDIR core.js PIECE.js...
 *
 * gives OUTDIR/template.bin (the image of a fresh isolate), entries.bin (the functions in it that
 * the host calls), key.bin (names the engine and the bootstrap: images of isolates
 * from another build are refused by it) and PIECE.bin (bytecode, for the first use). */

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/crypto/hash.h"
#include "base/err.h"
#include "base/fd.h"
#include "isolate/vm/entries.h"
#include "isolate/vm/vm.h"

enum { PIECES_MAX = 16, SOURCE_MAX = 1 << 20 };
/* The file of the bootstrap, so that its frames can be taken out of stacks. */
#define OWN_FILE "<sandglass>"

struct piece {
    char name[64];
    struct buf source, bytecode;
};

struct boot {
    int dir;
    struct piece pieces[PIECES_MAX];
    size_t count;
    struct entries entries;
    const char *failed; /* the piece that did not work */
};

static int read_piece(const char *path, struct piece *piece, struct err *err)
{
    char copy[4096];
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", path);
    if (str_to_cstr(str_of(path), copy, sizeof copy, err) < 0)
        return -1;
    struct str name = str_of(basename(copy));
    (void)snprintf(piece->name, sizeof piece->name, "%.*s", (int)str_find_char(name, '.'),
                   name.ptr);
    piece->source = buf_with_limit(SOURCE_MAX);
    return buf_read_all(&piece->source, fd, err);
}

static int write_part(const struct boot *boot, const char *name, struct str bytes, struct err *err)
{
    char file[80];
    (void)snprintf(file, sizeof file, "%s.bin", name);
    AUTO_CLOSE int fd = openat(boot->dir, file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_sys(err, errno, "create '%s'", file);
    return fd_write_all(fd, bytes, err);
}

/* Compiling leaves litter in the heap, so it is done before the template begins. */
static void compile_pieces(struct vm *vm, void *arg)
{
    struct boot *boot = arg;
    for (size_t i = 0; i < boot->count; i++) {
        struct piece *piece = &boot->pieces[i];
        boot->failed = piece->name;
        if (!vm_compile(vm, buf_str(&piece->source), OWN_FILE, &piece->bytecode))
            return;
    }
    boot->failed = NULL;
}

static void run_core(struct vm *vm, void *arg)
{
    struct boot *boot = arg;
    boot->failed = boot->pieces[0].name;
    vm_value make = vm_eval_bytecode(vm, buf_str(&boot->pieces[0].bytecode));
    vm_value host = vm_host_function(vm);
    if (vm_kind_of(make) == VM_EXCEPTION)
        return;
    vm_value made = vm_call(vm, make, vm_undefined(), &host, 1);
    if (vm_kind_of(made) != VM_OBJECT)
        return;
    for (size_t i = 0; i < ENTRY_COUNT; i++) {
        boot->entries.at[i] = vm_get(vm, made, entry_names[i]); /* held for good, by the image */
        if (vm_kind_of(boot->entries.at[i]) != VM_OBJECT)
            return;
    }
    vm_drop(vm, make);
    vm_drop(vm, host);
    vm_drop(vm, made);
    const struct vm_limits usual = {.memory_bytes = 16 << 20, .stack_bytes = VM_STACK_MAX};
    vm_apply_limits(vm, &usual);
    boot->failed = NULL;
}

static int step(struct vm *vm, void (*work)(struct vm *, void *), struct boot *boot,
                struct err *err)
{
    enum rt_trap trap = vm_try(vm, 0, 0, work, boot);
    if (trap == RT_OK && boot->failed == NULL)
        return 0;
    return err_set(err, ERR_INTERNAL, "evaluate the bootstrap '%s': %s",
                   boot->failed != NULL ? boot->failed : "", rt_trap_text(trap));
}

static int make_template(struct boot *boot, struct buf *out, struct err *err)
{
    AUTO_ARENA struct arena arena = {0};
    AUTO_VM struct vm *vm = NULL;
    AUTO_VM_IMAGE struct vm_image *empty = NULL;
    const struct vm_limits limits = {.memory_bytes = VM_MEMORY_MAX, .stack_bytes = VM_STACK_MAX};
    if (vm_new(&vm, err) < 0)
        return -1;
    vm_set_arena(vm, &arena);
    if (vm_boot(vm, err) < 0 || vm_save(vm, &empty, err) < 0 ||
        step(vm, compile_pieces, boot, err) < 0 || vm_load(vm, empty, &limits, err) < 0 ||
        step(vm, run_core, boot, err) < 0)
        return -1;
    return vm_save_bytes(vm, vm_engine_key(), out, err);
}

static int write_key(const struct boot *boot, struct err *err)
{
    char hex[HASH_HEX_SIZE];
    AUTO_BUF struct buf all = {0};
    buf_put_cstr(&all, vm_engine_key());
    for (size_t i = 0; i < boot->count; i++)
        buf_printf(&all, " %s %zu %.*s", boot->pieces[i].name, boot->pieces[i].source.len,
                   STR_ARG(buf_str(&boot->pieces[i].source)));
    hash_sha256_hex(buf_str(&all), hex);
    return write_part(boot, "key", str_of(hex), err);
}

static int write_parts(const struct boot *boot, struct str template, struct err *err)
{
    if (write_part(boot, "template", template, err) < 0 ||
        write_part(boot, "entries", str_n((const char *)&boot->entries, sizeof boot->entries),
                   err) < 0 ||
        write_key(boot, err) < 0)
        return -1;
    for (size_t i = 1; i < boot->count; i++)
        if (write_part(boot, boot->pieces[i].name, buf_str(&boot->pieces[i].bytecode), err) < 0)
            return -1;
    return 0;
}

static int boot_run(struct boot *boot, int count, char **paths, struct err *err)
{
    AUTO_BUF struct buf template = {0};
    for (int i = 0; i < count; i++)
        if (read_piece(paths[i], &boot->pieces[boot->count++], err) < 0)
            return -1;
    if (make_template(boot, &template, err) < 0)
        return -1;
    return write_parts(boot, buf_str(&template), err);
}

int main(int argc, char **argv)
{
    static struct boot boot;
    struct err err = {0};
    if (argc < 3 || argc - 2 > PIECES_MAX) {
        (void)fprintf(stderr, "usage: isolate_boot OUTDIR core.js PIECE.js...\n");
        return 2;
    }
    boot.dir = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int done = boot_run(&boot, argc - 2, argv + 2, &err);
    if (done < 0)
        (void)fprintf(stderr, "isolate_boot: %s\n", err.msg);
    for (size_t i = 0; i < boot.count; i++) {
        buf_done(&boot.pieces[i].source);
        buf_done(&boot.pieces[i].bytecode);
    }
    fd_close(&boot.dir);
    return done < 0 ? 1 : 0;
}
