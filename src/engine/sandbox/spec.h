#pragma once

/* What a caller asks of a sandbox: checked, filled in, and as JSON for the store. For engine/; the
 * command line has its limits from spec_fill_limits. */

#include "engine/sandbox/sandbox.h"

struct config;
struct json_out;
struct json_t;

int spec_check(struct engine *engine, const struct engine_caller *caller,
               const struct sandbox_spec *spec, struct err *err) MUST_USE;
int spec_check_env(const struct engine_pairs *env, struct err *err) MUST_USE;
int spec_check_metadata(const struct engine_pairs *metadata, struct err *err) MUST_USE;
int spec_check_time(int64_t ms, const char *what, struct err *err) MUST_USE;
int spec_check_limits(const struct sandbox_limits *limits, struct err *err) MUST_USE;
/* The policy in its own words. */
int spec_policy(const struct engine_caller *caller, struct str text, struct buf *out,
                struct err *err) MUST_USE;
/* Can they be, with this policy? */
int spec_check_secrets(const struct engine *engine, const struct engine_caller *caller,
                       const struct sandbox_secrets *secrets, struct str policy,
                       struct err *err) MUST_USE;
/* The configuration's for DEFAULT. */
const struct str *spec_dup_texts(const struct str *texts, size_t count, struct arena *arena);
enum engine_tier spec_tier(const struct engine *engine, enum engine_tier tier);
/* Whether automatic checkpoints are made: as it says, or the configuration. */
bool spec_has_turns(const struct engine *engine, const struct sandbox_spec *spec,
                    enum engine_tier tier);
/* What the configuration gives for limits that are 0. */
void spec_fill_limits(const struct config *config, enum engine_tier tier,
                      struct sandbox_limits *limits);
void spec_put_json(const struct sandbox_spec *spec, struct json_out *out);
int spec_read_json(struct str text, struct arena *arena, struct sandbox_spec *ret_spec,
                   struct err *err) MUST_USE;
void pairs_put_json(const struct engine_pairs *pairs, struct json_out *out);
int pairs_read_json(struct json_t *object, struct arena *arena, struct engine_pairs *ret_pairs,
                    struct err *err) MUST_USE;
