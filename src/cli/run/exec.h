#pragma once

/* For `sandglass exec`: what was asked, how it is run, what is said about it. An interpreter of
 * `sandglass run` has its plan, its variables and its network from here too. */

#include "base/buf.h"
#include "base/excerpt.h"
#include "base/vec.h"
#include "egress/gateway/egress_proxy.h"
#include "egress/policy/policy.h"
#include "engine/time_limit.h"
#include "jail/client/jail.h"
#include "jail/disk/quota.h"

struct cli_call;
struct config;
struct err;
struct exec_net;
struct json_out;

enum { EXEC_ENV_MAX = 256 };

struct exec_request {
    struct jail_plan plan;
    struct jail_command command;
    const char *argv[258];
    const char *env[EXEC_ENV_MAX]; /* more than options can give; NULL behind the last */
    size_t env_count;
    struct time_limit limit;
    bool json;
    char *paths[JAIL_MOUNTS_MAX + 2]; /* owned strings that the plan borrows */
    size_t path_count;
    struct policy *policy;  /* NULL: no network */
    struct buf dns_servers; /* of the configuration; empty for the system's */
    struct secrets *secrets;
    struct authority *authority; /* NULL: no connection is opened */
    struct buf ca_file;          /* of the configuration; empty for the system's */
    struct egress_proxy_limits net_limits;
    struct buf settings; /* variables for the network, "NAME=VALUE" with a NUL behind each */
    bool limits_disk;    /* --disk was given: it holds for directories of the host too */
    struct disk_quota_hold holds[JAIL_MOUNTS_MAX + 1];
    size_t hold_count;
};

/* A refusal of the gate. */
struct exec_blocked {
    char host[256], reason[64], text[256];
    uint16_t port; /* 0 for a lookup */
};

enum exec_reason { EXEC_EXITED, EXEC_SIGNALED, EXEC_TIMED_OUT, EXEC_OOM, EXEC_GONE };

/* The first and the last half MiB of a stream, and how much there was. */
struct exec_kept {
    struct excerpt text;
    int64_t total;
};

struct exec_result {
    enum exec_reason reason;
    struct jail_exit exit;
    struct jail_stats stats;
    struct exec_kept out, err;
    int64_t make_ns, total_ns; /* until the jail stood; all of it */
    bool memory_unlimited, cpus_unlimited;
    VEC(struct exec_blocked) blocked;
};

void exec_request_done(struct exec_request *request); /* once its network is freed */
/* Refuses limits that this host does not support, with their names and the option to run without;
 * `result` lists what is not limited. */
int exec_check_host(const struct exec_request *request, const struct jail_host *host,
                    struct exec_result *result, struct err *err) MUST_USE;
/* "NAME=VALUE", which stays the caller's. The last of a name wins, as in a shell. */
void exec_set_env(struct exec_request *request, const char *pair);
/* What --env gives: such a pair, or the name of a variable of this process. */
int exec_add_env(struct exec_request *request, const char *given, struct err *err) MUST_USE;

/* Runs it in a fresh jail with a warden of its own. Without json the streams are ours. */
int exec_run(struct exec_request *request, struct exec_result *ret_result,
             struct err *err) MUST_USE;
void exec_result_done(struct exec_result *result);
/* What a shell would see. */
int exec_exit_code(const struct exec_result *result);
/* 125, 126 or 127 for a command that did not start. */
int exec_refused_code(const struct err *err);
void exec_put_json(struct buf *out, const struct exec_result *result, const struct err *failed);
void exec_put_blocked(struct json_out *json, const struct exec_result *result); /* a member */

/* Memory, processes and cores, as the configuration has them. */
void exec_limits_of_config(const struct config *config, struct jail_limits *ret_limits);
/* What --cpus takes: a number of cores, or "none". False for anything else. */
bool exec_read_cpus(const char *text, struct jail_limits *limits);
/* Limits and deadline, and the network with them: the configuration's, then those of options. */
int exec_limits_read(const struct cli_call *call, struct exec_request *request,
                     struct err *err) MUST_USE;

/* What --allow-host, --deny-host, --secret, --net-* and the configuration say about the network.
 * Takes the variables of secrets out of the environment: before anything is started. */
int exec_net_read(const struct cli_call *call, const struct config *config,
                  struct exec_request *request, struct err *err) MUST_USE;
/* The variables that programs inside need for it. */
void exec_net_set_env(struct exec_request *request);
/* The network, or a gateway that reports "no network" when the request has no policy. Started
 * before the jail, whose plan it sets; opened when the jail exists. */
int exec_net_start(struct exec_request *request, struct exec_result *result,
                   struct exec_net **ret_net, struct err *err) MUST_USE;
int exec_net_open(struct exec_net *net, struct warden_link *warden, struct jail *jail,
                  struct err *err) MUST_USE;
int exec_net_fd(const struct exec_net *net); /* readable: call exec_net_step */
void exec_net_step(struct exec_net *net);
struct exec_net *exec_net_free(struct exec_net *net);
DEFINE_FREEP(exec_net)

void exec_keep(struct exec_kept *kept, struct str bytes);
