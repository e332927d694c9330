#pragma once

/* Only for jail/disk/quota*.c. */

#include "jail/disk/quota.h"

struct disk_quota_job {
    int box_fd;
    const char *name;
    int cache_fd;
    struct disk_quota_limit limit;
    enum disk_quota_method method;
    uint32_t project;
};

int disk_quota_mount_at(const struct disk_quota_job *job, int mount, struct err *err) MUST_USE;
/* Makes `disk.img` and mounts it. */
int disk_quota_image_attach(struct disk_quota_job *job, struct err *err) MUST_USE;
/* Mounts an existing `disk.img`. */
int disk_quota_image_mount(const struct disk_quota_job *job, struct err *err) MUST_USE;
/* Makes a mounted one larger. */
int disk_quota_image_grow(const struct disk_quota_job *job, const struct disk_quota_limit *limit,
                          struct err *err) MUST_USE;

int disk_quota_project_attach(struct disk_quota_job *job, struct err *err) MUST_USE;
int disk_quota_project_resize(int fd, uint32_t project, const struct disk_quota_limit *limit,
                              struct err *err) MUST_USE;
int disk_quota_project_use(int fd, uint32_t project, struct disk_quota_use *use,
                           struct err *err) MUST_USE;
int disk_quota_project_limit(int fd, uint32_t project, int64_t bytes, int64_t inodes,
                             struct err *err);
