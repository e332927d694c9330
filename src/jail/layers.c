#include "jail/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/sys.h"

static_assert((int)LAYERS_NAME_SIZE == (int)ID_SIZE, "a layer is named by an id");

enum { STACK_MAX = JAIL_LAYERS_MAX * JAIL_PATH_MAX };

static int path_in(const struct layers *layers, const char *name, char out[JAIL_PATH_MAX],
                   struct err *err)
{
    int len = snprintf(out, JAIL_PATH_MAX, "%s/%s", layers->dir, name);
    if (len < 0 || len >= JAIL_PATH_MAX)
        return err_set(err, ERR_TOO_LARGE, "the path of a layer is too long");
    return 0;
}

/* Only the new name can be seen, whole: a crash leaves the old stack or the new one. */
static int write_stack(const struct layers *layers, struct err *err)
{
    AUTO_BUF struct buf text = buf_with_limit(STACK_MAX);
    char temp[JAIL_PATH_MAX], path[JAIL_PATH_MAX];
    for (size_t i = 0; i < layers->count; i++)
        buf_printf(&text, "%s\n", layers->paths[i]);
    if (path_in(layers, "stack.new", temp, err) < 0 || path_in(layers, "stack", path, err) < 0)
        return -1;
    AUTO_CLOSE int fd = SYS(open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (fd < 0 || fd_write_all(fd, buf_str(&text), err) < 0)
        return err_sys(err, errno, "write the stack of layers");
    if (SYS(rename(temp, path)) < 0)
        return err_sys(err, errno, "replace the stack of layers");
    return 0;
}

static int push(struct layers *layers, struct str path, struct err *err)
{
    char plain[JAIL_PATH_MAX];
    if (layers->count == JAIL_LAYERS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d layers; make a snapshot to start from",
                       JAIL_LAYERS_MAX);
    if (str_to_cstr(path, plain, sizeof plain, err) < 0 || jail_path_check(plain, "layer", err) < 0)
        return -1;
    layers->paths[layers->count++] = mem_dup_cstr(plain);
    return 0;
}

static int read_stack(struct layers *layers, struct err *err)
{
    AUTO_BUF struct buf text = buf_with_limit(STACK_MAX);
    char path[JAIL_PATH_MAX];
    if (path_in(layers, "stack", path, err) < 0)
        return -1;
    AUTO_CLOSE int fd = SYS(open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || buf_read_all(&text, fd, err) < 0)
        return err_sys(err, errno, "read the stack of layers");
    struct str rest = buf_str(&text), line;
    while (str_split(&rest, '\n', &line))
        if (line.len > 0 && push(layers, line, err) < 0)
            return -1;
    return 0;
}

static int make_dirs(const struct layers *layers, struct err *err)
{
    static const char *const names[] = {"top", "frozen", "trash"};
    char path[JAIL_PATH_MAX];
    for (size_t i = 0; i < countof(names); i++)
        if (path_in(layers, names[i], path, err) < 0 || fd_make_dirs(path, 0755, err) < 0)
            return -1;
    return 0;
}

int layers_open(struct layers *layers, const char *dir, struct err *err)
{
    *layers = (struct layers){0};
    if (jail_path_check(dir, "layer store", err) < 0)
        return -1;
    (void)snprintf(layers->dir, sizeof layers->dir, "%s", dir);
    if (make_dirs(layers, err) < 0 || read_stack(layers, err) < 0) {
        layers_done(layers);
        return -1;
    }
    return 0;
}

void layers_done(struct layers *layers)
{
    while (layers->count > 0)
        free(layers->paths[--layers->count]);
}

void layers_use(const struct layers *layers, struct jail_plan *plan)
{
    static char top[JAIL_PATH_MAX + 8]; /* one plan is made from it at a time */
    (void)snprintf(top, sizeof top, "%s/top", layers->dir);
    plan->upper = top;
    plan->layer_count = layers->count;
    for (size_t i = 0; i < layers->count; i++)
        plan->layers[i] = layers->paths[i];
}

/* Moves the top away to `target` and puts an empty one in its place. The jail keeps its files in
 * top/upper; top/work is the kernel's. */
static int replace_top(const struct layers *layers, const char *target, struct err *err)
{
    char top[JAIL_PATH_MAX];
    struct stat st;
    if (path_in(layers, "top", top, err) < 0)
        return -1;
    if (SYS(stat(top, &st)) < 0)
        return err_sys(err, errno, "stat the top layer");
    if (SYS(rename(top, target)) < 0)
        return err_sys(err, errno, "move the top layer");
    if (SYS(mkdir(top, st.st_mode & 0777)) < 0 || SYS(chown(top, st.st_uid, st.st_gid)) < 0)
        return err_sys(err, errno, "make a top layer");
    return 0;
}

int layers_checkpoint(struct layers *layers, char ret_name[LAYERS_NAME_SIZE], struct err *err)
{
    char id[ID_SIZE], frozen[JAIL_PATH_MAX], upper[JAIL_PATH_MAX + 8], sub[64];
    id_new(id);
    (void)snprintf(sub, sizeof sub, "frozen/%s", id);
    if (path_in(layers, sub, frozen, err) < 0)
        return -1;
    (void)snprintf(upper, sizeof upper, "%s/upper", frozen);
    if (layers->count == JAIL_LAYERS_MAX)
        return push(layers, str_of(upper), err);
    if (replace_top(layers, frozen, err) < 0)
        return err_wrap(err, "checkpoint");
    /* A top that no jail ever used has no files yet. */
    if (SYS(mkdir(upper, 0755)) < 0 && errno != EEXIST)
        return err_sys(err, errno, "checkpoint");
    if (push(layers, str_of(upper), err) < 0 || write_stack(layers, err) < 0)
        return err_wrap(err, "checkpoint");
    memcpy(ret_name, id, sizeof id);
    return 0;
}

/* Index just above the layer of that name. */
static int find(const struct layers *layers, const char *name, size_t *ret_count, struct err *err)
{
    char part[64];
    (void)snprintf(part, sizeof part, "/frozen/%.40s/upper", name);
    for (size_t i = 0; i < layers->count; i++)
        if (str_ends(str_of(layers->paths[i]), str_of(part))) {
            *ret_count = i + 1;
            return 0;
        }
    return err_set(err, ERR_NOT_FOUND, "no checkpoint '%.40s'", name);
}

int layers_rollback(struct layers *layers, const char *name, struct err *err)
{
    size_t count;
    char id[ID_SIZE], trash[JAIL_PATH_MAX], sub[64];
    if (find(layers, name, &count, err) < 0)
        return -1;
    id_new(id);
    (void)snprintf(sub, sizeof sub, "trash/%s", id);
    if (path_in(layers, sub, trash, err) < 0 || replace_top(layers, trash, err) < 0)
        return err_wrap(err, "roll back");
    while (layers->count > count)
        free(layers->paths[--layers->count]);
    return write_stack(layers, err);
}

int layers_fork(const struct layers *layers, const char *name, const char *dir, struct err *err)
{
    size_t count;
    AUTO_LAYERS struct layers twin = {0};
    if (find(layers, name, &count, err) < 0)
        return -1;
    if (access(dir, F_OK) == 0)
        return err_set(err, ERR_CONFLICT, "'%s' exists", dir);
    if (layers_open(&twin, dir, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (push(&twin, str_of(layers->paths[i]), err) < 0)
            return -1;
    return write_stack(&twin, err);
}
