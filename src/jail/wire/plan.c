#include "jail/wire/plan.h"

#include "base/err.h"

enum {
    MIB = 1 << 20,
    PIDS_MAX = 1024,
    CPU_MIN = 10,
    CPU_MAX = 1024 * 1000,
    NOFILE_MIN = 16,
    NOFILE_MAX = 1 << 20,
    INODES_MIN = 64,
};

static const struct jail_limits defaults = {
    .memory_bytes = 512 * MIB,
    .pids = 256,
    .cpu_milli = 1000,
    .disk_bytes = 1024 * (int64_t)MIB,
    .disk_inodes = 200000,
    .tmp_bytes = 64 * MIB,
    .tmp_inodes = 16384,
    .nofile = 1024,
};

/* One row per limit: where it is, how it is called in messages, and what it may be. */
static const struct {
    size_t offset;
    const char *name;
    int64_t min, max;
    bool may_be_off;
} limit_rows[] = {
    {offsetof(struct jail_limits, memory_bytes), "memory", JAIL_MEMORY_MIN_MB *MIB, 1LL << 46,
     true},
    {offsetof(struct jail_limits, pids), "pids", 2, PIDS_MAX, true},
    {offsetof(struct jail_limits, cpu_milli), "cpus", CPU_MIN, CPU_MAX, true},
    {offsetof(struct jail_limits, disk_bytes), "disk", MIB, 1LL << 46, false},
    {offsetof(struct jail_limits, disk_inodes), "disk inodes", INODES_MIN, 1LL << 32, false},
    {offsetof(struct jail_limits, tmp_bytes), "tmp", 4096, 1LL << 46, false},
    {offsetof(struct jail_limits, tmp_inodes), "tmp inodes", INODES_MIN, 1LL << 32, false},
    {offsetof(struct jail_limits, nofile), "open files", NOFILE_MIN, NOFILE_MAX, false},
};

static int64_t limit_at(const struct jail_limits *limits, size_t offset)
{
    int64_t value;
    memcpy(&value, (const char *)limits + offset, sizeof value);
    return value;
}

void jail_plan_fill(struct jail_plan *plan)
{
    for (size_t i = 0; i < countof(limit_rows); i++) {
        size_t at = limit_rows[i].offset;
        if (limit_at(&plan->limits, at) == 0)
            memcpy((char *)&plan->limits + at, (const char *)&defaults + at, sizeof(int64_t));
    }
    if (plan->hostname == NULL)
        plan->hostname = "sandbox";
}

static int check_limits(const struct jail_limits *limits, struct err *err)
{
    for (size_t i = 0; i < countof(limit_rows); i++) {
        int64_t value = limit_at(limits, limit_rows[i].offset);
        if (value == JAIL_UNLIMITED && limit_rows[i].may_be_off)
            continue;
        if (value == JAIL_UNLIMITED)
            return err_set(err, ERR_INVALID, "the limit '%s' cannot be switched off",
                           limit_rows[i].name);
        if (value < limit_rows[i].min || value > limit_rows[i].max)
            return err_set(err, ERR_INVALID, "the limit '%s' is %lld; it may be %lld to %lld",
                           limit_rows[i].name, (long long)value, (long long)limit_rows[i].min,
                           (long long)limit_rows[i].max);
    }
    return 0;
}

int jail_path_check(const char *path, const char *what, struct err *err)
{
    struct str rest = str_of(path), part;
    if (rest.len == 0)
        return err_set(err, ERR_INVALID, "%s is empty", what);
    if (rest.ptr[0] != '/')
        return err_set(err, ERR_INVALID, "%s '%.100s' is not absolute", what, path);
    if (rest.len >= JAIL_PATH_MAX)
        return err_set(err, ERR_INVALID, "%s is longer than %d bytes", what, JAIL_PATH_MAX - 1);
    rest = str_slice(rest, 1, rest.len);
    while (rest.len > 0 && str_split(&rest, '/', &part)) {
        if (part.len == 0 || str_eq(part, STR(".")) || str_eq(part, STR("..")))
            return err_set(err, ERR_INVALID, "%s '%.100s' has an empty part, '.' or '..'", what,
                           path);
        if (part.len > 255)
            return err_set(err, ERR_INVALID, "%s has a part longer than 255 bytes", what);
    }
    return 0;
}

/* Places that the jail mounts itself: a mount over them would remove a protection or expose
 * something of the host. */
static const char *const own_places[] = {"/", "/proc", "/dev", "/sys", "/etc"};

static bool is_under(struct str path, struct str dir)
{
    if (!str_starts(path, dir))
        return false;
    assert(path.ptr != NULL);
    return path.len == dir.len || path.ptr[dir.len] == '/';
}

/* The one file among them that may be put in place of the host's: the roots that programs trust,
 * where the jail has an authority of its own. Never writable: a command could make the others in
 * its jail trust whom it likes. */
static const char roots[] = "/etc/ssl/certs/ca-certificates.crt";

static int check_target(const char *dst, bool writable, struct err *err)
{
    if (jail_path_check(dst, "mount target", err) < 0)
        return -1;
    if (strcmp(dst, roots) == 0 && !writable)
        return 0;
    if (strcmp(dst, roots) == 0)
        return err_set(err, ERR_INVALID, "mount target '%s' can only be shown read-only", dst);
    for (size_t i = 0; i < countof(own_places); i++) {
        struct str place = str_of(own_places[i]);
        bool taken = place.len == 1 ? str_eq(str_of(dst), place) : is_under(str_of(dst), place);
        if (taken)
            return err_set(err, ERR_INVALID, "mount target '%s' belongs to the jail itself", dst);
    }
    return 0;
}

/* Kernel interfaces of the host: handing one in would hand out the host. */
static const char *const kernel_places[] = {"/proc", "/sys", "/dev"};

static int check_source(const char *src, const char *what, struct err *err)
{
    if (jail_path_check(src, what, err) < 0)
        return -1;
    for (size_t i = 0; i < countof(kernel_places); i++)
        if (is_under(str_of(src), str_of(kernel_places[i])))
            return err_set(err, ERR_FORBIDDEN,
                           "%s '%s' is below %s, which cannot be mounted in a jail", what, src,
                           kernel_places[i]);
    return 0;
}

static int check_mounts(const struct jail_plan *plan, struct err *err)
{
    if (plan->mount_count > JAIL_MOUNTS_MAX)
        return err_set(err, ERR_INVALID, "more than %d mounts", JAIL_MOUNTS_MAX);
    for (size_t i = 0; i < plan->mount_count; i++) {
        const struct jail_mount *mount = &plan->mounts[i];
        if (check_source(mount->src, "mount source", err) < 0 ||
            check_target(mount->dst, mount->writable, err) < 0)
            return -1;
        for (size_t j = 0; j < i; j++)
            if (strcmp(plan->mounts[j].dst, mount->dst) == 0)
                return err_set(err, ERR_INVALID, "two mounts at '%s'", mount->dst);
        if (plan->workspace != NULL && strcmp(mount->dst, "/workspace") == 0)
            return err_set(err, ERR_INVALID,
                           "give either a workspace or a mount at '/workspace', not both");
    }
    return 0;
}

static int check_disk(const struct jail_plan *plan, struct err *err)
{
    if (plan->disk_layer_count > JAIL_DISK_LAYERS_MAX)
        return err_set(err, ERR_INVALID, "more than %d layers on one disk", JAIL_DISK_LAYERS_MAX);
    for (size_t i = 1; i < plan->disk_layer_count; i++)
        if (plan->disk_layers[i] >= plan->disk_layers[i - 1])
            return err_set(err, ERR_INVALID,
                           "the layers of a disk must be given from the highest to the lowest");
    if (plan->disk == NULL)
        return plan->disk_layer_count == 0
                   ? 0
                   : err_set(err, ERR_INVALID, "layers of a disk are given without a disk");
    return check_source(plan->disk, "disk", err);
}

static int check_layers(const struct jail_plan *plan, struct err *err)
{
    if (plan->layer_count > JAIL_LAYERS_MAX)
        return err_set(err, ERR_INVALID, "more than %d layers", JAIL_LAYERS_MAX);
    for (size_t i = 0; i < plan->layer_count; i++)
        if (check_source(plan->layers[i], "layer", err) < 0)
            return -1;
    if (plan->base != NULL && check_source(plan->base, "base", err) < 0)
        return -1;
    return check_disk(plan, err);
}

static int check_hostname(const char *name, struct err *err)
{
    size_t len = strlen(name);
    bool good = len > 0 && len <= 63 && name[0] != '-';
    for (size_t i = 0; i < len && good; i++)
        good = char_is_alnum(name[i]) || name[i] == '-';
    if (!good)
        return err_set(err, ERR_INVALID, "'%.70s' is not a host name (letters, digits, '-')", name);
    return 0;
}

int jail_plan_check(const struct jail_plan *plan, struct err *err)
{
    if (check_limits(&plan->limits, err) < 0 || check_hostname(plan->hostname, err) < 0 ||
        check_mounts(plan, err) < 0 || check_layers(plan, err) < 0)
        return -1;
    if (plan->workspace != NULL && check_source(plan->workspace, "workspace", err) < 0)
        return -1;
    if (plan->net != JAIL_NET_LOOPBACK && plan->net != JAIL_NET_GATEWAY)
        return err_set(err, ERR_INVALID, "unknown network mode %d", (int)plan->net);
    if (plan->net == JAIL_NET_GATEWAY && plan->gateway_port == 0)
        return err_set(err, ERR_INVALID, "a gateway needs a port");
    return 0;
}

/* Counts what goes over the wire and refuses what is too much; -1 with `err`, else the words. */
static int check_words(const char *const *words, const char *what, size_t *bytes, struct err *err)
{
    size_t count = 0;
    for (; words != NULL && words[count] != NULL; count++) {
        *bytes += strlen(words[count]) + 1;
        if (count >= JAIL_ARGS_MAX || *bytes > JAIL_ARGS_BYTES)
            return err_set(err, ERR_TOO_LARGE,
                           "%s: at most %d arguments and %d bytes; pass longer data in a file",
                           what, JAIL_ARGS_MAX, JAIL_ARGS_BYTES);
    }
    return (int)count;
}

static int check_cwd(const char *cwd, struct err *err)
{
    if (jail_path_check(cwd, "working directory", err) == 0)
        return 0;
    err->code = ERR_BAD_CWD;
    return -1;
}

int jail_command_check(const struct jail_command *command, struct err *err)
{
    size_t bytes = 0;
    int words = check_words(command->argv, "arguments", &bytes, err);
    if (words < 0 || check_words(command->env, "environment", &bytes, err) < 0)
        return -1;
    if (words == 0 || command->argv[0][0] == '\0')
        return err_set(err, ERR_INVALID, "no program to run");
    for (size_t i = 0; command->env != NULL && command->env[i] != NULL; i++)
        if (strchr(command->env[i], '=') == NULL || command->env[i][0] == '=')
            return err_set(err, ERR_INVALID, "environment '%.60s' is not NAME=VALUE",
                           command->env[i]);
    if (command->cwd != NULL && command->cwd[0] != '\0')
        return check_cwd(command->cwd, err);
    return 0;
}
