#pragma once

/* Hosts by the name of what they serve: `npm` and `pypi` stand for the registry and the index that
 * this machine is configured to use, or its installer uses by default, so that an installer in a
 * sandbox reaches those and nothing else. */

#include "base/buf.h"

struct err;

enum { GROUP_NPM, GROUP_PYPI, GROUP_COUNT };
const char *group_name(size_t group);

struct group_hosts {
    struct buf allow;    /* "HOST:PORT", with ", " between */
    struct buf private;  /* "HOST=ADDRESS:PORT", likewise: where a registry has such addresses */
    struct buf settings; /* lines "NAME=VALUE": variables that lead the installer there */
};
void group_hosts_done(struct group_hosts *hosts);
#define AUTO_GROUP_HOSTS AUTO(group_hosts_done)

/* The places that configuration is read from; NULL for the machine's own. */
struct group_sources {
    struct str registries[GROUP_COUNT];   /* URLs instead of all else; empty: none */
    const char *home;                     /* $HOME */
    const char *etc;                      /* "/etc" */
    const char *(*env)(const char *name); /* getenv */
    const char *dns_servers;              /* see resolve.h */
    /* Output of an installer that reports its registry, if no setting above names one. Set to
     * group_ask if all settings are those of this machine; otherwise nothing is executed. */
    bool (*ask)(const char *const *argv, struct buf *out);
};
/* Runs it; true when it answers with a URL. May take a second. */
bool group_ask(const char *const *argv, struct buf *out) MUST_USE;

bool group_is_name(struct str name);
/* Adds what the group stands for. The operator is trusted to configure registries: one whose
 * addresses are not public gets private entries for exactly these. INVALID when the configured URL
 * is malformed; a name that does not resolve now is left to be judged later. */
int group_expand(struct str name, const struct group_sources *sources, struct group_hosts *hosts,
                 struct err *err) MUST_USE;
