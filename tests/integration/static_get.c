/* A program without libraries, settings or a proxy, as one in Go would be: GET http://HOST:PORT/.
 */

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    char text[512];
    if (argc < 3)
        return 2;
    int code = getaddrinfo(argv[1], argv[2], &hints, &list);
    if (code != 0) {
        printf("resolve: %s\n", gai_strerror(code));
        return 1;
    }
    int fd = socket(list->ai_family, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, list->ai_addr, list->ai_addrlen) < 0) {
        perror("connect");
        return 1;
    }
    int len =
        snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: %s:%s\r\nConnection: close\r\n\r\n",
                 argv[1], argv[2]);
    if (write(fd, text, (size_t)len) != len)
        return 1;
    for (ssize_t got; (got = read(fd, text, sizeof text)) > 0;)
        if (write(1, text, (size_t)got) != got)
            return 1;
    return 0;
}
