/* The root certificates that a jail trusts, in place of the system's own file, for programs that
 * read no variables.
 *
 * A jail whose connections are opened from the start has its own file mounted there, which is
 * rewritten in place when the authority changes. A jail that gets its first secret later came from
 * the pool without it: there only the variables lead to the authority, until a rollback replaces
 * its jail. The file is below the data directory as long as the place exists. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/map.h"
#include "egress/keys/authority.h"
#include "egress/policy/settings.h"
#include "engine/network.h"
#include "tiers/jail/net/network.h"
#include "tiers/jail/place.h"
#include "tiers/jail/provider_jail.h"

/* What a server that was killed has left. */
static void clear(const char *dir)
{
    DIR *list = opendir(dir);
    for (const struct dirent *entry; list != NULL && (entry = readdir(list)) != NULL;)
        if (entry->d_name[0] != '.')
            (void)unlinkat(dirfd(list), entry->d_name, 0);
    if (list != NULL)
        (void)closedir(list);
}

static int roots_open_file(struct place *place, struct err *err)
{
    struct provider *provider = place->provider;
    struct str dir = arena_printf(&place->arena, "%s/roots", provider->host->data_dir);
    if (!provider->has_roots_dir) {
        if (mkdir(dir.ptr, 0700) < 0 && errno != EEXIST)
            return err_sys(err, errno, "make '%s'", dir.ptr);
        clear(dir.ptr);
        provider->has_roots_dir = true;
    }
    struct str path = arena_printf(&place->arena, "%s/%s", dir.ptr, place->id);
    place->roots_fd = open(path.ptr, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (place->roots_fd < 0)
        return err_sys(err, errno, "make '%s'", path.ptr);
    place->roots_path = path.ptr;
    if (fchmod(place->roots_fd, 0644) < 0)
        return err_sys(err, errno, "make '%s'", path.ptr);
    return 0;
}

int tier_roots_write(struct place *place, struct str bundle, struct err *err)
{
    if (place->roots_fd < 0)
        return 0;
    if (lseek(place->roots_fd, 0, SEEK_SET) < 0 || fd_write_all(place->roots_fd, bundle, err) < 0 ||
        ftruncate(place->roots_fd, (off_t)bundle.len) < 0)
        return err_sys(err, errno, "write the sandbox's trusted certificates");
    return 0;
}

int tier_roots_bundle(struct authority *authority, struct buf *out, struct err *err)
{
    AUTO_BUF struct buf host = {0};
    struct err none;
    if (authority_read_host_bundle(&host, &none) < 0)
        buf_clear(&host);
    return authority_put_bundle(authority, buf_str(&host), out, err);
}

void tier_roots_plan(struct place *place)
{
    struct jail_plan *plan = &place->plan;
    AUTO_BUF struct buf bundle = {0};
    struct err err = {0};
    /* A root of its own has roots of its own. */
    if (place->network_in_effect->authority == NULL || plan->base != NULL ||
        plan->mount_count == JAIL_MOUNTS_MAX || access(SETTINGS_CA_FILE, R_OK) != 0)
        return;
    if (roots_open_file(place, &err) < 0 ||
        tier_roots_bundle(place->network_in_effect->authority, &bundle, &err) < 0 ||
        tier_roots_write(place, buf_str(&bundle), &err) < 0) {
        log_warn("jail.roots", LOG_STR("sandbox", place->id), LOG_STR("error", err.msg));
        tier_roots_end(place);
        return;
    }
    plan->mounts[plan->mount_count++] =
        (struct jail_mount){.src = place->roots_path, .dst = SETTINGS_CA_FILE};
}

void tier_roots_end(struct place *place)
{
    if (place->roots_path != NULL)
        (void)unlink(place->roots_path);
    place->roots_path = NULL;
    fd_close(&place->roots_fd);
}
