#pragma once

/* The stage for tests of the gate: a name server, ok.test on 127.0.0.2 and evil.test on 127.0.0.3,
 * which count as public, and a private service on 127.0.0.1, all on one port. */

#include "net.h"
#include "test.h"

#include "egress/gate/gate.h"
#include "io/loop.h"

struct stage {
    struct loop *loop;
    struct net_dns *dns;
    struct net_server *ok, *evil, *private;
    struct gate_options options;
    struct gate *gate;
    struct policy *policy;
    int port;
    int refusals; /* told by on_verdict */
};

/* What came of one request. */
struct outcome {
    bool is_done, has_answer, is_redirected;
    int status;
    enum verdict_reason reason; /* of a refusal */
    struct err why;
    struct buf body, headers, status_text, url;
};

void stage_open(struct stage *stage);
void stage_close(struct stage *stage);
#define AUTO_STAGE AUTO(stage_close)
/* In the text "PORT" stands for the stage's port. */
void stage_set_policy(struct stage *stage, const char *text);
/* Runs the loop until the request is done; "PORT" in the URL likewise. */
void stage_fetch(struct stage *stage, const char *url, struct gate_request request,
                 struct outcome *ret_outcome);
void outcome_done(struct outcome *outcome);
#define AUTO_OUTCOME AUTO(outcome_done)
