#pragma once

/* For jail/quota*.c alone. */

#include "jail/quota.h"

struct quota_job {
    int box_fd;
    const char *name;
    int cache_fd;
    struct quota_limit limit;
    enum quota_method method;
    uint32_t project;
};

int quota_mount_at(const struct quota_job *job, int mount, struct err *err) MUST_USE;
int quota_undo(const struct quota_job *job, struct err *err);
/* Makes `disk.img` and mounts it. */
int quota_image_attach(struct quota_job *job, struct err *err) MUST_USE;
/* Mounts a `disk.img` that is there. */
int quota_image_mount(const struct quota_job *job, struct err *err) MUST_USE;
/* Makes a mounted one larger. */
int quota_image_grow(const struct quota_job *job, const struct quota_limit *limit,
                     struct err *err) MUST_USE;

int quota_project_attach(struct quota_job *job, struct err *err) MUST_USE;
int quota_project_resize(int fd, uint32_t project, const struct quota_limit *limit,
                         struct err *err) MUST_USE;
int quota_project_use(int fd, uint32_t project, struct quota_use *use, struct err *err) MUST_USE;
int quota_project_limit(int fd, uint32_t project, int64_t bytes, int64_t inodes, struct err *err);
