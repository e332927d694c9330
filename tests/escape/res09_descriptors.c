/* Descriptors of every kind end at the limit. */

#include "probe.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

int main(void)
{
    int count = 0, last = 0;
    for (; count < 5000 && last >= 0; count++) {
        switch (count % 5) {
        case 0:
            last = open("/dev/null", O_RDONLY);
            break;
        case 1:
            last = socket(AF_INET, SOCK_STREAM, 0);
            break;
        case 2:
            last = epoll_create1(0);
            break;
        case 3:
            last = eventfd(0, 0);
            break;
        default:
            last = timerfd_create(CLOCK_MONOTONIC, 0);
        }
    }
    must_fail("one more", last, EMFILE);
    must_work("a thousand or so", count > 900 && count <= 1024);
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    must_work("open again", open("/dev/null", O_RDONLY) == 3);
    return probe_end();
}
