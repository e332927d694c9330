#include "jail/client/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "jail/wire/wire.h"

static_assert(countof(((struct outbox_item *)0)->fds) == WIRE_FDS_MAX, "one place for each");

static void item_done(struct outbox_item *item)
{
    for (size_t i = 0; i < item->fd_count; i++)
        fd_close(&item->fds[i]);
    free(item->bytes);
}

void outbox_done(struct outbox *outbox)
{
    VEC_EACH (item, &outbox->items)
        item_done(item);
    vec_done(&outbox->items);
    *outbox = (struct outbox){0};
}

static int outbox_keep(struct outbox *outbox, struct str packet, const int *fds, size_t fd_count,
                       struct err *err)
{
    if (outbox->bytes + packet.len > OUTBOX_BYTES_MAX || outbox->fds + fd_count > OUTBOX_FDS_MAX)
        return err_set(err, ERR_BUSY, "too many requests wait to be sent; try again later");
    struct outbox_item item = {.len = packet.len};
    for (; item.fd_count < fd_count; item.fd_count++) {
        int copy = SYS(fcntl(fds[item.fd_count], F_DUPFD_CLOEXEC, 3));
        if (copy < 0) {
            int code = errno;
            item_done(&item);
            return err_sys(err, code, "keep a descriptor");
        }
        item.fds[item.fd_count] = copy;
    }
    item.bytes = mem_dup(packet.ptr, packet.len);
    outbox->bytes += item.len;
    outbox->fds += item.fd_count;
    *vec_push(&outbox->items) = item;
    return 0;
}

int outbox_send(struct outbox *outbox, int fd, struct str packet, const int *fds, size_t fd_count,
                struct err *err)
{
    if (outbox_flush(outbox, fd, err) < 0)
        return -1;
    if (outbox->is_held || !outbox_is_empty(outbox))
        return outbox_keep(outbox, packet, fds, fd_count, err);
    int sent = wire_try_send(fd, packet, fds, fd_count, err);
    if (sent == 0)
        return outbox_keep(outbox, packet, fds, fd_count, err);
    return sent < 0 ? -1 : 0;
}

int outbox_flush(struct outbox *outbox, int fd, struct err *err)
{
    while (!outbox->is_held && !outbox_is_empty(outbox)) {
        struct outbox_item *item = &outbox->items.ptr[0];
        int sent = wire_try_send(fd, str_n(item->bytes, item->len), item->fds, item->fd_count, err);
        if (sent <= 0)
            return sent;
        outbox->bytes -= item->len;
        outbox->fds -= item->fd_count;
        item_done(item);
        vec_remove(&outbox->items, 0);
    }
    return 0;
}
