/* Calls whose verdict depends on their arguments.
 *
 * Where a call does many things (setsockopt, ioctl, fcntl, prctl), what programs need is
 * listed and the rest is answered as by a kernel that does not have it, so that libraries fall
 * back. The reason is not only what an option does, but what it costs others: many of them use a
 * number, a lock or a static branch that the whole machine shares and that no control group counts.
 * docs/SECURITY.md has the table. */

#include <errno.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "jail/inside/filter_internal.h"

enum {
    NEW_NAMESPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                     CLONE_NEWPID | CLONE_NEWNET,
    TYPE_MASK = 0xf, /* of a socket type; the rest are flags */
};

#define RET_ERRNO(code) (SECCOMP_RET_ERRNO | (code))

static void filter_args_put(struct filter_code *code, uint16_t op, uint32_t k, uint8_t jt,
                            uint8_t jf)
{
    assert(code->len < FILTER_CODE_MAX);
    code->insns[code->len++] = (struct sock_filter)BPF_JUMP(op, k, jt, jf);
}

static void filter_args_load(struct filter_code *code, unsigned n, unsigned half)
{
    filter_args_put(code, BPF_LD | BPF_W | BPF_ABS,
                    (uint32_t)(offsetof(struct seccomp_data, args) + n * sizeof(uint64_t) +
                               half * sizeof(uint32_t)),
                    0, 0);
}

/* The kernel takes these arguments as 32 bits: so does the filter, whatever the upper half holds.
 * Both architectures are little-endian. */
static void load_arg(struct filter_code *code, unsigned n)
{
    filter_args_load(code, n, 0);
}

static void mask(struct filter_code *code, uint32_t bits)
{
    filter_args_put(code, BPF_ALU | BPF_AND | BPF_K, bits, 0, 0);
}

static void ret(struct filter_code *code, uint32_t value)
{
    filter_args_put(code, BPF_RET | BPF_K, value, 0, 0);
}

/* if (A == value) return verdict; */
static void ret_if(struct filter_code *code, uint32_t value, uint32_t verdict)
{
    filter_args_put(code, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
    ret(code, verdict);
}

/* if (A & bits) return verdict; */
static void ret_if_any(struct filter_code *code, uint32_t bits, uint32_t verdict)
{
    filter_args_put(code, BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
    ret(code, verdict);
}

/* if (A > value) return verdict; */
static void ret_if_above(struct filter_code *code, uint32_t value, uint32_t verdict)
{
    filter_args_put(code, BPF_JMP | BPF_JGT | BPF_K, value, 0, 1);
    ret(code, verdict);
}

/* From the first to the last; in the order in which they are looked for. */
struct span {
    uint32_t first, last;
};

/* A in one of the spans is allowed; the rest is refused. */
static void allow_spans(struct filter_code *code, const struct span *spans, size_t count,
                        uint32_t refusal)
{
    size_t left = 0;
    for (size_t i = 0; i < count; i++)
        left += spans[i].first == spans[i].last ? 1 : 2;
    assert(left < 250); /* a jump's reach */
    for (size_t i = 0; i < count; i++) {
        if (spans[i].first == spans[i].last) {
            filter_args_put(code, BPF_JMP | BPF_JEQ | BPF_K, spans[i].first, (uint8_t)left--, 0);
            continue;
        }
        filter_args_put(code, BPF_JMP | BPF_JGE | BPF_K, spans[i].first, 0, 1);
        filter_args_put(code, BPF_JMP | BPF_JGT | BPF_K, spans[i].last, 0, (uint8_t)(left - 1));
        left -= 2;
    }
    ret(code, refusal);
    ret(code, SECCOMP_RET_ALLOW);
}

static void code_clone(struct filter_code *code)
{
    load_arg(code, 0);
    ret_if_any(code, NEW_NAMESPACES, RET_ERRNO(EPERM));
    /* Threads share their descriptors. Processes that do so without being threads could leave
     * record locks behind, which then belong to no process (docs/SECURITY.md, record locks). */
    filter_args_put(code, BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 2, 0);
    filter_args_put(code, BPF_JMP | BPF_JSET | BPF_K, CLONE_FILES, 0, 1);
    ret(code, RET_ERRNO(EPERM));
    ret(code, SECCOMP_RET_ALLOW);
}

/* --- Sockets --- */

/* Family, the low bits of the type, protocol. */
#define SOCKET(family, type, protocol)                                                             \
    {                                                                                              \
        (family) << 16 | (type) << 8 | (protocol), (family) << 16 | (type) << 8 | (protocol)       \
    }

/* What may be made. */
static const struct span sockets[] = {
    SOCKET(AF_UNIX, SOCK_STREAM, 0),
    SOCKET(AF_UNIX, SOCK_DGRAM, 0),
    SOCKET(AF_UNIX, SOCK_SEQPACKET, 0),
    SOCKET(AF_INET, SOCK_STREAM, 0),
    SOCKET(AF_INET, SOCK_STREAM, 6), /* TCP */
    SOCKET(AF_INET, SOCK_DGRAM, 0),
    SOCKET(AF_INET, SOCK_DGRAM, 17), /* UDP */
    SOCKET(AF_INET6, SOCK_STREAM, 0),
    SOCKET(AF_INET6, SOCK_STREAM, 6),
    SOCKET(AF_INET6, SOCK_DGRAM, 0),
    SOCKET(AF_INET6, SOCK_DGRAM, 17),
    /* getifaddrs; libc asks for a raw one, which netlink treats as a datagram socket. */
    SOCKET(AF_NETLINK, SOCK_DGRAM, 0),
    SOCKET(AF_NETLINK, SOCK_RAW, 0),
};

/* A |= M[0] */
static void filter_args_join(struct filter_code *code)
{
    filter_args_put(code, BPF_LDX | BPF_W | BPF_MEM, 0, 0, 0);
    filter_args_put(code, BPF_ALU | BPF_OR | BPF_X, 0, 0, 0);
}

/* Folds family, type and protocol into one number, kept in M[0] while the next part is read. */
static void code_socket(struct filter_code *code)
{
    load_arg(code, 0);
    ret_if_above(code, AF_NETLINK, RET_ERRNO(EAFNOSUPPORT));
    filter_args_put(code, BPF_ALU | BPF_LSH | BPF_K, 16, 0, 0);
    filter_args_put(code, BPF_ST, 0, 0, 0);
    load_arg(code, 1);
    mask(code, TYPE_MASK);
    filter_args_put(code, BPF_ALU | BPF_LSH | BPF_K, 8, 0, 0);
    filter_args_join(code);
    filter_args_put(code, BPF_ST, 0, 0, 0);
    load_arg(code, 2);
    ret_if_above(code, 0xff, RET_ERRNO(EAFNOSUPPORT));
    filter_args_join(code);
    allow_spans(code, sockets, countof(sockets), RET_ERRNO(EAFNOSUPPORT));
}

#define OPTIONS(level, first, last)                                                                \
    {                                                                                              \
        (uint32_t)(level) << 16 | (first), (uint32_t)(level) << 16 | (last)                        \
    }
#define OPTION(level, name) OPTIONS(level, name, name)

enum { LEVEL_SOCKET = 1, LEVEL_TCP = 6, LEVEL_UDP = 17, LEVEL_NETLINK = 270 };

/* What servers, clients and runtimes set. Not here, and why:
 * - SO_ATTACH_FILTER, _BPF, _REUSEPORT_CBPF, _EBPF, SO_LOCK_FILTER: programs in the kernel, whose
 *   memory and lock the whole machine shares.
 * - SO_TIMESTAMP and similar, UDP_GRO, UDP_ENCAP, IP_MINTTL, IPV6_MINHOPCOUNT, TCP_MD5SIG,
 *   TCP_TX_DELAY: they switch a branch of the kernel's code for the whole machine.
 * - IPV6_FLOWLABEL_MGR: one table of labels for the machine.
 * - TCP_ULP, TCP_CONGESTION, those of iptables: they can load modules.
 * - SO_BUSY_POLL, SO_ZEROCOPY, SO_TXTIME, SO_RESERVE_MEM, SO_MAX_PACING_RATE: memory and time that
 *   is charged to no group, or to the wrong one. */
static const struct span socket_options[] = {
    OPTION(LEVEL_SOCKET, 2),        /* SO_REUSEADDR */
    OPTIONS(LEVEL_SOCKET, 5, 7),    /* DONTROUTE, BROADCAST, SNDBUF */
    OPTIONS(LEVEL_SOCKET, 9, 10),   /* KEEPALIVE, OOBINLINE */
    OPTIONS(LEVEL_SOCKET, 12, 13),  /* PRIORITY, LINGER */
    OPTIONS(LEVEL_SOCKET, 15, 16),  /* REUSEPORT, PASSCRED */
    OPTIONS(LEVEL_SOCKET, 18, 21),  /* RCVLOWAT, SNDLOWAT, RCVTIMEO, SNDTIMEO */
    OPTION(LEVEL_SOCKET, 25),       /* BINDTODEVICE */
    OPTION(LEVEL_SOCKET, 42),       /* PEEK_OFF */
    OPTION(LEVEL_SOCKET, 62),       /* BINDTOIFINDEX */
    OPTIONS(LEVEL_SOCKET, 66, 67),  /* RCVTIMEO_NEW, SNDTIMEO_NEW */
    OPTION(LEVEL_SOCKET, 76),       /* PASSPIDFD */
    OPTIONS(LEVEL_TCP, 1, 10),      /* NODELAY, MAXSEG, CORK, KEEP*, SYNCNT, LINGER2, DEFER_ACCEPT,
                                       WINDOW_CLAMP */
    OPTION(LEVEL_TCP, 12),          /* QUICKACK */
    OPTION(LEVEL_TCP, 18),          /* USER_TIMEOUT */
    OPTION(LEVEL_TCP, 23),          /* FASTOPEN */
    OPTION(LEVEL_TCP, 25),          /* NOTSENT_LOWAT */
    OPTION(LEVEL_TCP, 30),          /* FASTOPEN_CONNECT */
    OPTION(LEVEL_TCP, 36),          /* INQ */
    OPTIONS(IPPROTO_IP, 1, 2),      /* TOS, TTL */
    OPTION(IPPROTO_IP, 8),          /* PKTINFO */
    OPTIONS(IPPROTO_IP, 10, 13),    /* MTU_DISCOVER, RECVERR, RECVTTL, RECVTOS */
    OPTION(IPPROTO_IP, 15),         /* FREEBIND */
    OPTION(IPPROTO_IP, 24),         /* BIND_ADDRESS_NO_PORT */
    OPTIONS(IPPROTO_IP, 32, 36),    /* MULTICAST_IF, _TTL, _LOOP, ADD_MEMBERSHIP, DROP_MEMBERSHIP */
    OPTIONS(IPPROTO_IP, 49, 51),    /* MULTICAST_ALL, UNICAST_IF, LOCAL_PORT_RANGE */
    OPTIONS(IPPROTO_IPV6, 16, 21),  /* UNICAST_HOPS, MULTICAST_IF, _HOPS, _LOOP, JOIN, LEAVE */
    OPTION(IPPROTO_IPV6, 23),       /* MTU_DISCOVER */
    OPTIONS(IPPROTO_IPV6, 25, 26),  /* RECVERR, V6ONLY */
    OPTION(IPPROTO_IPV6, 29),       /* MULTICAST_ALL */
    OPTIONS(IPPROTO_IPV6, 49, 51),  /* RECVPKTINFO, PKTINFO, RECVHOPLIMIT */
    OPTION(IPPROTO_IPV6, 62),       /* DONTFRAG */
    OPTIONS(IPPROTO_IPV6, 66, 67),  /* RECVTCLASS, TCLASS */
    OPTION(IPPROTO_IPV6, 70),       /* AUTOFLOWLABEL */
    OPTION(IPPROTO_IPV6, 72),       /* ADDR_PREFERENCES */
    OPTION(IPPROTO_IPV6, 76),       /* UNICAST_IF */
    OPTION(IPPROTO_IPV6, 78),       /* FREEBIND */
    OPTION(LEVEL_UDP, 1),           /* CORK */
    OPTION(LEVEL_UDP, 103),         /* SEGMENT */
    OPTIONS(LEVEL_NETLINK, 1, 3),   /* ADD_MEMBERSHIP, DROP_MEMBERSHIP, PKTINFO */
    OPTIONS(LEVEL_NETLINK, 10, 12), /* CAP_ACK, EXT_ACK, GET_STRICT_CHK */
};

static void code_socket_option(struct filter_code *code)
{
    load_arg(code, 1);
    ret_if_above(code, 0xffff, RET_ERRNO(ENOPROTOOPT));
    filter_args_put(code, BPF_ALU | BPF_LSH | BPF_K, 16, 0, 0);
    filter_args_put(code, BPF_ST, 0, 0, 0);
    load_arg(code, 2);
    ret_if_above(code, 0xffff, RET_ERRNO(ENOPROTOOPT));
    filter_args_join(code);
    /* What waits in a connection that nobody has accepted is charged to nobody, and a listener's
     * SO_RCVBUF is theirs. The kernel may cut what is asked for, and here cuts it to nothing. */
    ret_if(code, LEVEL_SOCKET << 16 | 8, RET_ERRNO(0));
    allow_spans(code, socket_options, countof(socket_options), RET_ERRNO(ENOPROTOOPT));
}

/* --- Descriptors --- */

/* Not here: simulated input to terminals (TIOCSTI, TIOCLINUX), the console (TIOCCONS), line
 * disciplines (TIOCSETD, which loads modules); time stamps of sockets (SIOCGSTAMP, which switches a
 * branch for the whole machine); bridges and VLANs (which load modules); attributes, subvolumes,
 * project numbers and encryption of files. */
static const struct span ioctls[] = {
    {0x5401, 0x5411},         /* TCGETS to TIOCOUTQ */
    {0x5413, 0x541b},         /* TIOCGWINSZ to FIONREAD */
    {0x5420, 0x5422},         /* TIOCPKT, FIONBIO, TIOCNOTTY */
    {0x5424, 0x5425},         /* TIOCGETD, TCSBRKP */
    {0x5429, 0x5429},         /* TIOCGSID */
    {0x5441, 0x5441},         /* TIOCGPTPEER */
    {0x5450, 0x5452},         /* FIONCLEX, FIOCLEX, FIOASYNC */
    {0x5460, 0x5460},         /* FIOQSIZE */
    {0x802c542a, 0x802c542a}, /* TCGETS2 */
    {0x402c542b, 0x402c542d}, /* TCSETS2, TCSETSW2, TCSETSF2 */
    {0x80045430, 0x80045430}, /* TIOCGPTN */
    {0x40045431, 0x40045431}, /* TIOCSPTLCK */
    {0x80045432, 0x80045432}, /* TIOCGDEV */
    {0x40045436, 0x40045436}, /* TIOCSIG */
    {0x80045438, 0x80045440}, /* TIOCGPKT, TIOCGPTLCK, TIOCGEXCL */
    {0x8901, 0x8905},         /* FIOSETOWN, SIOCSPGRP, FIOGETOWN, SIOCGPGRP, SIOCATMARK */
    {0x8910, 0x8910},         /* SIOCGIFNAME */
    {0x8912, 0x8913},         /* SIOCGIFCONF, SIOCGIFFLAGS */
    {0x8915, 0x8915},         /* SIOCGIFADDR */
    {0x8917, 0x8917},         /* SIOCGIFDSTADDR */
    {0x8919, 0x8919},         /* SIOCGIFBRDADDR */
    {0x891b, 0x891b},         /* SIOCGIFNETMASK */
    {0x891d, 0x891d},         /* SIOCGIFMETRIC */
    {0x8921, 0x8921},         /* SIOCGIFMTU */
    {0x8927, 0x8927},         /* SIOCGIFHWADDR */
    {0x8933, 0x8933},         /* SIOCGIFINDEX */
    {0x8942, 0x8942},         /* SIOCGIFTXQLEN */
    {0x8946, 0x8946},         /* SIOCETHTOOL */
    {0x8970, 0x8970},         /* SIOCGIFMAP */
    {0x0002, 0x0002},         /* FIGETBSZ */
    {0x80086601, 0x80086601}, /* FS_IOC_GETFLAGS */
    {0x801c581f, 0x801c581f}, /* FS_IOC_FSGETXATTR */
    {0xc020660b, 0xc020660b}, /* FS_IOC_FIEMAP */
    {0x40049409, 0x40049409}, /* FICLONE */
    {0x4020940d, 0x4020940d}, /* FICLONERANGE */
    {0xc0189436, 0xc0189436}, /* FIDEDUPERANGE */
};

static void code_ioctl(struct filter_code *code)
{
    /* TIOCSTI, TIOCLINUX, TIOCSETD, TIOCCONS: these exist and are forbidden. */
    static const uint32_t denied[] = {0x5412, 0x541c, 0x5423, 0x541d};
    load_arg(code, 1);
    for (size_t i = 0; i < countof(denied); i++)
        ret_if(code, denied[i], RET_ERRNO(EPERM));
    allow_spans(code, ioctls, countof(ioctls), RET_ERRNO(ENOTTY));
}

/* Not here: F_OFD_SETLK and F_OFD_SETLKW, whose locks no process can be held responsible for:
 * record locks are memory of the kernel that is charged to nobody, so the warden counts them by
 * process. F_SETLEASE, with which a tenant can block a process that opens its files from outside
 * for 45 seconds; F_NOTIFY, because no limit counts its watches. F_SETPIPE_SZ: the limit on pipe
 * pages is per user, and without privilege all jails are one user. */
static const struct span fcntls[] = {
    {0, 11},      /* F_DUPFD to F_GETSIG, with record locks */
    {1030, 1030}, /* F_DUPFD_CLOEXEC */
    {15, 16},     /* F_SETOWN_EX, F_GETOWN_EX */
    {1025, 1025}, /* F_GETLEASE */
    {1027, 1028}, /* F_DUPFD_QUERY, F_CREATED_QUERY */
    {1032, 1038}, /* F_GETPIPE_SZ, seals, write hints */
};

static void code_fcntl(struct filter_code *code)
{
    load_arg(code, 1);
    ret_if(code, 1031 /* F_SETPIPE_SZ */, RET_ERRNO(EPERM));
    allow_spans(code, fcntls, countof(fcntls), RET_ERRNO(EINVAL));
}

/* --- Processes --- */

/* Not here: PR_SET_SECCOMP (filters in the kernel's memory); PR_SCHED_CORE, which switches the
 * scheduler of all processors and lets their siblings stand idle; PR_SET_VMA, whose names are
 * charged to nobody; PR_SET_MEMORY_MERGE. */
static const struct span prctls[] = {
    {15, 16}, /* NAME */
    {1, 4},   /* PDEATHSIG, DUMPABLE */
    {7, 8},   /* KEEPCAPS */
    {21, 21}, /* GET_SECCOMP */
    {23, 30}, /* CAPBSET, TSC, SECUREBITS, TIMERSLACK */
    {33, 34}, /* MCE_KILL */
    {36, 42}, /* CHILD_SUBREAPER, NO_NEW_PRIVS, GET_TID_ADDRESS, THP_DISABLE */
    {47, 47}, /* CAP_AMBIENT */
    {50, 56}, /* vectors, speculation, pointer keys, tagged addresses */
    {59, 61}, /* SYSCALL_USER_DISPATCH, pointer keys */
    {63, 66}, /* vectors, MDWE */
    {74, 76}, /* SHADOW_STACK */
};

static void code_prctl(struct filter_code *code)
{
    load_arg(code, 0);
    ret_if(code, 0x59616d61 /* PR_SET_PTRACER */, RET_ERRNO(EPERM));
    ret_if(code, PR_SET_MM, RET_ERRNO(EPERM));
    allow_spans(code, prctls, countof(prctls), RET_ERRNO(EINVAL));
}

static void code_personality(struct filter_code *code)
{
    load_arg(code, 0);
    ret_if(code, 0, SECCOMP_RET_ALLOW);
    ret_if(code, 0xffffffff, SECCOMP_RET_ALLOW); /* asks only */
    ret(code, RET_ERRNO(EPERM));
}

static void code_scheduler(struct filter_code *code)
{
    load_arg(code, 1);
    mask(code, ~(uint32_t)FILTER_X32_BIT); /* SCHED_RESET_ON_FORK */
    ret_if(code, 0 /* SCHED_OTHER */, SECCOMP_RET_ALLOW);
    ret_if(code, 3 /* SCHED_BATCH */, SECCOMP_RET_ALLOW);
    ret_if(code, 5 /* SCHED_IDLE */, SECCOMP_RET_ALLOW);
    ret(code, RET_ERRNO(EPERM));
}

/* The limit is 1, which keeps the kernel from passing a core dump to a program of the host; 0 would
 * not. So it stays, and a program that sets another one gets success without a change. */
static void code_set_limit(struct filter_code *code)
{
    load_arg(code, 0);
    ret_if(code, RLIMIT_CORE, RET_ERRNO(0));
    ret(code, SECCOMP_RET_ALLOW);
}

/* The same of prlimit(pid, resource, new, old), which may only ask. */
static void code_limits(struct filter_code *code)
{
    load_arg(code, 1);
    filter_args_put(code, BPF_JMP | BPF_JEQ | BPF_K, RLIMIT_CORE, 1, 0);
    ret(code, SECCOMP_RET_ALLOW);
    filter_args_load(code, 2, 0);
    filter_args_put(code, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2); /* both halves are 0: it asks */
    filter_args_load(code, 2, 1);
    filter_args_put(code, BPF_JMP | BPF_JEQ | BPF_K, 0, 6, 0);
    filter_args_load(code, 3, 0);
    filter_args_put(code, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3);
    filter_args_load(code, 3, 1);
    ret_if(code, 0, RET_ERRNO(0));
    ret(code, RET_ERRNO(EPERM)); /* it also asks for the old limit, which would stay unset */
    ret(code, SECCOMP_RET_ALLOW);
}

/* --- Memory --- */

/* Denies huge pages: they come from the machine's pool, are reserved for other programs, and the
 * memory controller does not count them. */
static void code_map(struct filter_code *code)
{
    load_arg(code, 3);
    ret_if_any(code, MAP_HUGETLB, RET_ERRNO(ENOMEM));
    ret(code, SECCOMP_RET_ALLOW);
}

static void code_memory_file(struct filter_code *code)
{
    load_arg(code, 1);
    ret_if_any(code, MFD_HUGETLB, RET_ERRNO(EINVAL));
    ret(code, SECCOMP_RET_ALLOW);
}

static void code_shared_memory(struct filter_code *code)
{
    load_arg(code, 2);
    ret_if_any(code, SHM_HUGETLB, RET_ERRNO(ENOMEM));
    ret(code, SECCOMP_RET_ALLOW);
}

/* Merging: work of a thread of the kernel, over the pages of all tenants. */
static void code_advise(struct filter_code *code)
{
    load_arg(code, 2);
    ret_if(code, MADV_MERGEABLE, RET_ERRNO(EINVAL));
    ret(code, SECCOMP_RET_ALLOW);
}

/* MEMBARRIER_CMD_GLOBAL_EXPEDITED and its registration: interrupts other processes' processors. */
static void code_barrier(struct filter_code *code)
{
    load_arg(code, 0);
    ret_if(code, 2, RET_ERRNO(EINVAL));
    ret_if(code, 4, RET_ERRNO(EINVAL));
    ret(code, SECCOMP_RET_ALLOW);
}

static void make_node(struct filter_code *code, unsigned mode_arg)
{
    load_arg(code, mode_arg);
    mask(code, S_IFMT);
    ret_if(code, S_IFCHR, RET_ERRNO(EPERM));
    ret_if(code, S_IFBLK, RET_ERRNO(EPERM));
    ret(code, SECCOMP_RET_ALLOW);
}

void filter_code(struct filter_code *code, enum filter_action action)
{
    code->len = 0;
    switch (action) {
    case FILTER_ALLOW:
        return ret(code, SECCOMP_RET_ALLOW);
    case FILTER_EPERM:
        return ret(code, RET_ERRNO(EPERM));
    case FILTER_ENOSYS:
        return ret(code, RET_ERRNO(ENOSYS));
    case FILTER_EINVAL:
        return ret(code, RET_ERRNO(EINVAL));
    case FILTER_NOTHING:
        return ret(code, RET_ERRNO(0));
    case FILTER_CLONE:
        return code_clone(code);
    case FILTER_SOCKET:
        return code_socket(code);
    case FILTER_SOCKET_OPTION:
        return code_socket_option(code);
    case FILTER_IOCTL:
        return code_ioctl(code);
    case FILTER_FCNTL:
        return code_fcntl(code);
    case FILTER_PRCTL:
        return code_prctl(code);
    case FILTER_PERSONALITY:
        return code_personality(code);
    case FILTER_SCHEDULER:
        return code_scheduler(code);
    case FILTER_SET_LIMIT:
        return code_set_limit(code);
    case FILTER_LIMITS:
        return code_limits(code);
    case FILTER_MAP:
        return code_map(code);
    case FILTER_MEMORY_FILE:
        return code_memory_file(code);
    case FILTER_SHARED_MEMORY:
        return code_shared_memory(code);
    case FILTER_ADVISE:
        return code_advise(code);
    case FILTER_BARRIER:
        return code_barrier(code);
    case FILTER_MKNOD:
        return make_node(code, 1);
    case FILTER_MKNODAT:
        return make_node(code, 2);
    }
    abort(); /* a row with an unknown action */
}
