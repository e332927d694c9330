#include "api/server_names.h"

#include "io/listen.h"

static void add_host(struct server_names *names, const char *host, int port)
{
    char text[300];
    if (port > 0) {
        (void)snprintf(text, sizeof text, "%s:%d", host, port);
        *vec_push(&names->hosts) = mem_dup_cstr(text);
    }
    if (port == 0 || port == 80 || port == 443)
        *vec_push(&names->hosts) = mem_dup_cstr(host);
}

static void add_address(struct server_names *names, const struct addr *addr,
                        const char *const *more)
{
    char text[ADDR_TEXT_SIZE];
    int port = addr_port(addr);
    addr_format(addr, text);
    add_host(names, "127.0.0.1", port);
    add_host(names, "localhost", port);
    add_host(names, "[::1]", port);
    if (!addr_is_unix(addr))
        *vec_push(&names->hosts) = mem_dup_cstr(text);
    for (const char *const *name = more; name != NULL && *name != NULL; name++)
        add_host(names, *name, port);
}

void server_names_collect(struct server_names *names, const struct addr *const addrs[],
                          size_t count, bool has_socket, const char *const *more)
{
    for (size_t i = 0; i < count; i++)
        if (addrs[i]->len > 0)
            add_address(names, addrs[i], more);
    if (has_socket)
        add_host(names, "localhost", 0);
    for (; more != NULL && *more != NULL; more++)
        *vec_push(&names->hosts) = mem_dup_cstr(*more);
    VEC_EACH (host, &names->hosts) {
        char origin[320];
        (void)snprintf(origin, sizeof origin, "http://%s", *host);
        *vec_push(&names->origins) = mem_dup_cstr(origin);
        (void)snprintf(origin, sizeof origin, "https://%s", *host);
        *vec_push(&names->origins) = mem_dup_cstr(origin);
    }
    *vec_push(&names->hosts) = NULL;
    *vec_push(&names->origins) = NULL;
}

void server_names_done(struct server_names *names)
{
    VEC_EACH (host, &names->hosts)
        free(*host);
    VEC_EACH (origin, &names->origins)
        free(*origin);
    vec_done(&names->hosts);
    vec_done(&names->origins);
}
