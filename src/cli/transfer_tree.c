#include "cli/transfer_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "files/archive/tar.h"

/* A sandbox's tree may be as large as its disk; the client's own disk is the bound here. */
static const struct files_tar_limits unpack_limits = {
    .packed = UINT64_MAX, .unpacked = UINT64_MAX, .entries = UINT64_MAX, .ratio = UINT64_MAX};

/* --- In the child --- */

static int transfer_tree_put_bytes(void *ctx, struct str bytes, struct err *err)
{
    return fd_write_all(*(const int *)ctx, bytes, err);
}

static ssize_t get_bytes(void *ctx, void *space, size_t size, struct err *err)
{
    ssize_t count;
    do
        count = read(*(const int *)ctx, space, size);
    while (count < 0 && errno == EINTR);
    return count < 0 ? err_sys(err, errno, "read the archive") : count;
}

static int transfer_tree_pack(const char *dir, int fd, struct err *err)
{
    AUTO_FILES struct files *files = NULL;
    struct files_sink sink = {transfer_tree_put_bytes, &fd};
    struct files_tar_result result = {0};
    if (files_open(dir, &(struct files_options){.read_only = true}, &files, err) < 0 ||
        files_tar_out(files, STR("."), &sink, &(struct files_tar_out_options){0}, &result, err) < 0)
        return -1;
    if (result.skipped > 0)
        (void)fprintf(stderr,
                      "sandglass: %llu entries of '%s' were left out: sockets, devices, or files "
                      "that cannot be read\n",
                      (unsigned long long)result.skipped, dir);
    return 0;
}

static int unpack(const char *dir, int fd, struct err *err)
{
    AUTO_FILES struct files *files = NULL;
    struct files_source source = {get_bytes, &fd};
    struct files_tar_result result = {0};
    if (mkdir(dir, 0755) < 0 && errno != EEXIST)
        return err_sys(err, errno, "make '%s'", dir);
    if (files_open(dir, NULL, &files, err) < 0)
        return -1;
    return files_tar_in(files, STR("."), FILES_TAR_MERGE, &source, &unpack_limits, &result, err);
}

/* --- Around it --- */

struct child {
    pid_t pid;
    bool writes;
    int fd;     /* the archive: what the child writes, or what it reads */
    int why_fd; /* its error, as a struct err; nothing when all went well */
};

static int child_start(struct child *child, int (*work)(const char *, int, struct err *),
                       const char *dir, bool writes, struct err *err)
{
    int data[2], why[2];
    if (pipe2(data, O_CLOEXEC) < 0)
        return err_sys(err, errno, "pipe");
    AUTO_CLOSE int data_read = data[0], data_write = data[1];
    if (pipe2(why, O_CLOEXEC) < 0)
        return err_sys(err, errno, "pipe");
    AUTO_CLOSE int why_read = why[0], why_write = why[1];
    (void)signal(SIGPIPE, SIG_IGN);
    child->writes = writes;
    child->pid = fork();
    if (child->pid < 0)
        return err_sys(err, errno, "fork");
    if (child->pid == 0) {
        struct err mine = {0};
        fd_close(writes ? &data_read : &data_write);
        int done = work(dir, writes ? data_write : data_read, &mine);
        if (done < 0)
            (void)!write(why_write, &mine, sizeof mine);
        _exit(done < 0 ? 1 : 0);
    }
    child->fd = fd_take(writes ? &data_read : &data_write);
    child->why_fd = fd_take(&why_read);
    return 0;
}

/* The reader of an archive whose writer failed says that the archive ended early, and a writer
 * whose reader failed says EPIPE: the writer's reason comes first, unless it is that one. */
static int child_end(struct child *child, int transferred, const struct err *transfer_err,
                     struct err *err)
{
    struct err mine = {0};
    int status = 0;
    fd_close(&child->fd);
    bool told = read(child->why_fd, &mine, sizeof mine) == (ssize_t)sizeof mine;
    fd_close(&child->why_fd);
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR) {
    }
    const struct err *child_why = told ? &mine : NULL;
    const struct err *transfer_why = transferred < 0 ? transfer_err : NULL;
    const struct err *writer = child->writes ? child_why : transfer_why;
    const struct err *reader = child->writes ? transfer_why : child_why;
    if (writer != NULL || reader != NULL) {
        *err = writer == NULL || (writer->sys == EPIPE && reader != NULL) ? *reader : *writer;
        return -1;
    }
    return status == 0
               ? 0
               : err_set(err, ERR_INTERNAL, "the archive process exited with status %d", status);
}

int transfer_tree_up(const struct cli_call *call, const char *dir, const char *sandbox,
                     const char *path, struct err *err)
{
    AUTO_BUF struct buf route = {0};
    struct child child;
    struct err failed = {0};
    remote_file_path(&route, sandbox, "tar", path);
    if (child_start(&child, transfer_tree_pack, dir, true, err) < 0)
        return -1;
    /* An archive that ends early has no end mark, so the server refuses it and changes nothing. */
    int done = transfer_up(call, "PUT", buf_cstr(&route), child.fd, NULL, &failed);
    return child_end(&child, done, &failed, err);
}

int transfer_tree_down(const struct cli_call *call, const char *sandbox, const char *path,
                       const char *dir, struct err *err)
{
    AUTO_BUF struct buf route = {0};
    struct child child;
    struct err failed = {0};
    remote_file_path(&route, sandbox, "tar", path);
    if (child_start(&child, unpack, dir, false, err) < 0)
        return -1;
    int done = transfer_down(call, buf_cstr(&route), child.fd, &failed);
    return child_end(&child, done, &failed, err);
}
