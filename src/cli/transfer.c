#include "cli/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

/* Where bytes go to or come from on this side, and how far they are. */
struct near {
    int fd;
    uint64_t done, total; /* 0: not known */
    bool tells;           /* progress, on a terminal */
    struct err failure;
};

static void transfer_tell(struct near *near, size_t more)
{
    uint64_t before = near->done >> 24;
    near->done += more;
    if (!near->tells || near->done >> 24 == before)
        return;
    if (near->total > 0)
        (void)fprintf(stderr, "\r%llu of %llu MiB", (unsigned long long)(near->done >> 20),
                      (unsigned long long)(near->total >> 20));
    else
        (void)fprintf(stderr, "\r%llu MiB", (unsigned long long)(near->done >> 20));
}

static int transfer_take(void *ctx, const char *bytes, size_t len)
{
    struct near *near = ctx;
    transfer_tell(near, len);
    return fd_write_all(near->fd, str_n(bytes, len), &near->failure);
}

static long transfer_give(void *ctx, char *out, size_t room)
{
    struct near *near = ctx;
    ssize_t count = read(near->fd, out, room);
    if (count < 0)
        return err_sys(&near->failure, errno, "read");
    transfer_tell(near, (size_t)count);
    return count;
}

static int end_of(const struct near *near, sg_client *client, int result, struct err *err)
{
    if (near->tells && near->done >> 24 != 0)
        (void)fprintf(stderr, "\n");
    if (near->failure.code != ERR_NONE) {
        *err = near->failure;
        return -1;
    }
    return result < 0 ? remote_failed(client, err) : 0;
}

int transfer_down(const struct cli_call *call, const char *route, int fd, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    struct near near = {.fd = fd, .tells = isatty(2) == 1 && fd != STDOUT_FILENO};
    if (remote_open(call, &client, err) < 0)
        return -1;
    return end_of(&near, client, sg_download(client, route, transfer_take, &near), err);
}

int transfer_down_file(const struct cli_call *call, const char *route, const char *file,
                       struct err *err)
{
    AUTO_BUF struct buf part = {0};
    struct stat st;
    if (strcmp(file, "-") == 0)
        return transfer_down(call, route, STDOUT_FILENO, err);
    /* A device or a FIFO is written to; only a file can take a name. */
    bool is_file = stat(file, &st) < 0 || S_ISREG(st.st_mode);
    buf_printf(&part, "%s%s", file, is_file ? ".part" : "");
    AUTO_CLOSE int fd = open(buf_cstr(&part), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", buf_cstr(&part));
    int done = transfer_down(call, route, fd, err);
    if (done == 0 && is_file && rename(buf_cstr(&part), file) < 0)
        done = err_sys(err, errno, "rename '%s' to '%s'", buf_cstr(&part), file);
    if (done < 0 && is_file)
        (void)unlink(buf_cstr(&part));
    return done;
}

int transfer_up(const struct cli_call *call, const char *method, const char *route, int fd,
                struct json_t **ret_json, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    struct stat st;
    struct near near = {.fd = fd, .tells = isatty(2) == 1};
    char *text = NULL;
    if (remote_open(call, &client, err) < 0)
        return -1;
    int64_t length = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? st.st_size : -1;
    near.total = length > 0 ? (uint64_t)length : 0;
    int done = sg_upload(client, method, route, transfer_give, &near, length,
                         ret_json == NULL ? NULL : &text);
    done = end_of(&near, client, done, err);
    if (done == 0 && ret_json != NULL)
        done = json_parse(str_trim(str_of(text)), ret_json, err);
    sg_free(text);
    return done;
}
