#pragma once

/* An engine in a directory of its own, and waiting for its answers. */

#include "config/config.h"
#include "engine/engine.h"
#include "io/loop.h"
#include "test.h"

struct rig {
    char dir[4096];
    struct loop *loop;
    struct config *config;
    struct engine *engine;
    struct engine_caller caller;
    /* Of the last answer. */
    int answers, awaited;
    bool failed;
    struct err why;
    char id[64];
    struct sandbox_info sandbox; /* numbers are good, texts are not; here and in `command` */
    struct command_info command;
    char command_id[64], command_shell[64], session[64], volume[64], checkpoint[64], snapshot[64];
    char token[64], secret[128];
    char many[64][64]; /* ids of copies */
    size_t many_count;
    char texts[8][256]; /* what a call-back kept */
    size_t count;
};

/* `toml` is the configuration; NULL: the tier memory. */
void rig_open(struct rig *rig, const char *toml);
/* The same for a test of jails, which is skipped where there are none. */
void rig_open_jails(struct rig *rig, const char *toml);
void rig_close(struct rig *rig);  /* in good order */
void rig_free(struct rig *rig);   /* at once */
void rig_reopen(struct rig *rig); /* after one of the two */
void rig_done(struct rig *rig);

/* Runs the loop until the answer to the last call came: 0 or -1 with rig->why. */
int rig_wait(struct rig *rig);
/* Runs the loop for a while, for what happens automatically. */
void rig_run_ms(struct rig *rig, int64_t ms);

/* Call-backs for rig_wait; ctx is the rig. */
void rig_on_plain(void *ctx, const struct err *why);
void rig_on_sandbox(void *ctx, const struct sandbox_info *sandbox, const struct err *why);
void rig_on_file(void *ctx, const struct file_answer *answer, const struct err *why);
void rig_on_many(void *ctx, const struct sandbox_info *sandboxes, size_t count,
                 const struct err *why);
void rig_on_checkpoint(void *ctx, const struct sandbox_checkpoint *checkpoint,
                       const struct err *why);
void rig_on_snapshot(void *ctx, const struct snapshot_info *snapshot, const struct err *why);
void rig_on_session(void *ctx, const struct session_info *session, const struct err *why);
void rig_on_volume(void *ctx, const struct volume_info *volume, const struct err *why);
void rig_on_token(void *ctx, const struct token_info *token, const char *secret,
                  const struct err *why);
void rig_on_command(void *ctx, const struct command_info *command, const struct err *why);

/* The same with the waiting; 0 or -1. */
int rig_create(struct rig *rig, const struct sandbox_spec *spec);
int rig_write(struct rig *rig, const char *sandbox, const char *path, const char *text);
/* The content into texts[0]. */
int rig_read(struct rig *rig, const char *sandbox, const char *path);
enum sandbox_state rig_state(struct rig *rig, const char *sandbox);
/* A shell line, begun; and what becomes of a command (timeout_ms -1: until its end). */
int rig_begin(struct rig *rig, const char *sandbox, const char *shell);
int rig_await(struct rig *rig, const char *command, int64_t timeout_ms);
#define RIG_CALL(rig, verb, ...)                                                                   \
    ((rig)->awaited++, verb((rig)->engine, &(rig)->caller, __VA_ARGS__, (rig)), rig_wait(rig))
