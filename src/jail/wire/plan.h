#pragma once

/* The specification of a jail and of what runs in it: plain data, checked once, then carried out.
 *
 * A plan is the place (root, mounts, limits, network); a command is one program in it. Nothing here
 * touches the system, so that the same check runs in the CLI, in the daemon and again in the
 * warden, which trusts no client. Strings are borrowed. */

#include "base/str.h"

struct err;

enum {
    JAIL_MOUNTS_MAX = 64,
    JAIL_LAYERS_MAX = 128,
    JAIL_DISK_LAYERS_MAX = 32,
    JAIL_ARGS_MAX = 4096,       /* words of argv, and variables of the environment */
    JAIL_ARGS_BYTES = 96 << 10, /* of both together: one message to init */
    JAIL_PATH_MAX = 4096,
    JAIL_UID = 1000, /* who tenant code is, inside */
    JAIL_GID = 1000,
    JAIL_LOCKS_MAX = 10000, /* record locks of one jail */
    JAIL_PROXY_PORT = 3128, /* on 127.0.0.1 of every jail; see WARDEN_EVENT_WANTS_GATEWAY */
};

/* Instead of how many sealed layers stay part of a root: none, and not the one sealed last. */
#define JAIL_SEAL_NONE ((size_t)UINT32_MAX)

/* Init, a shell and the page tables they need. A macro: schemas spell it out. */
#define JAIL_MEMORY_MIN_MB 4

/* What a seal of a jail's writable layer does (jail_ask_seal). */
struct jail_seal {
    size_t kept;        /* layers sealed before that stay part of the root, or JAIL_SEAL_NONE */
    int64_t most_bytes; /* all layers together; LIMIT when there are more */
    uint32_t processes; /* besides init that may be moved to the new root; 0: none may run */
};

/* A limit that the operator has switched off by name. 0 means the default. */
#define JAIL_UNLIMITED ((int64_t)-1)

struct jail_limits {
    int64_t memory_bytes; /* swap is always 0 */
    int64_t pids;
    int64_t cpu_milli;  /* thousandths of a core */
    int64_t disk_bytes; /* of the writable layer when it is in memory */
    int64_t disk_inodes;
    int64_t tmp_bytes; /* /tmp and /dev/shm, each */
    int64_t tmp_inodes;
    int64_t nofile;
};

enum jail_net {
    JAIL_NET_LOOPBACK, /* a namespace of its own with `lo` and nothing else */
    JAIL_NET_GATEWAY,  /* the same, every address is its own, and the warden gets the sockets */
};

/* What JAIL_NET_GATEWAY opens inside, for the gateway that answers for outside hosts. Programs that
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
    /* Trees above the base, lowest first; with at least one the root is an overlay. */
    const char *layers[JAIL_LAYERS_MAX];
    size_t layer_count;
    bool overlay; /* a writable root even without layers */
    /* Directory of the host, of limited size, with the writable layers of this jail (N/upper and
     * N/work each) and `tmp`, which is shown as /tmp; what is missing in it is created. NULL: all
     * of that is in memory. */
    const char *disk;
    /* Numbers of its layers, highest first; the first takes the writes. None given: 0. */
    uint32_t disk_layers[JAIL_DISK_LAYERS_MAX];
    size_t disk_layer_count;
    enum jail_net net;
    uint16_t gateway_port; /* on 127.0.0.1 inside; with JAIL_NET_GATEWAY */
};

/* For `zygote` of a command that continues from no memory: a fork of the one that has imported no
 * packages. */
#define JAIL_ZYGOTE_PLAIN UINT32_MAX

/* What an interpreter says whose memory is larger than the copy of it may be; who set that bound
 * knows why. */
#define JAIL_COPY_TOO_LARGE "its memory is larger than the copy of it may be"

struct jail_command {
    const char *const *argv; /* NULL behind the last; argv[0] with a '/' is not looked up in PATH */
    const char *const *env;  /* "K=V"; NULL behind the last; NULL: none */
    const char *cwd;         /* NULL: /workspace */
    bool tty;
    uint16_t rows, cols; /* of the terminal; 0: 24 x 80 */
    int memory_fd;       /* of a fork: the memory to continue from (zygote_image.h); 0: none */
    uint32_t zygote;     /* and whose fork had it, of struct jail_stats; 0, JAIL_ZYGOTE_PLAIN */
    bool copies_memory;  /* it does not map the file */
};

/* Replaces zeros by the defaults of the threat model. */
void jail_plan_fill(struct jail_plan *plan);
/* INVALID with the name of the field that is wrong. Expects a filled plan. */
int jail_plan_check(const struct jail_plan *plan, struct err *err) MUST_USE;
int jail_command_check(const struct jail_command *command, struct err *err) MUST_USE;

/* Absolute, no "." or "..", no empty part, short enough: may be a place in a jail. */
int jail_path_check(const char *path, const char *what, struct err *err) MUST_USE;
