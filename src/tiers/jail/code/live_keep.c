/* Saved state of interpreters, kept for a later place of the same or another sandbox.
 *
 * An interpreter writes its memory to a file that its own jail is charged for. State that is kept
 * longer than a fork takes is copied to a file of the server: the jail gets its memory back, and no
 * group of an ended jail stays charged. Until the copy is complete the first file is used. A lease
 * keeps the zygote of the interpreters alive, because only its forks can continue from the
 * state. */

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/map.h"
#include "base/sys.h"
#include "engine/provider.h"
#include "io/pool.h"
#include "jail/client/jail_fork.h"
#include "tiers/jail/code/live.h"
#include "tiers/jail/code/live_internal.h"
#include "tiers/jail/provider_jail.h"

enum { COPY_BYTES = 1 << 20 };

/* --- The list of its provider, and the lease --- */

static void lease(struct live_interpreters *live, bool is_begin)
{
    struct err err = {0};
    struct warden_link *warden = live->provider->warden;
    if (live->has_lease == is_begin || warden == NULL)
        return;
    live->has_lease = is_begin;
    if (warden_lease_zygote(warden, live->zygote, is_begin, &err) < 0)
        log_warn("jail.zygote", LOG_STR("error", err.msg));
}

void live_leave(struct live_interpreters *live)
{
    if (live->provider == NULL)
        return;
    lease(live, false);
    struct live_interpreters **at = &live->provider->kept;
    while (*at != live)
        at = &(*at)->next;
    *at = live->next;
    live->provider = NULL;
}

void tier_live_forget_leases(struct provider *provider)
{
    for (struct live_interpreters *live = provider->kept; live != NULL; live = live->next)
        live->has_lease = false;
}

void tier_live_close(struct provider *provider)
{
    tier_live_forget_leases(provider);
    while (provider->kept != NULL)
        live_leave(provider->kept);
}

/* --- The copy --- */

struct copying {
    struct job job;
    struct live_interpreters *live;
    struct live_part *part;
    int from, to; /* `from` is the part's */
    int64_t size;
    struct err err;
};

static int copy_all(struct copying *copying, struct err *err)
{
    AUTO_MEM char *space = mem_alloc(COPY_BYTES);
    for (int64_t at = 0; at < copying->size;) {
        ssize_t got = SYS(pread(copying->from, space, COPY_BYTES, at));
        if (got <= 0)
            return err_sys(err, got < 0 ? errno : EIO, "read the memory of an interpreter");
        for (ssize_t done = 0; done < got;) {
            ssize_t sent =
                SYS(pwrite(copying->to, space + done, (size_t)(got - done), at + (int64_t)done));
            if (sent <= 0)
                return err_sys(err, sent < 0 ? errno : EIO, "keep the memory of an interpreter");
            done += sent;
        }
        at += got;
    }
    return 0;
}

/* On a worker. */
static void run_copy(struct job *job)
{
    struct copying *copying = (struct copying *)job;
    struct err *err = &copying->err;
    copying->to = SYS(memfd_create("kept", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (copying->to < 0)
        (void)err_sys(err, errno, "make a file in memory");
    else if (copy_all(copying, err) == 0 && fcntl(copying->to, F_ADD_SEALS, LIVE_SEALS) < 0)
        (void)err_sys(err, errno, "seal a file in memory");
}

static void on_copied(struct job *job, bool canceled)
{
    struct copying *copying = (struct copying *)job;
    struct live_part *part = copying->part;
    if (copying->err.code != ERR_NONE) {
        log_warn("variables.keep", LOG_STR("error", copying->err.msg));
        fd_close(&part->fd);
        (void)snprintf(part->reason, sizeof part->reason, "%.*s", (int)sizeof part->reason - 1,
                       copying->err.msg);
    } else if (!canceled) {
        fd_close(&part->fd);
        part->fd = fd_take(&copying->to);
    }
    fd_close(&copying->to);
    tier_live_free(copying->live);
    free(copying);
}

static void begin_copy(struct live_interpreters *live, struct live_part *part, int64_t size)
{
    struct copying *copying = mem_alloc(sizeof *copying);
    struct err err = {0};
    *copying = (struct copying){.job = {.run = run_copy, .done = on_copied},
                                .live = tier_live_ref(live),
                                .part = part,
                                .from = part->fd,
                                .to = -1,
                                .size = size};
    if (pool_submit(live->provider->host->pool, &copying->job, &err) == 0)
        return;
    log_warn("variables.keep", LOG_STR("error", err.msg));
    tier_live_free(live);
    free(copying);
}

/* --- Keeping --- */

/* Its bytes; -1 when it has none, or more than `most`. */
static int64_t size_of(const struct live_part *part, int64_t most)
{
    struct stat st;
    if (part->fd < 0 || fstat(part->fd, &st) < 0 || st.st_size > most)
        return -1;
    return st.st_size;
}

/* Not logged for other runtimes, whose memory is never saved. */
static void log_skipped(const struct live_interpreters *live, const struct live_part *part)
{
    if (part->runtime->forks != NULL && part->has_state)
        log_info("variables.skipped", LOG_ID("sandbox", live->sandbox),
                 LOG_VIEW("context", part->id),
                 LOG_STR("reason",
                         part->fd >= 0 ? "larger than [sandbox] keep_variables_mb" : part->reason));
}

struct live_interpreters *tier_live_keep(struct provider *provider,
                                         const struct live_interpreters *live, int64_t most_bytes)
{
    struct live_interpreters *kept = live_new();
    int64_t sizes[CONTEXTS_MAX] = {0};
    kept->zygote = live->zygote;
    kept->forks_plain = live->forks_plain;
    kept->is_kept = true;
    for (size_t i = 0; i < live->count; i++) {
        int64_t size = size_of(&live->parts[i], most_bytes - kept->bytes);
        int fd = size < 0 ? -1 : fcntl(live->parts[i].fd, F_DUPFD_CLOEXEC, 3);
        if (fd < 0) {
            log_skipped(live, &live->parts[i]);
            continue;
        }
        sizes[kept->count] = size;
        live_add(kept, &live->parts[i])->fd = fd;
        kept->bytes += size;
    }
    if (kept->count == 0) {
        tier_live_free(kept);
        return NULL;
    }
    kept->provider = provider;
    kept->next = provider->kept;
    provider->kept = kept;
    lease(kept, true);
    for (size_t i = 0; i < kept->count; i++)
        begin_copy(kept, &kept->parts[i], sizes[i]);
    return kept;
}

struct live_size tier_live_size(const struct live_interpreters *live)
{
    return (struct live_size){live->bytes, live->count};
}
