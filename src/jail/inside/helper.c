#include "jail/inside/helper.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/err.h"
#include "jail/inside/file_serve.h"

int helper_main(void)
{
    static char packet[WIRE_MAX];
    int fds[WIRE_FDS_MAX];
    struct err err;
    struct wire_head head;
    struct jail_file question;
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return 1;
    (void)signal(SIGPIPE, SIG_IGN);
    ssize_t len = wire_recv(HELPER_REPLY_FD, packet, fds, true, &err);
    if (len <= 0)
        return 1;
    wire_close_fds(fds);
    struct wire_in in = wire_open(str_n(packet, (size_t)len), &head);
    const struct file_row *row = file_row_of(head.type);
    if (row == NULL || row->serve == NULL || !file_get_question(&in, row->verb, &question))
        return 1;
    int data_fd = fcntl(HELPER_DATA_FD, F_GETFD) >= 0 ? HELPER_DATA_FD : -1;
    struct file_reply reply;
    file_reply_init(&reply, HELPER_REPLY_FD, head.id);
    int done = file_serve(row, &question, data_fd, &reply, &err);
    file_reply_done(&reply);
    return done < 0;
}
