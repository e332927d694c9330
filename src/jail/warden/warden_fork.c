/* Interpreters in jails: passes the daemon's requests on to a zygote. */

#include "base/err.h"
#include "jail/warden/warden_internal.h"
#include "jail/wire/init.h"
#include "jail/wire/oom_tag.h"
#include "jail/zygote/zygote.h"

char *warden_confinement_of(const struct jail_plan *plan, size_t *ret_len)
{
    AUTO_BUF struct buf out = buf_with_limit(WIRE_MAX);
    const char *const *places = mounts_writable(plan);
    uint32_t count = plan->workspace != NULL;
    /* What the zygote has mapped of the host's /usr is not what such a root shows. */
    if (plan->base != NULL)
        return NULL;
    for (size_t i = 0; places[i] != NULL; i++)
        count++;
    for (size_t i = 0; i < plan->mount_count; i++)
        count += plan->mounts[i].writable;
    wire_put_u32(&out, plan->overlay || plan->layer_count > 0 || plan->disk != NULL);
    wire_put_i64(&out, plan->limits.pids);
    wire_put_i64(&out, plan->limits.nofile);
    wire_put_u32(&out, count);
    for (size_t i = 0; places[i] != NULL; i++)
        wire_put_cstr(&out, places[i]);
    if (plan->workspace != NULL)
        wire_put_cstr(&out, "/workspace");
    for (size_t i = 0; i < plan->mount_count; i++)
        if (plan->mounts[i].writable)
            wire_put_cstr(&out, plan->mounts[i].dst);
    *ret_len = out.len;
    return mem_dup(out.ptr, out.len);
}

static int check_fork(const struct slot *slot, struct err *err)
{
    if (slot == NULL)
        return err_set(err, ERR_NOT_FOUND, "no such jail");
    if (slot->confinement == NULL)
        return err_set(err, ERR_UNSUPPORTED, "the jail has its own root file system");
    if (slot->frozen)
        return err_set(err, ERR_BUSY, "the jail is frozen");
    return 0;
}

/* The start socket, init, three streams, then the entries of the groups. */
static int ask_zygote(struct slot *slot, uint32_t command, struct zygote *zygote,
                      const int start[4], struct err *err)
{
    if (zygote == NULL)
        return err_set(err, ERR_UNAVAILABLE, "no zygote is ready");
    int fds[WIRE_FDS_MAX] = {start[0], slot->made.pidfd, start[1], start[2], start[3]};
    struct cgroup_entries entries;
    if (cgroup_kernel_entries(&warden.builder.cgroups, &slot->made.cgroup, &entries, err) < 0)
        return -1;
    assert(ZYGOTE_GROUPS + entries.count <= countof(fds));
    memcpy(fds + ZYGOTE_GROUPS, entries.fds, entries.count * sizeof(int));
    wire_begin(&warden.out, ZYGOTE_FORK, slot->generation);
    wire_put_u32(&warden.out, (uint32_t)oom_tag_of(command));
    buf_put(&warden.out, str_n(slot->confinement, slot->confinement_len));
    int sent =
        wire_try_send(zygote->fd, buf_str(&warden.out), fds, ZYGOTE_GROUPS + entries.count, err);
    if (sent <= 0)
        return sent < 0 ? -1 : err_set(err, ERR_BUSY, "too many interpreters are being started");
    slot->forking++;
    warden_enter_zygote(slot, zygote);
    return 0;
}

/* No request waits for an answer from us: the start socket carries the result. */
void warden_on_fork(struct slot *slot, struct wire_in *in)
{
    struct err err = {0}, ignored;
    uint32_t command = wire_get_u32(in), number = wire_get_u32(in);
    if (!wire_ended(in) || warden.fds[3] < 0)
        return;
    if (check_fork(slot, &err) == 0 &&
        ask_zygote(slot, command, warden_zygote_for(slot, number), warden.fds, &err) == 0)
        return;
    wire_begin(&warden.out, INIT_FAILED, 0);
    wire_put_err(&warden.out, &err);
    (void)!wire_try_send(warden.fds[0], buf_str(&warden.out), NULL, 0, &ignored);
}
