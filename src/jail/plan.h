#pragma once

/* What a jail shall be and what shall run in it: plain data, checked once, then carried out.
 *
 * A plan is the place (root, mounts, limits, network); a command is one program in it. Nothing here
 * touches the system, so that the same check runs in the CLI, in the daemon and again in the
 * warden, which trusts nobody. Strings are borrowed. */

#include "base/str.h"

struct err;

enum {
    JAIL_MOUNTS_MAX = 64,
    JAIL_LAYERS_MAX = 128,
    JAIL_ARGS_MAX = 4096,       /* words of argv, and variables of the environment */
    JAIL_ARGS_BYTES = 96 << 10, /* of both together: one message to init */
    JAIL_PATH_MAX = 4096,
    JAIL_UID = 1000, /* who tenant code is, inside */
    JAIL_GID = 1000,
    JAIL_PROXY_PORT = 3128, /* on 127.0.0.1 of every jail; see WARDEN_EVENT_KNOCKED */
};

/* A limit that the operator has switched off by name. 0 means the default. */
#define JAIL_UNLIMITED ((int64_t)-1)

struct jail_limits {
    int64_t memory_bytes; /* swap is always 0 */
    int64_t pids;
    int64_t cpu_milli;  /* thousandths of a core */
    int64_t disk_bytes; /* of the writable layer when it lies in memory */
    int64_t disk_inodes;
    int64_t tmp_bytes; /* /tmp and /dev/shm, each */
    int64_t tmp_inodes;
    int64_t nofile;
};

enum jail_net {
    JAIL_NET_LOOPBACK, /* a namespace of its own with `lo` and nothing else */
    JAIL_NET_GATEWAY,  /* the same, every address is its own, and the maker gets the sockets */
};

/* What JAIL_NET_GATEWAY opens inside, for whoever answers in the name of the outside. Programs that
 * know of a proxy find it on 127.0.0.1; what others connect to ends in a socket bound to every
 * address, whose own name is where they wanted to go. A port without a socket is refused by the
 * kernel at once. */
enum jail_socket {
    JAIL_SOCKET_PROXY, /* TCP, 127.0.0.1:gateway_port */
    JAIL_SOCKET_DNS,   /* UDP, every address, port 53 */
    JAIL_SOCKET_DNS_TCP,
    JAIL_SOCKET_HTTP,  /* TCP, every address, port 80 */
    JAIL_SOCKET_HTTPS, /* TCP, every address, port 443 */
    JAIL_SOCKETS,
};

struct jail_mount {
    const char *src; /* on the host */
    const char *dst; /* in the jail; absolute */
    bool writable;
};

struct jail_plan {
    struct jail_limits limits;
    const char *hostname;  /* NULL: "sandbox" */
    const char *base;      /* a root tree; NULL: the host's /usr and friends, read-only */
    const char *workspace; /* host directory at /workspace; NULL: part of the writable layer */
    struct jail_mount mounts[JAIL_MOUNTS_MAX];
    size_t mount_count;
    /* Trees above the base, lowest first; with at least one, or `upper`, the root is an overlay. */
    const char *layers[JAIL_LAYERS_MAX];
    size_t layer_count;
    const char *upper; /* directory that takes the writes; NULL: memory, `disk_bytes` of it */
    bool overlay;      /* a writable root even without layers */
    enum jail_net net;
    uint16_t gateway_port; /* on 127.0.0.1 inside; with JAIL_NET_GATEWAY */
};

struct jail_command {
    const char *const *argv; /* NULL behind the last; argv[0] with a '/' is not looked up in PATH */
    const char *const *env;  /* "K=V"; NULL behind the last; NULL: none */
    const char *cwd;         /* NULL: /workspace */
    bool tty;
    uint16_t rows, cols; /* of the terminal; 0: 24 x 80 */
    int memory_fd;       /* of a fork: the memory to go on from (zygote_image.h); 0: none */
    uint32_t template;   /* and whose fork had it, of struct jail_stats */
};

/* Replaces zeros by the defaults of the threat model. */
void jail_plan_fill(struct jail_plan *plan);
/* INVALID with the name of the field that is wrong. Expects a filled plan. */
int jail_plan_check(const struct jail_plan *plan, struct err *err) MUST_USE;
int jail_command_check(const struct jail_command *command, struct err *err) MUST_USE;

/* Absolute, no "." or "..", no empty part, short enough: may be a place in a jail. */
int jail_path_check(const char *path, const char *what, struct err *err) MUST_USE;
