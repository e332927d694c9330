#pragma once

/* What `sandglass doctor` found, and the two ways to say it. Composing is pure; cmd_doctor.c does
 * the finding and the printing. */

#include "base/buf.h"
#include "jail/probe/probe.h"

enum { DOCTOR_WORD_MAX = 128 };

struct doctor_report {
    char kernel_release[DOCTOR_WORD_MAX];
    char arch[DOCTOR_WORD_MAX];
    char distro[DOCTOR_WORD_MAX];
    char user[DOCTOR_WORD_MAX];
    struct probe_result results[PROBE_COUNT_MAX]; /* one per row of `probes` */
    struct probe_tier tier;
};

struct doctor_style {
    bool utf8;
    bool colour;
};

void doctor_put_text(const struct doctor_report *report, struct doctor_style style,
                     struct buf *out);
void doctor_put_json(const struct doctor_report *report, struct buf *out);
